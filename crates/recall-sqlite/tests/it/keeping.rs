//! What goes in comes out as it was, once.

use cofferdam_recall::{Document, Index, Kind, RecallError, Source};
use cofferdam_types::Timestamp;

use crate::world::{World, about, find, lines, said};

#[tokio::test]
async fn documents_come_back_whole_and_in_their_order() {
    let world = World::new();
    let index = world.open().await;
    assert_eq!(index.reaches().await.unwrap(), 0);
    let kinds = [Kind::User, Kind::Answer, Kind::Call, Kind::Output, Kind::Check];
    let documents: Vec<Document> = kinds
        .iter()
        .zip(0..)
        .map(|(kind, part)| Document {
            source: Source::Event { seq: 7, part, kind: *kind },
            at: Timestamp(1234),
            files: vec![format!("src/b{part}.rs"), "a.rs".to_owned()],
            text: format!("text {part}\r\n\"quotes\" ünïcode \u{1f600}"),
            before: "what was before".to_owned(),
        })
        .collect();
    index.add(9, documents.clone()).await.unwrap();
    assert_eq!(index.read(7).await.unwrap(), documents);
    assert!(index.read(6).await.unwrap().is_empty() && index.read(8).await.unwrap().is_empty());
    assert!(index.read(u64::MAX).await.unwrap().is_empty());
    assert_eq!(index.reaches().await.unwrap(), 9);
}

#[tokio::test]
async fn an_index_that_is_opened_again_has_everything() {
    let world = World::new();
    world.open().await.add(3, vec![said(2, "the harbour is closed")]).await.unwrap();
    let index = world.open().await;
    assert_eq!(index.reaches().await.unwrap(), 3);
    assert_eq!(find(&index, about("harbour")).await, [2]);
}

#[tokio::test]
async fn what_is_there_already_is_not_added_again() {
    let world = World::new();
    let index = world.open().await;
    let both = vec![said(1, "alpha"), said(2, "alpha beta")];
    for _ in 0..3 {
        index.add(2, both.clone()).await.unwrap();
    }
    assert_eq!(find(&index, about("alpha")).await.len(), 2);
    // One that catches up from before has some of it already, and goes never back.
    let more = vec![said(2, "alpha beta"), said(3, "alpha gamma")];
    index.add(3, more).await.unwrap();
    index.add(1, vec![said(1, "alpha")]).await.unwrap();
    assert_eq!(index.reaches().await.unwrap(), 3);
    let mut found = find(&index, about("alpha")).await;
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3]);
    assert_eq!(index.read(2).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_is_replaced_as_a_whole() {
    let world = World::new();
    let index = world.open().await;
    let old = vec![lines("src/a.rs", 1, "fn anchor() {}"), lines("src/a.rs", 11, "fn buoy() {}")];
    index.replace_files([("src/a.rs".to_owned(), old)].into()).await.unwrap();
    let other = vec![lines("src/b.rs", 1, "fn anchor_of_another() {}")];
    index.replace_files([("src/b.rs".to_owned(), other)].into()).await.unwrap();
    assert_eq!(find(&index, about("anchor")).await.len(), 2);

    let new = vec![lines("src/a.rs", 1, "fn compass() {}")];
    index.replace_files([("src/a.rs".to_owned(), new)].into()).await.unwrap();
    assert_eq!(find(&index, about("buoy")).await.len(), 0);
    assert_eq!(find(&index, about("compass")).await.len(), 1);
    let hits = index.find(about("anchor")).await.unwrap();
    let source = Source::File { path: "src/b.rs".to_owned(), first: 1, last: 10 };
    assert_eq!(hits.iter().map(|hit| &hit.source).collect::<Vec<_>>(), [&source]);

    index.replace_files([("src/a.rs".to_owned(), Vec::new())].into()).await.unwrap();
    assert_eq!(find(&index, about("compass")).await.len(), 0);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_whole() {
    let world = World::new();
    let index = world.open().await;
    let mixed = vec![said(1, "alpha"), lines("a.rs", 1, "beta")];
    let refused = index.add(1, mixed).await;
    assert!(matches!(refused, Err(RecallError::Unusable(_))), "{refused:?}");
    let others = vec![lines("a.rs", 1, "beta"), lines("b.rs", 1, "gamma")];
    let refused = index.replace_files([("a.rs".to_owned(), others)].into()).await;
    assert!(matches!(refused, Err(RecallError::Unusable(_))), "{refused:?}");
    assert_eq!(index.reaches().await.unwrap(), 0);
    assert!(find(&index, about("")).await.is_empty(), "all or none");
}
