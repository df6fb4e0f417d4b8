//! `read_file`, also of what is no file, no text, or has no end.

use std::time::{Duration, Instant};

use cofferdam_types::Content;
use serde_json::json;

use crate::lab::{Answer, Lab, in_lab};

async fn read(lab: &Lab, path: &str) -> Answer {
    lab.call("read_file", json!({ "path": path })).await
}

#[test]
fn lines_come_with_numbers_and_in_ranges() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\ntwo\nthree\n").await;
        assert_eq!(read(lab, "a.txt").await.done(), "     1\tone\n     2\ttwo\n     3\tthree\n");
        let answer = lab
            .call("read_file", json!({"path": "/workspace/a.txt", "offset": 2, "limit": 1}))
            .await;
        assert_eq!(answer.done(), "     2\ttwo\n[lines 2 to 2 of 3; go on with offset 3]\n");
        let answer = lab.call("read_file", json!({"path": "a.txt", "offset": 9})).await;
        assert_eq!(answer.failed(), "a.txt has 3 lines; there is no line 9");
        lab.put("empty", "").await;
        assert_eq!(read(lab, "empty").await.done(), "empty is empty");
    });
}

#[test]
fn what_was_read_is_not_repeated_while_it_is_the_same() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\n").await;
        read(lab, "a.txt").await.done();
        assert!(read(lab, "./a.txt").await.done().contains("unchanged since you read it"));
        assert!(read(lab, "a.txt").await.done().contains("one"), "asked for once more");
        lab.put("a.txt", "two\n").await;
        assert_eq!(read(lab, "a.txt").await.done(), "     1\ttwo\n");
    });
}

#[test]
fn what_was_read_is_shown_again_once_the_conversation_was_shortened() {
    in_lab(async |lab| {
        lab.put("a.txt", "one\n").await;
        read(lab, "a.txt").await.done();
        lab.tools.shortened(cofferdam_types::ThreadId(0));
        assert_eq!(read(lab, "a.txt").await.done(), "     1\tone\n");
    });
}

#[test]
fn a_huge_file_is_read_by_ranges() {
    in_lab(async |lab| {
        lab.sh("seq -f 'number %.0f' 2000000 > big").await;
        let answer = read(lab, "big").await;
        assert!(answer.done().starts_with("     1\tnumber 1\n"));
        assert!(answer.text.len() < 52_000, "{}", answer.text.len());
        assert!(answer.text.contains("of a file of 28.8 MB; go on with offset"), "{}", answer.text);
        let answer = lab.call("read_file", json!({"path": "big", "offset": 1_999_999})).await;
        assert_eq!(answer.done(), "1999999\tnumber 1999999\n2000000\tnumber 2000000\n");
        let answer = lab.call("read_file", json!({"path": "big", "offset": 2_000_001})).await;
        assert!(answer.failed().contains("has 2000000 lines"), "{}", answer.text);
    });
}

#[test]
fn a_line_without_end_is_cut() {
    in_lab(async |lab| {
        lab.sh("head -c 10000000 /dev/zero | tr '\\0' x > long; echo >> long; echo next >> long")
            .await;
        let answer = read(lab, "long").await;
        assert!(answer.done().len() < 3_000, "{}", answer.text.len());
        assert!(answer.text.contains("this line goes on"), "{}", answer.text);
        let answer = lab.call("read_file", json!({"path": "long", "offset": 2})).await;
        assert_eq!(answer.done(), "     2\tnext\n");
    });
}

#[test]
fn other_encodings_are_shown_with_a_note() {
    in_lab(async |lab| {
        lab.put("wide", b"\xff\xfeh\0i\0\r\0\n\0").await;
        assert_eq!(
            read(lab, "wide").await.done(),
            "     1\thi\n[the file is UTF-16]\n[lines end in CRLF]\n"
        );
        lab.put("latin", b"gr\xfcn\n").await;
        assert!(
            read(lab, "latin")
                .await
                .done()
                .starts_with("     1\tgrün\n[the file is not UTF-8; shown as")
        );
    });
}

#[test]
fn what_is_no_text_is_described_and_a_picture_is_shown() {
    in_lab(async |lab| {
        lab.put("data", b"\x00\x01\x02").await;
        assert!(read(lab, "data").await.done().contains("is no text: 3 B, of no kind known"));
        lab.sh("cp /bin/true program").await;
        assert!(read(lab, "program").await.done().contains("an ELF program"));
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        lab.put("picture.png", png).await;
        let answer = read(lab, "picture.png").await;
        assert_eq!(answer.done(), "picture.png: image/png, 16 B");
        let shown = answer.output.content.get(1);
        let expected = Content::Image {
            media_type: "image/png".into(),
            data: "iVBORw0KGgoAAAANSUhEUg==".into(),
        };
        assert_eq!(shown, Some(&expected));
        lab.sh("(printf '\\377\\330\\377'; head -c 8000000 /dev/zero) > big.jpg").await;
        assert!(read(lab, "big.jpg").await.done().contains("is no text: 8.0 MB, image/jpeg"));
    });
}

#[test]
fn a_name_that_is_not_there_brings_those_that_are() {
    in_lab(async |lab| {
        lab.put("src/main.rs", "x").await;
        lab.put("src/lib.rs", "x").await;
        let answer = read(lab, "src/mian.rs").await;
        assert!(answer.failed().contains("Did you mean src/main.rs?"), "{}", answer.text);
        let answer = read(lab, "lib.rs").await;
        assert!(answer.failed().contains("Did you mean src/lib.rs?"), "{}", answer.text);
        assert!(read(lab, "no/where.rs").await.failed().contains("no directory no either"));
    });
}

#[test]
fn what_is_no_plain_file_or_outside_is_told_and_never_waited_for() {
    in_lab(async |lab| {
        lab.sh("mkdir dir; mkfifo fifo; ln -s /etc/passwd out; ln -s ../../etc up; ln -s a b; ln -s b a").await;
        let began = Instant::now();
        for (path, reason) in [
            ("dir", "is a directory; list_files"),
            ("fifo", "is no regular file"),
            ("out", "leads out of the workspace"),
            ("up/passwd", "leads out of the workspace"),
            ("../etc/passwd", "leads out of the workspace"),
            ("/etc/passwd", "leads out of the workspace"),
            ("a", "a: "),
        ] {
            let answer = read(lab, path).await;
            assert!(answer.failed().contains(reason), "{path}: {}", answer.text);
        }
        assert!(read(lab, "").await.refused().contains("empty"));
        assert!(read(lab, "a\0b").await.refused().contains("NUL"));
        assert!(began.elapsed() < Duration::from_secs(30));
    });
}
