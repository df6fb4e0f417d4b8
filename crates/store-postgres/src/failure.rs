//! Why an attempt failed, and whether another one may be made.

use cofferdam_store::StoreError;
use cofferdam_types::error_chain;
use tokio_postgres::error::SqlState;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing has happened, and the next attempt may go better.
    Again(String),
    /// The connection was lost on the commit: it has happened or not.
    InDoubt(String),
    /// Another attempt would not help.
    Final(StoreError),
}

/// What an attempt comes to.
pub(crate) type Attempt<T> = Result<T, Failure>;

impl Failure {
    /// What is stored makes no sense.
    pub(crate) fn broken(what: impl Into<String>) -> Self {
        Self::Final(StoreError::Broken(what.into()))
    }

    /// A commit's failure. Only an answer of the server says that nothing happened.
    pub(crate) fn of_commit(error: &tokio_postgres::Error) -> Self {
        if is_lost(error) { Self::InDoubt(words(error)) } else { error.into() }
    }

    /// What to tell the caller when there is no time for another attempt.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Again(reason) => StoreError::Unavailable(reason),
            Self::InDoubt(reason) => StoreError::Unavailable(format!(
                "{reason}; it is not known whether the change was made"
            )),
            Self::Final(error) => error,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Final(error)
    }
}

impl From<&tokio_postgres::Error> for Failure {
    fn from(error: &tokio_postgres::Error) -> Self {
        if is_lost(error) {
            return Self::Again(words(error));
        }
        let Some(code) = error.code() else {
            return Self::broken(words(error));
        };
        let reason = words(error);
        let again = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::TOO_MANY_CONNECTIONS,
            // A row that another transaction has removed meanwhile.
            SqlState::FOREIGN_KEY_VIOLATION,
        ];
        let later = [
            SqlState::QUERY_CANCELED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::OUT_OF_MEMORY,
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ];
        if again.contains(code) {
            Self::Again(reason)
        } else if *code == SqlState::DISK_FULL {
            Self::Final(StoreError::Full(reason))
        } else if later.contains(code) {
            Self::Final(StoreError::Unavailable(reason))
        } else if let Some(remedy) = remedy(code) {
            let cause = format!("PostgreSQL refuses: {reason}");
            Self::Final(StoreError::Unusable { cause, remedy: remedy.to_owned() })
        } else {
            Self::broken(format!("{reason} (SQLSTATE {})", code.code()))
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::from(&error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::broken(error.to_string())
    }
}

/// Whether the connection is gone, or the server will not keep it.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // What is said without the server is about the connection, or it is about
        // values, and then has a source that is neither.
        let mut source = std::error::Error::source(error);
        while let Some(error) = source {
            if error.is::<std::io::Error>() {
                return true;
            }
            source = error.source();
        }
        return error.is_closed();
    };
    let gone = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    gone.contains(code) || code.code().starts_with("08")
}

fn remedy(code: &SqlState) -> Option<&'static str> {
    let about = match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and the password in the database's URL, and pg_hba.conf"
        }
        SqlState::INVALID_CATALOG_NAME => "make the database with `createdb`, or name another one",
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "let the user of the URL own the database, or its schema `cofferdam`"
        }
        _ => return None,
    };
    Some(about)
}

fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(answer) => answer.message().to_owned(),
        None => error_chain(error),
    }
}
