//! Embedders, good and bad, behind a recall.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use cofferdam_recall::{Document, Hit, Index, Kind, Question, Source};
use cofferdam_types::{Record, Timestamp, ToolStatus};
use serde_json::json;

use super::super::{Indexes, Memory};
use super::*;
use crate::log::LogError;
use crate::past::Past;

/// A log without anything.
struct Nothing;

impl Past for Nothing {
    fn after(&self, _: u64, _: usize) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// An index that finds notes 1 to 30, whatever is looked for.
struct Notes;

impl Index for Notes {
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
        let hit = |seq: u64| Hit {
            source: Source::Event { seq, part: 0, kind: Kind::Output },
            at: Timestamp(seq),
            score: 1.0,
            excerpt: format!("note {seq} about the quokka"),
            bytes: 20,
        };
        let hits = (1..=30).map(hit).take(question.limit).collect();
        Box::pin(async move { Ok(hits) })
    }

    fn read(&self, _: u64) -> BoxFuture<'_, Result<Vec<Document>, RecallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

struct Found;

impl Indexes for Found {
    fn open(&self, _: PathBuf) -> BoxFuture<'_, Result<Arc<dyn Index>, RecallError>> {
        let index: Arc<dyn Index> = Arc::new(Notes);
        Box::pin(async move { Ok(index) })
    }
}

/// What an embedder does.
#[derive(Clone, Copy)]
enum Manner {
    /// Says that note 20 is what is meant.
    Good,
    Failing,
    Stuck,
    /// Forgets the last text.
    Short,
}

/// Does that, and counts how often it is asked, for how many texts in all.
struct Scripted {
    manner: Mutex<Manner>,
    asked: AtomicUsize,
    texts: AtomicUsize,
}

impl Scripted {
    fn new(manner: Manner) -> Arc<Self> {
        let (asked, texts) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { manner: Mutex::new(manner), asked, texts })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Embed for Scripted {
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, RecallError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        let manner = *self.manner.lock().unwrap();
        let meant = |text: &String| text.contains("note 20 ") || text == "which one";
        let vector = |text| if meant(text) { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(vector).collect();
        Box::pin(async move {
            match manner {
                Manner::Good => {}
                Manner::Short => drop(vectors.pop()),
                Manner::Failing => {
                    return Err(RecallError::Embedder("a test wants that".to_owned()));
                }
                Manner::Stuck => std::future::pending().await,
            }
            Ok(vectors)
        })
    }
}

fn memory(embedder: Option<Arc<Scripted>>) -> (tempfile::TempDir, Memory) {
    let place = tempfile::tempdir().unwrap();
    let memory = Memory::new(Arc::new(Nothing), Arc::new(Found), place.path().to_owned());
    let embedder = embedder.map(|embedder| embedder as Arc<dyn Embed>);
    (place, memory.with_embedder(embedder))
}

/// The numbers of the notes that are found, in their order.
async fn found(memory: &Memory) -> Vec<u64> {
    let arguments = json!({ "query": "which one", "limit": 20 });
    let now = Timestamp(1_750_000_000_000);
    let output = memory.recall(None, arguments.as_object().unwrap(), now, u64::MAX).await;
    let text = output.plain_text();
    assert_eq!(output.status, ToolStatus::Done, "{text}");
    let lines = text.lines().filter_map(|line| line.split_once(". #"));
    lines.filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_meant_comes_earlier_and_an_offer_asks_nobody() {
    let (_place, plain) = memory(None);
    let by_words: Vec<u64> = (1..=20).collect();
    assert_eq!(found(&plain).await, by_words);
    let embedder = Scripted::new(Manner::Good);
    let (_place, memory) = memory(Some(Arc::clone(&embedder)));
    let mixed = found(&memory).await;
    let place = mixed.iter().position(|seq| *seq == 20).unwrap();
    assert!((5..15).contains(&place), "{mixed:?}");
    let others: Vec<u64> = mixed.into_iter().filter(|seq| *seq != 20).collect();
    assert_eq!(others.len(), 19);
    assert!(others.is_sorted(), "{others:?}");
    // The question and what was found, nothing in advance.
    assert_eq!((embedder.asked(), embedder.texts.load(Ordering::SeqCst)), (1, 31));
    assert!(memory.offer("a note about the quokka", 40).await.contains("#1 output"));
    assert_eq!(embedder.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_embedder_that_gives_no_good_answer_costs_its_opinion_only() {
    let by_words: Vec<u64> = (1..=20).collect();
    for (manner, waits) in [
        (Manner::Failing, Duration::ZERO),
        (Manner::Stuck, PATIENCE),
        (Manner::Short, Duration::ZERO),
    ] {
        let embedder = Scripted::new(manner);
        let (_place, memory) = memory(Some(embedder));
        let begun = Instant::now();
        assert_eq!(found(&memory).await, by_words);
        assert!(begun.elapsed() <= waits + Duration::from_millis(10), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_is_left_alone_for_a_while() {
    for manner in [Manner::Failing, Manner::Stuck] {
        let embedder = Scripted::new(manner);
        let (_place, memory) = memory(Some(Arc::clone(&embedder)));
        for _ in 0..5 {
            found(&memory).await;
        }
        assert_eq!(embedder.asked(), 1);
        *embedder.manner.lock().unwrap() = Manner::Good;
        tokio::time::advance(REST).await;
        assert_ne!(found(&memory).await, (1..=20).collect::<Vec<u64>>());
        found(&memory).await;
        assert_eq!(embedder.asked(), 3);
    }
}
