//! `write_file`.

use serde_json::json;

use crate::lab::{Answer, Lab, in_lab};

async fn write(lab: &Lab, path: &str, content: &str) -> Answer {
    lab.call("write_file", json!({"path": path, "content": content})).await
}

#[test]
fn a_file_is_made_with_its_directories_and_replaced_with_its_permissions() {
    in_lab(async |lab| {
        assert_eq!(
            write(lab, "a/b/c.sh", "one\ntwo").await.done(),
            "created a/b/c.sh: 2 lines, 7 bytes"
        );
        assert_eq!(lab.get("a/b/c.sh").await, b"one\ntwo");
        lab.sh("chmod 750 a/b/c.sh").await;
        assert_eq!(
            write(lab, "/workspace/a/b/c.sh", "").await.done(),
            "replaced /workspace/a/b/c.sh: 0 lines, 0 bytes"
        );
        assert_eq!(lab.sh("stat -c %a a/b/c.sh").await, "750\n");
    });
}

#[test]
fn nothing_is_written_outside_or_over_what_is_no_file() {
    in_lab(async |lab| {
        lab.sh("mkdir dir; mkfifo fifo; ln -s /tmp/out out; ln -s /tmp tmp; echo x > file").await;
        for (path, reason) in [
            ("dir", "no regular file"),
            ("fifo", "no regular file"),
            ("out", "leads out of the workspace"),
            ("tmp/x", "leads out of the workspace"),
            ("../x", "leads out of the workspace"),
            ("/tmp/x", "leads out of the workspace"),
            ("file/x", "is a file, not a directory"),
        ] {
            let answer = write(lab, path, "text").await;
            assert!(answer.failed().contains(reason), "{path}: {}", answer.text);
        }
        assert_eq!(lab.sh("ls -A /tmp").await, "");
        assert!(write(lab, "", "x").await.refused().contains("empty"));
        let answer = lab.call("write_file", json!({"path": "x"})).await;
        assert!(answer.refused().contains("`content` (a string) is missing"));
    });
}

#[test]
fn a_large_file_arrives_whole() {
    in_lab(async |lab| {
        let text = "0123456789abcde\n".repeat(200_000);
        write(lab, "big", &text).await.done();
        assert_eq!(lab.get("big").await.len(), text.len());
    });
}
