//! Why a call did not do what it was meant to, in words for the model.

use cofferdam_guest_protocol::FileError;
use cofferdam_sandbox::{CallError, FilesError};
use cofferdam_types::{ToolOutput, ToolStatus};

/// Why a call did not do what it was meant to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It was not begun.
    Refused(String),
    /// It was tried, and nothing has changed.
    Failed(String),
    /// It was begun, and what became of it is not known.
    Unknown(String),
}

impl Trouble {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused(reason.into())
    }

    /// What a failed operation on a file means.
    pub(crate) fn of_file(path: &str, error: &FilesError) -> Self {
        match error {
            FilesError::Call(CallError::ConnectionLost { reason }) => Self::Unknown(format!(
                "{path}: the connection to the sandbox was lost ({reason}); whether it was done is not known"
            )),
            FilesError::File(FileError::Outside) => Self::Failed(format!(
                "{path}: the path leads out of the workspace. Paths are relative to /workspace, \
                 or absolute and beneath it; for anything else use bash"
            )),
            FilesError::File(FileError::Changed(_)) => Self::Failed(format!(
                "{path}: somebody else changed the file meanwhile; nothing was written. \
                 Read it again, then repeat the change"
            )),
            other => Self::Failed(format!("{path}: {other}")),
        }
    }

    /// What the model is told.
    pub(crate) fn output(self) -> ToolOutput {
        let (status, text) = match self {
            Self::Refused(text) => (ToolStatus::Refused, text),
            Self::Failed(text) => (ToolStatus::Failed, text),
            Self::Unknown(text) => (ToolStatus::Unknown, text),
        };
        ToolOutput::text(status, text)
    }
}
