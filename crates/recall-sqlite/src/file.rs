//! The file: opened, found out when it is broken, and made anew.
//!
//! Everybody who has it open holds a lock, which is shared, on a second file. Only
//! who holds it alone removes anything: a file that is taken away under another
//! process would leave it with the log of a file that it does not have.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_recall::RecallError;
use rusqlite::{Connection, OpenFlags};

use crate::schema::{self, Found};
use crate::trouble::{Verdict, unusable, verdict};

/// How long to wait for another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks at whether it is done.
const LOOK: Duration = Duration::from_millis(5);

/// Statements that a connection keeps compiled.
const STATEMENTS: usize = 32;

/// KiB of pages that each connection keeps in memory.
const CACHE: i64 = -8192;

/// Pages that the log may have before they go into the file.
const LOG_PAGES: i64 = 1000;

/// Bytes of log that are kept for use again.
const LOG_KEPT: i64 = 16 << 20;

/// The file, held open.
pub(crate) struct Held {
    path: PathBuf,
    lock: File,
}

/// Its two connections: finding does not wait for adding.
pub(crate) struct Connections {
    pub(crate) writer: Connection,
    pub(crate) reader: Connection,
}

/// Why a file was not opened.
enum Refused {
    /// It has to be made anew.
    Stale(String),
    Outside(RecallError),
}

impl Held {
    /// Opens the file; makes it if it is not there, and anew if it is no good.
    pub(crate) fn open(path: &Path) -> Result<(Self, Connections), RecallError> {
        let mut name = path.as_os_str().to_owned();
        name.push("-lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(PathBuf::from(name));
        let lock = lock.map_err(|error| {
            let remedy = "name a file in a directory that is there and writable";
            unusable(path, format!("it cannot be locked: {error}; {remedy}"))
        })?;
        let held = Self { path: path.to_owned(), lock };
        held.share()?;
        match held.connect() {
            Ok(connections) => Ok((held, connections)),
            Err(Refused::Outside(error)) => Err(error),
            Err(Refused::Stale(reason)) => {
                let connections = held.remake(&reason)?;
                Ok((held, connections))
            }
        }
    }

    /// Makes the file anew. All connections to it must be closed.
    pub(crate) fn remake(&self, reason: &str) -> Result<Connections, RecallError> {
        let stale =
            |why: &str| RecallError::Stale(format!("{}: {reason}; {why}", self.path.display()));
        // A lock cannot be made stronger while it is held.
        self.lock.unlock().map_err(|error| unusable(&self.path, error))?;
        let alone = wait_for(|| self.lock.try_lock());
        if alone.is_err() {
            self.share()?;
            return Err(stale("another process has it open: end that one first"));
        }
        // Somebody may have made it anew meanwhile, and have gone.
        let made = match self.connect() {
            Ok(connections) if schema::is_whole(&connections.reader) => Ok(connections),
            _ => self.remove().and_then(|()| match self.connect() {
                Ok(connections) => Ok(connections),
                Err(Refused::Outside(error)) => Err(error),
                Err(Refused::Stale(_)) => Err(stale("it is no better when made anew")),
            }),
        };
        self.lock.unlock().map_err(|error| unusable(&self.path, error))?;
        self.share()?;
        made
    }

    fn share(&self) -> Result<(), RecallError> {
        wait_for(|| self.lock.try_lock_shared())
            .map_err(|reason| unusable(&self.path, format!("it is being made anew: {reason}")))
    }

    fn remove(&self) -> Result<(), RecallError> {
        for beside in ["-wal", "-shm", "-journal", ""] {
            let mut name = self.path.as_os_str().to_owned();
            name.push(beside);
            match fs::remove_file(&name) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(unusable(&self.path, format!("it cannot be removed: {error}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connect(&self) -> Result<Connections, Refused> {
        self.create().map_err(Refused::Outside)?;
        let writer = self.writer().map_err(|error| self.refused(&error))?;
        let Some(writer) = writer else {
            return Err(Refused::Stale("another release made it".to_owned()));
        };
        let reader = self.reader().map_err(|error| self.refused(&error))?;
        Ok(Connections { writer, reader })
    }

    /// A new file is its owner's alone to read. One that is there is not opened here:
    /// closing it would end the locks that this process has on it elsewhere.
    fn create(&self) -> Result<(), RecallError> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path);
        match made {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(unusable(&self.path, format!("it cannot be made: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// `None` if the tables are not ours.
    fn writer(&self) -> rusqlite::Result<Option<Connection>> {
        let mut connection = self.connection(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if schema::found(&connection)? == Found::Other {
            return Ok(None);
        }
        // SQLite does not wait for others who make the same change at the same time.
        let until = Instant::now() + PATIENCE;
        while let Err(error) = connection.pragma_update(None, "journal_mode", "WAL") {
            if verdict(&error) != Verdict::Outside || Instant::now() > until {
                return Err(error);
            }
            std::thread::sleep(LOOK);
        }
        // After a power cut the last additions may be missing, and the file is whole.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
        let made = schema::make(&mut connection)?;
        Ok((made == Found::Ours).then_some(connection))
    }

    fn reader(&self) -> rusqlite::Result<Connection> {
        let connection = self.connection(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.pragma_update(None, "query_only", "ON")?;
        // Fails here rather than later if the tables cannot be read.
        connection.query_row("SELECT reaches FROM state", [], |row| row.get::<_, i64>(0))?;
        Ok(connection)
    }

    fn connection(&self, access: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "trusted_schema", "OFF")?;
        connection.pragma_update(None, "cache_size", CACHE)?;
        Ok(connection)
    }

    fn refused(&self, error: &rusqlite::Error) -> Refused {
        match verdict(error) {
            Verdict::Outside => Refused::Outside(unusable(&self.path, error)),
            Verdict::Broken | Verdict::Doubtful => Refused::Stale(error.to_string()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn wait_for(mut lock: impl FnMut() -> Result<(), TryLockError>) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error.to_string()),
            Err(TryLockError::WouldBlock) if Instant::now() > until => {
                return Err("another process has it".to_owned());
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
}
