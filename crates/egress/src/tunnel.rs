//! A tunnel: bytes both ways, untouched, until both sides are done or silent.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::traffic::{PIECE, Traffic, Way};

/// How an open connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By one of the peers.
    ByPeer,
    /// For lack of traffic.
    Idle,
}

/// Which side a direction failed at.
enum Broken {
    Reading,
    Writing,
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
    let (mut client_read, mut client_write) = client.split();
    let (mut upstream_read, mut upstream_write) = upstream.split();
    let out = async {
        let written = traffic.write(Way::Out, &mut upstream_write, early).await;
        let passed = match written {
            Ok(()) => pass_on(Way::Out, &mut client_read, &mut upstream_write, traffic).await,
            Err(_) => Err(Broken::Writing),
        };
        // A host that stops listening may still have something to say.
        if let Err(Broken::Reading) = passed { Err(()) } else { Ok(()) }
    };
    let back = async {
        pass_on(Way::Back, &mut upstream_read, &mut client_write, traffic).await.map_err(drop)
    };
    tokio::select! {
        _ = futures_util::future::try_join(out, back) => Ended::ByPeer,
        () = traffic.silence(idle) => Ended::Idle,
    }
}

/// Moves bytes until the sender ends its half, then ends the receiver's.
async fn pass_on(
    way: Way,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
) -> Result<(), Broken> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = from.read(&mut piece).await.map_err(|_| Broken::Reading)?;
        let Some(bytes) = piece.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return to.shutdown().await.map_err(|_| Broken::Writing);
        };
        traffic.write(way, to, bytes).await.map_err(|_| Broken::Writing)?;
    }
}
