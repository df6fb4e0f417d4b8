//! `apply_patch`: all of a patch, or nothing.

use serde_json::json;

use crate::lab::{Answer, Lab, in_lab};

async fn patch(lab: &Lab, body: &str) -> Answer {
    let input = format!("*** Begin Patch\n{body}\n*** End Patch");
    lab.call("apply_patch", json!({ "input": input })).await
}

#[test]
fn files_are_added_updated_moved_and_deleted_at_once() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\ntwo\nthree\n").await;
        lab.put("tool.sh", "#!/bin/sh\necho old\n").await;
        lab.put("gone.txt", "x\n").await;
        lab.sh("chmod 755 tool.sh").await;
        let answer = patch(
            lab,
            "*** Add File: new/dir/n.txt\n+hello\n*** Update File: a.txt\n@@\n one\n-two\n+TWO\n \
             three\n*** Update File: tool.sh\n*** Move to: bin/tool\n-echo old\n+echo new\n\
             *** Delete File: gone.txt",
        )
        .await;
        let expected = "applied:\nM a.txt\nA bin/tool\nD gone.txt\nA new/dir/n.txt\nD tool.sh\n";
        assert_eq!(answer.done(), expected);
        assert_eq!(lab.get("a.txt").await, b"one\nTWO\nthree\n");
        assert_eq!(lab.get("new/dir/n.txt").await, b"hello\n");
        assert_eq!(lab.get("bin/tool").await, b"#!/bin/sh\necho new\n");
        assert_eq!(lab.sh("stat -c %a bin/tool; ls").await, "755\na.txt\nbin\nnew\n");
    });
}

#[test]
fn a_patch_that_does_not_fit_changes_nothing() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\ntwo\n").await;
        let answer =
            patch(lab, "*** Add File: b.txt\n+x\n*** Update File: a.txt\n@@\n one\n-zwei\n+TWO")
                .await;
        let text = answer.failed();
        assert!(
            text.contains("a.txt: hunk 1 (line 5 of the patch): its text is not in the file"),
            "{text}"
        );
        assert!(text.contains("file:  \"two\"\n  given: \"zwei\""), "{text}");
        assert!(text.ends_with("Nothing was changed."), "{text}");
        assert_eq!(lab.sh("ls; cat a.txt").await, "a.txt\none\ntwo\n");
    });
}

#[test]
fn a_write_that_fails_on_the_way_is_undone() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\n").await;
        lab.put("z/locked.txt", "one\n").await;
        lab.put("gone.txt", "x\n").await;
        lab.sh("chmod 555 z").await;
        let answer = patch(
            lab,
            "*** Update File: a.txt\n-one\n+two\n*** Add File: n.txt\n+x\n*** Delete File: gone.txt\n\
             *** Update File: z/locked.txt\n-one\n+two",
        )
        .await;
        let text = answer.failed();
        assert!(text.contains("z/locked.txt: permission denied"), "{text}");
        assert!(text.contains("was undone: nothing was changed"), "{text}");
        assert_eq!(
            lab.sh("cat a.txt gone.txt z/locked.txt; ls").await,
            "one\nx\none\na.txt\ngone.txt\nz\n"
        );
    });
}

#[test]
fn paths_outside_and_files_that_are_there_are_refused() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\n").await;
        lab.sh("ln -s /etc/passwd out; ln -s /tmp tmp; mkfifo fifo").await;
        for (body, reason) in [
            ("*** Add File: ../x\n+x", "beneath /workspace only"),
            ("*** Add File: /etc/x\n+x", "beneath /workspace only"),
            ("*** Add File: tmp/x\n+x", "leads out of the workspace"),
            ("*** Update File: out\n-root\n+x", "leads out of the workspace"),
            ("*** Update File: fifo\n-root\n+x", "no regular file"),
            ("*** Add File: a.txt\n+x", "is there already"),
            ("*** Update File: a.txt\n*** Move to: out\n-one\n+x", "out is there already"),
            ("*** Delete File: missing", "no such file"),
            (
                "*** Delete File: a.txt\n*** Update File: a.txt\n-one\n+x",
                "deleted or moved it before",
            ),
            ("nonsense", "line 2 of the patch"),
        ] {
            let answer = patch(lab, body).await;
            assert!(answer.failed().contains(reason), "{body}: {}", answer.text);
        }
        assert_eq!(lab.sh("ls; cat a.txt").await, "a.txt\nfifo\nout\ntmp\none\n");
    });
}

#[test]
fn a_file_may_come_up_more_than_once() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\ntwo\n").await;
        let body = "*** Update File: a.txt\n-one\n+1\n*** Update File: ./a.txt\n-two\n+2\n\
                    *** Delete File: b.txt";
        assert!(patch(lab, body).await.failed().contains("b.txt: no such file"));
        let body = "*** Update File: a.txt\n-one\n+1\n*** Update File: ./a.txt\n-two\n+2";
        assert_eq!(patch(lab, body).await.done(), "applied:\nM a.txt\n");
        assert_eq!(lab.get("a.txt").await, b"1\n2\n");
    });
}
