//! Why a model has not answered.

use std::time::Duration;

use cofferdam_types::{FailureKind, ModelFailure};

/// Why a model has not answered, or not to the end. Whether asking again may
/// help is data: [`FailureKind::passes`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: FailureKind,
    /// What happened, for people. Holds no key.
    pub message: String,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

impl From<ModelError> for ModelFailure {
    fn from(error: ModelError) -> Self {
        let ModelError { kind, message, retry_after } = error;
        Self { kind, message, retry_after }
    }
}
