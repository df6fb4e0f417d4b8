//! Bytes that are checked as they pass: the last piece is held back until the
//! whole is known to be right.

use bytes::Bytes;
use cofferdam_store::{Blob, BlobError, BlobReader};
use futures_util::stream::{self, BoxStream, StreamExt};
use sha2::{Digest, Sha256};

/// The largest piece that is handed out.
const LARGEST: usize = 256 << 10;

/// The stream of a blob's bytes, which fails in place of its last piece if they
/// are others.
pub(crate) fn checked(
    blob: &Blob,
    pieces: BoxStream<'static, Result<Bytes, BlobError>>,
) -> BlobReader {
    let state = Checked {
        blob: blob.clone(),
        pieces,
        hash: Sha256::new(),
        bytes: 0,
        unseen: Bytes::new(),
        held: None,
        over: false,
    };
    stream::unfold(state, Checked::next).boxed()
}

/// A hash as blobs say it.
pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Checked {
    blob: Blob,
    pieces: BoxStream<'static, Result<Bytes, BlobError>>,
    hash: Sha256,
    bytes: u64,
    /// What of the last piece is still to be looked at.
    unseen: Bytes,
    held: Option<Bytes>,
    over: bool,
}

impl Checked {
    async fn next(mut self) -> Option<(Result<Bytes, BlobError>, Self)> {
        while !self.over {
            if self.unseen.is_empty() {
                match self.pieces.next().await {
                    Some(Ok(bytes)) => self.unseen = bytes,
                    Some(Err(error)) => return self.fail(error),
                    None => return self.end(),
                }
                continue;
            }
            let piece = self.unseen.split_to(self.unseen.len().min(LARGEST));
            self.hash.update(&piece);
            self.bytes += piece.len() as u64;
            if self.bytes > self.blob.bytes {
                let error = BlobError::Damaged(self.blob.key.clone());
                return self.fail(error);
            }
            if let Some(ready) = self.held.replace(piece) {
                return Some((Ok(ready), self));
            }
        }
        None
    }

    fn end(mut self) -> Option<(Result<Bytes, BlobError>, Self)> {
        let right = self.bytes == self.blob.bytes
            && hexadecimal(std::mem::take(&mut self.hash)) == self.blob.sha256;
        if !right {
            let error = BlobError::Damaged(self.blob.key.clone());
            return self.fail(error);
        }
        self.over = true;
        let last = self.held.take()?;
        Some((Ok(last), self))
    }

    fn fail(mut self, error: BlobError) -> Option<(Result<Bytes, BlobError>, Self)> {
        self.over = true;
        self.held = None;
        Some((Err(error), self))
    }
}
