//! Putting the next question together, again and for the first time, and what an event
//! costs when it comes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cofferdam_engine::{Effect, Input, Run, step};
use cofferdam_recall::{Documents, Index as _};
use cofferdam_recall_sqlite::SqliteIndex;
use cofferdam_runtime::Journal;
use cofferdam_tokens::Encoding;
use cofferdam_types::{Event, Message, Record, Role, ThreadId};

use super::context::Scale;
use super::context_history::History;
use super::report::{Table, digits, microseconds, milliseconds};
use super::sample::Samples;

/// Turns whose question is put together, after the history.
const TURNS: usize = 200;

/// Events that are appended, one after the other.
const APPENDED: usize = 200;

/// Ways to count tokens, and a model whose are counted that way.
const COUNTINGS: [(&str, &str); 2] = [("estimated", "anthropic/claude"), ("exact", "openai/gpt-5")];

/// Measures all of it.
pub(super) fn measure(
    scale: &Scale,
    rounds: usize,
    directory: &Path,
) -> anyhow::Result<Vec<Table>> {
    let mut table = Table::new(
        format!("1. The next question after {} tokens", thousands(scale.prompt)),
        &["", "tokens", "median ms", "p95 ms", "longest ms", "samples"],
    );
    let begun = Instant::now();
    std::hint::black_box(Encoding::O200k.count("the first word unpacks its table"));
    let unpacking = begun.elapsed();
    let mut estimated = None;
    for (counting, model) in COUNTINGS {
        let mut history = History::of(scale.prompt * 1000, model)?;
        let path = directory.join(format!("{counting}.jsonl"));
        let (seqs, size) = write(&path, &history.records)?;
        let cold: Result<_, _> = (0..rounds).map(|_| cold(&path, &history)).collect();
        let cold = Samples::of(cold?);
        table.note(format!(
            "{counting}, as of {model}: {} events, {} MiB of log, {} cuts by the time it has that \
             length",
            seqs,
            digits(size as f64 / f64::from(1 << 20)),
            cuts(&history.records)
        ));
        let Warm { plain, cutting } = warm(&mut history)?;
        row(&mut table, ["from what is in memory", counting], plain);
        row(&mut table, ["the same when something is cut", counting], cutting);
        row(&mut table, ["from the log on disk", counting], cold);
        estimated.get_or_insert(history);
    }
    let history = estimated.context("there is no history")?;
    table.note(
        "in memory: the end of a tool is heard, what has to be cut is decided and cut, and the \
         messages of the next question are copied out of the state, as the product does it",
    );
    table.note(
        "from disk: the log is opened, each line read and checked, the state rebuilt, the job taken \
         up, what has to be cut decided, the messages copied out; the file was in the kernel's cache",
    );
    table.note(format!(
        "exact: the model reports no counts, so that all of them are ours. The table of its tokens is \
         unpacked once in a process, before these: {} ms",
        milliseconds(unpacking)
    ));
    Ok(vec![table, append(&history, directory)?])
}

/// The records as a log; how many there are, and its bytes.
fn write(path: &Path, records: &[Record]) -> anyhow::Result<(usize, u64)> {
    let mut journal = Journal::create(path)?;
    for part in records.chunks(512) {
        let at = part.first().context("no event")?.at;
        journal.append(at, part.iter().map(|record| record.event.clone()).collect())?;
    }
    Ok((records.len(), std::fs::metadata(path)?.len()))
}

/// Rebuilds the state from the log and asks it for the next question.
fn cold(path: &Path, history: &History) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut run: Option<Run> = None;
    let mut problem = None;
    let journal = Journal::open(path, |record| {
        let followed = match &mut run {
            Some(run) => run.follow(record),
            None => Run::begin(record).map(|begun| run = Some(begun)),
        };
        problem = problem.take().or(followed.err());
    })?;
    let run = run.context("the log is empty")?;
    let taken_up = history.taken_up(run);
    let messages = question(&taken_up.run, history);
    let taken = begun.elapsed();
    drop(journal);
    anyhow::ensure!(problem.is_none(), "{problem:?}");
    anyhow::ensure!(!messages.is_empty(), "there is no question");
    Ok(taken)
}

fn question(run: &Run, history: &History) -> Vec<Message> {
    run.prompt(&history.settings, ThreadId(0)).messages.into_owned()
}

struct Warm {
    plain: Option<Samples>,
    cutting: Option<Samples>,
}

/// Goes on with the job, and takes the time from the end of a tool to the question.
fn warm(history: &mut History) -> anyhow::Result<Warm> {
    let (mut plain, mut cutting) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let (call, output) = history.answered()?;
        let now = history.now();
        let input = Input::ToolEnded { call, output };
        let begun = Instant::now();
        let step = step(&mut history.run, &history.settings, now, input);
        let messages = question(&history.run, history);
        let taken = begun.elapsed();
        anyhow::ensure!(!messages.is_empty(), "there is no question");
        let cut = step.events.iter().any(|event| matches!(event, Event::ContextCut { .. }));
        let summary = step.effects.iter().any(
            |effect| matches!(effect, Effect::AskModel { role, .. } if *role == Role::Summariser),
        );
        history.take(step);
        if cut || summary {
            cutting.push(taken)
        } else {
            plain.push(taken)
        }
        anyhow::ensure!(!history.open().is_empty(), "the job has come to an end");
    }
    Ok(Warm { plain: Samples::of(plain), cutting: Samples::of(cutting) })
}

fn cuts(records: &[Record]) -> usize {
    records.iter().filter(|record| matches!(record.event, Event::ContextCut { .. })).count()
}

/// What an event costs when it comes: in the log, in the state, in the index.
fn append(history: &History, directory: &Path) -> anyhow::Result<Table> {
    let mut table =
        Table::new("2. One more event", &["", "median µs", "p95 µs", "longest µs", "samples"]);
    let is_long = |record: &&Record| matches!(record.event, Event::ToolEnded { .. });
    let events: Vec<&Record> =
        history.records.iter().rev().filter(is_long).take(APPENDED).collect();
    let mut journal = Journal::create(&directory.join("appended.jsonl"))?;
    let mut log = Vec::new();
    for record in &events {
        let event = record.event.clone();
        let begun = Instant::now();
        journal.append(record.at, vec![event])?;
        log.push(begun.elapsed());
    }
    let state = follow(&history.records)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let index = runtime.block_on(async {
        let index = SqliteIndex::open(directory.join("appended.db")).await?;
        let mut documents = Documents::new();
        let mut times = Vec::new();
        for (seq, record) in (1..).zip(&events) {
            let record = Record { seq, ..Record::clone(record) };
            let begun = Instant::now();
            index.add(seq, documents.of(&record)).await?;
            times.push(begun.elapsed());
        }
        anyhow::Ok(times)
    })?;
    for (name, times) in
        [("in the log, durable", log), ("in the state", state), ("in the index", index)]
    {
        match Samples::of(times) {
            Some(times) => table.row([
                name.to_owned(),
                microseconds(times.median()),
                microseconds(times.p95()),
                microseconds(times.longest()),
                times.count().to_string(),
            ]),
            None => table.absent(name, "there was nothing to add"),
        }
    }
    table.note(
        "log and index: the end of a tool with 12 KB of output, one after the other; state: every \
         event of the history, cuts as well",
    );
    Ok(table)
}

/// The time that each event takes to become part of the state.
fn follow(records: &[Record]) -> anyhow::Result<Vec<Duration>> {
    let (first, rest) = records.split_first().context("no event")?;
    let mut run = Run::begin(first)?;
    let mut times = Vec::new();
    for record in rest {
        let begun = Instant::now();
        run.follow(record)?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

fn row(table: &mut Table, [name, counting]: [&str; 2], times: Option<Samples>) {
    match times {
        Some(times) => table.row([
            name.to_owned(),
            counting.to_owned(),
            milliseconds(times.median()),
            milliseconds(times.p95()),
            milliseconds(times.longest()),
            times.count().to_string(),
        ]),
        None => table.absent(name, "it did not come up"),
    }
}

/// A number of thousands as people write it.
pub(super) fn thousands(number: u64) -> String {
    match number {
        0..1000 => format!("{number},000"),
        _ => format!("{},{:03},000", number / 1000, number % 1000),
    }
}
