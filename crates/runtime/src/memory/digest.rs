//! Something too long to be read at once: kept apart as it was when it was asked for, and
//! read piece by piece.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use cofferdam_sandbox::{Range, Sandbox};
use cofferdam_types::{CallId, Reading, error_chain};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::original::Body;
use super::{Memory, make_private};

/// Bytes of what can be read so at most.
const MOST: u64 = 64 << 20;

/// Pieces that it is read in at most: each costs a question.
const MOST_PIECES: u64 = 64;

/// Bytes that are read at once.
const BLOCK: u64 = 4 << 20;

/// Bytes that the beginning of a piece may be moved by, to a line's end.
const LINE: u64 = 4 << 10;

impl Memory {
    /// Keeps what a call wants read apart, in pieces of about so many bytes.
    pub(crate) async fn load(
        &self,
        sandbox: Option<&Sandbox>,
        call: CallId,
        arguments: &Map<String, Value>,
        piece: u64,
    ) -> Result<Reading, String> {
        let handle = format!("{call}-{piece}");
        let path = self.digest(&handle).ok_or("the call has no number")?;
        let directory = self.directory.join("digests");
        let file = blocking(move || {
            make_private(&directory)?;
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
        })
        .await?;
        let bytes = match (arguments.get("id"), arguments.get("path").and_then(Value::as_str)) {
            (Some(id), _) => {
                let id = id.as_u64().ok_or("`id` is the number of an event")?;
                let body = self.original(id).await?.body;
                blocking(move || keep(body, file)).await?
            }
            (None, Some(path)) => {
                let sandbox = sandbox.ok_or("there is no sandbox")?;
                keep_file(sandbox, path, file).await?
            }
            (None, None) => return Err("give either `path` or `id`".to_owned()),
        };
        let pieces = bytes.div_ceil(piece.max(1)).max(1);
        if bytes > MOST || pieces > MOST_PIECES {
            return Err(format!(
                "it is too long even so: more than {} bytes would take more than {MOST_PIECES} \
                 pieces. Cut it with a command and have the parts read",
                MOST.min(piece.saturating_mul(MOST_PIECES))
            ));
        }
        Ok(Reading { handle, pieces: u32::try_from(pieces).unwrap_or(u32::MAX) })
    }

    /// A piece of what was kept apart, from a line's beginning to a line's end where lines
    /// are not very long.
    pub(crate) async fn piece(&self, handle: &str, index: u32) -> Result<String, String> {
        let path = self.digest(handle).ok_or("there is no such text")?;
        let size = size(handle).ok_or("there is no such text")?;
        blocking(move || {
            let mut file = File::open(path)?;
            let start = line_begins(&mut file, size.saturating_mul(u64::from(index)))?;
            let end = line_begins(&mut file, size.saturating_mul(u64::from(index) + 1))?;
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
        .await
    }

    /// Where it is kept. A handle is made of numbers only, so none leads anywhere else.
    fn digest(&self, handle: &str) -> Option<PathBuf> {
        let (call, piece) = handle.split_once('-')?;
        let is_number = |part: &str| {
            (1..24).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        (is_number(call) && is_number(piece)).then(|| self.directory.join("digests").join(handle))
    }
}

fn size(handle: &str) -> Option<u64> {
    handle.split_once('-')?.1.parse().ok()
}

/// The first line that begins at this place or soon after it; the place itself, if none does.
fn line_begins(file: &mut File, place: u64) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if place == 0 || place >= length {
        return Ok(place.min(length));
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(place - 1))?;
    (&mut *file).take(LINE).read_to_end(&mut bytes)?;
    let line_end = bytes.iter().position(|byte| *byte == b'\n');
    Ok(line_end.map_or(place, |end| place + end as u64))
}

fn keep(body: Body, mut file: File) -> io::Result<u64> {
    let bytes = match body {
        Body::Text(text) => {
            file.write_all(text.as_bytes())?;
            text.len() as u64
        }
        Body::Kept(kept) => io::copy(&mut kept.take(MOST + 1), &mut file)?,
    };
    file.sync_all()?;
    Ok(bytes)
}

async fn keep_file(sandbox: &Sandbox, path: &str, file: File) -> Result<u64, String> {
    let files = sandbox.files();
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    let mut file = file;
    let mut bytes = 0;
    loop {
        let range = Range { offset: bytes, limit: BLOCK };
        let read = files.read(path, range).await.map_err(|error| error_chain(&error))?;
        let block = read.bytes;
        let more = block.len() as u64;
        file = blocking(move || {
            file.write_all(&block)?;
            Ok(file)
        })
        .await?;
        bytes += more;
        if more < BLOCK || bytes > MOST {
            blocking(move || file.sync_all()).await?;
            return Ok(bytes);
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, String> {
    let done = spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| format!("it cannot be kept apart: {error}"))
}
