//! Listening, and what happens to each connection.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cofferdam_fleet::Fleet;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{App, Room};
use crate::connection::{Census, Impatient};
use crate::gate::Gate;
use crate::hosts::Hosts;
use crate::meters::Meters;
use crate::preview::{Domain, Previews};
use crate::routes;
use crate::sessions::Sessions;
use crate::setup::{Limits, ServeError, ServerSetup};

/// Bytes of the head of a request.
const HEAD: usize = 60 << 10;
/// Bytes that are kept of what a connection sends or takes.
const BUFFER: usize = 64 << 10;
/// Connections that wait to be taken.
const BACKLOG: u32 = 1024;
/// Before connections are taken again after that had failed.
const PAUSE: Duration = Duration::from_millis(50);
/// Open files that are left for other things than connections.
const OTHER_FILES: u64 = 256;

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    gate: Arc<Gate>,
    census: Arc<Census>,
}

/// Begins to listen. Connections wait until [`Server::serve`] takes them.
///
/// # Errors
/// When that cannot be, or would put tokens at risk.
pub async fn bind(setup: ServerSetup, fleet: Arc<Fleet>) -> Result<Server, ServeError> {
    let ServerSetup { listen, tls, limits, .. } = &setup;
    if !listen.ip().to_canonical().is_loopback() && tls.is_none() && !setup.insecure_public {
        return Err(ServeError::Insecure(*listen));
    }
    let tls = tls.as_ref().map(crate::tls::acceptor).transpose()?;
    let spool = spool(&setup.data)?;
    let listener =
        listener(*listen).map_err(|source| ServeError::Listen { address: *listen, source })?;
    let address =
        listener.local_addr().map_err(|source| ServeError::Listen { address: *listen, source })?;
    let hosts =
        Hosts::new(address, tls.is_some(), &setup.allowed_hosts).map_err(ServeError::Host)?;
    let domain = Domain::new(setup.preview_domain.as_deref()).map_err(ServeError::Host)?;
    let app = Arc::new(App {
        fleet,
        limits: *limits,
        hosts,
        tls: tls.is_some(),
        public_metrics: setup.public_metrics,
        viewer: setup.viewer.clone(),
        spool,
        sessions: Sessions::default(),
        previews: Previews::new(domain),
        meters: Meters::default(),
        stopping: CancellationToken::new(),
        tasks: TaskTracker::new(),
        room: Room::new(limits.at_once),
    });
    let (router, table) = routes::all(&app);
    let census = Census::new(connections(limits), limits.connections_per_address);
    Ok(Server { listener, address, tls, gate: Arc::new(Gate { app, table, router }), census })
}

fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a server that was just stopped can be started again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// How many connections the machine's limit on open files allows.
fn connections(limits: &Limits) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.unwrap_or(u64::MAX);
    let room = files.saturating_sub(OTHER_FILES).max(files / 2);
    limits.connections.min(usize::try_from(room).unwrap_or(usize::MAX))
}

/// A place for what comes in, empty.
fn spool(data: &Path) -> Result<PathBuf, ServeError> {
    let path = data.join("spool");
    let unusable = |source| ServeError::Data { path: path.clone(), source };
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unusable(error)),
        _ => {}
    }
    std::fs::create_dir_all(&path).map_err(unusable)?;
    Ok(path)
}

impl Server {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is there; then takes no more connections, and lets
    /// those that are there end.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let app = Arc::clone(&self.gate.app);
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.take(&mut connections, stream, peer.ip()),
                    Err(error) => {
                        // Out of files, say: others may be closed meanwhile.
                        tracing::warn!(error = %error, "cannot take a connection");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        app.stopping.cancel();
        app.tasks.close();
        let farewell = async {
            while connections.join_next().await.is_some() {}
            app.tasks.wait().await;
        };
        if tokio::time::timeout(app.limits.farewell, farewell).await.is_err() {
            connections.shutdown().await;
        }
    }

    fn take(&self, connections: &mut JoinSet<()>, stream: TcpStream, peer: IpAddr) {
        let meters = &self.gate.app.meters;
        let Some(admitted) = self.census.admit(peer) else {
            meters.turned_away.inc();
            return;
        };
        meters.connections.inc();
        let gate = Arc::clone(&self.gate);
        let tls = self.tls.clone();
        connections.spawn(async move {
            serve_one(&gate, tls, stream, peer).await;
            gate.app.meters.connections.dec();
            drop(admitted);
        });
    }
}

async fn serve_one(gate: &Arc<Gate>, tls: Option<TlsAcceptor>, stream: TcpStream, peer: IpAddr) {
    let limits = &gate.app.limits;
    // Answers are written whole; waiting to fill a packet only delays them.
    drop(stream.set_nodelay(true));
    let stream = Impatient::new(stream, limits.stall);
    let Some(tls) = tls else { return converse(gate, stream, peer).await };
    match tokio::time::timeout(limits.head_time, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(gate, stream, peer).await,
        Ok(Err(error)) => tracing::debug!(error = %error, "no TLS"),
        Err(_) => tracing::debug!("no TLS in time"),
    }
}

async fn converse<Io>(gate: &Arc<Gate>, io: Io, peer: IpAddr)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let gate = Arc::clone(gate);
        async move { gate.answer(request, peer).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(gate.app.limits.head_time)
        .max_header_size(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = gate.app.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection ended badly");
    }
}
