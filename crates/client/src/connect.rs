//! Connections. Each request has its own: a command asks little, and a connection
//! that is fresh cannot have been closed in the meantime.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::address::Address;
use crate::tls::secure;

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 6;
/// What one address gets if there are others: a dead one must not use up the
/// time of those that live.
const ONE_ADDRESS: Duration = Duration::from_secs(3);
/// Bytes of an answer's head, and of what is read ahead.
const LARGEST_BUFFER: usize = 256 << 10;
/// Headers of an answer.
const MOST_HEADERS: usize = 100;

/// What a request carries.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An HTTP connection. Dropping it closes it.
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Body>,
    /// Moves the bytes.
    _driver: JoinSet<()>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Makes a connection.
pub(crate) async fn open(address: &Address) -> io::Result<Connection> {
    let stream = dial(&address.host, address.port).await?;
    if address.tls {
        handshake(secure(stream, &address.host).await?).await
    } else {
        handshake(stream).await
    }
}

async fn handshake<S>(stream: S) -> io::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new();
    builder.max_buf_size(LARGEST_BUFFER).max_headers(MOST_HEADERS);
    let made = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(io::Error::other)?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // Whoever waits for an answer is told of the failure as well.
        drop(connection.await);
    });
    Ok(Connection { sender, _driver: driver })
}

/// Connects to the first address of a host that answers.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.take(MOST_ADDRESSES).collect();
    let last = addresses.len().saturating_sub(1);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (place, address) in addresses.into_iter().enumerate() {
        // The last one may take what is left of the connection's own time.
        let patience = if place == last { Duration::MAX } else { ONE_ADDRESS };
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}
