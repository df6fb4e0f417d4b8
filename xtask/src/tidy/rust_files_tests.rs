//! What the checks of Rust files find and what they leave alone.

use super::*;

const ACCEPTED: &[(&str, &str)] = &[("a/sys.rs", "system calls"), ("b/src/", "everything")];

fn causes_at(path: &str, text: &str) -> Vec<String> {
    let file = TextFile { path: path.to_owned(), text: text.to_owned() };
    let found = check(&file, ACCEPTED);
    found.into_iter().map(|violation| format!("{} {}", violation.line, violation.cause)).collect()
}

fn causes(text: &str) -> Vec<String> {
    causes_at("a/file.rs", text)
}

const FINE: [&str; 0] = [];

#[test]
fn a_file_opens_with_its_purpose() {
    let missing = ["1 the file does not open with its purpose"];
    assert_eq!(causes("//! Leases.\n\nfn f() {}\n"), FINE);
    assert_eq!(causes("#![no_main]\n//! Leases.\n"), missing);
    assert_eq!(causes("//!\n//! Leases.\n"), missing, "an empty first line says nothing");
    assert_eq!(causes("// Leases.\n"), missing);
    assert_eq!(causes(""), missing);
}

#[test]
fn a_file_of_the_longest_length_passes_and_one_line_more_does_not() {
    let of = |lines: usize| format!("//! Long.\n{}", "//\n".repeat(lines - 1));
    assert_eq!(causes(&of(600)), FINE);
    assert_eq!(causes(&of(601)), ["601 the file has 601 lines, its tests aside; the most is 600"]);
    assert_eq!(causes_at("a/file_tests.rs", &of(2_000)), FINE);
}

#[test]
fn tests_within_a_file_do_not_count() {
    let text = "//! A.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn g() {}\n}\n";
    assert_eq!(lines_without_tests(text), 3);
    let with_attribute = text.replace("mod tests", "#[expect(x)]\nmod tests");
    assert_eq!(lines_without_tests(&with_attribute), 3);
    let followed = format!("{text}fn h() {{}}\n");
    assert_eq!(lines_without_tests(&followed), 4, "what follows the tests counts again");
}

#[test]
fn a_declared_test_module_hides_nothing_after_it() {
    let text = "//! A.\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nuse x;\nfn f() {}\n";
    assert_eq!(lines_without_tests(text), 6);
}

#[test]
fn marks_of_unfinished_code_are_found_in_code_only() {
    assert_eq!(
        causes("//! A.\nfn f() { todo!() }\nfn g() { std::unimplemented!(); dbg!(1); }\n"),
        [
            "2 `todo!` is a mark of unfinished work",
            "3 `unimplemented!` is a mark of unfinished work",
            "3 `dbg!` is a mark of unfinished work",
        ]
    );
    assert_eq!(causes("//! A.\n// no todo!() here\nfn todo() { \"dbg!\" }\n"), FINE);
    assert_eq!(causes("//! A.\nfn f() { my_todo!(); if todo != 1 {} }\n"), FINE);
}

#[test]
fn ignored_tests_are_found_with_and_without_a_reason() {
    for attribute in ["#[ignore]", "#[ignore = \"slow\"]", "#[cfg_attr(miri, ignore)]"] {
        let text = format!("//! A.\n    {attribute}\n");
        assert_eq!(causes(&text), ["2 a test is ignored"], "{attribute}");
    }
    assert_eq!(causes("//! A.\n#[ignored]\n#[doc(alias = \"ignore\")]\nuse ignore::Walk;\n"), FINE);
}

#[test]
fn unsafe_is_found_once_a_file_and_only_where_none_is_expected() {
    let text = "//! Not unsafe.\n#![expect(unsafe_code)]\nunsafe fn f() {}\nunsafe fn g() {}\n";
    let found = ["3 `unsafe` in a file where none is expected"];
    assert_eq!(causes(text), found);
    assert_eq!(causes_at("a/sys.rs", text), FINE);
    assert_eq!(causes_at("b/src/deep/down.rs", text), FINE);
    assert_eq!(causes_at("b/srcs/x.rs", text), found);
    assert_eq!(causes_at("c/a/sys.rs", text), found);
}

#[test]
fn examples_that_look_as_if_they_were_run_are_found() {
    let found = |kind: &str| causes(&format!("//! A.\n//! ```{kind}\n//! f()\n//! ```\n"));
    for kind in ["", "rust", "no_run", "rust,should_panic", "edition2024"] {
        assert_eq!(found(kind), ["2 an example in documentation that nothing runs"], "{kind}");
    }
    for kind in ["text", "ignore", "rust,ignore", "sh", "json"] {
        assert_eq!(found(kind), FINE, "{kind}");
    }
    assert_eq!(causes("//! A.\nconst A: &str = \"\n```\nf()\n```\n\";\n"), FINE);
}
