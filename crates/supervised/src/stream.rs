//! The stream to a guest.
//!
//! Tokio's own watches for room to write at all times. Then whoever takes something out of the
//! other end wakes this process, which has nothing to do, and has to wait for it where both
//! share a processor: just while it begins what it was told. This one watches for room only
//! while there is none.

use std::io::{self, IoSlice, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;

/// A stream to a guest.
pub(crate) struct Stream {
    /// The socket, as something that is only read.
    input: pipe::Receiver,
    output: Output,
    /// What watches: whoever writes may be anywhere.
    runtime: Handle,
}

enum Output {
    /// There is room, as far as is known.
    Free(UnixStream),
    /// There was none.
    Full(tokio::net::UnixStream),
    /// It could not be watched.
    Lost,
}

impl Stream {
    /// # Errors
    /// When the socket cannot be watched.
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let input = pipe::Receiver::from_owned_fd_unchecked(socket.try_clone()?.into())?;
        Ok(Self { input, output: Output::Free(socket), runtime: Handle::current() })
    }

    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            match &mut self.output {
                Output::Free(socket) => match socket.write_vectored(pieces) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.watch()?,
                    sent => return Poll::Ready(sent),
                },
                Output::Full(socket) => {
                    let sent = ready!(Pin::new(socket).poll_write_vectored(context, pieces));
                    self.watch_no_more()?;
                    return Poll::Ready(sent);
                }
                Output::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        }
    }

    fn watch(&mut self) -> io::Result<()> {
        if let Output::Free(socket) = std::mem::replace(&mut self.output, Output::Lost) {
            let _watcher = self.runtime.enter();
            self.output = Output::Full(tokio::net::UnixStream::from_std(socket)?);
        }
        Ok(())
    }

    fn watch_no_more(&mut self) -> io::Result<()> {
        if let Output::Full(socket) = std::mem::replace(&mut self.output, Output::Lost) {
            self.output = Output::Free(socket.into_std()?);
        }
        Ok(())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.output {
            Output::Free(socket) => Poll::Ready(socket.shutdown(Shutdown::Write)),
            Output::Full(socket) => Pin::new(socket).poll_shutdown(context),
            Output::Lost => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pair() -> (Stream, Stream) {
        let (one, other) = UnixStream::pair().unwrap();
        (Stream::new(one).unwrap(), Stream::new(other).unwrap())
    }

    /// Whether somebody in this process watches for room in a stream, as the kernel tells it.
    fn watches_for_room(stream: &Stream) -> bool {
        let output = match &stream.output {
            Output::Free(socket) => socket.as_raw_fd(),
            Output::Full(socket) => socket.as_raw_fd(),
            Output::Lost => panic!("it is lost"),
        };
        let names = [stream.input.as_raw_fd(), output];
        let files = fs::read_dir("/proc/self/fdinfo").unwrap();
        let texts = files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok());
        let text = texts.collect::<String>();
        let watched = text.lines().filter_map(|line| {
            let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
            let name = words.next()?.parse::<i32>().ok()?;
            let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
            Some((name, events))
        });
        let mut ours = watched.filter(|(name, _)| names.contains(name)).peekable();
        assert!(ours.peek().is_some(), "nobody watches it at all");
        let writable = libc::EPOLLOUT.cast_unsigned();
        ours.any(|(_, events)| events & writable != 0)
    }

    #[tokio::test]
    async fn more_than_fits_arrives_whole_and_then_the_end() {
        let (mut here, mut there) = pair();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
        let mut received = Vec::new();
        let write = async {
            here.write_all(&sent).await.unwrap();
            here.shutdown().await.unwrap();
        };
        let (_, count) = tokio::join!(write, there.read_to_end(&mut received));
        assert_eq!(count.unwrap(), sent.len());
        assert!(received == sent);
    }

    #[tokio::test]
    async fn an_end_that_is_gone_is_told() {
        let (mut here, there) = pair();
        drop(there);
        assert_eq!(here.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(here.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn room_is_watched_for_only_while_there_is_none() {
        let (mut here, mut there) = pair();
        assert!(!watches_for_room(&here));
        // Whoever writes need not be where it is watched.
        let (mut here, written) = std::thread::spawn(move || {
            let mut context = Context::from_waker(std::task::Waker::noop());
            let mut written = 0;
            while let Poll::Ready(count) = Pin::new(&mut here).poll_write(&mut context, &[0; 4096])
            {
                written += count.unwrap();
            }
            (here, written)
        })
        .join()
        .unwrap();
        assert!(watches_for_room(&here));
        there.read_exact(&mut vec![0; written]).await.unwrap();
        here.write_all(b"more").await.unwrap();
        assert!(!watches_for_room(&here));
    }
}
