//! Connections to an object store, and those that wait to be used again.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use object_store::client::HttpRequestBody;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::tls::secure;

/// How long a connection may be unused and still be trusted, and how many are.
const LONGEST_REST: Duration = Duration::from_secs(20);
const MOST_KEPT: usize = 8;

/// How long making one may take, and one address of several.
const CONNECTING: Duration = Duration::from_secs(10);
const ONE_ADDRESS: Duration = Duration::from_secs(3);

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 6;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// An HTTP connection. Dropping it closes it.
pub(crate) struct Connection {
    pub(crate) origin: Origin,
    pub(crate) sender: SendRequest<HttpRequestBody>,
    /// Moves the bytes.
    _driver: JoinSet<()>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").field("origin", &self.origin).finish()
    }
}

impl Connection {
    async fn open(origin: Origin) -> io::Result<Self> {
        // An IPv6 address stands in brackets in a URL.
        let host = origin.host.trim_matches(['[', ']']).to_owned();
        let stream = dial(&host, origin.port).await?;
        if origin.secure {
            let stream = secure(stream, &host).await?;
            return Self::over(origin, TokioIo::new(stream)).await;
        }
        Self::over(origin, TokioIo::new(stream)).await
    }

    async fn over<S: Read + Write + Send + Unpin + 'static>(
        origin: Origin,
        stream: S,
    ) -> io::Result<Self> {
        let (sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // Whoever waits for an answer is told of the failure as well.
            drop(connection.await);
        });
        Ok(Self { origin, sender, _driver: driver })
    }
}

/// Connects to the first address of a host that answers.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host((host, port)).await?.take(MOST_ADDRESSES) {
        match timeout(ONE_ADDRESS, TcpStream::connect(address)).await {
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

/// Connections that wait.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    kept: Mutex<Vec<(Connection, Instant)>>,
}

impl Pool {
    /// A connection to a server.
    pub(crate) async fn get(&self, origin: Origin) -> io::Result<Connection> {
        while let Some(mut connection) = self.take(&origin) {
            if connection.sender.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        match timeout(CONNECTING, Connection::open(origin)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn take(&self, origin: &Origin) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(connection, since)| {
            connection.sender.is_ready() && since.elapsed() < LONGEST_REST
        });
        let place = kept.iter().position(|(connection, _)| connection.origin == *origin)?;
        Some(kept.swap_remove(place).0)
    }

    /// Keeps a connection whose last answer was read to the end.
    pub(crate) fn keep(&self, connection: Connection) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT && !connection.sender.is_closed() {
            kept.push((connection, Instant::now()));
        }
    }
}
