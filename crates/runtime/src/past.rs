//! A job's log, read piece by piece: however long it has become, only a page of it is
//! held at a time.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam_context::CutMade;
use cofferdam_engine::{ReplayError, Run};
use cofferdam_types::{Event, Record, SandboxId};
use futures_util::future::BoxFuture;

use crate::journal::{self, JournalError};
use crate::log::LogError;

/// Records of a page, where nobody needs fewer.
pub const PAGE: usize = 256;

/// Bytes of a page; one record alone may have more.
const PAGE_BYTES: usize = 4 << 20;

/// Shortenings that are remembered.
const CUTS: usize = 30;

/// Lines between two places of a file that are remembered.
const MARK: u64 = 256;

/// A job's log, to be read.
pub trait Past: Send + Sync {
    /// The records after this number, in their order, at most so many. Where they are
    /// big, fewer, but at least one: only an empty answer means that there is none.
    fn after(&self, seq: u64, most: usize) -> BoxFuture<'_, Result<Vec<Record>, LogError>>;
}

/// Shows every record of a log to somebody, in their order.
///
/// # Errors
/// When it cannot be read.
pub async fn each(past: &dyn Past, mut seen: impl FnMut(&Record) + Send) -> Result<(), LogError> {
    let mut last = 0;
    loop {
        let page = past.after(last, PAGE).await?;
        let Some(end) = page.last() else { return Ok(()) };
        last = end.seq;
        page.iter().for_each(&mut seen);
    }
}

/// A job as its log has it.
#[derive(Debug)]
pub struct Replayed {
    /// Its state.
    pub run: Run,
    /// What else whoever drives it needs to know of its log.
    pub traces: Traces,
}

/// What a drive needs to know of a log that a job's state does not tell.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// The sandbox that the job worked in last.
    pub(crate) last_sandbox: Option<SandboxId>,
    /// The last times that a conversation was shortened.
    pub(crate) cuts: VecDeque<CutMade>,
}

impl Traces {
    /// The sandbox that the job worked in last.
    #[must_use]
    pub fn last_sandbox(&self) -> Option<SandboxId> {
        self.last_sandbox
    }

    /// Takes note of a record.
    pub fn take(&mut self, record: &Record) {
        match &record.event {
            Event::SandboxOpened { sandbox, .. } => self.last_sandbox = Some(*sandbox),
            Event::ContextCut { thread, cut, tokens, .. } => {
                self.cuts.push_back(CutMade::new(record.seq, *thread, cut, *tokens));
                if self.cuts.len() > CUTS {
                    self.cuts.pop_front();
                }
            }
            _ => {}
        }
    }
}

/// Why a log leads to no job.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// It cannot be read.
    #[error("the job's log cannot be read")]
    Unreadable(#[source] LogError),
    /// It is not the log of a job.
    #[error("its log: {0}")]
    Senseless(ReplayError),
}

/// The job that a log leads to. Every record is shown to `seen` as it goes by.
///
/// # Errors
/// When the log cannot be read, or makes no sense.
pub async fn replay(
    past: &dyn Past,
    mut seen: impl FnMut(&Record) + Send,
) -> Result<Replayed, PastError> {
    let mut replaying = Replaying::default();
    let mut problem = None;
    let read = each(past, |record| {
        if problem.is_none() {
            problem = replaying.take(record).err();
            seen(record);
        }
    });
    read.await.map_err(PastError::Unreadable)?;
    match problem {
        Some(problem) => Err(PastError::Senseless(problem)),
        None => replaying.finish().map_err(PastError::Senseless),
    }
}

/// A job whose log is being read, for whoever has it record by record.
#[derive(Debug, Default)]
pub struct Replaying {
    run: Option<Run>,
    traces: Traces,
}

impl Replaying {
    /// Takes in the next record.
    ///
    /// # Errors
    /// When another one should follow.
    pub fn take(&mut self, record: &Record) -> Result<(), ReplayError> {
        self.traces.take(record);
        match &mut self.run {
            Some(run) => run.follow(record),
            None => {
                self.run = Some(Run::begin(record)?);
                Ok(())
            }
        }
    }

    /// The job that the records lead to.
    ///
    /// # Errors
    /// When there were none.
    pub fn finish(self) -> Result<Replayed, ReplayError> {
        let run = self.run.ok_or(ReplayError::Empty)?;
        Ok(Replayed { run, traces: self.traces })
    }
}

/// The log of a job in its file. Others may append to it meanwhile.
#[derive(Clone, Debug)]
pub struct JournalPast {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// Where some records begin: the number of each with its place. A record is a line,
    /// and the first has the number 1.
    marks: Mutex<BTreeMap<u64, u64>>,
}

impl JournalPast {
    /// The log in this file.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let marks = Mutex::new(BTreeMap::from([(1, 0)]));
        Self { shared: Arc::new(Shared { path: path.to_owned(), marks }) }
    }

    /// The records after this number, at most so many; see [`Past::after`].
    ///
    /// # Errors
    /// When they cannot be read or understood.
    pub fn page(&self, seq: u64, most: usize) -> Result<Vec<Record>, JournalError> {
        self.shared.page(seq, most)
    }

    /// Shows every record to somebody, in their order.
    ///
    /// # Errors
    /// When they cannot be read or understood.
    pub fn each(&self, mut seen: impl FnMut(&Record)) -> Result<(), JournalError> {
        let mut last = 0;
        loop {
            let page = self.page(last, PAGE)?;
            if page.is_empty() {
                return Ok(());
            }
            last += page.len() as u64;
            page.iter().for_each(&mut seen);
        }
    }
}

impl Past for JournalPast {
    fn after(&self, seq: u64, most: usize) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let page = tokio::task::spawn_blocking(move || shared.page(seq, most));
            Ok(page.await??)
        })
    }
}

impl Shared {
    fn page(&self, seq: u64, most: usize) -> Result<Vec<Record>, JournalError> {
        let mark = self.mark_before(seq.saturating_add(1));
        match self.page_from(mark, seq, most) {
            // Lines that could not be made durable were taken back after they were seen.
            Err(JournalError::Garbled { .. }) if mark.0 > 1 => {
                *self.marks() = BTreeMap::new();
                self.page_from((1, 0), seq, most)
            }
            page => page,
        }
    }

    fn page_from(
        &self,
        (mut number, mut place): (u64, u64),
        seq: u64,
        most: usize,
    ) -> Result<Vec<Record>, JournalError> {
        let unreadable = |source| journal::failed("read", &self.path, source);
        let wanted = seq.saturating_add(1);
        let mut file = File::open(&self.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start(place)).map_err(unreadable)?;
        let mut reader = BufReader::with_capacity(64 << 10, file);
        let (mut page, mut bytes, mut line) = (Vec::new(), 0, Vec::new());
        while page.len() < most && bytes < PAGE_BYTES {
            let length = match number < wanted {
                true => skip_line(&mut reader),
                false => {
                    line.clear();
                    reader.read_until(b'\n', &mut line).map(|_| whole(&line))
                }
            };
            // What has no end yet is no record.
            let length = length.map_err(unreadable)?;
            if length == 0 {
                break;
            }
            if number >= wanted {
                page.push(self.record(number, &line)?);
                bytes += line.len();
            }
            number += 1;
            place += length as u64;
            if number % MARK == 0 {
                self.marks().insert(number, place);
            }
        }
        Ok(page)
    }

    fn record(&self, number: u64, line: &[u8]) -> Result<Record, JournalError> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let record = journal::record(at, line, &self.path)?;
        if record.seq != number {
            let reason = format!("it is event {}", record.seq);
            return Err(JournalError::Garbled { line: at, path: self.path.clone(), reason });
        }
        Ok(record)
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, u64>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_before(&self, number: u64) -> (u64, u64) {
        self.marks().range(..=number).next_back().map_or((1, 0), |(number, at)| (*number, *at))
    }
}

/// The bytes of a line, if it has its end.
fn whole(line: &[u8]) -> usize {
    if line.ends_with(b"\n") { line.len() } else { 0 }
}

/// The bytes of the next line, which is not kept; none if it has no end.
fn skip_line(reader: &mut impl BufRead) -> io::Result<usize> {
    let mut skipped = 0;
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            return Ok(0);
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        reader.consume(length);
        skipped += length;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_types::Timestamp;

    use super::*;
    use crate::journal::Journal;

    fn note(number: usize) -> Event {
        Event::Noted { text: format!("{number} {}", "x".repeat(number % 700)) }
    }

    fn numbers(page: &[Record]) -> Vec<u64> {
        page.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn a_log_is_read_in_pages_from_anywhere_while_it_grows() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        let past = JournalPast::of(&path);
        assert!(past.page(0, 10).unwrap().is_empty());
        journal.append(Timestamp(1), (1..=2000).map(note).collect()).unwrap();
        assert_eq!(numbers(&past.page(0, 3).unwrap()), [1, 2, 3]);
        assert_eq!(numbers(&past.page(1500, 2).unwrap()), [1501, 1502]);
        // From a mark, and from before all of them.
        for after in [0, 254, 255, 256, 1023, 1998, 1999] {
            assert_eq!(past.page(after, 1).unwrap().first().map(|one| one.seq), Some(after + 1));
        }
        assert!(past.page(2000, 10).unwrap().is_empty());
        assert!(past.page(u64::MAX, 10).unwrap().is_empty());
        journal.append(Timestamp(2), vec![note(2001)]).unwrap();
        assert_eq!(numbers(&past.page(2000, 10).unwrap()), [2001]);
        let mut seen = Vec::new();
        past.each(|record| seen.push(record.seq)).unwrap();
        assert_eq!(seen, (1..=2001).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_that_is_being_written_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        journal.append(Timestamp(1), vec![note(1), note(2)]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let past = JournalPast::of(&path);
        std::fs::write(&path, whole.get(..whole.len() - 4).unwrap()).unwrap();
        assert_eq!(numbers(&past.page(0, 10).unwrap()), [1]);
        assert!(past.page(1, 10).unwrap().is_empty());
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(numbers(&past.page(0, 10).unwrap()), [1, 2]);
    }

    #[test]
    fn a_page_of_big_records_has_few_of_them_and_at_least_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let big = || Event::Noted { text: "x".repeat(PAGE_BYTES) };
        Journal::create(&path).unwrap().append(Timestamp(1), vec![big(), big()]).unwrap();
        assert_eq!(JournalPast::of(&path).page(0, 10).unwrap().len(), 1);
    }
}
