//! Words of texts and of questions, by example and by property.

use proptest::prelude::*;

use super::*;

fn names(text: &str) -> Vec<String> {
    indexed(text).names
}

fn words(text: &str) -> Vec<String> {
    indexed(text).words
}

#[test]
fn identifiers_are_whole_and_in_parts_whatever_their_style() {
    for text in ["getUserName", "get_user_name", "GetUserName", "get-user-name", "GET_USER_NAME"] {
        assert_eq!(names(text), ["getusername", "getuser", "username"], "{text}");
        assert_eq!(words(text), ["get", "user", "name"], "{text}");
    }
    assert_eq!(names("HTTPServer2"), ["httpserver2", "httpserver", "server2"]);
    assert_eq!(words("HTTPServer2"), ["http", "server"]);
    assert_eq!(words("__init__ XMLHttpRequest"), ["init", "xml", "http", "request"]);
    assert!(names("timeout").is_empty());
}

#[test]
fn a_name_within_a_longer_one_is_found() {
    let whole = names("ERR_PARSE_HEADER_FAILED");
    assert!(asked("parseHeader").names.iter().all(|name| whole.contains(name)));
}

#[test]
fn two_words_that_stand_together_are_a_name_too() {
    assert_eq!(names("the user name, timeout"), ["username"]);
    assert_eq!(names("the user Name"), asked("user name").names);
    assert_eq!(names("userName"), asked("user name").names);
    for apart in ["user, name", "user of name", "user\n\nname", "user 17", "user  name"] {
        assert!(names(apart).is_empty(), "{apart}");
    }
}

#[test]
fn paths_are_kept_whole_and_by_component() {
    let found = indexed("see ./src/auth/login_form.rs:42:7.");
    for name in ["src/auth/login_form.rs", "login_form.rs", "loginform"] {
        assert!(found.names.iter().any(|other| other == name), "{name}: {found:?}");
    }
    for word in ["src", "auth", "login", "form", "rs", "42"] {
        assert!(found.words.iter().any(|other| other == word), "{word}: {found:?}");
    }
    assert!(names("https://example.org/a/b.html").contains(&"example.org/a/b.html".to_owned()));
}

#[test]
fn codes_of_errors_are_kept_whole() {
    assert!(names("error[E0308]: mismatched").contains(&"e0308".to_owned()));
    assert!(names("TS2345").contains(&"ts2345".to_owned()));
    assert!(names("ERR_MODULE_NOT_FOUND").contains(&"errmodulenotfound".to_owned()));
    assert_eq!(words("exit code: 101, then 2"), ["exit", "code", "101", "then", "2"]);
    assert_eq!(names("1.2.3 at 10.0.0.1"), ["1.2.3", "10.0.0.1"]);
}

#[test]
fn hashes_and_data_are_bounded() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b";
    assert_eq!(indexed(hash), Words { names: vec![hash.into(), "9f86d08".into()], words: vec![] });
    let uuid = "0190a5b2-1111-7000-8000-00000000abcd";
    assert_eq!(names(uuid), [uuid]);
    assert!(words(uuid).is_empty());
    let data = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo".repeat(4000);
    let found = indexed(&data);
    assert_eq!((found.names.len(), found.words.len()), (0, 1));
    assert!(found.words.iter().all(|word| word.len() <= LONGEST_WORD));
    let slashes = "aGVsbG8/d29ybGQ/".repeat(5000);
    let found = indexed(&slashes);
    assert!(found.all().count() <= 6 * MOST_PARTS, "{}", found.all().count());
}

#[test]
fn what_is_repeated_counts_a_few_times_only() {
    assert_eq!(words(&"retry ".repeat(1000)).len(), usize::from(REPEATS));
}

#[test]
fn other_scripts_have_words_too() {
    assert_eq!(words("Über straße"), ["über", "straße"]);
    assert_eq!(words("数据库"), ["数据", "据库"]);
    assert_eq!(asked("数据库").words, ["数据", "据库"]);
    assert_eq!(words("ошибка"), ["ошибка"]);
}

#[test]
fn a_question_loses_what_every_text_has_unless_nothing_is_left() {
    let found = asked("What did we decide about the retry limit?");
    assert_eq!(found.words, ["decide", "retry", "limit"]);
    assert_eq!(found.names, ["retrylimit"]);
    assert_eq!(asked("what is it").words, ["what", "is", "it"]);
    assert!(asked("??? \" ( * ^").is_empty());
    assert!(asked("").is_empty());
}

#[test]
fn a_question_is_bounded() {
    let long: String = (0..200_000).map(|number| format!("word{number} Other{number} ")).collect();
    let found = asked(&long);
    assert_eq!(found.all().count(), MOST_ASKED);
    assert!(!found.words.is_empty() && !found.names.is_empty());
}

#[test]
fn common_words_are_in_order() {
    assert!(COMMON.is_sorted());
}

proptest! {
    #[test]
    fn any_text_has_bounded_clean_words(text in "\\PC{0,300}") {
        let found = indexed(&text);
        for word in found.all().chain(asked(&text).all()) {
            prop_assert!(!word.is_empty() && word.len() <= LONGEST_NAME * 3, "{word}");
            prop_assert!(!word.contains(|c: char| c.is_whitespace() || c == '"'), "{word}");
        }
        prop_assert!(asked(&text).all().count() <= MOST_ASKED);
    }

    #[test]
    fn whoever_asks_with_the_words_of_a_text_asks_for_what_is_indexed(
        text in "([a-zA-Z0-9_./-]{1,30} ?){1,4}"
    ) {
        let found = indexed(&text);
        let asked = asked(&text);
        // Pairs of a question's words are no words of the text.
        for word in &asked.words {
            prop_assert!(found.words.contains(word), "{word}: {found:?}");
        }
    }
}
