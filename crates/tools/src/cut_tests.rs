//! Tests of cutting: what is shown, what is kept, and that the two add up.

use proptest::prelude::*;

use super::*;
use crate::outputs::BEGINNING;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// What is shown of pieces, and what was kept.
fn record(pieces: &[&[u8]]) -> (Shown, Option<Vec<u8>>) {
    let directory = tempfile::tempdir().unwrap();
    let outputs = Arc::new(Outputs::in_directory(directory.path().join("outputs")));
    let mut recording = Recording::new(&outputs, 7);
    for piece in pieces {
        recording.push(piece);
    }
    let shown = block_on(recording.finish());
    let kept = shown.rest.as_ref().map(|_| std::fs::read(directory.path().join("outputs/7")));
    assert_eq!(directory.path().join("outputs").exists(), kept.is_some(), "kept only if cut");
    (shown, kept.transpose().unwrap())
}

#[test]
fn what_is_short_is_shown_whole_and_kept_nowhere() {
    let (shown, kept) = record(&[b"one\n", b"two\n"]);
    assert_eq!((shown.text.as_str(), shown.rest, kept), ("one\ntwo\n", None, None));
    let exact = "é".repeat(SHOWN);
    assert_eq!(record(&[exact.as_bytes()]).0.text, exact);
}

#[test]
fn what_is_long_is_shown_from_both_ends_and_kept_byte_for_byte() {
    let lines: String = (1..=20_000).map(|number| format!("line {number}\n")).collect();
    let (shown, kept) = record(&[lines.as_bytes()]);
    assert!(shown.text.starts_with("line 1\nline 2\n"));
    assert!(shown.text.ends_with("line 19999\nline 20000\n"));
    assert!(shown.text.chars().count() < SHOWN + 300);
    assert_eq!(kept.as_deref(), Some(lines.as_bytes()));
    assert_eq!(shown.rest, Some(Rest { handle: "output:7".into(), bytes: lines.len() as u64 }));

    let between = shown.text.lines().find(|line| line.starts_with("[…")).unwrap();
    let head = shown.text.split("[…").next().unwrap();
    let next = head.lines().count() + 1;
    assert!(between.contains(&format!("path \"output:7\" and offset {next}")), "{between}");
    let missing = 20_000 - (shown.text.lines().count() - 1);
    assert!(between.contains(&format!("({missing} lines)")), "{between}");
}

#[test]
fn of_what_is_endless_the_beginning_and_the_end_are_kept() {
    let piece = [b"0123456789abcde\n".as_slice(); 4096].concat();
    let pieces = vec![piece.as_slice(); 400];
    let (shown, kept) = record(&pieces);
    let total = 400 * piece.len() as u64;
    let kept = kept.unwrap();
    assert!(kept.len() as u64 <= BEGINNING + END as u64 + 100, "{}", kept.len());
    let text = String::from_utf8(kept).unwrap();
    let said = text.lines().find(|line| line.starts_with("[…")).unwrap().to_owned();
    let dropped = total - (text.len() - said.len() - 2) as u64;
    assert_eq!(said, format!("[… {dropped} bytes were not kept …]"));
    assert!(shown.text.contains(&format!("of {total} bytes {dropped} from the middle")));
}

#[test]
fn an_output_that_cannot_be_kept_says_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let outputs = Arc::new(Outputs::in_directory(file.path().join("below a file")));
    let mut recording = Recording::new(&outputs, 7);
    recording.push(&[b'x'; 100_000]);
    let shown = block_on(recording.finish());
    assert_eq!(shown.rest, None);
    assert!(shown.text.contains("could not be kept"), "{}", shown.text);
}

#[test]
fn bytes_that_are_no_text_are_shown_as_such() {
    assert_eq!(readable(b"a\xff\0b"), "a\u{fffd}␀b");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_in_whatever_pieces_is_kept_or_shown(
        lengths in prop::collection::vec(0_usize..40_000, 0..8),
        unit in prop::sample::select(vec!["x", "é", "\u{1f600}", "line of text\n", "\n"]),
    ) {
        let whole: String = lengths.iter().map(|length| unit.repeat(length / unit.len())).collect();
        let mut pieces = Vec::new();
        let mut rest = whole.as_bytes();
        for length in &lengths {
            let (piece, after) = rest.split_at((*length).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        let (shown, kept) = record(&pieces);
        prop_assert!(shown.text.chars().count() <= SHOWN + 300);
        match kept {
            None => prop_assert_eq!(shown.text, whole),
            Some(kept) => {
                prop_assert_eq!(&kept, whole.as_bytes());
                let (head, tail) = shown.text.split_once("[…").unwrap();
                prop_assert!(whole.starts_with(head.trim_end_matches('\n')));
                let (_, tail) = tail.split_once("…]\n").unwrap();
                prop_assert!(whole.ends_with(tail));
            }
        }
    }
}
