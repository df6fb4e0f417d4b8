//! How much of what was planted is found again.

use std::collections::BTreeMap;

use cofferdam_recall::{Document, Index, Question};
use cofferdam_testkit::needles::{self, Session};

use crate::plain::{Plain, latest};
use crate::world::{World, about, documents, find};

/// How many of the facts are among the first so many hits.
#[derive(Debug, Default)]
struct Found {
    in_5: usize,
    in_10: usize,
    missed: BTreeMap<&'static str, usize>,
}

impl Found {
    fn count(&mut self, kind: &'static str, seq: u64, found: &[u64]) {
        self.in_5 += usize::from(found.iter().take(5).any(|other| *other == seq));
        self.in_10 += usize::from(found.iter().take(10).any(|other| *other == seq));
        if !found.contains(&seq) {
            *self.missed.entry(kind).or_default() += 1;
        }
    }
}

async fn ours(session: &Session, documents: Vec<Document>) -> Found {
    let world = World::new();
    let index = world.open().await;
    index.add(session.records.len() as u64, documents).await.unwrap();
    let mut found = Found::default();
    for needle in &session.needles {
        let hits = find(&index, Question { limit: 10, ..about(&needle.question) }).await;
        found.count(needle.kind, needle.seq, &hits);
    }
    found
}

#[tokio::test]
async fn what_was_planted_is_found_again_far_more_often_than_by_plain_search() {
    let session = needles::session(11, 900, 150);
    let documents = documents(&session);
    let (mut plain, mut recent) = (Found::default(), Found::default());
    let search = Plain::new(&documents).unwrap();
    for needle in &session.needles {
        plain.count(needle.kind, needle.seq, &search.find(&needle.question, 10).unwrap());
        recent.count(needle.kind, needle.seq, &latest(&documents, 10));
    }
    let ours = ours(&session, documents).await;

    println!("ours {ours:?}\nplain {plain:?}\nlatest {recent:?}");
    assert!(ours.in_10 >= 140, "{ours:?}");
    assert!(ours.in_5 >= 132, "{ours:?}");
    assert!(ours.in_10 >= plain.in_10 + 45, "ours {ours:?}, plain {plain:?}");
    assert!(ours.in_10 >= recent.in_10 + 120, "ours {ours:?}, latest {recent:?}");
}
