//! Tokens as the models' makers count them.

use std::fmt::Write as _;

use base64::Engine as _;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;

const BOTH: [Encoding; 2] = [Encoding::Cl100k, Encoding::O200k];

/// The tokens of a text by their ranks.
fn ranks(encoding: Encoding, text: &str) -> Vec<u32> {
    let Tokenizer { table, splitter } = encoding.tokenizer().unwrap();
    let mut merge = Merge::default();
    splitter.split(text).flat_map(|piece| merge.ranks(table, piece.as_bytes())).collect()
}

/// The same in the plainest way, a pair at a time.
fn slowly(encoding: Encoding, text: &str) -> Vec<u32> {
    let Tokenizer { table, splitter } = encoding.tokenizer().unwrap();
    let mut all = Vec::new();
    for piece in splitter.split(text) {
        let mut parts: Vec<&[u8]> = piece.as_bytes().chunks(1).collect();
        if table.rank(piece.as_bytes()).is_some() {
            parts = vec![piece.as_bytes()];
        }
        loop {
            let pairs = parts.windows(2).map(|pair| table.rank(&pair.concat()));
            let ranked = pairs.enumerate().filter_map(|(place, rank)| Some((rank?, place)));
            let Some((rank, place)) = ranked.min() else { break };
            parts.splice(place..place + 2, [table.token(rank).unwrap()]);
        }
        all.extend(parts.into_iter().map(|part| table.rank(part).unwrap()));
    }
    all
}

#[test]
fn the_tables_are_those_that_their_makers_publish() {
    for (encoding, published) in [
        (Encoding::Cl100k, "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
        (Encoding::O200k, "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    ] {
        let table = &encoding.tokenizer().unwrap().table;
        let mut file = String::new();
        for rank in 0..table.len() {
            let token = table.token(rank).unwrap();
            assert_eq!(table.rank(token), Some(rank));
            let token = base64::engine::general_purpose::STANDARD.encode(token);
            writeln!(file, "{token} {rank}").unwrap();
        }
        let mut hex = String::new();
        for byte in Sha256::digest(file.as_bytes()) {
            write!(hex, "{byte:02x}").unwrap();
        }
        assert_eq!(hex, published, "{}", encoding.name());
    }
}

#[test]
fn known_texts_have_the_known_tokens() {
    let check = |encoding, text: &str, tokens: &[u32]| {
        assert_eq!(ranks(encoding, text), tokens, "{text:?} in {encoding:?}");
        assert_eq!(Encoding::count(encoding, text), tokens.len() as u64, "{text:?}");
    };
    check(Encoding::Cl100k, "", &[]);
    check(Encoding::Cl100k, "hello world", &[15_339, 1_917]);
    check(Encoding::Cl100k, "tiktoken is great!", &[83, 1_609, 5_963, 374, 2_294, 0]);
    check(Encoding::Cl100k, "rer", &[38_149]);
    check(Encoding::Cl100k, "'rer", &[2_351, 81]);
    check(Encoding::Cl100k, "today\n ", &[31_213, 198, 220]);
    check(Encoding::Cl100k, "today\n \n", &[31_213, 27_907]);
    check(Encoding::Cl100k, "today\n  \n", &[31_213, 14_211]);
    check(Encoding::Cl100k, " \u{85}0", &[220, 126, 227, 15]);
    check(Encoding::O200k, "hello world", &[24_912, 2_375]);
    check(Encoding::O200k, ".\n/", &[118_550]);
    // What is special to a model is text where somebody merely says it.
    assert!(Encoding::O200k.count("<|endoftext|>") > 1);
}

/// A text, to be said 1,024 times, and its tokens then.
const ODD: &[(&str, u64, u64)] = &[
    ("a", 128, 128),
    ("A", 128, 128),
    ("aA", 1_025, 2_048),
    (" ", 8, 8),
    ("\n", 64, 32),
    ("  \n", 512, 512),
    (" \t\r\n x", 3_072, 3_072),
    ("!", 64, 128),
    ("=-", 128, 128),
    ("1", 342, 342),
    ("😀", 1_024, 2_048),
    ("\u{301}", 1_024, 1_024),
    ("a\u{301}\u{302}", 3_072, 4_096),
    ("'s", 1_024, 1_024),
    ("\0", 512, 1_024),
    ("\u{a0}", 128, 128),
    ("let x = 5; // five\n", 9_216, 9_216),
    ("日本語のテキスト。", 7_168, 9_216),
    ("QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 18_432, 20_480),
    ("error[E0308]: mismatched types\n", 9_216, 9_216),
    ("{\"path\":\"src/main.rs\"}", 7_168, 7_168),
];

/// Counts that GitHub's `bpe-openai` 0.3.2 has for the same texts.
#[test]
fn odd_texts_are_counted_as_others_count_them() {
    let kib = 1 << 10;
    for (text, o200k, cl100k) in ODD {
        let text = text.repeat(kib);
        assert_eq!(Encoding::O200k.count(&text), *o200k, "{:?}", text.get(..8));
        assert_eq!(Encoding::Cl100k.count(&text), *cl100k, "{:?}", text.get(..8));
    }
}

#[test]
fn a_text_without_a_break_takes_no_longer_than_others() {
    // With time that grows with the square of the length this would take minutes.
    for text in ["a", " ", "\n", "!", "\u{301}", "日", "qz"] {
        let text = text.repeat(1 << 17);
        for encoding in BOTH {
            let counted = encoding.count(&text);
            assert!(0 < counted && counted <= text.len() as u64);
        }
    }
}

#[test]
fn a_model_is_known_by_its_name() {
    for model in [
        "gpt-4o",
        "openai/gpt-4o-mini",
        "openrouter/openai/gpt-4o-2024-08-06",
        "openai/gpt-4.1-nano",
        "openai/gpt-5",
        "openai/gpt-5-mini",
        "openai/gpt-5.1-codex",
        "openai/o1",
        "openai/o3-mini",
        "openai/o4-mini",
        "ollama/gpt-oss:20b",
        "openrouter/openai/gpt-oss-120b:free",
        "openai/chatgpt-4o-latest",
        "openai/ft:gpt-4o-mini-2024-07-18:acme::1",
        "openai/GPT-4o",
    ] {
        assert_eq!(Encoding::of(model), Some(Encoding::O200k), "{model}");
    }
    for model in ["openai/gpt-4", "gpt-4-turbo", "openai/gpt-3.5-turbo", "azure/gpt-35-turbo"] {
        assert_eq!(Encoding::of(model), Some(Encoding::Cl100k), "{model}");
    }
    for model in [
        "",
        "anthropic/claude-opus-4",
        "openai/gpt-6",
        "openai/gpt-50",
        "openai/gpt-4.7",
        "openai/gpt-4ox",
        "openai/o11",
        "some/o3x",
        "gpt-4o/other",
        "test/large",
        "ollama/olmo",
    ] {
        assert_eq!(Encoding::of(model), None, "{model}");
    }
}

fn odd() -> impl Strategy<Value = String> {
    let letters = prop::sample::select(
        "aAbBzZ019  \t\n\r'stldmve!/.-=_日本éß\u{301}😀\u{a0}\u{2028}<|>ǅʰ"
            .chars()
            .collect::<Vec<_>>(),
    );
    let odd = prop::collection::vec(letters, 0..150).prop_map(|letters| letters.iter().collect());
    let runs = ("[a-c]{0,300}", "[ \n]{0,300}", "[!=]{0,300}").prop_map(|(a, b, c)| a + &b + &c);
    prop_oneof![odd, any::<String>(), runs]
}

proptest! {
    #[test]
    fn tokens_are_the_text_again_and_as_many_as_counted(text in odd()) {
        for encoding in BOTH {
            let table = &encoding.tokenizer().unwrap().table;
            let ranks = ranks(encoding, &text);
            let again: Vec<u8> =
                ranks.iter().flat_map(|rank| table.token(*rank).unwrap()).copied().collect();
            prop_assert_eq!(&again[..], text.as_bytes());
            prop_assert_eq!(encoding.count(&text), ranks.len() as u64);
            prop_assert_eq!(slowly(encoding, &text), ranks);
        }
    }
}
