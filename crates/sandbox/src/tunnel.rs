//! A tunnel: a byte stream to something that listens inside the sandbox.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use cofferdam_guest_protocol::{CHUNK, Reply};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::{CallHandle, Input, Taken};
use crate::error::CallError;

/// A connection into the sandbox. Shutting it down closes the way in and leaves
/// the way out open; dropping it closes both.
pub struct Tunnel {
    handle: CallHandle,
    input: Input,
    unread: Bytes,
}

impl Tunnel {
    /// Waits until the tunnel leads somewhere.
    pub(crate) async fn connected(mut handle: CallHandle) -> Result<Self, CallError> {
        if handle.started().await.is_none() {
            let reply = handle.reply().await;
            handle.acknowledge();
            closed(reply?)?;
            return Err(CallError::UnexpectedReply);
        }
        let input = handle.input();
        Ok(Self { handle, input, unread: Bytes::new() })
    }
}

fn closed(reply: Reply) -> Result<(), CallError> {
    match reply {
        Reply::Tunnel(Ok(())) => Ok(()),
        Reply::Tunnel(Err((errno, message))) => Err(CallError::Tunnel { errno, message }),
        _ => Err(CallError::UnexpectedReply),
    }
}

fn broken(error: CallError) -> io::Error {
    match error {
        CallError::Tunnel { errno, .. } => io::Error::from_raw_os_error(errno),
        CallError::InputClosed => io::ErrorKind::BrokenPipe.into(),
        CallError::ConnectionLost { .. } => io::Error::new(io::ErrorKind::ConnectionReset, error),
        other => io::Error::other(other),
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(self.handle.poll_output(context)) {
                Some(Taken::Data(bytes)) => self.unread = bytes,
                Some(Taken::Gap(_)) => {
                    return Poll::Ready(Err(io::Error::other("the guest left out bytes")));
                }
                // The end of the output, or of the whole call.
                None if !self.handle.has_ended() => return Poll::Ready(Ok(())),
                None => {
                    let reply = ready!(self.handle.poll_reply(context));
                    return Poll::Ready(reply.and_then(closed).map_err(broken));
                }
            }
        }
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(self.unread.get(..length).unwrap_or_default());
        self.unread.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.input.poll_send_copied(context, bytes.get(..CHUNK).unwrap_or(bytes)).map_err(broken)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What was written is on its way already.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.close();
        Poll::Ready(Ok(()))
    }
}
