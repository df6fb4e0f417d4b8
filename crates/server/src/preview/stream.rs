//! A way into a sandbox that is watched: when bytes last passed on it, in either
//! direction.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// When something last happened.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    begun: Instant,
    /// Milliseconds from then on.
    last: Arc<AtomicU64>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), last: Arc::default() }
    }

    fn note(&self) {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// Waits until nothing has happened for so long.
    pub(crate) async fn silence(&self, span: Duration) {
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let until = self.begun + last + span;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// A stream that notes what passes.
pub(crate) struct Watched<Io> {
    io: Io,
    activity: Activity,
}

impl<Io> Watched<Io> {
    pub(crate) fn new(io: Io, activity: Activity) -> Self {
        Self { io, activity }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Watched<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        if polled.is_ready() {
            self.activity.note();
        }
        polled
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Watched<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        if polled.is_ready() {
            self.activity.note();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_begins_anew_with_every_byte() {
        let activity = Activity::new();
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut ours = Watched::new(ours, activity.clone());
        let begun = Instant::now();
        let talk = async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            theirs.write_all(b"x").await.unwrap();
            assert_eq!(ours.read_u8().await.unwrap(), b'x');
            tokio::time::sleep(Duration::from_secs(50)).await;
            ours.write_all(b"y").await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = talk => {}
            () = activity.silence(Duration::from_secs(60)) => {}
        }
        assert_eq!(begun.elapsed().as_secs(), 160);
    }
}
