//! What can go wrong with an index.

/// Why an index cannot answer. Nothing is lost with it.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// Its file cannot be read or written.
    #[error("the index cannot be used: {0}")]
    Unusable(String),
    /// Another release made it, or it is broken: it has to be made anew.
    #[error("the index has to be made anew: {0}")]
    Stale(String),
    /// What texts mean cannot be told. What was found by words stands.
    #[error("the embedder cannot be used: {0}")]
    Embedder(String),
}
