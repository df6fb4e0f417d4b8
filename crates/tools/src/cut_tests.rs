//! Tests of cutting: what is shown, what is kept, and that the two add up, also where
//! processes die on the way.

use std::io::Write as _;

use proptest::prelude::*;

use super::*;

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

/// A guest with an output of two streams, in the order in which the pieces come.
struct Guest<'a>(&'a [(bool, Vec<u8>)]);

impl Guest<'_> {
    /// What a host that has so much gets.
    fn from(&self, offsets: Offsets) -> Vec<(Vec<u8>, Offsets)> {
        let mut now = Offsets::default();
        let mut pieces = Vec::new();
        for (is_error, bytes) in self.0 {
            let (at, has) = match is_error {
                true => (&mut now.stderr, offsets.stderr),
                false => (&mut now.stdout, offsets.stdout),
            };
            let known = usize::try_from(has.saturating_sub(*at)).unwrap().min(bytes.len());
            *at += bytes.len() as u64;
            if known < bytes.len() {
                pieces.push((bytes[known..].to_vec(), now));
            }
        }
        pieces
    }

    fn whole(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }
}

/// A directory, and outputs in it.
fn outputs() -> (tempfile::TempDir, Arc<Outputs>) {
    let directory = tempfile::tempdir().unwrap();
    let outputs = Arc::new(Outputs::in_directory(directory.path().join("outputs")));
    (directory, outputs)
}

/// What several processes make of an output: each takes so many pieces and dies, with a piece
/// half written; the last one takes the rest.
fn record_in_lives(guest: &Guest<'_>, lives: &[usize]) -> (Shown, Option<Vec<u8>>) {
    let (directory, outputs) = outputs();
    let file = directory.path().join("outputs/7");
    for pieces in lives {
        let (mut recording, offsets) = Recording::resume(&outputs, CallId(7));
        let mut rest = guest.from(offsets).into_iter();
        for (bytes, offsets) in rest.by_ref().take(*pieces) {
            recording.take(&bytes, offsets);
        }
        if let Some((bytes, _)) = rest.next() {
            recording.push(&bytes);
        }
        drop(recording);
        if let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(&file) {
            file.write_all(b"torn").unwrap();
        }
    }
    let (mut recording, offsets) = Recording::resume(&outputs, CallId(7));
    for (bytes, offsets) in guest.from(offsets) {
        recording.take(&bytes, offsets);
    }
    let shown = block_on(recording.finish());
    let kept = shown.rest.as_ref().map(|_| std::fs::read(&file).unwrap());
    (shown, kept)
}

/// Pieces of different bytes, of these lengths, of both streams in turn.
fn pieces(lengths: &[usize]) -> Vec<(bool, Vec<u8>)> {
    let mut line = 0_u32;
    let piece = |(number, length): (usize, &usize)| {
        let mut bytes = Vec::new();
        while bytes.len() < *length {
            bytes.extend(format!("line {line}\n").into_bytes());
            line += 1;
        }
        (number % 3 == 2, bytes)
    };
    lengths.iter().enumerate().map(piece).collect()
}

#[test]
fn the_end_of_what_is_endless_outlives_the_process_too() {
    // Beyond the beginning, and the ring of the last bytes several times round.
    let pieces = pieces(&[200_000; 100]);
    let guest = Guest(&pieces);
    let whole = guest.whole();
    for lives in [vec![99], vec![3, 60, 20, 10], vec![100], vec![100, 0]] {
        let (shown, kept) = record_in_lives(&guest, &lives);
        let kept = kept.unwrap();
        let (beginning, rest) = kept.split_at(BEGINNING as usize);
        assert!(whole.starts_with(beginning), "{lives:?}");
        let rest = std::str::from_utf8(rest).unwrap();
        let (said, end) = rest.split_once("…]\n").unwrap();
        assert!(whole.ends_with(end.as_bytes()), "{lives:?}");
        assert!(end.len() >= END / 2, "{lives:?}: {}", end.len());
        let missing = whole.len() - beginning.len() - end.len();
        assert_eq!(said, format!("\n[… {missing} bytes were not kept "), "{lives:?}");
        assert!(shown.text.contains(&format!("of {} bytes {missing} from", whole.len())));
        assert!(whole.ends_with(&shown.text.as_bytes()[shown.text.len() - 5_000..]));
    }
}

#[test]
fn an_output_that_was_finished_and_not_told_of_is_finished_again() {
    for lengths in [vec![200_000; 3], vec![200_000; 90]] {
        let (directory, outputs) = outputs();
        let pieces = pieces(&lengths);
        let guest = Guest(&pieces);
        let mut finished = Vec::new();
        for _ in 0..2 {
            let (mut recording, offsets) = Recording::resume(&outputs, CallId(7));
            for (bytes, offsets) in guest.from(offsets) {
                recording.take(&bytes, offsets);
            }
            let shown = block_on(recording.finish());
            let kept = std::fs::read(directory.path().join("outputs/7")).unwrap();
            finished.push((shown, kept));
        }
        let [(first, kept), (again, kept_again)] = &finished[..] else { panic!() };
        assert!(kept.starts_with(&guest.whole()[..kept.len().min(BEGINNING as usize)]));
        assert_eq!(first.text.split("[…").next(), again.text.split("[…").next());
        assert_eq!(first.text.split("…]").last(), again.text.split("…]").last());
        if lengths.len() == 3 {
            assert!(*kept == guest.whole() && kept == kept_again && first == again);
        }
        outputs.forget(CallId(7));
        let left = std::fs::read_dir(directory.path().join("outputs")).unwrap();
        assert_eq!(left.count(), 1, "nothing but the output itself is left");
    }
}

#[test]
fn a_place_without_its_output_is_none() {
    let (directory, outputs) = outputs();
    let mut recording = Recording::of_call(&outputs, CallId(7));
    recording.take(&[b'x'; 100_000], Offsets { stdout: 100_000, stderr: 0 });
    drop(recording);
    std::fs::write(directory.path().join("outputs/7"), "short").unwrap();
    let (recording, offsets) = Recording::resume(&outputs, CallId(7));
    assert_eq!((offsets, recording.is_empty()), (Offsets::default(), true));
    assert!(!directory.path().join("outputs/7.taken").exists());
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

    #[test]
    fn whenever_processes_die_nothing_is_lost_and_nothing_doubled(
        lengths in prop::collection::vec(1_usize..60_000, 1..20),
        lives in prop::collection::vec(0_usize..8, 0..5),
    ) {
        let pieces = pieces(&lengths);
        let guest = Guest(&pieces);
        let (shown, kept) = record_in_lives(&guest, &lives);
        let kept = kept.unwrap_or_else(|| shown.text.clone().into_bytes());
        prop_assert!(kept == guest.whole(), "{} of {}", kept.len(), guest.whole().len());
    }
}
