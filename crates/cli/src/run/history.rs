//! The transcripts of jobs: `history/YYYYMMDD-HHMMSS.jsonl`, one for each.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use cofferdam_runtime::{Journal, JournalError};
use cofferdam_types::{Event, JobId, Record};

/// The first line of a transcript holds the job, whose task is not longer than
/// [`super::LONGEST_TASK`]; in JSON a byte may take six.
const FIRST_LINE: u64 = 7 * super::LONGEST_TASK as u64;

/// Jobs begun in the same second that are told apart.
const SAME_SECOND: u32 = 1000;

/// The transcripts of all jobs.
pub(crate) struct History {
    directory: PathBuf,
}

/// Why there is no such transcript.
pub(crate) enum NotFound {
    /// No job has this name.
    None,
    /// Several have.
    Several(Vec<JobId>),
    /// The directory cannot be read.
    Unreadable(io::Error),
}

impl History {
    /// Those of the product whose files are in `home`.
    pub(crate) fn of(home: &Path) -> Self {
        Self { directory: home.join("history") }
    }

    /// Begins a transcript, named after this moment.
    pub(crate) fn begin(&self, moment: &str) -> Result<Journal, JournalError> {
        make_private(&self.directory).map_err(|source| JournalError::File {
            act: "make the directory",
            path: self.directory.clone(),
            source,
        })?;
        let mut number = 1;
        loop {
            let name = match number {
                1 => format!("{moment}.jsonl"),
                _ => format!("{moment}-{number}.jsonl"),
            };
            match Journal::create(&self.directory.join(name)) {
                Err(JournalError::File { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists && number < SAME_SECOND =>
                {
                    number += 1;
                }
                made => return made,
            }
        }
    }

    /// The transcript that was begun last.
    pub(crate) fn last(&self) -> Result<PathBuf, NotFound> {
        self.newest_first()?.into_iter().next().ok_or(NotFound::None)
    }

    /// The transcript of a job: by its id, the beginning or the end of that, by the
    /// transcript's name, or by its path.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, NotFound> {
        if name.contains('/') || name.ends_with(".jsonl") {
            let path = PathBuf::from(name);
            let here = if path.is_file() { path } else { self.directory.join(name) };
            return if here.is_file() { Ok(here) } else { Err(NotFound::None) };
        }
        let mut found = Vec::new();
        for path in self.newest_first()? {
            if path.file_stem().is_some_and(|stem| stem == name) {
                return Ok(path);
            }
            if let Some(job) = job(&path) {
                let id = job.to_string();
                if !name.is_empty() && (id.starts_with(name) || id.ends_with(name)) {
                    found.push((job, path));
                }
            }
        }
        match &found[..] {
            [] => Err(NotFound::None),
            [(_, path)] => Ok(path.clone()),
            several => Err(NotFound::Several(several.iter().map(|(job, _)| *job).collect())),
        }
    }

    fn newest_first(&self) -> Result<Vec<PathBuf>, NotFound> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(NotFound::Unreadable(error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let entry = entry.map_err(NotFound::Unreadable)?;
            let path = entry.path();
            // One in which nothing was written is that of a job that never began.
            let begun = entry.metadata().is_ok_and(|about| about.len() > 0);
            if begun && path.extension().is_some_and(|extension| extension == "jsonl") {
                paths.push(path);
            }
        }
        paths.sort_by_key(|path| std::cmp::Reverse(order(path)));
        Ok(paths)
    }
}

/// The moment in a transcript's name, and its number within that second.
fn order(path: &Path) -> (String, u32) {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.unwrap_or_default();
    let mut parts = stem.splitn(3, '-');
    let moment = format!("{}-{}", parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    (moment, parts.next().and_then(|number| number.parse().ok()).unwrap_or(1))
}

/// The job that a transcript is of; `None` if it is none.
fn job(path: &Path) -> Option<JobId> {
    let mut line = Vec::new();
    let file = fs::File::open(path).ok()?;
    BufReader::new(file.take(FIRST_LINE)).read_until(b'\n', &mut line).ok()?;
    let record: Record = serde_json::from_slice(&line).ok()?;
    match record.event {
        Event::Created { spec } => Some(spec.job),
        _ => None,
    }
}

/// Makes a directory that nobody else can look into.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> (tempfile::TempDir, History) {
        let home = tempfile::tempdir().unwrap();
        let history = History::of(home.path());
        (home, history)
    }

    /// A transcript in which something is.
    fn begin(history: &History) -> Journal {
        let mut journal = history.begin("20261116-010203").ok().unwrap();
        let event = Event::Noted { text: String::new() };
        journal.append(cofferdam_types::Timestamp(1), vec![event]).unwrap();
        journal
    }

    #[test]
    fn jobs_of_the_same_second_have_transcripts_of_their_own() {
        let (_home, history) = history();
        let first = begin(&history);
        let second = begin(&history);
        assert_ne!(first.path(), second.path());
        assert_eq!(history.last().ok().unwrap(), second.path());
        let more: Vec<Journal> = (3..=10).map(|_| begin(&history)).collect();
        assert_eq!(history.last().ok().unwrap(), more[7].path());
    }

    #[test]
    fn a_job_that_never_began_is_none() {
        let (_home, history) = history();
        let begun = begin(&history);
        history.begin("20261116-010204").ok().unwrap();
        assert_eq!(history.last().ok().unwrap(), begun.path());
    }

    #[test]
    fn a_transcript_is_found_by_its_name() {
        let (_home, history) = history();
        let made = begin(&history);
        assert_eq!(history.find("20261116-010203").ok().unwrap(), made.path());
        assert_eq!(history.find("20261116-010203.jsonl").ok().unwrap(), made.path());
        assert!(matches!(history.find("nothing"), Err(NotFound::None)));
        assert!(matches!(history.find(""), Err(NotFound::None)));
    }

    #[test]
    fn no_history_is_no_error() {
        let (_home, history) = history();
        assert!(matches!(history.last(), Err(NotFound::None)));
    }
}
