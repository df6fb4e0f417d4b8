//! Whatever others say, wherever it is split: a terminal is told nothing but what
//! the view itself tells it.

use cofferdam_model::Delta;
use cofferdam_types::{
    CheckResult, Cut, Ending, Event, FailureKind, FileChange, Outcome, PlanStep, Span, StepStatus,
    StopReason, Summariser, ToolStatus,
};
use cofferdam_view::{Style, Tamer, tame};
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

use crate::terminal::Terminal;
use crate::world::{MAIN, World, asks, output, says};

/// Bytes that terminals act on, and some that they do not.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let fixed: &[&[u8]] = &[
        b"\x1b",
        b"[",
        b"31m",
        b"2J",
        b"?1049h",
        b"?25l",
        b"]0;title",
        b"]52;c;Zm9v",
        b"\x07",
        b"\\",
        b"P",
        b"c",
        b"(0",
        b"\r",
        b"\n",
        b"\t",
        b"\x08",
        b"\x7f",
        b"\0",
        b"\x0e",
        b"\xc2\x9b",
        b"\xc2\x9d",
        b"\xc2\x90",
        b"\x9b",
        b"\xff",
        b"\xe2\x80\xae",
        b"\xe2\x81\xa6",
        b"\xe2\x80\x8b",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\xe6\x97\xa5",
        b"\xe6\x97",
        b"\x85",
        b"text ",
        b"e\xcc\x81",
        b"\xf0\x9f\x91\x8d",
        b"[?1000h",
        b"[6n",
    ];
    let fixed: Vec<Vec<u8>> = fixed.iter().map(|bytes| bytes.to_vec()).collect();
    let piece = prop_oneof![
        4 => prop::sample::select(fixed),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A job in which every foreign text is this one.
fn job(style: Style, bytes: &[u8], pieces: &[Vec<u8>]) -> World {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let foreign = text.as_str();
    let mut world = World::begun(style, foreign, &[foreign]);
    world.event(Event::Noted { text: text.clone() });
    world.event(Event::UserSaid { text: text.clone() });
    world.event(Event::RecallAsked { thread: MAIN, words: text.clone() });
    world.event(Event::Offered { thread: MAIN, text: text.clone() });
    world.asked_for_summary(MAIN, 1);
    world.delta(MAIN, &Delta::Text(text.clone()));
    world.answered(vec![says(&text)], StopReason::Done);
    let by = Summariser::Model;
    let cut = Cut::Summarised { span: Span::Summaries { count: 2 }, summary: text.clone(), by };
    world.event(Event::ContextCut { thread: MAIN, cut, pinned: 0, tokens: (9, 8) });
    let step = PlanStep { step: text.clone(), status: StepStatus::InProgress };
    world.event(Event::Planned { steps: vec![step], decisions: Vec::new() });
    world.asked(MAIN, 1);
    let characters: Vec<String> = foreign.chars().map(String::from).collect();
    for piece in characters.chunks(3) {
        world.delta(MAIN, &Delta::Thinking(piece.concat()));
        world.delta(MAIN, &Delta::Text(piece.concat()));
    }
    world.failed(FailureKind::Garbled, foreign, Some(10));
    world.asked(MAIN, 2);
    for piece in &characters {
        world.delta(MAIN, &Delta::Text(piece.clone()));
    }
    let edit = json!({"path": foreign, "old_string": foreign, "new_string": foreign});
    world.answered(
        vec![
            says(foreign),
            asks(foreign, "bash", &json!({"command": foreign})),
            asks("2", foreign, &json!({foreign: foreign})),
            asks("3", "edit_file", &edit),
        ],
        StopReason::Tools,
    );
    let call = world.started(MAIN, foreign, "bash");
    for piece in pieces {
        world.printed(call, piece);
    }
    world.tick(300);
    let failed = output(ToolStatus::Failed, &format!("{foreign}\nexit code: 1"), 400);
    world.ended(call, MAIN, foreign, failed);
    world.calls("2", foreign, output(ToolStatus::Failed, foreign, 400));
    world.calls("3", "edit_file", output(ToolStatus::Done, foreign, 400));
    let result = CheckResult {
        command: text.clone(),
        outcome: Outcome::Lost { reason: text.clone() },
        output: text.clone(),
        took: Duration::from_millis(3),
    };
    world.event(Event::CheckEnded { attempt: 1, results: vec![result] });
    let kind = cofferdam_types::ChangeKind::Modified;
    let change = FileChange { path: text.clone(), kind, added: None, removed: None };
    world.finishes(Ending::Failed { reason: text }, vec![change]);
    world
}

fn harmless(text: &str) -> Result<(), TestCaseError> {
    let harmful = |character: &char| {
        (character.is_control() && *character != '\n')
            || matches!(*character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(*character, '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    prop_assert_eq!(text.chars().find(harmful), None, "{:?}", text);
    Ok(())
}

fn split(bytes: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}

proptest! {
    #[test]
    fn text_is_tamed_the_same_however_it_is_split(
        bytes in hostile(),
        sizes in prop::collection::vec(1_usize..5, 1..8),
    ) {
        let mut tamer = Tamer::default();
        let mut tamed = String::new();
        for piece in split(&bytes, &sizes) {
            tamed.push_str(&tamer.bytes(&piece));
            harmless(&tamed)?;
        }
        tamed.push_str(&tamer.finish());
        harmless(&tamed)?;
        prop_assert_eq!(&tamed, &tame(&String::from_utf8_lossy(&bytes)));
        prop_assert_eq!(&tame(&tamed), &tamed);
    }

    #[test]
    fn lines_hold_no_control_character_whatever_others_say(bytes in hostile()) {
        let pieces = split(&bytes, &[3, 1]);
        harmless(&job(Style::Plain, &bytes, &pieces).text())?;
        harmless(&job(Style::Quiet, &bytes, &pieces).text())?;
    }

    #[test]
    fn a_terminal_is_told_nothing_by_others(
        bytes in hostile(),
        sizes in prop::collection::vec(1_usize..5, 1..8),
        width in 10_u16..100,
    ) {
        let mut terminal = Terminal::new(200, width);
        let before = terminal.modes();
        let world = job(Style::Live { width, colour: true }, &bytes, &split(&bytes, &sizes));
        for written in &world.written {
            terminal.write(written);
            prop_assert_eq!(&terminal.noticed().0, &Vec::<String>::new());
            prop_assert_eq!(&terminal.modes(), &before);
            for sequence in written.split('\u{1b}').skip(1) {
                prop_assert!(is_ours(sequence), "{:?}", written);
            }
        }
        prop_assert_eq!(terminal.cursor().1, 0);
    }
}

/// The sequences that the view writes: colours, moves by some cells, erasing.
fn is_ours(sequence: &str) -> bool {
    let Some(rest) = sequence.strip_prefix('[') else { return false };
    let parameters: String = rest.chars().take_while(char::is_ascii_digit).collect();
    match rest.chars().nth(parameters.len()) {
        Some('m') => ["", "1", "2", "31", "32", "33"].contains(&parameters.as_str()),
        Some('J' | 'K' | 'A') => parameters.is_empty(),
        Some('C' | 'D') => parameters.parse::<u32>().is_ok(),
        _ => false,
    }
}
