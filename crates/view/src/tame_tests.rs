//! Every way known to write past the view, and texts that must stay readable.

use super::*;

#[test]
fn colours_go_without_a_trace_and_text_stays() {
    assert_eq!(tame("\u{1b}[1;31merror\u{1b}[0m: no"), "error: no");
    assert_eq!(tame("\u{1b}[?25l\u{1b}[2K\u{1b}[1Aover"), "over");
}

#[test]
fn sequences_that_carry_text_are_shown_and_hide_nothing() {
    assert_eq!(tame("\u{1b}]0;evil\u{7}rm -rf ~"), "␛]0;evil␇rm -rf ~");
    assert_eq!(tame("\u{1b}Pq#0\u{1b}\\x"), "␛Pq#0␛\\x");
    assert_eq!(tame("\u{1b}_app\u{1b}\\\u{1b}c\u{1b}7"), "␛_app␛\\␛c␛7");
    assert_eq!(tame("\u{9b}31mred\u{9d}0;t\u{9c}"), "⟨U+009B⟩31mred⟨U+009D⟩0;t⟨U+009C⟩");
}

#[test]
fn what_only_looks_like_a_sequence_is_shown() {
    assert_eq!(tame("\u{1b}"), "␛");
    assert_eq!(tame("\u{1b}[12"), "␛[12");
    assert_eq!(tame("\u{1b}[1\u{1b}[2mx"), "␛[1x");
    assert_eq!(tame("\u{1b}[1\nx"), "␛[1\nx");
    let long = format!("\u{1b}[{}m", "1".repeat(100));
    assert_eq!(tame(&long), format!("␛[{}m", "1".repeat(100)));
}

#[test]
fn control_characters_are_shown_as_pictures() {
    assert_eq!(tame("a\u{8}\u{8}b\0\u{7f}\u{c}\u{b}"), "a␈␈b␀␡␌␋");
}

#[test]
fn a_carriage_return_ends_a_line_and_overwrites_nothing() {
    assert_eq!(tame("10%\r20%\r\ndone\r\r\n\nend"), "10%\n20%\ndone\n\nend");
    let mut tamer = Tamer::default();
    let pieces: String = ["a\r", "\n", "b"].iter().map(|piece| tamer.text(piece)).collect();
    assert_eq!(pieces, "a\nb");
}

#[test]
fn tabs_become_spaces_to_the_next_stop() {
    assert_eq!(tame("a\tb\n\tc"), "a       b\n        c");
}

#[test]
fn what_turns_text_around_or_is_invisible_is_shown_by_its_number() {
    assert_eq!(tame("a\u{202e}b\u{2066}c\u{200b}d"), "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200B⟩d");
    assert_eq!(tame("\u{2028}\u{2029}\u{85}"), "⟨U+2028⟩⟨U+2029⟩⟨U+0085⟩");
    assert_eq!(tame("\u{feff}a\u{feff}"), "a⟨U+FEFF⟩");
    assert_eq!(tame("r\u{200d}m\u{e0041}"), "r⟨U+200D⟩m⟨U+E0041⟩");
}

#[test]
fn ordinary_text_of_the_world_stays_as_it_is() {
    for text in ["naïve – “quoted”", "日本語テキスト", "مرحبا", "e\u{301}", "→ ✓ ░"]
    {
        assert_eq!(tame(text), text);
    }
    assert_eq!(tame("👩\u{200d}💻 ⚠\u{fe0f}"), "👩💻 ⚠");
}

#[test]
fn accents_do_not_pile_up() {
    assert_eq!(tame(&format!("a{}b", "\u{301}".repeat(50))), format!("a{}b", "\u{301}".repeat(4)));
}

#[test]
fn characters_split_over_pieces_are_whole_again_and_broken_ones_are_marked() {
    let mut tamer = Tamer::default();
    let mut tamed = String::new();
    for byte in "ä日\u{1b}[31m👍".as_bytes() {
        tamed.push_str(&tamer.bytes(&[*byte]));
    }
    assert_eq!(tamed, "ä日👍");
    tamed = tamer.bytes(b"a\xffb\xe6\x97");
    tamed.push_str(&tamer.finish());
    assert_eq!(tamed, "a\u{fffd}b\u{fffd}");
}

#[test]
fn several_lines_become_one_where_there_is_room_for_one() {
    assert_eq!(tame_line("cd x\r\n  make\n\n"), "cd x ⏎ make");
}
