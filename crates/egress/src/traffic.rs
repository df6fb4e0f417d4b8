//! Bytes on their way: counted, and watched for silence.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Bytes are moved in pieces of this size.
pub(crate) const PIECE: usize = 16 * 1024;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the sandbox.
    Out,
    /// To the sandbox.
    Back,
}

/// What one connection has carried, and when it last did.
#[derive(Debug)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
    began: Instant,
    last_ms: AtomicU64,
}

impl Traffic {
    pub(crate) fn new() -> Self {
        Self {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            began: Instant::now(),
            last_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Takes note that something happened.
    pub(crate) fn touch(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Writes all of these bytes, counting those that were taken.
    pub(crate) async fn write(
        &self,
        way: Way,
        to: &mut (impl AsyncWrite + Unpin),
        mut bytes: &[u8],
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = to.write(bytes).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let counter = match way {
                Way::Out => &self.sent,
                Way::Back => &self.received,
            };
            counter.fetch_add(count as u64, Ordering::Relaxed);
            self.touch();
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Returns once nothing has happened for this long.
    pub(crate) async fn silence(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let end = self.began + last + limit;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// An error that a stream's writer was told, and its reader then is not: a socket tells what
/// broke it once, and from then on reads as if the peer had ended in order.
#[derive(Debug, Default)]
pub(crate) struct Lost(OnceLock<io::ErrorKind>);

impl Lost {
    pub(crate) fn note(&self, error: &io::Error) {
        // Of a pipe a writer is told if the peer had ended its half in order before.
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.0.set(error.kind()).ok();
        }
    }

    pub(crate) fn get(&self) -> Option<io::ErrorKind> {
        self.0.get().copied()
    }
}

/// Says the last word on a connection and waits a little for the peer to hear
/// it: a socket closed with bytes unread would take the answer back.
pub(crate) async fn farewell(stream: &mut TcpStream, last: &[u8]) {
    const PATIENCE: Duration = Duration::from_secs(2);
    const MOST_PIECES: usize = 64;
    let goodbye = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut scratch = [0; PIECE];
        for _ in 0..MOST_PIECES {
            if stream.read(&mut scratch).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    // Whether the peer listened is its own affair.
    drop(tokio::time::timeout(PATIENCE, goodbye).await);
}
