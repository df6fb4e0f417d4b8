//! What is on its way to the guest.
//!
//! A frame is written at once, by whoever sends it, while the stream takes it;
//! only when the stream is full does the writer's task carry on. The queue is
//! bounded: who sends a request or data waits for room first. Grants, signals, sizes,
//! kills and acknowledgements do not wait, for there are only a few of them for each
//! call or window of data, or so many are sent and no more: they cannot pile up.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use cofferdam_guest_protocol::{Channel, EncodeError, Frame, data_header, encode};
use tokio::io::{AsyncWrite, WriteHalf};

use crate::backend::GuestStream;

/// Senders of requests and data wait while more bytes than this are queued.
const LIMIT: usize = 512 << 10;

/// Data shorter than this is copied next to its header; longer data is not
/// copied at all.
const COPIED: usize = 4 << 10;

/// With more than this written, `small` is cut: it may never be written wholly.
const WRITTEN: usize = 64 << 10;

/// How many pieces one write hands to the stream at most.
const PIECES: usize = 32;

/// Whether a frame is worth a write of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Somebody waits for what it will cause.
    Now,
    /// It may travel with the next frame, or when the writer's task runs.
    Soon,
}

/// The way to the guest.
pub(crate) struct Outgoing {
    pipe: Mutex<Pipe>,
}

struct Pipe {
    /// `None` once the connection has ended.
    writer: Option<WriteHalf<GuestStream>>,
    /// Pieces in order; `small` comes after them.
    queue: VecDeque<Bytes>,
    /// Frames without large data, encoded one after the other.
    small: Vec<u8>,
    /// How much of `small` is written.
    small_written: usize,
    /// Bytes in `queue` and `small` not yet written.
    queued: usize,
    /// The stream took no more; the writer's task waits until it does.
    blocked: bool,
    /// Something was written that the stream may still hold.
    unflushed: bool,
    /// Why a write by a sender failed; the writer's task reports it.
    failed: Option<io::Error>,
    /// The writer's task.
    driver: Option<Waker>,
    /// Who waits for room.
    waiting: Vec<Waker>,
    /// Who waits until all is written.
    draining: Option<Waker>,
}

impl Outgoing {
    pub(crate) fn new(writer: WriteHalf<GuestStream>) -> Self {
        Self {
            pipe: Mutex::new(Pipe {
                writer: Some(writer),
                queue: VecDeque::new(),
                small: Vec::new(),
                small_written: 0,
                queued: 0,
                blocked: false,
                unflushed: false,
                failed: None,
                driver: None,
                waiting: Vec::new(),
                draining: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request or data may be queued. There is always room once
    /// the connection has ended, where frames lead nowhere.
    pub(crate) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let mut pipe = self.lock();
        if pipe.queued < LIMIT || pipe.writer.is_none() {
            return Poll::Ready(());
        }
        if !pipe.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            pipe.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Whether nobody has to wait to send now.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().queued < LIMIT
    }

    /// Whether somebody waits to send.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Sends a frame, on an error nothing of it.
    pub(crate) fn push(&self, frame: &Frame, urgency: Urgency) -> Result<(), EncodeError> {
        let mut pipe = self.lock();
        if pipe.writer.is_none() {
            return Ok(());
        }
        let before = pipe.small.len();
        encode(frame, &mut pipe.small)?;
        pipe.queued += pipe.small.len() - before;
        pipe.sent(urgency);
        Ok(())
    }

    /// Sends a frame that has no payload to speak of, so that it always fits.
    pub(crate) fn push_small(&self, frame: &Frame, urgency: Urgency) {
        let pushed = self.push(frame, urgency);
        debug_assert!(pushed.is_ok(), "a frame without a long payload always fits");
    }

    /// Sends data without copying it, unless it is short.
    pub(crate) fn push_data(&self, call: u64, bytes: Bytes) -> Result<(), EncodeError> {
        if bytes.len() < COPIED {
            let frame = Frame::Data { call, channel: Channel::Input, bytes };
            return self.push(&frame, Urgency::Now);
        }
        let header = data_header(call, Channel::Input, bytes.len())?;
        let mut pipe = self.lock();
        if pipe.writer.is_none() {
            return Ok(());
        }
        pipe.small.extend_from_slice(&header);
        pipe.queued += header.len() + bytes.len();
        let mut small = Bytes::from(std::mem::take(&mut pipe.small));
        small.advance(std::mem::take(&mut pipe.small_written));
        pipe.queue.push_back(small);
        pipe.queue.push_back(bytes);
        pipe.sent(Urgency::Now);
        Ok(())
    }

    /// Writes what senders could not, until the stream fails or is closed.
    pub(crate) async fn drive(&self) -> io::Error {
        std::future::poll_fn(|context| {
            let mut pipe = self.lock();
            if let Some(error) = pipe.failed.take() {
                return Poll::Ready(error);
            }
            if pipe.writer.is_none() {
                return Poll::Ready(io::ErrorKind::NotConnected.into());
            }
            if !pipe.driver.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                pipe.driver = Some(context.waker().clone());
            }
            let written = pipe.write(context);
            pipe.blocked = written.is_pending();
            let waiting = pipe.woken();
            drop(pipe);
            waiting.for_each(Waker::wake);
            match written {
                Poll::Ready(Err(error)) => Poll::Ready(error),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Waits until all that was sent is written; also when it cannot be.
    pub(crate) async fn drained(&self) {
        std::future::poll_fn(|context| {
            let mut pipe = self.lock();
            let empty = pipe.queued == 0 && !pipe.unflushed;
            if empty || pipe.writer.is_none() || pipe.failed.is_some() {
                return Poll::Ready(());
            }
            pipe.draining = Some(context.waker().clone());
            if let Some(driver) = &pipe.driver {
                driver.wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }

    /// Gives the stream up. What can be written at once still is.
    pub(crate) fn close(&self) {
        let mut pipe = self.lock();
        if !pipe.blocked && pipe.failed.is_none() {
            pipe.write_now();
        }
        pipe.writer = None;
        pipe.queue = VecDeque::new();
        pipe.small = Vec::new();
        pipe.small_written = 0;
        pipe.queued = 0;
        let waiting = pipe.woken();
        let driver = pipe.driver.take();
        drop(pipe);
        waiting.chain(driver).for_each(Waker::wake);
    }
}

impl Pipe {
    /// After something was queued: write it, or see that it will be.
    fn sent(&mut self, urgency: Urgency) {
        if self.blocked {
            return;
        }
        if urgency == Urgency::Now {
            self.write_now();
        } else if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Writes as much as the stream takes at once.
    fn write_now(&mut self) {
        match self.write(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => return self.woken().for_each(Waker::wake),
            Poll::Ready(Err(error)) => self.failed = Some(error),
            Poll::Pending => self.blocked = true,
        }
        // The stream does not know the task yet: it asks again for itself.
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(())) };
        while self.queued > 0 {
            let small = self.small.get(self.small_written..).unwrap_or_default();
            let written = if self.queue.is_empty() {
                ready!(Pin::new(&mut *writer).poll_write(context, small))?
            } else if writer.is_write_vectored() {
                let mut slices = [IoSlice::new(&[]); PIECES];
                let pieces = self.queue.iter().map(|piece| piece.as_ref()).chain([small]);
                for (slice, piece) in slices.iter_mut().zip(pieces) {
                    *slice = IoSlice::new(piece);
                }
                ready!(Pin::new(&mut *writer).poll_write_vectored(context, &slices))?
            } else {
                let first = self.queue.front().map(|piece| piece.as_ref()).unwrap_or_default();
                ready!(Pin::new(&mut *writer).poll_write(context, first))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            self.queued -= written;
            let mut left = written;
            while let Some(piece) = self.queue.front_mut() {
                let here = left.min(piece.len());
                piece.advance(here);
                left -= here;
                if !piece.is_empty() {
                    break;
                }
                self.queue.pop_front();
            }
            self.small_written += left;
            if self.small_written == self.small.len() {
                self.small.clear();
                self.small_written = 0;
            } else if self.small_written > WRITTEN {
                self.small.drain(..self.small_written);
                self.small_written = 0;
            }
        }
        if self.unflushed {
            ready!(Pin::new(&mut *writer).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Who waited for what is now so.
    fn woken(&mut self) -> impl Iterator<Item = Waker> + use<> {
        let room = self.queued < LIMIT;
        let waiting = if room { std::mem::take(&mut self.waiting) } else { Vec::new() };
        let empty = (self.queued == 0 && !self.unflushed) || self.writer.is_none();
        let draining = if empty { self.draining.take() } else { None };
        waiting.into_iter().chain(draining)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_is_written_is_not_kept_though_something_always_waits() {
        let (ours, mut theirs) = tokio::io::duplex(4 << 10);
        let stream: GuestStream = Box::new(ours);
        let (_reader, writer) = tokio::io::split(stream);
        let outgoing = Outgoing::new(writer);
        let mut driving = std::pin::pin!(outgoing.drive());
        let bytes = Bytes::from_static(&[7; 2_000]);
        let frame = Frame::Data { call: 1, channel: Channel::Input, bytes };
        let mut encoded = Vec::new();
        encode(&frame, &mut encoded).unwrap();

        for _ in 0..100 {
            outgoing.push(&frame, Urgency::Now).unwrap();
        }
        for _ in 0..2_000 {
            outgoing.push(&frame, Urgency::Now).unwrap();
            let mut taken = vec![0; encoded.len()];
            theirs.read_exact(&mut taken).await.unwrap();
            assert_eq!(taken, encoded);
            std::future::poll_fn(|context| {
                assert!(driving.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            let pipe = outgoing.lock();
            assert!(pipe.queued > 0, "something waits");
            assert!(pipe.small.len() < LIMIT, "{} bytes are kept", pipe.small.len());
        }
    }
}
