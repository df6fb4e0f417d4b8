//! The bytes of a file or an archive, as they come.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use cofferdam_guest_protocol::{FileReply, Reply};
use tokio::io::{AsyncRead, ReadBuf};

use super::{Archived, archived, finish};
use crate::client::{CallHandle, Taken};
use crate::error::{CallError, FilesError};

/// The bytes of a file or an archive. The end of the stream is the end of the
/// whole: where the guest failed halfway, reading fails.
pub struct FileStream {
    handle: CallHandle,
    unread: Bytes,
}

impl FileStream {
    pub(super) fn new(handle: CallHandle) -> Self {
        Self { handle, unread: Bytes::new() }
    }

    /// The next bytes without a copy; `None` at the end.
    ///
    /// # Errors
    /// When the guest failed.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// What the archive holds, after what was not read of it is thrown away.
    ///
    /// # Errors
    /// When the guest failed, or this is the stream of a file.
    pub async fn archived(mut self) -> Result<Archived, FilesError> {
        archived(finish(&mut self.handle).await?)
    }

    /// The guest's answer, after what was not read is thrown away.
    ///
    /// # Errors
    /// When the guest failed.
    pub async fn reply(mut self) -> Result<FileReply, FilesError> {
        finish(&mut self.handle).await
    }

    fn poll_next(&mut self, context: &Context<'_>) -> Poll<Result<Option<Bytes>, FilesError>> {
        if !self.unread.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.unread))));
        }
        match ready!(self.handle.poll_output(context)) {
            Some(Taken::Data(bytes)) => Poll::Ready(Ok(Some(bytes))),
            Some(Taken::Gap(_)) => Poll::Ready(Err(CallError::UnexpectedReply.into())),
            None => Poll::Ready(match ready!(self.handle.poll_reply(context)) {
                Ok(Reply::File(Ok(_))) => Ok(None),
                Ok(Reply::File(Err(error))) => Err(error.into()),
                Ok(_) => Err(CallError::UnexpectedReply.into()),
                Err(error) => Err(error.into()),
            }),
        }
    }
}

impl AsyncRead for FileStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(bytes) = ready!(self.poll_next(context)).map_err(io::Error::other)? else {
            return Poll::Ready(Ok(()));
        };
        self.unread = bytes;
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(self.unread.get(..length).unwrap_or_default());
        self.unread.advance(length);
        Poll::Ready(Ok(()))
    }
}
