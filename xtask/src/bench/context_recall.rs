//! Finding again what was let go: how long it takes, and how often it is found.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use cofferdam_recall::{Document, Documents, Index as _, Question, Source};
use cofferdam_recall_sqlite::SqliteIndex;
use cofferdam_testkit::needles::{self, Session};
use rusqlite::Connection;

use super::context::{BYTES_A_TOKEN, Scale};
use super::context_prompt::thousands;
use super::report::{Table, digits, milliseconds};
use super::sample::Samples;

/// What every history begins from.
const SEED: u64 = 5;

/// Turns of a history that is made to see how long turns are.
const TASTE: usize = 2_000;

/// Hits that are asked for.
const LIMIT: usize = 10;

/// Documents that are added at once.
const PORTION: usize = 500;

/// How many facts are among the first five, and ten.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    five: usize,
    ten: usize,
}

impl Found {
    fn count(&mut self, seq: u64, hits: &[u64]) {
        self.five += usize::from(hits.iter().take(5).any(|hit| *hit == seq));
        self.ten += usize::from(hits.iter().take(10).any(|hit| *hit == seq));
    }
}

/// Measures both.
pub(super) async fn measure(
    scale: &Scale,
    rounds: usize,
    directory: &Path,
) -> anyhow::Result<Vec<Table>> {
    let session = session(scale);
    let documents = documents(&session);
    let bytes: usize = documents.iter().map(|document| document.text.len()).sum();
    let path = directory.join("recall.db");
    let index = SqliteIndex::open(&path).await?;
    let begun = Instant::now();
    for part in documents.chunks(PORTION) {
        let Some(Source::Event { seq, .. }) = part.last().map(|last| &last.source) else {
            continue;
        };
        // The rest of an event that was cut in two comes again, and is not added twice.
        index.add(seq.saturating_sub(1), part.to_vec()).await?;
    }
    index.add(session.records.len() as u64, Vec::new()).await?;
    let built = begun.elapsed();
    let mut times = Vec::new();
    let mut ours = Found::default();
    for round in 0..rounds.div_ceil(4) {
        for needle in &session.needles {
            let question = about(&needle.question);
            let begun = Instant::now();
            let hits = index.find(question).await?;
            times.push(begun.elapsed());
            if round == 0 {
                let hits = hits.iter().filter_map(|hit| seq(&hit.source));
                ours.count(needle.seq, &hits.collect::<Vec<u64>>());
            }
        }
    }
    let times = Samples::of(times).context("nothing was looked for")?;
    let mut speed = Table::new(
        format!("3. Finding again in {} tokens", thousands(scale.recall)),
        &["", "median ms", "p95 ms", "longest ms", "samples"],
    );
    speed.row([
        "ten hits with excerpts".to_owned(),
        milliseconds(times.median()),
        milliseconds(times.p95()),
        milliseconds(times.longest()),
        times.count().to_string(),
    ]);
    let size = std::fs::metadata(&path)?.len();
    speed.note(format!(
        "{} documents, {} MiB of text, {} MiB of index, all of it added in {} s",
        documents.len(),
        digits(bytes as f64 / f64::from(1 << 20)),
        digits(size as f64 / f64::from(1 << 20)),
        digits(built.as_secs_f64())
    ));
    Ok(vec![speed, quality(&session, &documents, ours)?])
}

fn quality(session: &Session, documents: &[Document], ours: Found) -> anyhow::Result<Table> {
    let plain = Plain::new(documents)?;
    let (mut searched, mut recent) = (Found::default(), Found::default());
    let latest: Vec<u64> =
        documents.iter().rev().filter_map(|document| seq(&document.source)).take(LIMIT).collect();
    for needle in &session.needles {
        searched.count(needle.seq, &plain.find(&needle.question)?);
        recent.count(needle.seq, &latest);
    }
    let all = session.needles.len();
    let mut table = Table::new("4. How often it is found", &["", "recall@5", "recall@10", "facts"]);
    let share = |found: usize| format!("{:.3}", found as f64 / all.max(1) as f64);
    for (name, found) in
        [("ours", ours), ("plain FTS5, whole texts", searched), ("the latest", recent)]
    {
        table.row([name.to_owned(), share(found.five), share(found.ten), all.to_string()]);
    }
    table.note(
        "facts of twelve kinds, planted at every depth of a generated code session and asked for in \
         other words; the rest of the log has the same words in other company",
    );
    Ok(table)
}

/// A history of the length that is wanted.
fn session(scale: &Scale) -> Session {
    let taste = documents(&needles::session(SEED, TASTE, 0));
    let bytes: usize = taste.iter().map(|document| document.text.len()).sum();
    let a_turn = (bytes / TASTE).max(1);
    let wanted = usize::try_from(scale.recall * 1000 * BYTES_A_TOKEN).unwrap_or(usize::MAX);
    // Turns are not all alike: a little more, so that it is not less.
    needles::session(SEED, wanted / a_turn * 21 / 20, scale.needles)
}

fn documents(session: &Session) -> Vec<Document> {
    let mut documents = Documents::new();
    session.records.iter().flat_map(|record| documents.of(record)).collect()
}

fn seq(source: &Source) -> Option<u64> {
    match source {
        Source::Event { seq, .. } => Some(*seq),
        Source::File { .. } => None,
    }
}

fn about(words: &str) -> Question {
    Question {
        words: words.to_owned(),
        file: None,
        from: None,
        to: None,
        through: None,
        workspace: true,
        limit: LIMIT,
    }
}

/// SQLite's full-text search as it comes.
struct Plain {
    connection: Connection,
}

impl Plain {
    fn new(documents: &[Document]) -> anyhow::Result<Self> {
        let mut connection = Connection::open_in_memory()?;
        connection.execute_batch("CREATE VIRTUAL TABLE plain USING fts5 (text, seq UNINDEXED)")?;
        let all = connection.transaction()?;
        for document in documents {
            let Some(seq) = seq(&document.source) else { continue };
            let row = (document.text.as_str(), i64::try_from(seq)?);
            all.execute("INSERT INTO plain VALUES (?1, ?2)", row)?;
        }
        all.commit()?;
        Ok(Self { connection })
    }

    /// The events that fit best: any of the words, each in quotes.
    fn find(&self, question: &str) -> anyhow::Result<Vec<u64>> {
        let words = question.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: Vec<String> =
            words.filter(|word| !word.is_empty()).map(|word| format!("\"{word}\"")).collect();
        let mut statement = self
            .connection
            .prepare_cached("SELECT seq FROM plain WHERE plain MATCH ?1 ORDER BY rank LIMIT 10")?;
        let rows = statement.query_map([words.join(" OR ")], |row| row.get::<_, i64>(0))?;
        rows.map(|seq| Ok(u64::try_from(seq?)?)).collect()
    }
}
