//! Connections: the way to a server, and what is at its end.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::proxy::{Proxy, Way, way};
use super::tls::secure;
use crate::endpoint::Site;

/// Bytes that a proxy may answer before its tunnel begins.
const LONGEST_PROXY_ANSWER: usize = 16 << 10;
/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 6;
/// What one address gets if there are others: a dead one must not use up the
/// time of those that live.
const ONE_ADDRESS: Duration = Duration::from_secs(3);

/// A stream of bytes both ways.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// An HTTP connection. Dropping it closes it.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes.
    _driver: JoinSet<()>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").field("sender", &self.sender).finish()
    }
}

/// The way to a server.
#[derive(Clone, Debug)]
pub(super) struct Route {
    way: Way,
    /// Whether the proxy reads each request, because there is no tunnel.
    forwarded: bool,
}

impl Route {
    /// Finds the way, by the variables of the environment.
    pub(super) fn to(site: &Site, variable: impl Fn(&str) -> Option<String>) -> Self {
        let way = way(site, variable);
        let forwarded = !site.tls && matches!(way, Way::Through(_));
        Self { way, forwarded }
    }

    /// What a request's first line names.
    pub(super) fn target(&self, site: &Site, path: &str) -> String {
        if self.forwarded {
            return format!("http://{}{path}", site.authority);
        }
        path.to_owned()
    }

    /// A header of the proxy's in each request.
    pub(super) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let Way::Through(Proxy { credentials: Some(credentials), .. }) = &self.way else {
            return None;
        };
        let mut value = HeaderValue::from_str(credentials.reveal()).ok()?;
        value.set_sensitive(true);
        self.forwarded.then_some((PROXY_AUTHORIZATION, value))
    }

    /// Makes a connection.
    pub(super) async fn open(&self, site: &Site) -> io::Result<Connection> {
        let mut stream: Box<dyn Socket> = match &self.way {
            Way::Direct => Box::new(dial(&site.host, site.port).await?),
            Way::Through(proxy) => to_proxy(proxy).await?,
            Way::Unusable(why) => return Err(io::Error::other(why.clone())),
        };
        if site.tls {
            if let Way::Through(proxy) = &self.way {
                tunnel(&mut stream, proxy, site).await?;
            }
            stream = Box::new(secure(stream, &site.host).await?);
        }
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // Whoever waits for an answer is told of the failure as well.
            drop(connection.await);
        });
        Ok(Connection { sender, _driver: driver })
    }
}

async fn to_proxy(proxy: &Proxy) -> io::Result<Box<dyn Socket>> {
    let stream = dial(&proxy.host, proxy.port).await?;
    if proxy.tls {
        return Ok(Box::new(secure(Box::new(stream), &proxy.host).await?));
    }
    Ok(Box::new(stream))
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

/// Asks a proxy for a tunnel to a site.
async fn tunnel(stream: &mut Box<dyn Socket>, proxy: &Proxy, site: &Site) -> io::Result<()> {
    let bracketed =
        if site.host.contains(':') { format!("[{}]", site.host) } else { site.host.clone() };
    let authority = format!("{bracketed}:{}", site.port);
    let credentials = proxy.credentials.as_ref();
    let credentials =
        credentials.map(|value| format!("Proxy-Authorization: {}\r\n", value.reveal()));
    let request = format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{}\r\n",
        credentials.unwrap_or_default(),
    );
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to the tunnel.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > LONGEST_PROXY_ANSWER {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(&answer).map_err(io::Error::other)?;
    match response.code {
        Some(200..=299) => Ok(()),
        code => {
            let message = format!("the proxy {} answered {}", proxy.host, code.unwrap_or_default());
            Err(io::Error::other(message))
        }
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
