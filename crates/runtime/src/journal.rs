//! A job's log in a file: one JSON record a line, appended and never changed.
//!
//! A record is on disk when [`Journal::append`] returns. A line that a crash left
//! half written is no record; it is cut off before anything is appended. One
//! process at a time can hold a journal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cofferdam_types::{Event, LOG_VERSION, Record, Timestamp};
use rustix::fs::FlockOperation;

/// A job's log, open for appending.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    next: u64,
}

/// Why a log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be used.
    #[error("cannot {act} {path}")]
    File {
        /// What could not be done.
        act: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process drives the job.
    #[error("{path} is in use: another process works on this job")]
    Busy {
        /// Which file.
        path: PathBuf,
    },
    /// A line is no record.
    #[error("line {line} of {path} is no record of a job: {reason}")]
    Garbled {
        /// Which line.
        line: usize,
        /// Of which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Journal {
    /// Begins a log. The file must not be there yet.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| failed("create", path, source))?;
        lock(&file, path)?;
        // The file's name is as durable as what will be in it.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))
            .and_then(|directory| directory.sync_all())
            .map_err(|source| failed("create", path, source))?;
        Ok(Self { file, path: path.to_owned(), next: 1 })
    }

    /// Opens a log to go on with it, and shows every record in it to `seen`.
    ///
    /// # Errors
    /// When another process holds it, or it cannot be read or understood.
    pub fn open(path: &Path, seen: impl FnMut(&Record)) -> Result<Self, JournalError> {
        let file = OpenOptions::new().read(true).append(true).open(path);
        let mut file = file.map_err(|source| failed("open", path, source))?;
        lock(&file, path)?;
        let (last, whole) = walk(&file, path, seen)?;
        let length = file.metadata().map_err(|source| failed("read", path, source))?.len();
        if whole < length {
            file.set_len(whole)
                .and_then(|()| file.seek(SeekFrom::End(0)))
                .and_then(|_| file.sync_all())
                .map_err(|source| failed("repair", path, source))?;
        }
        Ok(Self { file, path: path.to_owned(), next: last + 1 })
    }

    /// Reads a log without taking it.
    ///
    /// # Errors
    /// When it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Vec<Record>, JournalError> {
        let file = File::open(path).map_err(|source| failed("read", path, source))?;
        let mut records = Vec::new();
        walk(&file, path, |record| records.push(record.clone()))?;
        Ok(records)
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends events and makes them durable, all or none.
    ///
    /// # Errors
    /// When the disk does not take them; the log is then as it was.
    pub fn append(
        &mut self,
        at: Timestamp,
        events: Vec<Event>,
    ) -> Result<Vec<Record>, JournalError> {
        let mut lines = Vec::new();
        let mut records = Vec::with_capacity(events.len());
        for (seq, event) in (self.next..).zip(events) {
            let record = Record { v: LOG_VERSION, seq, at, event };
            serde_json::to_writer(&mut lines, &record)
                .map_err(|error| failed("write", &self.path, error.into()))?;
            lines.push(b'\n');
            records.push(record);
        }
        if records.is_empty() {
            return Ok(records);
        }
        let length = self.file.metadata().map(|about| about.len());
        let written = length.and_then(|length| {
            self.file.write_all(&lines).and_then(|()| self.file.sync_data()).inspect_err(|_| {
                // Half a batch is no batch. If even this fails, the half line is
                // cut off by whoever opens the log next.
                self.file.set_len(length).ok();
            })
        });
        written.map_err(|source| failed("write", &self.path, source))?;
        self.next += records.len() as u64;
        Ok(records)
    }
}

pub(crate) fn failed(act: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::File { act, path: path.to_owned(), source }
}

fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(JournalError::Busy { path: path.to_owned() }),
        Err(error) => Err(failed("lock", path, error.into())),
    }
}

/// Shows the records of a file to somebody. The number of the last, and the bytes of all:
/// what follows the last new line was never finished.
fn walk(
    file: &File,
    path: &Path,
    mut seen: impl FnMut(&Record),
) -> Result<(u64, u64), JournalError> {
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let (mut last, mut whole, mut line) = (0, 0, Vec::new());
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        read.map_err(|source| failed("read", path, source))?;
        if !line.ends_with(b"\n") {
            break;
        }
        let record = record(number, &line, path)?;
        last = record.seq;
        whole += line.len() as u64;
        seen(&record);
    }
    Ok((last, whole))
}

/// The record of a line.
pub(crate) fn record(number: usize, line: &[u8], path: &Path) -> Result<Record, JournalError> {
    serde_json::from_slice(line).map_err(|error| JournalError::Garbled {
        line: number,
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Event {
        Event::Noted { text: text.to_owned() }
    }

    #[test]
    fn what_was_appended_is_read_again_in_its_order() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        journal.append(Timestamp(1), vec![note("a"), note("b")]).unwrap();
        drop(journal);
        let mut seen = 0;
        let mut journal = Journal::open(&path, |_| seen += 1).unwrap();
        assert_eq!(seen, 2);
        let added = journal.append(Timestamp(2), vec![note("c")]).unwrap();
        assert_eq!(added[0].seq, 3);
        assert_eq!(Journal::read(&path).unwrap().len(), 3);
    }

    #[test]
    fn a_half_written_line_is_cut_off() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        Journal::create(&path).unwrap().append(Timestamp(1), vec![note("a")]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 1..whole.len() {
            let mut torn = whole.clone();
            torn.extend_from_slice(&whole[..cut]);
            // A line without its end is torn, however much of it is there.
            torn.truncate(whole.len() + cut.min(whole.len() - 1));
            std::fs::write(&path, &torn).unwrap();
            let mut seen = 0;
            let mut journal = Journal::open(&path, |_| seen += 1).unwrap();
            assert_eq!(seen, 1);
            journal.append(Timestamp(2), vec![note("b")]).unwrap();
            assert_eq!(Journal::read(&path).unwrap().len(), 2);
        }
    }

    #[test]
    fn one_process_at_a_time_holds_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let held = Journal::create(&path).unwrap();
        assert!(matches!(Journal::open(&path, |_| {}), Err(JournalError::Busy { .. })));
        drop(held);
        Journal::open(&path, |_| {}).unwrap();
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        let error = Journal::read(&path).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
