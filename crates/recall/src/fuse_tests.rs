//! Two opinions in one list.

use cofferdam_types::Timestamp;

use super::*;
use crate::index::{Document, Kind, Source};

fn hit(seq: u64, excerpt: &str) -> Hit {
    Hit {
        source: Source::Event { seq, part: 0, kind: Kind::Answer },
        at: Timestamp(seq),
        score: 0.0,
        excerpt: excerpt.to_owned(),
        bytes: 1,
    }
}

fn order(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|hit| hit.at.0).collect()
}

/// Has what it was made with, in that order.
struct List(Vec<Hit>);

impl Index for List {
    fn reaches(&self) -> BoxFuture<'_, Result<u64, RecallError>> {
        Box::pin(async { Ok(0) })
    }

    fn add(&self, _: u64, _: Vec<Document>) -> BoxFuture<'_, Result<(), RecallError>> {
        Box::pin(async { Ok(()) })
    }

    fn replace_files(
        &self,
        _: std::collections::BTreeMap<String, Vec<Document>>,
    ) -> BoxFuture<'_, Result<(), RecallError>> {
        Box::pin(async { Ok(()) })
    }

    fn find(&self, question: Question) -> BoxFuture<'_, Result<Vec<Hit>, RecallError>> {
        Box::pin(async move { Ok(self.0.iter().take(question.limit).cloned().collect()) })
    }

    fn read(&self, _: u64) -> BoxFuture<'_, Result<Vec<Document>, RecallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// What a text means is how many of its letters are an `x`.
struct Letters;

impl Embed for Letters {
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, RecallError>> {
        let vector = |text: &String| {
            let x = u16::try_from(text.matches('x').count()).unwrap();
            vec![f32::from(x), 1.0]
        };
        let vectors = texts.iter().map(vector).collect();
        Box::pin(async move { Ok(vectors) })
    }
}

/// Answers with too few vectors, of no length, or not at all.
struct Useless(Result<Vec<Vec<f32>>, &'static str>);

impl Embed for Useless {
    fn embed(&self, _: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, RecallError>> {
        let answer = self.0.clone().map_err(|reason| RecallError::Unusable(reason.to_owned()));
        Box::pin(async move { answer })
    }
}

fn question(limit: usize) -> Question {
    let words = "xxxxxxxx".to_owned();
    Question { words, file: None, from: None, to: None, through: None, workspace: false, limit }
}

#[test]
fn meaning_moves_a_hit_a_little_and_never_adds_one() {
    let hits: Vec<Hit> = (1..=20).map(|seq| hit(seq, "")).collect();
    let as_it_was: Vec<u64> = (1..=20).collect();
    assert_eq!(order(&fuse(hits.clone(), &[], 20)), as_it_was);
    // The last by words and first by meaning gains places, and is not the first now.
    let other: Vec<usize> = std::iter::once(19).chain(0..19).collect();
    let mixed = order(&fuse(hits.clone(), &other, 20));
    let place = mixed.iter().position(|seq| *seq == 20).unwrap();
    assert!((5..19).contains(&place), "{mixed:?}");
    assert_eq!(mixed.len(), 20);
    assert_eq!(order(&fuse(hits.clone(), &[99, 99], 20)), as_it_was);
    assert_eq!(order(&fuse(hits, &[], 2)), [1, 2]);
}

#[tokio::test]
async fn an_embedder_changes_the_order_and_none_changes_nothing() {
    let text = |seq| if seq == 25 { "xxxxxxxx" } else { "a" };
    let index = List((1..=30).map(|seq| hit(seq, text(seq))).collect());
    let plain = find(&index, None, question(20)).await.unwrap();
    assert!(order(&plain).into_iter().eq(1..=20));
    let mixed = order(&find(&index, Some(&Letters), question(20)).await.unwrap());
    assert!(mixed.contains(&25), "it is looked for beyond the limit: {mixed:?}");
    assert_eq!((mixed.len(), mixed.first()), (20, Some(&1)));
}

#[tokio::test]
async fn an_embedder_that_is_of_no_use_costs_its_opinion_only() {
    let index = List(vec![hit(1, "a"), hit(2, "b")]);
    let nan = vec![vec![f32::NAN]; 3];
    for answer in [Err("gone"), Ok(Vec::new()), Ok(vec![Vec::new(); 3]), Ok(nan)] {
        let found = find(&index, Some(&Useless(answer)), question(5)).await.unwrap();
        assert_eq!(order(&found), [1, 2]);
    }
}
