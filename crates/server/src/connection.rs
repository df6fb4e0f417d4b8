//! Connections: how many there may be, and how long one may stand still.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How many connections there are.
pub(crate) struct Census {
    counts: Mutex<Counts>,
    most: usize,
    most_of_one: usize,
}

#[derive(Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Census {
    pub(crate) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::default(), most, most_of_one })
    }

    /// A place for a connection from this address, if there is one.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= self.most {
            return None;
        }
        let address = address.to_canonical();
        // Behind a proxy on this machine everybody has the same address.
        let counted = (!address.is_loopback()).then_some(address);
        if let Some(address) = counted {
            let own = counts.by_address.entry(address).or_default();
            if *own >= self.most_of_one {
                return None;
            }
            *own += 1;
        }
        counts.all += 1;
        Some(Admitted { census: Arc::clone(self), counted })
    }
}

/// A place for a connection, free again when this is dropped.
pub(crate) struct Admitted {
    census: Arc<Census>,
    counted: Option<IpAddr>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.census.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        let Some(address) = self.counted else { return };
        if let Some(own) = counts.by_address.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                counts.by_address.remove(&address);
            }
        }
    }
}

/// A stream whose writes fail when its peer takes nothing for too long.
pub(crate) struct Impatient<Io> {
    io: Io,
    stall: Duration,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl<Io> Impatient<Io> {
    pub(crate) fn new(io: Io, stall: Duration) -> Self {
        Self { io, stall, deadline: None, waiting: false }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        if !self.waiting {
            self.waiting = true;
            let until = Instant::now() + self.stall;
            match &mut self.deadline {
                Some(deadline) => deadline.as_mut().reset(until),
                None => self.deadline = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
        let given_up = self
            .deadline
            .as_mut()
            .is_some_and(|deadline| deadline.as_mut().poll(context).is_ready());
        if given_up { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Impatient<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Impatient<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.io).poll_shutdown(context);
        self.watch(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn connections_have_a_bound_in_all_and_for_each_address() {
        let census = Census::new(3, 2);
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        let other: IpAddr = "192.0.2.2".parse().unwrap();
        let first = census.admit(one).unwrap();
        let second = census.admit(one).unwrap();
        assert!(census.admit(one).is_none());
        let third = census.admit(other).unwrap();
        assert!(census.admit(other).is_none());
        drop((first, second));
        assert!(census.admit(one).is_some());
        drop(third);
        assert!(census.counts.lock().unwrap().by_address.is_empty());
    }

    #[test]
    fn loopback_stands_for_many() {
        let census = Census::new(10, 1);
        let admitted: Vec<_> = (0..10).map(|_| census.admit([127, 0, 0, 1].into())).collect();
        assert!(admitted.iter().all(Option::is_some));
        assert!(census.admit([127, 0, 0, 1].into()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut ours = Impatient::new(ours, Duration::from_secs(30));
        let begun = Instant::now();
        let error = ours.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_is_borne_with() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut ours = Impatient::new(ours, Duration::from_secs(30));
        let read = async {
            let mut buffer = [0; 16];
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut buffer).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[0; 64]), read);
        written.unwrap();
    }
}
