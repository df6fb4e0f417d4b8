//! What can go wrong with the desktop, in words that say what to do.

use std::io;
use std::path::PathBuf;

use cofferdam_aide_protocol::{DeskFailure, DeskFailureKind, Refused};
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

/// Why something on the desktop was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeskError {
    /// The words on the command line or the action make no sense.
    #[error("{0}")]
    Refused(String),
    /// There is no desktop.
    #[error("no desktop runs under the name `{name}`; `desk start` starts one")]
    NotRunning { name: String },
    /// A program is not installed.
    #[error("{what} is not installed; on Debian and Ubuntu: apt-get install {package}")]
    Missing { what: &'static str, package: &'static str },
    /// Somebody asked to end.
    #[error("it was interrupted before it was done")]
    Interrupted,
    /// A program did not come up.
    #[error("{program} did not come up: {why}")]
    Start { program: &'static str, why: String },
    /// A file of the state directory.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    /// The operating system.
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
    /// The X server does not let us in.
    #[error("cannot connect to the desktop's X server: {0}")]
    Connect(#[from] ConnectError),
    /// The X server has gone away.
    #[error("lost the desktop's X server: {0}")]
    Lost(#[from] ConnectionError),
    /// The X server refuses something.
    #[error("the desktop's X server refused: {0}")]
    Protocol(String),
    /// Something that should not be so.
    #[error("{0}")]
    Broken(String),
}

impl DeskError {
    /// As the one who asked is told.
    pub(crate) fn failure(&self) -> DeskFailure {
        let kind = match self {
            Self::Refused(_) => DeskFailureKind::Refused,
            Self::NotRunning { .. } => DeskFailureKind::NotRunning,
            Self::Missing { .. } => DeskFailureKind::Missing,
            Self::Interrupted => DeskFailureKind::Interrupted,
            Self::Start { .. }
            | Self::File { .. }
            | Self::System { .. }
            | Self::Connect(_)
            | Self::Lost(_)
            | Self::Protocol(_)
            | Self::Broken(_) => DeskFailureKind::Broken,
        };
        DeskFailure { kind, why: self.to_string() }
    }
}

impl From<ReplyError> for DeskError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::ConnectionError(error) => Self::Lost(error),
            ReplyError::X11Error(error) => Self::Protocol(format!("{error:?}")),
        }
    }
}

impl From<ReplyOrIdError> for DeskError {
    fn from(error: ReplyOrIdError) -> Self {
        match error {
            ReplyOrIdError::ConnectionError(error) => Self::Lost(error),
            ReplyOrIdError::X11Error(error) => Self::Protocol(format!("{error:?}")),
            ReplyOrIdError::IdsExhausted => Self::Protocol("no ids are left".to_owned()),
        }
    }
}

impl From<Refused> for DeskError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.0)
    }
}
