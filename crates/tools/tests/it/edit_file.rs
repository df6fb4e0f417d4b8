//! `edit_file`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::lab::{Answer, Lab, in_lab};

async fn edit(lab: &Lab, path: &str, old: &str, new: &str) -> Answer {
    lab.call("edit_file", json!({"path": path, "old_string": old, "new_string": new})).await
}

#[test]
fn one_place_is_replaced_and_the_rest_stays() {
    in_lab(async |lab| {
        lab.put("a.py", "def f():\n    return 1\n").await;
        lab.sh("chmod 755 a.py").await;
        assert_eq!(edit(lab, "a.py", "return 1", "return 2").await.done(), "edited a.py at line 2");
        assert_eq!(lab.get("a.py").await, b"def f():\n    return 2\n");
        assert_eq!(lab.sh("stat -c %a a.py").await, "755\n");
    });
}

#[test]
fn several_places_need_to_be_meant() {
    in_lab(async |lab| {
        lab.put("a", "x\ny\nx\n").await;
        let answer = edit(lab, "a", "x", "z").await;
        assert!(answer.failed().contains("2 times, at lines 1, 3"), "{}", answer.text);
        assert_eq!(lab.get("a").await, b"x\ny\nx\n");
        let arguments =
            json!({"path": "a", "old_string": "x", "new_string": "z", "replace_all": true});
        assert_eq!(
            lab.call("edit_file", arguments).await.done(),
            "edited a in 2 places: lines 1, 3"
        );
        assert_eq!(lab.get("a").await, b"z\ny\nz\n");
    });
}

#[test]
fn a_text_that_is_not_there_shows_the_nearest_and_why() {
    in_lab(async |lab| {
        lab.put("a.go", "func f() {\n\tx := 1\n\treturn x\n}\n").await;
        let answer = edit(lab, "a.go", "    x := 1\n    return x", "y").await;
        let text = answer.failed();
        assert!(text.contains("     2\t\tx := 1\n     3\t\treturn x\n"), "{text}");
        assert!(
            text.contains("the indentation differs: the file has 1 tabs, given was 4 spaces"),
            "{text}"
        );
        assert!(edit(lab, "b.go", "x", "y").await.failed().contains("Did you mean a.go?"));
    });
}

#[test]
fn line_ends_marks_and_foreign_bytes_stay() {
    in_lab(async |lab| {
        lab.put("crlf", "a\r\nb\r\nc\r\n").await;
        edit(lab, "crlf", "a\nb", "a\nx\nb").await.done();
        assert_eq!(lab.get("crlf").await, b"a\r\nx\r\nb\r\nc\r\n");
        lab.put("marked", "\u{feff}one\n").await;
        edit(lab, "marked", "one", "two").await.done();
        assert_eq!(lab.get("marked").await, "\u{feff}two\n".as_bytes());
        lab.put("foreign", b"\x80\xff one \0 \xfe\n").await;
        edit(lab, "foreign", "one", "two").await.done();
        assert_eq!(lab.get("foreign").await, b"\x80\xff two \0 \xfe\n");
    });
}

#[test]
fn senseless_and_forbidden_edits_are_not_made() {
    in_lab(async |lab| {
        lab.put("a", "x").await;
        lab.sh("mkfifo fifo; mkdir dir; ln -s /etc/passwd out; head -c 20000000 /dev/zero > big")
            .await;
        assert!(edit(lab, "a", "x", "x").await.refused().contains("are the same"));
        assert!(edit(lab, "a", "", "x").await.refused().contains("write_file"));
        for (path, reason) in [
            ("fifo", "no regular file"),
            ("dir", "is a directory"),
            ("out", "leads out of the workspace"),
            ("../../etc/passwd", "leads out of the workspace"),
            ("big", "files up to 16.7 MB can be edited"),
        ] {
            let answer = edit(lab, path, "root", "toor").await;
            assert!(answer.failed().contains(reason), "{path}: {}", answer.text);
        }
    });
}

#[test]
fn a_file_that_others_change_is_not_overwritten() {
    in_lab(async |lab| {
        lab.put("a", "mine 0\n").await;
        let arguments = json!({
            "command": "i=0; until [ -e stop ]; do echo mine $((i++)) > new; mv new a; done",
            "background": true
        });
        lab.call("bash", arguments).await.done();
        let deadline = Instant::now() + Duration::from_secs(60);
        // Sooner or later the file changes between being read and being written.
        while !edit(lab, "a", "mine", "edited").await.text.contains("somebody else changed") {
            assert!(Instant::now() < deadline, "no change was noticed");
        }
        lab.sh("touch stop").await;
    });
}

#[test]
fn edits_at_the_same_time_lose_nothing() {
    in_lab(async |lab| {
        lab.put("a", "0 1 2 3 4 5 6 7\n").await;
        let edits = (0..8).map(async |number: u32| {
            let (old, new) = (number.to_string(), format!("<{number}>"));
            while edit(lab, "a", &old, &new).await.text.contains("somebody else changed") {}
        });
        futures_util::future::join_all(edits).await;
        assert_eq!(lab.get("a").await, b"<0> <1> <2> <3> <4> <5> <6> <7>\n");
    });
}
