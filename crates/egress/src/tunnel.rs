//! A tunnel: bytes both ways, untouched, until both sides are done or silent.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::ending::{Ended, release};
use crate::failure::Failure;
use crate::traffic::{Lost, PIECE, Traffic, Way};

/// Which side a direction failed at.
enum Broken {
    Reading(io::Error),
    Writing(io::Error),
}

/// Joins two streams. `early` is what the client sent before it was joined.
pub(crate) async fn tunnel(
    client: &mut TcpStream,
    upstream: &mut TcpStream,
    early: &[u8],
    traffic: &Traffic,
    idle: Duration,
) -> Ended {
    traffic.touch();
    let joined = tokio::select! {
        joined = join(client.split(), upstream.split(), early, traffic) => joined,
        () = traffic.silence(idle) => Err(Ended::Idle(idle)),
    };
    match joined {
        Ok(()) => {
            release(upstream);
            Ended::Whole
        }
        Err(ended) => ended,
    }
}

/// Moves bytes both ways until both have ended their halves; fails if one does otherwise.
async fn join(
    (mut client_read, mut client_write): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    (mut host_read, mut host_write): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    early: &[u8],
    traffic: &Traffic,
) -> Result<(), Ended> {
    let lost = Lost::default();
    let out = async {
        match pass_on(Way::Out, early, &mut client_read, &mut host_write, traffic).await {
            // A host that stops listening may still have something to say.
            Ok(()) => drop(host_write.shutdown().await),
            Err(Broken::Writing(cause)) => lost.note(&cause),
            Err(Broken::Reading(_)) => return Err(Ended::Gone),
        }
        Ok(())
    };
    let back = async {
        let passed = pass_on(Way::Back, b"", &mut host_read, &mut client_write, traffic).await;
        match (passed, lost.get()) {
            (Ok(()), None) => client_write.shutdown().await.map_err(|_| Ended::Gone),
            (Ok(()), Some(kind)) => Err(Ended::Broken(Failure::Broken(kind))),
            (Err(Broken::Reading(cause)), _) => Err(Ended::Broken(Failure::Broken(cause.kind()))),
            (Err(Broken::Writing(_)), _) => Err(Ended::Gone),
        }
    };
    futures_util::future::try_join(out, back).await.map(drop)
}

/// Moves bytes, these first, until the sender ends its half.
async fn pass_on(
    way: Way,
    early: &[u8],
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
) -> Result<(), Broken> {
    let mut piece = early.to_vec();
    loop {
        traffic.write(way, to, &piece).await.map_err(Broken::Writing)?;
        piece.resize(PIECE, 0);
        let count = from.read(&mut piece).await.map_err(Broken::Reading)?;
        if count == 0 {
            return Ok(());
        }
        piece.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use super::*;

    /// The writer of a socket that fails in this way.
    struct Failing(io::ErrorKind);

    impl AsyncWrite for Failing {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(self.0.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// What a client hears of a host that says `text`, whose socket tells a writer this; the
    /// reader is told nothing.
    async fn heard(told: io::ErrorKind) -> (Result<(), Ended>, Vec<u8>) {
        let mut heard = Vec::new();
        let (client, host) = ((&b"more"[..], &mut heard), (&b"text"[..], Failing(told)));
        let joined = join(client, host, b"early", &Traffic::new()).await;
        (joined, heard)
    }

    #[tokio::test]
    async fn a_reset_that_only_the_writer_was_told_of_is_no_orderly_end() {
        let (joined, text) = heard(io::ErrorKind::ConnectionReset).await;
        assert_eq!(text, b"text");
        assert!(
            matches!(joined, Err(Ended::Broken(Failure::Broken(io::ErrorKind::ConnectionReset)))),
            "{joined:?}"
        );
    }

    #[tokio::test]
    async fn a_host_that_stops_listening_can_still_end_in_order() {
        let (joined, text) = heard(io::ErrorKind::BrokenPipe).await;
        assert_eq!(text, b"text");
        assert!(joined.is_ok(), "{joined:?}");
    }
}
