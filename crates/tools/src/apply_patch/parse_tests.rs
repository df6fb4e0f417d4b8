//! Tests of the patch format.

use proptest::prelude::*;

use super::*;

fn keep(line: &str) -> (Mark, String) {
    (Mark::Keep, line.to_owned())
}

fn remove(line: &str) -> (Mark, String) {
    (Mark::Remove, line.to_owned())
}

fn add(line: &str) -> (Mark, String) {
    (Mark::Add, line.to_owned())
}

const PATCH: &str = "*** Begin Patch
*** Add File: new.txt
+one
+
+*** two
*** Update File: a.rs
*** Move to: b.rs
@@ impl A
@@ fn f
 context

-old
+new
@@
+last
*** End of File
*** Delete File: c.rs
*** End Patch";

#[test]
fn every_kind_of_change_is_read() {
    let hunks = vec![
        Hunk {
            at: 8,
            headers: vec!["impl A".into(), "fn f".into()],
            lines: vec![keep("context"), keep(""), remove("old"), add("new")],
            at_end: false,
        },
        Hunk { at: 14, headers: vec![], lines: vec![add("last")], at_end: true },
    ];
    let expected = [
        Change::Add {
            path: "new.txt".into(),
            lines: vec!["one".into(), String::new(), "*** two".into()],
        },
        Change::Update { path: "a.rs".into(), to: Some("b.rs".into()), hunks },
        Change::Delete { path: "c.rs".into() },
    ];
    assert_eq!(parse(PATCH).unwrap(), expected);
}

#[test]
fn a_heredoc_around_the_patch_is_taken_off() {
    let plain = parse(PATCH);
    for wrapped in [
        format!("<<'EOF'\n{PATCH}\nEOF"),
        format!("apply_patch <<\"PATCH\"\n{PATCH}\nPATCH\n"),
        format!("\n\n{PATCH}\n\n"),
        format!("<<-EOF\n{PATCH}\nEOF\n"),
    ] {
        assert_eq!(parse(&wrapped), plain, "{wrapped}");
    }
}

#[test]
fn the_first_hunk_needs_no_header_and_numbers_are_none() {
    let parsed = |header: &str| {
        let patch = format!("*** Begin Patch\n*** Update File: a\n{header} x\n-y\n*** End Patch");
        match parse(&patch).unwrap().remove(0) {
            Change::Update { mut hunks, .. } => hunks.remove(0),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(parsed("").lines, [keep("x"), remove("y")]);
    assert_eq!(parsed("@@ -1,2 +1,1 @@\n").headers, Vec::<String>::new());
    assert_eq!(parsed("@@ - 1 item\n").headers, ["- 1 item"]);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let cases = [
        ("", "the first line must be `*** Begin Patch`"),
        ("*** Begin Patch\n*** End Patch", "the patch changes nothing"),
        ("*** Begin Patch\n*** Delete File: a", "the last line must be `*** End Patch`"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2 of the patch: expected `*** Add"),
        ("*** Begin Patch\n*** Add File:\n*** End Patch", "line 2 of the patch: a path is missing"),
        (
            "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
            "line 3 of the patch: a line of a new",
        ),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "no change follows for a"),
        (
            "*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch",
            "line 4 of the patch: a line of a change begins with ` `, `-`, `+` or `@@`; \
             this is there: \"x\"",
        ),
    ];
    for (patch, reason) in cases {
        let error = parse(patch).unwrap_err();
        assert!(error.contains(reason), "{patch:?}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_fall(lines in prop::collection::vec(
        prop::sample::select(vec![
            "*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: b",
            "*** Delete File: c", "*** Move to: d", "*** End of File", "@@", "@@ x", "+x", "-x",
            " x", "", "x", "<<'EOF'", "EOF",
        ]), 0..12,
    )) {
        // Whatever it says, it says something.
        prop_assert!(parse(&lines.join("\n")).map_or_else(|error| !error.is_empty(), |changes| !changes.is_empty()));
    }
}
