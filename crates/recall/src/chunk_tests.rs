//! Files in pieces: nothing lost, nothing doubled, definitions whole.

use proptest::prelude::*;

use super::*;

fn check_whole(text: &str, pieces: &[Piece]) {
    assert_eq!(pieces.iter().map(|piece| piece.text.as_str()).collect::<String>(), text);
    let mut next = 1;
    for piece in pieces {
        assert_eq!(piece.first, next);
        let lines = piece.text.split_inclusive('\n').count();
        assert_eq!(piece.last as usize, next as usize + lines - 1);
        assert!(lines <= MOST);
        assert!(piece.text.len() <= LARGEST || lines == 1);
        next = piece.last + 1;
    }
}

fn body(lines: usize) -> String {
    (0..lines).map(|number| format!("    let value{number} = {number};\n")).collect()
}

#[test]
fn definitions_of_rust_stay_whole_with_what_stands_above_them() {
    let text = format!(
        "//! About this.\n\nuse std::fmt;\n\n/// One.\n#[derive(Debug)]\nfn one() {{\n{}}}\n\n/// Two.\nfn two() {{\n{}}}\n",
        body(50),
        body(60)
    );
    let pieces = pieces("src/a.rs", text.as_bytes());
    check_whole(&text, &pieces);
    let starts: Vec<&str> = pieces.iter().filter_map(|piece| piece.text.lines().next()).collect();
    assert_eq!(starts, ["//! About this.", "/// Two."]);
}

#[test]
fn methods_of_a_large_type_are_cut_apart_and_know_what_they_are_in() {
    let methods: String = (0..8)
        .map(|number| format!("    fn method{number}() {{\n{}    }}\n\n", body(30)))
        .collect();
    let text = format!("impl Large {{\n{methods}}}\n");
    let pieces = pieces("a.rs", text.as_bytes());
    check_whole(&text, &pieces);
    assert!(pieces.len() >= 7, "{}", pieces.len());
    for piece in pieces.iter().skip(1) {
        assert!(piece.text.trim_start().starts_with("fn method"), "{}", piece.text);
        assert_eq!(piece.within, "impl Large {");
    }
}

#[test]
fn every_grammar_finds_definitions() {
    let python: String =
        (0..6).map(|n| format!("@wraps\ndef f{n}(a):\n{}\n", "    a += 1\n".repeat(35))).collect();
    let script: String = (0..6)
        .map(|n| {
            format!(
                "// F\nexport function f{n}(a) {{\n{}}}\n",
                "  a += 1;\n\n  a += 2;\n".repeat(12)
            )
        })
        .collect();
    let typed = script.replace("(a)", "(a: number): void");
    for (path, text, begin) in [
        ("a.py", &python, "@wraps"),
        ("a.js", &script, "// F"),
        ("a.jsx", &script, "// F"),
        ("a.ts", &typed, "// F"),
        ("a.tsx", &typed, "// F"),
    ] {
        let pieces = pieces(path, text.as_bytes());
        check_whole(text, &pieces);
        assert_eq!(pieces.len(), 6, "{path}");
        assert!(pieces.iter().all(|piece| piece.text.starts_with(begin)), "{path}");
    }
}

#[test]
fn without_a_grammar_paragraphs_stay_whole() {
    let paragraph = format!("# Title\n\n{}\n", "Some words here.\n".repeat(35));
    let text = paragraph.repeat(5);
    let pieces = pieces("a.md", text.as_bytes());
    check_whole(&text, &pieces);
    assert!(pieces.iter().all(|piece| piece.text.starts_with("# Title")), "{pieces:?}");
}

#[test]
fn what_is_no_text_has_no_pieces() {
    assert!(pieces("a.rs", b"").is_empty());
    assert!(pieces("a.rs", b"fn main() {}\0").is_empty());
    assert!(pieces("a.rs", b"\xff\xfe").is_empty());
    assert!(pieces("a.txt", &vec![b'\n'; LARGEST_FILE + 1]).is_empty());
    assert!(pieces("a.min.js", "x".repeat(LONGEST_LINE + 1).as_bytes()).is_empty());
}

#[test]
fn a_text_that_is_no_program_is_cut_all_the_same() {
    let mess = "((((((([[[[{{{ \"'` /* <<< fn class def\n".repeat(4000);
    for path in ["a.rs", "a.py", "a.ts", "a.tsx", "a.js"] {
        check_whole(&mess, &pieces(path, mess.as_bytes()));
    }
}

#[test]
fn documents_of_a_file_say_where_they_are() {
    let documents = of_file("src/a.rs", b"fn main() {\n}\n", Timestamp(5));
    let [document] = documents.as_slice() else { panic!("{documents:?}") };
    let source = Source::File { path: "src/a.rs".to_owned(), first: 1, last: 2 };
    assert_eq!((&document.source, document.at), (&source, Timestamp(5)));
    assert_eq!(document.files, ["src/a.rs"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_line_is_lost_or_doubled(
        lines in prop::collection::vec(
            prop_oneof![
                Just(String::new()),
                Just("}".to_owned()),
                Just("fn f() {".to_owned()),
                Just("class A:".to_owned()),
                Just("    def g(self):".to_owned()),
                Just("/// words".to_owned()),
                Just("\r".to_owned()),
                "[ \\t]{0,8}\\PC{0,40}",
            ],
            0..400,
        ),
        ending in prop::sample::select(vec!["rs", "py", "js", "ts", "tsx", "md", ""]),
        ends in any::<bool>(),
    ) {
        let mut text = lines.join("\n");
        if ends {
            text.push('\n');
        }
        let pieces = pieces(&format!("a.{ending}"), text.as_bytes());
        if text.contains('\0') {
            prop_assert!(pieces.is_empty());
        } else {
            check_whole(&text, &pieces);
        }
    }
}
