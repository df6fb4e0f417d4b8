//! Tests of putting changes into a file.

use proptest::prelude::*;

use super::super::parse::{Change, parse};
use super::*;

/// A file after a change in the patch format.
fn patched(file: &str, change: &str) -> Result<String, String> {
    let patch = format!("*** Begin Patch\n*** Update File: a\n{change}\n*** End Patch");
    let Change::Update { hunks, .. } = parse(&patch)?.remove(0) else { panic!() };
    apply(file.as_bytes(), &hunks).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn lines_are_replaced_where_their_context_is() {
    let file = "a\nb\nc\nb\nd\n";
    assert_eq!(patched(file, " a\n-b\n+x").unwrap(), "a\nx\nc\nb\nd\n");
    assert_eq!(patched(file, " c\n-b\n+x\n d").unwrap(), "a\nb\nc\nx\nd\n");
    assert_eq!(patched(file, "@@ c\n-b\n+x").unwrap(), "a\nb\nc\nx\nd\n");
    assert_eq!(patched(file, "-a\n@@\n-d\n+e\n+f").unwrap(), "b\nc\nb\ne\nf\n");
}

#[test]
fn headers_lead_from_one_to_the_next() {
    let file = "class A:\n  def f():\n    pass\nclass B:\n  def f():\n    pass\n";
    let change = "@@ class B:\n@@   def f():\n-    pass\n+    return 1";
    let expected = "class A:\n  def f():\n    pass\nclass B:\n  def f():\n    return 1\n";
    assert_eq!(patched(file, change).unwrap(), expected);
    // A part of a line will do for a header, and it may be repeated as context.
    assert_eq!(
        patched(file, "@@ class B\n   def f():\n-    pass\n+    return 1").unwrap(),
        expected
    );
    assert_eq!(
        patched(file, "@@ class B:\n class B:\n   def f():\n-    pass\n+    return 1").unwrap(),
        expected
    );
}

#[test]
fn an_addition_goes_after_its_header_or_to_the_end() {
    assert_eq!(patched("a\nb\n", "+c").unwrap(), "a\nb\nc\n");
    assert_eq!(patched("a\nb\n", "@@ a\n+c").unwrap(), "a\nc\nb\n");
    assert_eq!(patched("", "+c").unwrap(), "c\n");
    assert_eq!(patched("a\nb\na\n", " a\n+c\n*** End of File").unwrap(), "a\nb\na\nc\n");
}

#[test]
fn kept_lines_stay_as_the_file_has_them() {
    let file = "\tif x:  \n\t\ty = “1”\n";
    let change = " if x:\n-  y = \"1\"\n+\t\ty = 2";
    assert_eq!(patched(file, change).unwrap(), "\tif x:  \n\t\ty = 2\n");
}

#[test]
fn line_ends_and_a_missing_last_one_are_kept() {
    assert_eq!(patched("a\r\nb\r\n", " a\n-b\n+x\n+y").unwrap(), "a\r\nx\r\ny\r\n");
    assert_eq!(patched("a\nb", "-a\n+x").unwrap(), "x\nb");
    assert_eq!(patched("a\nb", "-b\n+x").unwrap(), "a\nx\n");
    assert_eq!(patched("a\n", "-a").unwrap(), "");
}

#[test]
fn an_empty_last_context_line_is_forgiven() {
    assert_eq!(patched("a\nb\n", " a\n-b\n+x\n").unwrap(), "a\nx\n");
    assert_eq!(patched("a\nb", " a\n-b\n+x\n ").unwrap(), "a\nx\n");
}

#[test]
fn what_does_not_fit_says_which_hunk_and_what_is_there() {
    let error = patched("a\nb\nc\n", "-a\n@@\n b\n-x\n+y").unwrap_err();
    assert!(
        error.starts_with("hunk 2 (line 4 of the patch): its text is not in the file"),
        "{error}"
    );
    assert!(error.contains("file:  \"c\"\n  given: \"x\""), "{error}");
    let error = patched("a\nb\nc\n", "-c\n@@\n-a").unwrap_err();
    assert!(error.contains("is at line 1, before the place of the hunk before it"), "{error}");
    let error = patched("a\n", "@@ nowhere\n-a").unwrap_err();
    assert!(error.contains("its `@@` line is not in the file"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replacing_one_line_changes_that_line_alone(
        lines in prop::collection::vec("[a-z ]{0,6}", 1..20),
        which in any::<prop::sample::Index>(),
    ) {
        let at = which.index(lines.len());
        let mut file = lines.clone();
        file[at] = "<unique>".to_owned();
        let mut expected = file.clone();
        expected[at] = "<new>".to_owned();
        let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        prop_assert_eq!(patched(&text(&file), "-<unique>\n+<new>").unwrap(), text(&expected));
    }
}
