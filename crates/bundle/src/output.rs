//! Where an archive goes: to a stream as it is made, or to a file that appears
//! whole or not at all.
//!
//! Compressing keeps a core busy, so it has a thread of its own. The thread ends
//! soon after the future that waits for it is dropped: what it reads from then
//! ends, and what it writes to takes no more.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cofferdam_sandbox::{Files, Ignored};
use tempfile::NamedTempFile;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::about::About;
use crate::bundle::{Summary, bundle};
use crate::error::BundleError;
use crate::source;

/// Bytes of a piece of the archive, and how many pieces may wait to be written.
const PIECE: usize = 64 << 10;
const WAITING: usize = 4;

/// Writes a workspace as a ZIP while it is made: what version control ignores,
/// and `.git`, are left out.
///
/// # Errors
/// When the workspace cannot be read or the archive not be written. What was
/// written until then has no end and is no ZIP.
pub async fn zip_to<W: AsyncWrite + Unpin>(
    files: &Files,
    about: About,
    mut out: W,
) -> Result<Summary, BundleError> {
    let stream = files.pack(".", Ignored::LeaveOut).await?;
    let (feed, source) = source::channel();
    let (sender, mut pieces) = mpsc::channel::<Bytes>(WAITING);
    let work = spawn_blocking(move || {
        let out = BufWriter::with_capacity(PIECE, Sender(sender));
        bundle(source, &about, out).map(|(summary, _)| summary)
    });
    let write = async move {
        while let Some(piece) = pieces.recv().await {
            out.write_all(&piece).await?;
        }
        out.flush().await
    };
    // The thread waits for both, so both go on until it has ended.
    let ((), written) = tokio::join!(feed.receive(stream), write);
    let summary = work.await.map_err(|_| BundleError::Ended)?;
    // Where the output failed, that is why the thread did.
    written.map_err(BundleError::Output)?;
    summary
}

/// Writes a workspace as a ZIP into a file, which is replaced if it is there.
///
/// The archive is written to a hidden file beside it, which is removed where
/// anything fails; only a process that is killed leaves it behind.
///
/// # Errors
/// When the workspace cannot be read or the file not be written. What was in the
/// file is then still there.
pub async fn zip_file(files: &Files, about: About, path: &Path) -> Result<Summary, BundleError> {
    let target = Target::new(path)?;
    let stream = files.pack(".", Ignored::LeaveOut).await?;
    let (feed, source) = source::channel();
    let work = spawn_blocking(move || {
        let out = BufWriter::with_capacity(PIECE, &target.draft);
        let written = bundle(source, &about, out).map(|(summary, _)| summary);
        match written {
            Ok(summary) => target.publish().map(|()| summary),
            Err(BundleError::Output(source)) => Err(target.error(source)),
            Err(other) => Err(other),
        }
    });
    feed.receive(stream).await;
    work.await.map_err(|_| BundleError::Ended)?
}

/// A file that is being written under another name.
struct Target {
    path: PathBuf,
    directory: PathBuf,
    draft: NamedTempFile,
}

impl Target {
    fn new(path: &Path) -> Result<Self, BundleError> {
        let error = |source| BundleError::Target { path: path.to_owned(), source };
        let Some(name) = path.file_name() else {
            return Err(error(io::Error::other("it has no file name")));
        };
        // Putting a file in the place of a device or a pipe helps nobody.
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(error(io::Error::other("something is there that is not a file")));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).to_owned();
        let prefix: Vec<u8> = name.as_encoded_bytes().iter().copied().take(100).collect();
        let draft = tempfile::Builder::new()
            .prefix(&format!(".{}.", String::from_utf8_lossy(&prefix)))
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666)) // less what the user's mask takes away
            .tempfile_in(&directory)
            .map_err(|source| error(plain(source)))?;
        Ok(Self { path: path.to_owned(), directory, draft })
    }

    /// Puts the file in its place, such that it also survives a power cut.
    fn publish(self) -> Result<(), BundleError> {
        let Self { path, directory, draft } = self;
        let put = || {
            draft.as_file().sync_all()?;
            draft.persist(&path).map_err(|error| error.error)?;
            File::open(&directory)?.sync_all()
        };
        put().map_err(|source| BundleError::Target { path: path.clone(), source })
    }

    fn error(&self, source: io::Error) -> BundleError {
        BundleError::Target { path: self.path.clone(), source }
    }
}

/// The system's error without the draft's name, which says nothing to a user.
fn plain(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| std::error::Error::source(inner));
    let system = inner.and_then(|inner| inner.downcast_ref::<io::Error>());
    match system.and_then(io::Error::raw_os_error) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error,
    }
}

/// Takes pieces of the archive to the task that writes them.
struct Sender(mpsc::Sender<Bytes>);

impl Write for Sender {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(buffer);
        let sent = self.0.blocking_send(piece);
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
