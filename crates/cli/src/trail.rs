//! `--audit`: the file that gets what the command did.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use cofferdam_types::AuditRecord;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::problem::Problem;

/// The file, open before anything is run: that it cannot be written is known
/// while there is nothing to lose. What it holds stays until there is something
/// else to write.
pub(crate) struct Trail {
    path: PathBuf,
    file: File,
    /// It was not there before.
    is_new: bool,
}

impl Trail {
    /// Opens a regular file. What is none, a pipe for example, may have to be waited for without
    /// an end.
    pub(crate) fn open(path: &Path) -> Result<Self, Problem> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::open(path, flags, Mode::from_raw_mode(0o666));
        let (opened, is_new) = match open(flags) {
            Err(Errno::NOENT) => (open(flags | OFlags::CREATE), true),
            opened => (opened, false),
        };
        let file = match opened {
            Ok(file) => check(File::from(file)),
            // A pipe that nobody reads.
            Err(Errno::NXIO) => Err(not_regular()),
            Err(error) => Err(error.into()),
        };
        let file = file.map_err(|error| Problem::file(path, &error))?;
        Ok(Self { path: path.to_path_buf(), file, is_new })
    }

    /// Whether the file is really in a directory, whatever name led to it.
    pub(crate) fn leads_into(&self, directory: &Path) -> bool {
        let Ok(directory) = std::fs::canonicalize(directory) else { return false };
        self.real_path().is_none_or(|path| path.starts_with(directory))
    }

    /// Leaves everything as it was before.
    pub(crate) fn withdraw(self) {
        if let Some(path) = self.real_path().filter(|_| self.is_new) {
            // An empty file of ours that stays does no harm.
            std::fs::remove_file(path).ok();
        }
    }

    fn real_path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()
    }

    /// Writes the records, one a line, over whatever was there.
    pub(crate) fn write(mut self, records: &[AuditRecord]) -> Result<(), Problem> {
        let emptied = self.file.set_len(0);
        let written = emptied.and_then(|()| self.file.write_all(&lines(records)));
        written.map_err(|error| Problem::file(&self.path, &error))
    }
}

/// Lets regular files pass that our own output does not go to.
fn check(file: File) -> io::Result<File> {
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(not_regular());
    }
    for stream in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let is_same =
            |other: rustix::fs::Stat| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino);
        if rustix::fs::fstat(stream).is_ok_and(is_same) {
            return Err(unsuitable("it is where the command's output goes"));
        }
    }
    Ok(file)
}

fn not_regular() -> io::Error {
    unsuitable("it is not a regular file")
}

fn unsuitable(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Whether a file is, or would be, in a directory: one that commands may change
/// must not say where we write.
pub(crate) fn is_within(file: &Path, directory: &Path) -> bool {
    let Ok(directory) = std::fs::canonicalize(directory) else { return false };
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let places = [std::fs::canonicalize(file), std::fs::canonicalize(parent)];
    places.into_iter().flatten().any(|place| place.starts_with(&directory))
}

fn lines(records: &[AuditRecord]) -> Vec<u8> {
    let mut lines = Vec::new();
    for record in records {
        // Every record has a JSON form.
        lines.extend(serde_json::to_vec(record).unwrap_or_default());
        lines.push(b'\n');
    }
    lines
}
