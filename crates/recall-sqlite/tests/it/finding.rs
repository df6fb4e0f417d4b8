//! What is found, and in which order.

use cofferdam_recall::{Document, Index, Question, Source};
use cofferdam_recall_sqlite::SqliteIndex;
use cofferdam_types::Timestamp;

use crate::world::{World, about, find, lines, said};

async fn filled(world: &World) -> SqliteIndex {
    let index = world.open().await;
    let of_file =
        |seq, text: &str, file: &str| Document { files: vec![file.to_owned()], ..said(seq, text) };
    let documents = vec![
        said(1, "The user wants getUserName to be quick."),
        of_file(2, "fn get_user_name(id: u64) -> String", "src/users/name.rs"),
        of_file(3, "error[E0308]: mismatched types", "src/users/login.rs"),
        said(4, "names of users and what to get for them"),
        said(5, "nothing to see here"),
        Document { before: "Which port has the broker?".to_owned(), ..said(6, "It is 4711.") },
    ];
    index.add(6, documents).await.unwrap();
    let file = vec![lines("src/users/name.rs", 1, "mod get_user_name;")];
    index.replace_files([("src/users/name.rs".to_owned(), file)].into()).await.unwrap();
    index
}

#[tokio::test]
async fn an_exact_name_goes_before_its_parts_whatever_its_style() {
    let world = World::new();
    let index = filled(&world).await;
    for words in ["getUserName", "get_user_name", "get user name", "what was GET_USER_NAME?"] {
        let question = Question { workspace: false, ..about(words) };
        let found = find(&index, question).await;
        let mut first: Vec<u64> = found.iter().take(2).copied().collect();
        first.sort_unstable();
        assert_eq!(first, [1, 2], "{words}: {found:?}");
        assert!(found.contains(&4), "{words}: {found:?}");
    }
    assert_eq!(find(&index, about("E0308")).await, [3]);
    assert_eq!(find(&index, about("mismatching type")).await, [3]);
    assert_eq!(find(&index, about("src/users/login.rs")).await.first(), Some(&3));
    assert_eq!(find(&index, about("port of the broker")).await, [6], "by what was before it");
}

#[tokio::test]
async fn what_is_given_narrows_it() {
    let world = World::new();
    let index = filled(&world).await;
    let words = || Question { workspace: false, ..about("user name get types") };
    let of = |file: &str| Question { file: Some(file.to_owned()), ..words() };
    assert_eq!(find(&index, of("src/users/login.rs")).await, [3]);
    assert_eq!(find(&index, of("/workspace/src/users/login.rs")).await, [3]);
    assert_eq!(find(&index, of("./src/users/name.rs")).await, [2]);
    assert_eq!(find(&index, of("name.rs")).await, [2]);
    assert!(find(&index, of("ame.rs")).await.is_empty());
    assert!(find(&index, of("%")).await.is_empty());
    let both = Question { workspace: true, ..of("name.rs") };
    let mut both = find(&index, both).await;
    both.sort_unstable();
    assert_eq!(both, [0, 2]);

    let until = find(&index, Question { through: Some(2), ..words() }).await;
    assert!(!until.is_empty() && until.iter().all(|seq| *seq <= 2), "{until:?}");
    let time = |from: Option<u64>, to: Option<u64>| Question {
        from: from.map(Timestamp),
        to: to.map(Timestamp),
        ..words()
    };
    assert_eq!(find(&index, time(Some(3000), Some(3000))).await, [3]);
    let early = find(&index, time(None, Some(2000))).await;
    assert!(early.iter().all(|seq| *seq <= 2) && early.len() == 2, "{early:?}");
    assert!(find(&index, time(Some(9000), None)).await.is_empty());
    assert!(find(&index, time(Some(u64::MAX), None)).await.is_empty());
}

#[tokio::test]
async fn without_words_the_latest_come_first() {
    let world = World::new();
    let index = filled(&world).await;
    let all = || Question { workspace: false, ..about(" ") };
    assert_eq!(find(&index, all()).await, [6, 5, 4, 3, 2, 1]);
    assert_eq!(find(&index, Question { limit: 2, ..all() }).await, [6, 5]);
    assert_eq!(find(&index, Question { through: Some(3), ..all() }).await, [3, 2, 1]);
    let from = Some(Timestamp(5000));
    assert_eq!(find(&index, Question { from, ..all() }).await, [6, 5]);
    let file = Some("login.rs".to_owned());
    assert_eq!(find(&index, Question { file, ..all() }).await, [3]);
    assert_eq!(find(&index, about("")).await.len(), 7, "with the file");
    assert!(find(&index, Question { limit: 0, ..all() }).await.is_empty());
}

#[tokio::test]
async fn of_those_that_fit_as_well_the_later_comes_first() {
    let world = World::new();
    let index = world.open().await;
    let documents = (1..=30).map(|seq| said(seq, "the same words")).collect();
    index.add(30, documents).await.unwrap();
    let found = find(&index, about("same words")).await;
    assert_eq!(found, (21..=30).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_hit_shows_what_fits_and_how_much_there_is() {
    let world = World::new();
    let index = world.open().await;
    let filling = "a line that says nothing\n".repeat(300);
    let text = format!("{filling}the needle is in the haystack\n{filling}");
    index.add(1, vec![said(1, &text)]).await.unwrap();
    let hits = index.find(about("needles")).await.unwrap();
    let [hit] = hits.as_slice() else { panic!("{hits:?}") };
    assert!(hit.excerpt.contains("the needle is in the haystack"), "{}", hit.excerpt);
    assert!(hit.excerpt.len() < 1000 && hit.bytes == text.len() as u64);
    assert!(hit.score > 0.0 && hit.at == Timestamp(1000));
    assert!(matches!(hit.source, Source::Event { seq: 1, part: 0, .. }));
}

#[tokio::test]
async fn no_question_is_taken_for_a_command() {
    let world = World::new();
    let index = filled(&world).await;
    let megabyte = "getUserName \"OR\" NEAR(a b, 3) ".repeat(40_000);
    let nested = "(".repeat(100_000);
    let hostile = [
        "\"",
        "\"\"\"",
        "a\" OR \"b",
        "NEAR(",
        "NEAR(get user, 2)",
        "get AND",
        "NOT",
        "OR OR",
        "*",
        "get*",
        "^get",
        "text : get",
        "{names} : get",
        "-get",
        "get + user",
        "\0",
        "get\0user",
        "'; DROP TABLE documents; --",
        "\u{202e}abc\u{200b}",
        "ｆｕｌｌ",
        "\u{1f600}",
        "é".repeat(9).as_str(),
        "...",
        "///",
        "a/b/c//d",
        "--",
        "_",
        megabyte.as_str(),
        nested.as_str(),
    ]
    .map(str::to_owned);
    for words in hostile {
        let short: String = words.chars().take(40).collect();
        let found = index.find(about(&words)).await;
        assert!(found.is_ok_and(|hits| hits.len() <= 10), "{short}");
    }
    assert_eq!(find(&index, Question { limit: usize::MAX, ..about("") }).await.len(), 7);
    assert_eq!(index.reaches().await.unwrap(), 6);
}

/// A large index weighs only texts that have a rare word; the others count too.
#[tokio::test]
async fn common_words_neither_hide_nor_outweigh_rare_ones() {
    let world = World::new();
    let index = world.open().await;
    let text = |seq: u64| match seq {
        1234 => "common usual ordinary marmalade",
        2345 => "marmalade of another kind",
        _ if seq.is_multiple_of(8) => "common ordinary things",
        _ if seq % 8 == 1 => "common usual things",
        _ => "common things",
    };
    let documents = (1..=4000).map(|seq| said(seq, text(seq))).collect();
    index.add(4000, documents).await.unwrap();
    let found = find(&index, about("common usual ordinary marmalade")).await;
    assert_eq!(found.get(..2), Some(&[1234, 2345][..]), "{found:?}");
    assert_eq!(find(&index, about("marmalade common")).await, [2345, 1234], "as if not said");
    // Words that are all common still find something, the later first.
    let found = find(&index, about("common")).await;
    assert!(found.len() == 10 && found.is_sorted_by(|a, b| a > b), "{found:?}");
}
