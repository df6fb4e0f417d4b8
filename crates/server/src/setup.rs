//! How a server is set up, and why one cannot be.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerSetup {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The names that it is reached by, each with a port or, for any port,
    /// without. Loopback and the address that it listens on are always among
    /// them.
    pub allowed_hosts: Vec<String>,
    /// The certificate for TLS.
    pub tls: Option<TlsFiles>,
    /// Whether it may be reached from other machines without TLS.
    pub insecure_public: bool,
    /// Whether measurements can be read without a token.
    pub public_metrics: bool,
    /// The domain that previews are shown below, with a port or without; every name
    /// below it leads to this server. `localhost`, for people on this machine, if
    /// there is none.
    pub preview_domain: Option<String>,
    /// Where noVNC is looked for.
    pub viewer: Option<Viewer>,
    /// Where this server keeps its files: archives that come in pass through it.
    pub data: PathBuf,
    /// How much it takes.
    pub limits: Limits,
}

impl ServerSetup {
    /// A server that listens here, with everything else as usual.
    #[must_use]
    pub fn new(listen: SocketAddr, data: PathBuf) -> Self {
        Self {
            listen,
            allowed_hosts: Vec::new(),
            tls: None,
            insecure_public: false,
            public_metrics: false,
            preview_domain: None,
            viewer: None,
            data,
            limits: Limits::default(),
        }
    }
}

/// Where noVNC, which shows desktops on the page, is looked for.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// The directory that things are installed into.
    pub prefix: PathBuf,
    /// Finds the directory of its modules, if they are installed there by now.
    pub find: fn(&Path) -> Option<PathBuf>,
}

/// A certificate and its key, each a PEM file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that it hangs on.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How much a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. Fewer where the machine allows fewer open files.
    pub connections: usize,
    /// Connections at once from one address. Loopback, where a proxy may stand
    /// for many, is not counted.
    pub connections_per_address: usize,
    /// Time for the head of a request, also for the next one of a connection.
    pub head_time: Duration,
    /// Time for a body that is read whole.
    pub body_time: Duration,
    /// Bytes of a body that is read whole.
    pub body: u64,
    /// Bytes of an archive that is sent.
    pub upload: u64,
    /// Bytes of a file that is sent into a sandbox.
    pub file: u64,
    /// Time in which nothing may move: for a body that is streamed, and for an
    /// answer that is not read.
    pub stall: Duration,
    /// Bytes a second that a streamed body must bring after its first half
    /// minute.
    pub least_rate: u64,
    /// Time for an answer to begin.
    pub answer_time: Duration,
    /// The same where a command runs or an archive comes in.
    pub long_answer_time: Duration,
    /// Time that a command may ask for.
    pub exec_time: Duration,
    /// Time of a command that asks for none.
    pub exec_time_default: Duration,
    /// Bytes kept of each output of a command.
    pub exec_output: u64,
    /// Commands, and also looks at finished jobs, archives coming in, terminals
    /// and screens, at once of each.
    pub at_once: usize,
    /// Time after which a terminal, or a screen, without any bytes is closed.
    pub terminal_idle: Duration,
    /// Time after which a desktop is given back by whoever took it over and does
    /// not act.
    pub hands_idle: Duration,
    /// Between two signs of life on a stream.
    pub heartbeat: Duration,
    /// Time that connections have to end when the server does.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 512,
            head_time: Duration::from_secs(20),
            body_time: Duration::from_secs(20),
            body: 2 << 20,
            upload: 1 << 30,
            file: 1 << 30,
            stall: Duration::from_secs(30),
            least_rate: 1024,
            answer_time: Duration::from_secs(60),
            long_answer_time: Duration::from_secs(3600),
            exec_time: Duration::from_secs(600),
            exec_time_default: Duration::from_secs(60),
            exec_output: 1 << 20,
            at_once: 64,
            terminal_idle: Duration::from_secs(3600),
            hands_idle: Duration::from_secs(600),
            heartbeat: Duration::from_secs(15),
            farewell: Duration::from_secs(10),
        }
    }
}

/// Why a server cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It would be open to others without TLS.
    #[error("{0} can be reached from other machines, and tokens would be sent in the clear")]
    Insecure(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{path}: {reason}")]
    Tls {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A name that is to be allowed is none.
    #[error("{0:?} is no host name")]
    Host(String),
    /// The place for archives that come in cannot be used.
    #[error("{path}")]
    Data {
        /// Which directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ServeError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Insecure(_) => {
                "listen on 127.0.0.1, or give a certificate (--tls-cert, --tls-key), or say \
                 --insecure-public if something in front of it speaks TLS"
            }
            Self::Listen { .. } => "choose another address with --listen, or stop what uses it",
            Self::Tls { .. } => "give a PEM file with the certificate chain, and one with its key",
            Self::Host(_) => "write a name such as cofferdam.example.com or 10.0.0.5:8000",
            Self::Data { .. } => "make room, or mend the permissions, or choose another --data",
        }
    }
}
