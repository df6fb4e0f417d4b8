//! What a memory promises whatever becomes of its index.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use cofferdam_recall::Document;
use cofferdam_recall_sqlite::SqliteIndex;
use cofferdam_types::{Event, LOG_VERSION, Record};
use serde_json::json;

use super::*;

/// A log in memory, that counts how much of it was read.
struct Held {
    records: Vec<Record>,
    read: AtomicUsize,
}

impl Held {
    fn of(texts: impl IntoIterator<Item = String>) -> Arc<Self> {
        let event = |text: String| Event::UserSaid { text };
        let record =
            |(seq, text)| Record { v: LOG_VERSION, seq, at: Timestamp(seq), event: event(text) };
        let records = (1..).zip(texts).map(record).collect();
        Arc::new(Self { records, read: AtomicUsize::new(0) })
    }
}

impl Past for Held {
    fn after(&self, seq: u64, most: usize) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        let page: Vec<Record> =
            self.records.iter().filter(|record| record.seq > seq).take(most).cloned().collect();
        self.read.fetch_add(page.len(), Ordering::SeqCst);
        Box::pin(async move { Ok(page) })
    }
}

struct Sqlite;

impl Indexes for Sqlite {
    fn open(&self, path: PathBuf) -> BoxFuture<'_, Result<Arc<dyn Index>, RecallError>> {
        Box::pin(async move {
            let index: Arc<dyn Index> = Arc::new(SqliteIndex::open(path).await?);
            Ok(index)
        })
    }
}

/// Never comes to an end.
struct Stuck;

impl Indexes for Stuck {
    fn open(&self, _: PathBuf) -> BoxFuture<'_, Result<Arc<dyn Index>, RecallError>> {
        Box::pin(std::future::pending())
    }
}

/// An index that turns out to be broken so often, and is like new then.
struct Brittle {
    index: Arc<dyn Index>,
    breaks: AtomicUsize,
}

impl Brittle {
    fn breaks(&self) -> Result<(), RecallError> {
        let left = self
            .breaks
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(RecallError::Stale("a test wants that".to_owned())),
            Err(_) => Ok(()),
        }
    }
}

impl Index for Brittle {
    fn reaches(&self) -> BoxFuture<'_, Result<u64, RecallError>> {
        self.index.reaches()
    }

    fn add(
        &self,
        through: u64,
        documents: Vec<Document>,
    ) -> BoxFuture<'_, Result<(), RecallError>> {
        self.index.add(through, documents)
    }

    fn replace_files(
        &self,
        files: BTreeMap<String, Vec<Document>>,
    ) -> BoxFuture<'_, Result<(), RecallError>> {
        self.index.replace_files(files)
    }

    fn find(&self, question: Question) -> BoxFuture<'_, Result<Vec<Hit>, RecallError>> {
        match self.breaks() {
            Ok(()) => self.index.find(question),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    fn read(&self, seq: u64) -> BoxFuture<'_, Result<Vec<Document>, RecallError>> {
        self.index.read(seq)
    }
}

/// Opens that one again and again.
struct Same(Arc<Brittle>);

impl Indexes for Same {
    fn open(&self, _: PathBuf) -> BoxFuture<'_, Result<Arc<dyn Index>, RecallError>> {
        let index: Arc<dyn Index> = self.0.clone();
        Box::pin(async move { Ok(index) })
    }
}

const NOW: Timestamp = Timestamp(1_750_000_000_000);

async fn recall(memory: &Memory, arguments: Value) -> ToolOutput {
    memory.recall(None, arguments.as_object().unwrap(), NOW, u64::MAX).await
}

fn some_texts(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("note {number} about the quokka_{number} file")).collect()
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_stuck_costs_an_offer_and_says_so_to_who_asks() {
    let place = tempfile::tempdir().unwrap();
    let past = Held::of(some_texts(3));
    let memory = Memory::new(past, Arc::new(Stuck), place.path().join("job"));
    let begun = tokio::time::Instant::now();
    assert_eq!(memory.offer("quokka_2 file", 3).await, "");
    assert!(begun.elapsed() <= OFFERING + Duration::from_millis(10));
    let begun = tokio::time::Instant::now();
    let output = recall(&memory, json!({ "query": "quokka" })).await;
    assert!(begun.elapsed() <= RECALLING + Duration::from_millis(10));
    assert_eq!(output.status, ToolStatus::Failed);
    assert!(output.plain_text().contains("no answer within 20 s"), "{}", output.plain_text());
    // What the log has needs no index.
    let output = recall(&memory, json!({ "id": 2 })).await;
    assert!(output.plain_text().contains("note 2 about"), "{}", output.plain_text());
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_told_and_the_log_is_read_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let memory = Memory::new(Held::of(some_texts(3)), Arc::new(Sqlite), file.join("job"));
    assert_eq!(memory.offer("quokka_2 file", 3).await, "");
    let output = recall(&memory, json!({ "query": "quokka" })).await;
    assert_eq!(output.status, ToolStatus::Failed);
    assert!(output.plain_text().contains("By `id` it works"), "{}", output.plain_text());
    assert_eq!(recall(&memory, json!({ "id": 3 })).await.status, ToolStatus::Done);
}

#[tokio::test]
async fn filling_goes_on_from_where_it_was_left_by_whoever_did_not_wait() {
    let place = tempfile::tempdir().unwrap();
    let past = Held::of(some_texts(1_000));
    let memory = Memory::new(past.clone(), Arc::new(Sqlite), place.path().to_owned());
    // Left after a few batches, wherever that is.
    let left = tokio::select! {
        biased;
        () = async { while past.read.load(Ordering::SeqCst) < 300 { tokio::task::yield_now().await } } => true,
        () = memory.fill() => false,
    };
    assert!(left);
    let output = recall(&memory, json!({ "query": "quokka_987" })).await;
    assert!(output.plain_text().starts_with("1. #987 user"), "{}", output.plain_text());
    let all = past.read.load(Ordering::SeqCst);
    assert!(all < 1_300, "{all}: it began anew");
    // And by the next process, which reads little again.
    drop(memory);
    past.read.store(0, Ordering::SeqCst);
    let memory = Memory::new(past.clone(), Arc::new(Sqlite), place.path().to_owned());
    let output = recall(&memory, json!({ "query": "quokka_12" })).await;
    assert!(output.plain_text().starts_with("1. #12 user"), "{}", output.plain_text());
    assert!(past.read.load(Ordering::SeqCst) <= 64);
}

#[tokio::test]
async fn one_that_breaks_is_filled_again_once() {
    let place = tempfile::tempdir().unwrap();
    let index = Sqlite.open(place.path().join("index")).await.unwrap();
    for (breaks, status) in [(1, ToolStatus::Done), (2, ToolStatus::Failed)] {
        let index = Arc::clone(&index);
        let brittle = Arc::new(Brittle { index, breaks: AtomicUsize::new(breaks) });
        let indexes = Arc::new(Same(brittle));
        let memory = Memory::new(Held::of(some_texts(9)), indexes, place.path().to_owned());
        let output = recall(&memory, json!({ "query": "quokka_7" })).await;
        assert_eq!(output.status, status, "{}", output.plain_text());
    }
}

#[tokio::test]
async fn what_is_found_is_bounded_and_not_about_the_question_itself() {
    let place = tempfile::tempdir().unwrap();
    let texts = (0..200).map(|number| format!("quokka {number} {}", "long ".repeat(400)));
    let memory = Memory::new(Held::of(texts), Arc::new(Sqlite), place.path().to_owned());
    let arguments = json!({ "query": "quokka", "limit": 20 });
    let output = memory.recall(None, arguments.as_object().unwrap(), NOW, 150).await;
    let text = output.plain_text();
    assert!(text.len() < 13_000, "{}", text.len());
    let found = text.lines().filter_map(|line| line.split_once(". #"));
    let found: Vec<u64> =
        found.filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok()).collect();
    assert!(found.len() > 10 && found.iter().all(|seq| *seq <= 150), "{found:?}");
}
