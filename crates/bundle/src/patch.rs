//! What a job changed, as a patch in git's format: `git apply --binary` makes the
//! workspace after it out of the one before it.
//!
//! What a patch cannot hold is named in comment lines at its top: what is too
//! large, links that lead out, and names that git refuses (it would refuse the
//! whole patch for one of them). Files with the size, time of change and
//! permissions they had are taken for unchanged.

mod base85;
mod compare;
mod git;

use std::io::{Read, Seek, Write};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Files, FilesError, Range};
use sha2::{Digest, Sha256};
use tempfile::SpooledTempFile;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_blocking;

use self::compare::{Look, Sides};
use self::git::{Mode, Version};
use crate::component;
use crate::error::BundleError;
use crate::links;
use crate::manifest::{LeftOutRow, hexadecimal};

/// The largest file that is in a patch.
const LARGEST_FILE: u64 = 8 << 20;

/// The longest patch. What comes after that is left out.
const LONGEST_PATCH: u64 = 256 << 20;

/// How long the lines of one file, and of all, are compared for the shortest
/// difference. What comes after that is right as well, but longer.
const PATIENCE: Duration = Duration::from_secs(1);
const ALL_PATIENCE: Duration = Duration::from_secs(60);

/// Changes that are named when they are left out.
const MOST_NAMED: usize = 1000;

/// Bytes of a patch that wait in memory; more wait in a file.
const IN_MEMORY: usize = 1 << 20;

/// Bytes that are written at once.
const PIECE: usize = 64 << 10;

/// A complete patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchSummary {
    /// Files and links that are new.
    pub added: u64,
    /// Files and links with another content, kind or permission.
    pub modified: u64,
    /// Files and links that are gone.
    pub deleted: u64,
    /// Changes that are not in the patch.
    pub left_out: u64,
    /// Their paths and why, of very many the first thousand.
    pub left_out_rows: Vec<LeftOutRow>,
    /// Whether all files of both workspaces were compared.
    pub compared_all: bool,
    /// Bytes of the patch itself.
    pub patch_bytes: u64,
    /// SHA-256 of the patch itself, in hexadecimal.
    pub sha256: String,
}

/// Writes what is different in `after` as a patch. What version control ignores
/// on both sides, and `.git`, are left out.
///
/// # Errors
/// When a workspace cannot be read or the patch not be written.
pub async fn patch_to<W: AsyncWrite + Unpin>(
    before: &Files,
    after: &Files,
    mut out: W,
) -> Result<PatchSummary, BundleError> {
    let sides = compare::compare(before, after).await?;
    let mut patch = Patch::new(sides.complete);
    for (path, old, new) in &sides.changes {
        patch.take(&sides, path, old.as_ref(), new.as_ref()).await?;
    }
    let Patch { mut summary, mut body, .. } = patch;
    let mut hash = Sha256::new();
    let top = top(&summary);
    hash.update(&top);
    summary.patch_bytes += top.len() as u64;
    out.write_all(&top).await.map_err(BundleError::Output)?;
    body.rewind().map_err(|error| BundleError::spool(&error))?;
    loop {
        // What is read was just written, by this process and to be read once.
        let mut piece = vec![0; PIECE];
        let count = body.read(&mut piece).map_err(|error| BundleError::spool(&error))?;
        piece.truncate(count);
        if piece.is_empty() {
            break;
        }
        hash.update(&piece);
        out.write_all(&piece).await.map_err(BundleError::Output)?;
    }
    out.flush().await.map_err(BundleError::Output)?;
    summary.sha256 = hexadecimal(&hash.finalize());
    Ok(summary)
}

/// A patch that is being made.
struct Patch {
    summary: PatchSummary,
    body: SpooledTempFile,
    /// What is left of the time for good differences.
    patience: Duration,
}

impl Patch {
    fn new(compared_all: bool) -> Self {
        let summary = PatchSummary { compared_all, ..PatchSummary::default() };
        Self { summary, body: SpooledTempFile::new(IN_MEMORY), patience: ALL_PATIENCE }
    }

    async fn take(
        &mut self,
        sides: &Sides<'_>,
        path: &[u8],
        old: Option<&Look>,
        new: Option<&Look>,
    ) -> Result<(), BundleError> {
        if let Some(why) = git::refused(path, [old, new].into_iter().flatten().any(Look::is_link)) {
            self.leave_out(path, why);
            return Ok(());
        }
        let old = version(sides.before, path, old).await?;
        let new = version(sides.after, path, new).await?;
        let (old, new) = match (old, new) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(why), _) | (_, Err(why)) => {
                self.leave_out(path, &why);
                return Ok(());
            }
        };
        if old == new {
            return Ok(()); // written anew, or no more than touched
        }
        let counter = match (&old, &new) {
            (None, _) => &mut self.summary.added,
            (_, None) => &mut self.summary.deleted,
            _ => &mut self.summary.modified,
        };
        *counter += 1;
        let started = Instant::now();
        let until = started + self.patience.min(PATIENCE);
        let owned = path.to_vec();
        let text = spawn_blocking(move || git::change(&owned, old.as_ref(), new.as_ref(), until));
        let text = text.await.map_err(|_| BundleError::Ended)?;
        self.patience = self.patience.saturating_sub(started.elapsed());
        if self.summary.patch_bytes + text.len() as u64 > LONGEST_PATCH {
            *counter -= 1;
            self.leave_out(path, "the patch would be too long");
            return Ok(());
        }
        self.body.write_all(&text).map_err(|error| BundleError::spool(&error))?;
        self.summary.patch_bytes += text.len() as u64;
        Ok(())
    }

    fn leave_out(&mut self, path: &[u8], why: &str) {
        self.summary.left_out += 1;
        if self.summary.left_out_rows.len() < MOST_NAMED {
            let mut path = String::from_utf8_lossy(path).into_owned();
            component::cut(&mut path, crate::names::LONGEST_PATH);
            self.summary.left_out_rows.push(LeftOutRow { path, why: why.to_owned() });
        }
    }
}

/// One side of a change, or why it cannot be in a patch.
async fn version(
    files: &Files,
    path: &[u8],
    look: Option<&Look>,
) -> Result<Result<Option<Version>, String>, BundleError> {
    let Some(look) = look else { return Ok(Ok(None)) };
    let too_large = || format!("it is larger than {} MiB", LARGEST_FILE >> 20);
    Ok(match look {
        Look::Other => Err("it is no file and no link".to_owned()),
        Look::Link { target } => match links::target(target, links::depth(path)) {
            Ok(_) => Ok(Some(Version { mode: Mode::Link, content: target.clone().into() })),
            Err(why) => Err(why.to_owned()),
        },
        Look::File { size, .. } if *size > LARGEST_FILE => Err(too_large()),
        Look::File { program, .. } => {
            match files.read(path, Range::first(LARGEST_FILE + 1)).await {
                Ok(read) if read.bytes.len() as u64 > LARGEST_FILE => Err(too_large()),
                Ok(read) => {
                    let mode = if *program { Mode::Program } else { Mode::Plain };
                    Ok(Some(Version { mode, content: read.bytes }))
                }
                Err(FilesError::File(error)) => Err(error.to_string()),
                Err(other) => return Err(other.into()),
            }
        }
    })
}

/// The comment at the top.
fn top(summary: &PatchSummary) -> Vec<u8> {
    let mut text = Vec::new();
    let mut line = |words: &[u8]| {
        text.extend_from_slice(b"# ");
        text.extend_from_slice(words);
        text.push(b'\n');
    };
    if !summary.compared_all {
        line(b"not all files were compared: there are too many");
    }
    for LeftOutRow { path, why } in &summary.left_out_rows {
        let quoted = git::always_quoted(path.as_bytes());
        line(&[b"not in this patch: ", quoted.as_slice(), b": ", why.as_bytes()].concat());
    }
    let unnamed = summary.left_out - summary.left_out_rows.len() as u64;
    if unnamed > 0 {
        line(format!("not in this patch: {unnamed} more").as_bytes());
    }
    text
}
