//! Why a store could not do what it was asked.

/// Why a store could not do what it was asked. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or is too busy: the same call may work later.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// There is no room.
    #[error("the database has no room: {0}")]
    Full(String),
    /// The lease is another's by now; whoever asked must stop working on the job.
    #[error("the job was taken over by another process")]
    Fenced,
    /// No such thing.
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// Something of this name is there.
    #[error("there is already a {0} of this name")]
    Taken(&'static str),
    /// What is asked for is for jobs that are over.
    #[error("the job is not over: cancel it first")]
    NotOver,
    /// A later release has changed the database.
    #[error(
        "the database has schema {found}; this release knows schemas up to {known}: use a newer \
         release of Cofferdam, or another database"
    )]
    Newer {
        /// Its schema.
        found: i64,
        /// The newest known here.
        known: i64,
    },
    /// It cannot be used.
    #[error("{cause}")]
    Unusable {
        /// Why.
        cause: String,
        /// What would mend it.
        remedy: String,
    },
    /// What is stored makes no sense, or a query failed in an unforeseen way.
    #[error("the database is not as it should be: {0}")]
    Broken(String),
}
