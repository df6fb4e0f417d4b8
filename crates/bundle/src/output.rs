//! Where an archive goes: to a stream as it is made, or to a file that appears
//! whole or not at all.
//!
//! Compressing keeps a core busy, so it has a thread of its own. The thread ends
//! soon after the future that waits for it is dropped: what it reads from then
//! ends, and what it writes to takes no more.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use bytes::Bytes;
use cofferdam_sandbox::Files;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::about::About;
use crate::archive::Format;
use crate::bundle::{Summary, bundle};
use crate::error::BundleError;
use crate::ignored::{self, Contents};
use crate::source;
use crate::target::Target;

/// Bytes of a piece of the archive, and how many pieces may wait to be written.
const PIECE: usize = 64 << 10;
const WAITING: usize = 4;

/// What archive is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its format.
    pub format: Format,
    /// What is in it.
    pub contents: Contents,
}

/// Writes a workspace as a ZIP while it is made: what version control ignores,
/// and `.git`, are left out.
///
/// # Errors
/// As [`archive_to`].
pub async fn zip_to<W: AsyncWrite + Unpin>(
    files: &Files,
    about: About,
    out: W,
) -> Result<Summary, BundleError> {
    archive_to(files, about, Wanted::default(), out).await
}

/// Writes a workspace as a tar archive that is compressed with Zstandard, with
/// the same entries as the ZIP.
///
/// # Errors
/// As [`archive_to`].
pub async fn tar_zst_to<W: AsyncWrite + Unpin>(
    files: &Files,
    about: About,
    out: W,
) -> Result<Summary, BundleError> {
    let wanted = Wanted { format: Format::TarZst, contents: Contents::NotIgnored };
    archive_to(files, about, wanted, out).await
}

/// Writes a workspace as an archive while it is made.
///
/// # Errors
/// When the workspace cannot be read or the archive not be written. What was
/// written until then has no end and is no archive.
pub async fn archive_to<W: AsyncWrite + Unpin>(
    files: &Files,
    about: About,
    wanted: Wanted,
    mut out: W,
) -> Result<Summary, BundleError> {
    let Wanted { format, contents } = wanted;
    let ignored = ignored::count(files, contents).await?;
    let stream = files.pack(".", contents.ignored()).await?;
    let (feed, source) = source::channel();
    let (sender, mut pieces) = mpsc::channel::<Bytes>(WAITING);
    let work = spawn_blocking(move || {
        let out = BufWriter::with_capacity(PIECE, Sender(sender));
        bundle(source, &about, &ignored, format, out).map(|(summary, _)| summary)
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
/// # Errors
/// As [`archive_file`].
pub async fn zip_file(files: &Files, about: About, path: &Path) -> Result<Summary, BundleError> {
    archive_file(files, about, Wanted::default(), path).await
}

/// Writes a workspace as an archive into a file, which is replaced if it is
/// there.
///
/// Until it is whole, the archive has no name, or a hidden one where the file
/// system knows no files without.
///
/// # Errors
/// When the workspace cannot be read or the file not be written. What was in the
/// file is then still there.
pub async fn archive_file(
    files: &Files,
    about: About,
    wanted: Wanted,
    path: &Path,
) -> Result<Summary, BundleError> {
    let Wanted { format, contents } = wanted;
    let target = Target::new(path)?;
    let ignored = ignored::count(files, contents).await?;
    let stream = files.pack(".", contents.ignored()).await?;
    let (feed, source) = source::channel();
    let work = spawn_blocking(move || {
        let out = BufWriter::with_capacity(PIECE, target.file());
        let written = bundle(source, &about, &ignored, format, out).map(|(summary, _)| summary);
        match written {
            Ok(summary) => target.publish().map(|()| summary),
            Err(BundleError::Output(source)) => Err(target.error(&source)),
            Err(other) => Err(other),
        }
    });
    feed.receive(stream).await;
    work.await.map_err(|_| BundleError::Ended)?
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
