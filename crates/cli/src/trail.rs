//! `--audit`: the file that gets what the command did.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use cofferdam_types::AuditRecord;

use crate::problem::Problem;

/// The file, open before anything is run: that it cannot be written is known
/// while there is nothing to lose.
pub(crate) struct Trail {
    path: PathBuf,
    file: File,
}

impl Trail {
    pub(crate) fn create(path: &Path) -> Result<Self, Problem> {
        match File::create(path) {
            Ok(file) => Ok(Self { path: path.to_path_buf(), file }),
            Err(error) => Err(Problem::file(path, &error)),
        }
    }

    /// Writes the records, one a line.
    pub(crate) fn write(mut self, records: &[AuditRecord]) -> Result<(), Problem> {
        self.file.write_all(&lines(records)).map_err(|error| Problem::file(&self.path, &error))
    }
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
