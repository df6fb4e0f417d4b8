//! The status line: there while something happens, gone without a trace after.

use cofferdam_model::Delta;
use cofferdam_types::{Ending, StopReason};
use cofferdam_view::Style;
use serde_json::json;

use crate::terminal::Terminal;
use crate::world::{MAIN, World, asks, says};

const STYLE: Style = Style::Live { width: 60, colour: true };

/// Writes what is new to the terminal.
fn draw(world: &mut World, terminal: &mut Terminal) {
    for text in world.written.drain(..) {
        terminal.write(&text);
    }
}

fn statuses(screen: &str) -> usize {
    screen.lines().filter(|line| line.starts_with("turn ")).count()
}

#[test]
fn the_status_line_says_what_is_under_way() {
    let mut terminal = Terminal::new(24, 80);
    let mut world = World::begun(Style::Live { width: 80, colour: true }, "Test it", &[]);
    world.answer(MAIN, vec![asks("1", "bash", &json!({"command": "cargo test"}))]);
    let call = world.started(MAIN, "1", "bash");
    world.tick(100);
    world.printed(call, b"one\ntwo\n");
    world.tick(42_000);
    draw(&mut world, &mut terminal);
    insta::assert_snapshot!(terminal.screen(), @"
    › Test it
      acme/large-1, coder acme/small-1 · job 0190a5b0-0000-7000-8000-000000000001
      sandbox native, namespaces
    ● bash  cargo test
      │ one
      │ two
    turn 1 · 4.2k tokens (90% cached) · $0.0041 · 0:42 · bash cargo test 42s, 2 li…
    ");
}

#[test]
fn the_status_line_is_below_text_that_has_not_ended_and_the_cursor_at_its_end() {
    let mut terminal = Terminal::new(24, 60);
    let mut world = World::begun(STYLE, "Talk", &[]);
    world.asked(MAIN, 1);
    world.stream(MAIN, "Hello there", Delta::Text);
    draw(&mut world, &mut terminal);
    let screen = terminal.screen();
    let rows: Vec<&str> = screen.lines().collect();
    let text = rows.iter().position(|row| *row == "Hello there").unwrap();
    assert_eq!(rows.get(text + 1), Some(&"turn 1 · 0:00 · waiting for acme/large-1"));
    assert_eq!(terminal.cursor(), (u16::try_from(text).unwrap(), 11));
}

#[test]
fn long_words_and_wide_characters_are_wrapped_within_the_width() {
    let mut terminal = Terminal::new(24, 20);
    let mut world = World::begun(Style::Live { width: 20, colour: false }, "Talk", &[]);
    world.asked(MAIN, 1);
    for token in [
        "A para",
        "graph of wor",
        "ds, ",
        "日本語日本語日本語日本語",
        " ",
        "xxxxxxxxxxxxxxxxxxxxxxxxx",
    ] {
        world.delta(MAIN, &Delta::Text(token.to_owned()));
        world.tick(1_000);
    }
    draw(&mut world, &mut terminal);
    let screen = terminal.screen();
    let (_, text) = screen.split_once("\n\n").unwrap();
    insta::assert_snapshot!(text, @"
    A paragraph of
    words,
    日本語日本語日本語
    日本語
    xxxxxxxxxxxxxxxxxxx
    xxxxxx
    turn 1 · 0:06 · wa…
    ");
}

#[test]
fn no_status_line_is_left_behind_at_any_width() {
    let mut terminal = Terminal::new(60, 60);
    let mut world = World::begun(STYLE, "Talk for a long time about many things", &[]);
    world.asked(MAIN, 1);
    let text = "Words in a row that are longer than any terminal here is wide, again and again. ";
    for width in [60, 30, 100, 12, 80] {
        terminal.resize(width);
        world.view.resize(width);
        for piece in text.split_inclusive(' ') {
            world.delta(MAIN, &Delta::Text(piece.to_owned()));
            draw(&mut world, &mut terminal);
            assert!(statuses(&terminal.screen()) <= 1, "{}", terminal.screen());
        }
        world.tick(1_000);
        draw(&mut world, &mut terminal);
        assert_eq!(statuses(&terminal.screen()), 1, "{}", terminal.screen());
    }
    world.answered(vec![says(&text.repeat(5))], StopReason::Done);
    world.finishes(Ending::Complete { summary: String::new(), verified: false }, Vec::new());
    draw(&mut world, &mut terminal);
    assert_eq!(statuses(&terminal.screen()), 0, "{}", terminal.screen());
    assert_eq!(terminal.cursor().1, 0);
}

#[test]
fn without_colours_nothing_is_coloured() {
    let mut world = World::begun(Style::Live { width: 0, colour: false }, "Talk", &[]);
    world.answer(MAIN, vec![says("Hello."), asks("1", "bash", &json!({"command": "false"}))]);
    world.runs(MAIN, "1", "no\n", 1, 300);
    world.finishes(Ending::Complete { summary: String::new(), verified: true }, Vec::new());
    let text = world.text();
    assert!(text.contains("\u{1b}[J") && !has_colour(&text), "{text:?}");
}

/// Whether there is a sequence that ends in `m`.
fn has_colour(text: &str) -> bool {
    text.split('\u{1b}').skip(1).any(|sequence| {
        sequence.chars().find(|character| character.is_ascii_alphabetic()) == Some('m')
    })
}

#[test]
fn what_is_said_beside_the_job_does_not_disturb_the_status_line() {
    let mut terminal = Terminal::new(24, 60);
    let mut world = World::begun(STYLE, "Talk", &[]);
    world.asked(MAIN, 1);
    world.tick(100);
    let said = world.view.say(std::time::Duration::from_secs(1), "the log\u{7} is on another disk");
    world.written.push(said);
    draw(&mut world, &mut terminal);
    let screen = terminal.screen();
    assert!(screen.contains("\nthe log␇ is on another disk\n"), "{screen}");
    assert_eq!(statuses(&screen), 1);
}
