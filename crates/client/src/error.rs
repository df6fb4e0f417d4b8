//! What can go wrong between a client and its server.

use std::io;
use std::time::Duration;

use cofferdam_api::Problem;

/// Why a request was not fulfilled.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no server answers at {url}")]
    NoServer {
        /// Where.
        url: String,
        /// Why not.
        source: io::Error,
    },
    /// The server cannot be reached: its name, the network or TLS.
    #[error("{url} cannot be reached")]
    Unreachable {
        /// Where.
        url: String,
        /// Why not.
        source: io::Error,
    },
    /// The connection broke. What was asked may have been done or not.
    #[error("the connection to {url} broke: {cause}")]
    Lost {
        /// To whom.
        url: String,
        /// How.
        cause: String,
    },
    /// Nothing came for too long.
    #[error("{url} sent nothing for {} s", after.as_secs_f32())]
    Stalled {
        /// Who.
        url: String,
        /// For how long.
        after: Duration,
    },
    /// The server refuses, and says why.
    #[error("{problem}")]
    Refused {
        /// What it says.
        problem: Box<Problem>,
        /// When another try may help.
        retry_after: Option<Duration>,
    },
    /// The answer is not one of this API.
    #[error("{url} does not answer as a server of cofferdam: {cause}")]
    Nonsense {
        /// Who.
        url: String,
        /// What is wrong with it.
        cause: String,
        /// Its status.
        status: u16,
    },
    /// The token would go where anybody can read it.
    #[error("the token would be sent to {host} without TLS")]
    Exposed {
        /// Where to.
        host: String,
    },
    /// The token cannot be one.
    #[error("the token holds characters that no token has, such as a line break")]
    Token,
    /// What was to be sent cannot be read.
    #[error("what is to be sent cannot be read")]
    Content(#[source] io::Error),
    /// What came is not what was sent.
    #[error("what was downloaded is not what was sent: {cause}")]
    Spoilt {
        /// In which way.
        cause: String,
    },
}

impl ClientError {
    /// The status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { problem, .. } => Some(problem.status),
            Self::Nonsense { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the request never reached the server.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::NoServer { .. } | Self::Unreachable { .. })
    }

    /// Whether the same may well be answered in a moment.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::NoServer { .. }
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Stalled { .. } => true,
            // 502 and 504 are a proxy's words for a server that is not there.
            Self::Refused { .. } | Self::Nonsense { .. } => {
                matches!(self.status(), Some(429 | 502 | 503 | 504))
            }
            Self::Exposed { .. } | Self::Token | Self::Content(_) | Self::Spoilt { .. } => false,
        }
    }

    /// When the server says that another try may help.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
