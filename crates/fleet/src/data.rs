//! The data directory of a server: its name, its lock, and its jobs' files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cofferdam_store::NodeId;
use cofferdam_types::{JobId, SandboxId};
use rustix::fs::FlockOperation;

use crate::fleet::FleetError;

/// Where a job's files say which sandboxes it has had here.
const SANDBOXES: &str = "sandboxes";

/// What the names of files begin with that are to be removed.
const FORGOTTEN: &str = ".forgotten-";

/// A server's data directory, held by this process alone.
pub struct Data {
    path: PathBuf,
    node: NodeId,
    /// Held until the process ends, however that comes.
    _lock: File,
}

impl Data {
    /// Takes the directory, which is made if it is not there.
    ///
    /// # Errors
    /// When another server has it, or it cannot be used.
    pub fn take(path: &Path) -> Result<Self, FleetError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| FleetError::Data { path, source }
        };
        make_private(path).map_err(failed(path))?;
        let lock_path = path.join("server.lock");
        let lock = private().read(true).write(true).create(true).truncate(false).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(FleetError::Busy(path.to_owned())),
            Err(error) => return Err(failed(&lock_path)(error.into())),
        }
        let node_path = path.join("node");
        let node = node(&node_path).map_err(failed(&node_path))?;
        let jobs = path.join("jobs");
        make_private(&jobs).map_err(failed(&jobs))?;
        Ok(Self { path: path.to_owned(), node, _lock: lock })
    }

    /// The server's name, over all its lives.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// A path that a job's record names, on this machine.
    pub(crate) fn locate(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }

    /// The files of a job.
    pub(crate) fn job(&self, job: JobId) -> PathBuf {
        self.path.join("jobs").join(job.to_string())
    }

    /// Notes that a job has this sandbox on this machine.
    pub(crate) fn note_sandbox(&self, job: JobId, sandbox: SandboxId) -> io::Result<()> {
        let path = self.job(job).join(SANDBOXES);
        let mut file = private().append(true).create(true).open(path)?;
        writeln!(file, "{sandbox}")?;
        file.sync_data()
    }

    /// Whether a job has had this sandbox on this machine.
    pub(crate) fn has_had(&self, job: JobId, sandbox: SandboxId) -> bool {
        let noted = std::fs::read_to_string(self.job(job).join(SANDBOXES)).unwrap_or_default();
        let sandbox = sandbox.to_string();
        noted.lines().any(|line| line == sandbox)
    }

    /// Puts a job's files aside, to be removed.
    pub(crate) fn put_aside(&self, job: JobId) -> io::Result<PathBuf> {
        let aside = self.path.join("jobs").join(format!("{FORGOTTEN}{job}"));
        std::fs::rename(self.job(job), &aside)?;
        Ok(aside)
    }

    /// What was put aside and not removed yet.
    pub(crate) fn aside(&self) -> io::Result<Vec<PathBuf>> {
        let mut aside = Vec::new();
        for entry in std::fs::read_dir(self.path.join("jobs"))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(FORGOTTEN) {
                aside.push(entry.path());
            }
        }
        Ok(aside)
    }
}

/// Where a job's workspace is, below the data directory of whichever server works
/// on it.
pub(crate) fn workspace(job: JobId) -> PathBuf {
    ["jobs", &job.to_string(), "workspace"].iter().collect()
}

/// Makes a directory that is nobody else's business.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// The server's name: what the file says, or a new one that the file says from now
/// on.
fn node(path: &Path) -> io::Result<NodeId> {
    let mut text = String::new();
    match File::open(path) {
        Ok(mut file) => {
            file.read_to_string(&mut text)?;
            text.trim().parse().map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, "it does not hold a server's name")
            })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let node = NodeId::generate();
            let fresh = path.with_extension("new");
            let mut file = private().write(true).create(true).truncate(true).open(&fresh)?;
            writeln!(file, "{node}")?;
            file.sync_all()?;
            std::fs::rename(&fresh, path)?;
            if let Some(parent) = path.parent() {
                File::open(parent)?.sync_all()?;
            }
            Ok(node)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_one_servers_and_keeps_its_name() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("data");
        let first = Data::take(&path).unwrap();
        assert!(matches!(Data::take(&path), Err(FleetError::Busy(_))));
        let node = first.node();
        drop(first);
        assert_eq!(Data::take(&path).unwrap().node(), node);
    }

    #[test]
    fn a_name_that_is_none_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("node"), "mine").unwrap();
        assert!(matches!(Data::take(place.path()), Err(FleetError::Data { .. })));
    }
}
