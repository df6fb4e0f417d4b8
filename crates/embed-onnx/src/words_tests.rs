//! Tokens of texts. Those that are wanted are what the reference implementation,
//! Python's `tokenizers`, gives for the same file.

use serde_json::{Value, json};

use super::*;

/// A small file of the known kind.
fn file() -> Value {
    json!({
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 128}},
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
            ],
            "special_tokens": {"[CLS]": {"ids": [1]}, "[SEP]": {"ids": [2]}}
        },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 10,
            "vocab": {
                "[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "cafe": 3, "un": 4, "##aff": 5, "##able": 6,
                "a": 7, "##a": 8, ".": 9, "中": 10
            }
        }
    })
}

fn read(file: &Value) -> Result<Words, String> {
    Words::read(&serde_json::to_vec(file).unwrap())
}

#[test]
fn words_are_split_into_the_longest_pieces() {
    let words = read(&file()).unwrap_or_else(|cause| panic!("{cause}"));
    for (text, wanted) in [
        ("Café.", vec![1, 3, 9, 2]),
        ("unaffable", vec![1, 4, 5, 6, 2]),
        ("unaffected", vec![1, 0, 2]),
        ("aaaaaaaaaaa", vec![1, 0, 2]),
        ("aaaa", vec![1, 7, 8, 8, 8, 2]),
        ("中a中", vec![1, 10, 7, 10, 2]),
        ("a\u{200b}a", vec![1, 7, 8, 2]),
        ("", vec![1, 2]),
        (" \n ", vec![1, 2]),
    ] {
        assert_eq!(words.tokens(text), wanted, "{text:?}");
    }
}

#[test]
fn tokens_of_a_real_vocabulary_are_those_of_the_reference() {
    let file = cofferdam_testkit::minilm().unwrap().join("tokenizer.json");
    let words = Words::read(&std::fs::read(file).unwrap());
    let words = words.unwrap_or_else(|cause| panic!("{cause}"));
    let code = "fn parse_header(bytes: &[u8]) -> Result<Header, ParseError>";
    let long = format!("{} after", "x".repeat(150));
    for (text, wanted) in [
        ("Hello, World!", vec![7592, 1010, 2088, 999]),
        ("Ünïcödé naïve café — «quoted»…", vec![27260, 15743, 7668, 1517, 1077, 9339, 1090, 1529]),
        (
            code,
            vec![
                1042, 2078, 11968, 3366, 1035, 20346, 1006, 27507, 1024, 1004, 1031, 1057, 2620,
                1033, 1007, 1011, 1028, 2765, 1026, 20346, 1010, 11968, 19763, 18933, 2099, 1028,
            ],
        ),
        (
            "中文字 and 한국어 かな",
            vec![
                1746, 1861, 100, 1998, 1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008, 1651,
                30193,
            ],
        ),
        (
            "tabs\tand\nlines\u{200b}zero\0nul\u{fffd}\u{85}x",
            vec![21628, 2015, 1998, 3210, 6290, 2239, 5313, 2595],
        ),
        (
            "€5 → 10 ½ ﬁne Å İstanbul ß",
            vec![1574, 2629, 1585, 2184, 1092, 1984, 2638, 1037, 9960, 1096],
        ),
        (&long, vec![100, 2044]),
        (
            "unaffable electroencephalography",
            vec![14477, 20961, 3468, 16175, 10127, 21890, 21197, 26228],
        ),
        ("emoji 🦘 quokka", vec![7861, 29147, 2072, 100, 22035, 15714]),
        ("   ", vec![]),
    ] {
        assert_eq!(words.tokens(text), [vec![101], wanted, vec![102]].concat(), "{text:?}");
    }
}

#[test]
fn long_texts_are_cut_where_the_file_says_and_never_later_than_we_do() {
    let words = read(&file()).unwrap_or_else(|cause| panic!("{cause}"));
    assert_eq!(words.tokens(&"a ".repeat(10)), [1, 7, 7, 7, 7, 7, 7, 2]);
    assert_eq!(words.tokens("a a a a a unaffable"), [1, 7, 7, 7, 7, 7, 4, 2]);
    let mut long = file();
    for truncation in [json!(null), json!({"max_length": 1_000_000})] {
        long["truncation"] = truncation;
        let words = read(&long).unwrap_or_else(|cause| panic!("{cause}"));
        assert_eq!(words.tokens(&"a ".repeat(1 << 20)).len(), MOST_TOKENS);
        // One endless word is unknown, as is what no character is left of.
        assert_eq!(words.tokens(&"a".repeat(1 << 20)), [1, 0, 2]);
        assert_eq!(words.tokens(&"\u{301}".repeat(1 << 20)), [1, 2]);
    }
}

#[test]
fn what_stands_around_a_text_may_be_said_in_the_older_forms() {
    let mut file = file();
    file["post_processor"] =
        json!({"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]});
    let words = read(&file).unwrap_or_else(|cause| panic!("{cause}"));
    assert_eq!(words.tokens("a"), [1, 7, 2]);
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    let change = |place: &str, value: Value| {
        let mut file = file();
        *file.pointer_mut(place).unwrap() = value;
        read(&file).err().unwrap_or_else(|| panic!("{place} was taken"))
    };
    let told = change("/model/type", json!("Unigram"));
    assert_eq!(told, "its model is a Unigram; only WordPiece is known here");
    let told = change("/normalizer/type", json!("Precompiled"));
    assert_eq!(told, "its normalizer is a Precompiled; only BertNormalizer is known here");
    let told = change("/pre_tokenizer", json!(null));
    assert_eq!(told, "it has no pre-tokenizer; a BertPreTokenizer is needed");
    let told = change("/post_processor", json!(null));
    assert_eq!(told, "it does not say which tokens stand around a text");
    let told = change("/model/unk_token", json!("[NONE]"));
    assert_eq!(told, "\"[NONE]\" is not in its vocabulary");
    let told = change("/model/vocab", json!(["a", "b"]));
    assert!(told.starts_with("its model: "), "{told}");
    let told = change("/truncation/max_length", json!(2));
    assert_eq!(told, "it cuts texts after 2 tokens, so nothing is left of them");
    for garbage in [b"".as_slice(), b"{", b"[]", b"\xff\xfe", b"{\"model\":{}}"] {
        assert!(Words::read(garbage).is_err(), "{garbage:?}");
    }
}
