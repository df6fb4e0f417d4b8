//! This end of the pipes that a command in a sandbox writes to by itself.
//!
//! What goes through the guest is copied four times on its way to our reader. What comes here
//! is read once, as long as it is little; a flood is not even read, but passed on by the kernel.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cofferdam_sandbox::{Outlets, OutputChunk};
use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe::Receiver;

/// How much is read at once: all that a pipe holds if nobody has enlarged it.
const PIECE: usize = 64 << 10;

/// More than this is a flood.
const FLOOD: usize = 128 << 10;

/// What a command writes.
#[derive(Default)]
pub(crate) struct Taps {
    stdout: Option<Tap>,
    stderr: Option<Tap>,
}

impl Taps {
    /// Makes them, and what the command is to be given.
    ///
    /// # Errors
    /// When there are no descriptors to be had.
    pub(crate) fn lay() -> io::Result<(Self, Outlets)> {
        let (stdout, there) = Tap::lay()?;
        let (stderr, there_too) = Tap::lay()?;
        let taps = Self { stdout: Some(stdout), stderr: Some(stderr) };
        Ok((taps, Outlets { stdout: Arc::new(there), stderr: Arc::new(there_too) }))
    }

    /// The next piece; never, where nothing will come. Where it is a flood, the rest is to be had
    /// from the pipe itself. A call of this that is dropped loses nothing.
    pub(crate) async fn next(&mut self) -> (OutputChunk, Option<OwnedFd>) {
        let Self { stdout, stderr } = self;
        tokio::select! {
            biased;
            bytes = next_of(stdout) => (OutputChunk::Stdout(bytes), rest_of_flood(stdout)),
            bytes = next_of(stderr) => (OutputChunk::Stderr(bytes), rest_of_flood(stderr)),
        }
    }

    /// What is left of a command that nobody is left of: a piece of each stream, and whatever
    /// there is besides.
    pub(crate) fn rest(self) -> impl Iterator<Item = (OutputChunk, Option<OwnedFd>)> {
        let stdout = self.stdout.and_then(Tap::rest);
        let stderr = self.stderr.and_then(Tap::rest);
        let stdout = stdout.map(|(bytes, rest)| (OutputChunk::Stdout(bytes), rest));
        stdout.into_iter().chain(stderr.map(|(bytes, rest)| (OutputChunk::Stderr(bytes), rest)))
    }
}

async fn next_of(tap: &mut Option<Tap>) -> Bytes {
    if let Some(open) = tap {
        if let Some(bytes) = open.next().await {
            return bytes;
        }
        *tap = None;
    }
    std::future::pending().await
}

fn rest_of_flood(tap: &mut Option<Tap>) -> Option<OwnedFd> {
    let pipe = tap.as_ref().filter(|tap| tap.taken > FLOOD)?.pipe_itself()?;
    *tap = None;
    Some(pipe)
}

/// One of the two.
struct Tap {
    pipe: Receiver,
    taken: usize,
}

impl Tap {
    fn lay() -> io::Result<(Self, OwnedFd)> {
        let (here, there) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // The sandbox's user is not the pipe's owner, and is to find it behind `/dev/stdout`.
        // Nobody else comes by it: it has no name.
        rustix::fs::fchmod(&there, Mode::from_raw_mode(0o666))?;
        Ok((Self { pipe: Receiver::from_owned_fd(here)?, taken: 0 }, there))
    }

    /// The next piece; `None` at the end, or where nothing can be read any more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.pipe.readable().await.ok()?;
            let mut piece = BytesMut::zeroed(PIECE);
            match self.pipe.try_read(&mut piece) {
                Ok(count) => {
                    self.taken += count;
                    return filled(piece, count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// What there is, whether or not the runtime has heard of it.
    fn rest(self) -> Option<(Bytes, Option<OwnedFd>)> {
        let mut piece = BytesMut::zeroed(PIECE);
        let count = retry_on_intr(|| rustix::io::read(&self.pipe, &mut *piece)).ok()?;
        let bytes = filled(piece, count)?;
        Some((bytes, if count < PIECE { None } else { self.pipe_itself() }))
    }

    /// The pipe, as one that is waited for. This tap is of no use any more, then.
    fn pipe_itself(&self) -> Option<OwnedFd> {
        let pipe = self.pipe.as_fd().try_clone_to_owned().ok()?;
        let flags = rustix::fs::fcntl_getfl(&pipe).ok()?;
        rustix::fs::fcntl_setfl(&pipe, flags - OFlags::NONBLOCK).ok()?;
        Some(pipe)
    }
}

fn filled(mut piece: BytesMut, count: usize) -> Option<Bytes> {
    piece.truncate(count);
    (count > 0).then(|| piece.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(end: &OwnedFd, bytes: &[u8]) {
        assert_eq!(rustix::io::write(end, bytes), Ok(bytes.len()));
    }

    #[tokio::test]
    async fn pieces_come_until_both_ends_are_closed() {
        let (mut taps, outlets) = Taps::lay().unwrap();
        write(&outlets.stderr, b"one");
        let (piece, rest) = taps.next().await;
        assert_eq!(piece, OutputChunk::Stderr(Bytes::from_static(b"one")));
        assert!(rest.is_none());
        write(&outlets.stdout, b"two");
        assert_eq!(taps.next().await.0, OutputChunk::Stdout(Bytes::from_static(b"two")));
        write(&outlets.stderr, b"three");
        drop(outlets);
        let rest: Vec<_> = taps.rest().collect();
        assert!(
            matches!(rest.as_slice(), [(OutputChunk::Stderr(three), None)] if three == "three")
        );
    }

    #[tokio::test]
    async fn much_is_a_flood_in_whatever_pieces_it_comes() {
        let (mut taps, outlets) = Taps::lay().unwrap();
        for _ in 0..FLOOD / 1024 {
            write(&outlets.stdout, &[7; 1024]);
            assert!(taps.next().await.1.is_none());
        }
        write(&outlets.stdout, b"one more");
        let (piece, rest) = taps.next().await;
        assert_eq!(piece, OutputChunk::Stdout(Bytes::from_static(b"one more")));
        assert!(rest.is_some());
        write(&outlets.stderr, b"another");
        assert_eq!(taps.next().await.0, OutputChunk::Stderr(Bytes::from_static(b"another")));
        write(&outlets.stdout, &[8; PIECE]);
        write(&outlets.stderr, &[9; PIECE]);
        drop(outlets);
        let rest: Vec<_> = taps.rest().collect();
        let [(OutputChunk::Stderr(piece), Some(_))] = rest.as_slice() else {
            panic!("the flood is somebody else's: {rest:?}");
        };
        assert_eq!(piece.len(), PIECE);
    }
}
