//! A file that is sent as it is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use crate::connect::Body;

/// Bytes that are read at once.
const PIECE: u64 = 256 << 10;

/// A file to be sent. It can be sent again from its beginning.
#[derive(Clone, Debug)]
pub struct UploadFile {
    file: Arc<File>,
    pub(crate) length: u64,
    pub(crate) media_type: &'static str,
}

impl UploadFile {
    /// This file, all of it, wherever it is read at now.
    ///
    /// # Errors
    /// When its length cannot be told, or it is no regular file.
    pub fn new(file: File, media_type: &'static str) -> io::Result<Self> {
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self { file: Arc::new(file), length: about.len(), media_type })
    }

    /// Its bytes as a body; `sent` counts them as they leave.
    pub(crate) fn body(&self, sent: Arc<AtomicU64>) -> Body {
        let start = (Arc::clone(&self.file), 0_u64, self.length);
        let pieces = stream::try_unfold(start, move |(file, offset, length)| {
            let sent = Arc::clone(&sent);
            async move {
                if offset >= length {
                    return Ok(None);
                }
                let reader = Arc::clone(&file);
                let reading = move || read(&reader, offset, PIECE.min(length - offset));
                let piece =
                    tokio::task::spawn_blocking(reading).await.map_err(io::Error::other)??;
                let after = offset + piece.len() as u64;
                sent.store(after, Ordering::Relaxed);
                Ok::<_, io::Error>(Some((Frame::data(piece), (file, after, length))))
            }
        });
        StreamBody::new(pieces).boxed_unsync()
    }
}

/// Reads exactly so much: a file that has shrunk is not sent as if it were whole.
fn read(file: &File, offset: u64, length: u64) -> io::Result<Bytes> {
    let mut piece = BytesMut::zeroed(usize::try_from(length).map_err(io::Error::other)?);
    file.read_exact_at(&mut piece, offset)?;
    Ok(piece.freeze())
}
