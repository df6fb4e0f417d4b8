//! How the file is opened: ours alone to read, and with the settings that
//! durability hangs on, which are read back.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use cofferdam_store::{About, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::failed;
use crate::schema;

/// The oldest SQLite that will do: earlier ones can lose a commit in WAL mode.
const OLDEST: i32 = 3_051_003;

/// How long a connection waits for another process.
const BUSY: Duration = Duration::from_secs(5);

/// How often the way of writing is set before it is given up.
const TRIES: u32 = 500;

/// Statements that a connection keeps compiled.
const STATEMENTS: usize = 64;

/// Bytes of log that are kept for use again once they are in the file.
const LOG_KEPT: i64 = 64 << 20;

/// KiB of pages that the writer, and each reader, keeps in memory.
const WRITER_CACHE: i64 = -8192;
const READER_CACHE: i64 = -2048;

/// The connection that writes, with all tables in place.
pub(crate) fn writer(path: &Path) -> Result<Connection, StoreError> {
    check_version(rusqlite::version_number())?;
    create(path)?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let look = schema::check(&connection);
    look.map_err(|error| not_ours(path, error))?;
    make_private(path)?;
    let set = |name, value: &str| connection.pragma_update(None, name, value).map_err(failed);
    // SQLite does not wait for others who make the same change at the same time.
    let mut tries = 0;
    while let Err(error) = set("journal_mode", "WAL") {
        tries += 1;
        if tries == TRIES {
            return Err(error);
        }
        std::thread::sleep(BUSY / TRIES);
    }
    set("synchronous", "FULL")?;
    set("foreign_keys", "ON")?;
    set("temp_store", "MEMORY")?;
    set("trusted_schema", "OFF")?;
    set("journal_size_limit", &LOG_KEPT.to_string())?;
    set("cache_size", &WRITER_CACHE.to_string())?;
    check_settings(path, &about(&connection)?)?;
    schema::migrate(&mut connection)?;
    Ok(connection)
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "query_only", "ON").map_err(failed)?;
    connection.pragma_update(None, "trusted_schema", "OFF").map_err(failed)?;
    connection.pragma_update(None, "cache_size", READER_CACHE).map_err(failed)?;
    Ok(connection)
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    // Each connection stays in one thread.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise a statement is compiled anew whenever a value that its plan might
    // depend on is another: for every call.
    let stable = DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    connection.set_db_config(stable, true).map_err(failed)?;
    Ok(connection)
}

/// What the engine is, and its settings as they really are.
pub(crate) fn about(connection: &Connection) -> Result<About, StoreError> {
    let read = |name: &str| -> Result<String, StoreError> {
        let value = connection.pragma_query_value(None, name, |row| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                other => other.as_str()?.to_owned(),
            })
        });
        value.map_err(failed)
    };
    let settings = [
        ("journal_mode", read("journal_mode")?),
        ("synchronous", synchronous(&read("synchronous")?)),
        ("foreign_keys", read("foreign_keys")?),
        ("busy_timeout", read("busy_timeout")?),
    ];
    Ok(About {
        engine: "sqlite".to_owned(),
        version: rusqlite::version().to_owned(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
    })
}

fn synchronous(level: &str) -> String {
    let name = match level {
        "0" => "off",
        "1" => "normal",
        "2" => "full",
        "3" => "extra",
        other => other,
    };
    name.to_owned()
}

fn check_version(number: i32) -> Result<(), StoreError> {
    let name =
        |number: i32| format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000);
    if number >= OLDEST {
        return Ok(());
    }
    Err(StoreError::Unusable {
        cause: format!(
            "this program is linked to SQLite {}, which can lose what it has acknowledged",
            name(number)
        ),
        remedy: format!("link it to SQLite {} or later", name(OLDEST)),
    })
}

fn check_settings(path: &Path, about: &About) -> Result<(), StoreError> {
    let is = |name: &str, wanted: &str| {
        about.settings.iter().any(|(found, value)| found == name && value == wanted)
    };
    if is("journal_mode", "wal") && is("synchronous", "full") && is("foreign_keys", "1") {
        return Ok(());
    }
    Err(StoreError::Unusable {
        cause: format!("{} cannot be made durable: {:?}", path.display(), about.settings),
        remedy: "keep the database on a local disk".to_owned(),
    })
}

/// Sees that the file is there. A new one is its owner's alone to read, and SQLite
/// gives the files beside it the same permissions.
fn create(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        // The file's name is as durable as what will be in it.
        Ok(_) => File::open(parent(path)).and_then(|directory| directory.sync_all()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let is_file = fs::metadata(path).map(|about| about.is_file());
            is_file.and_then(|yes| yes.then_some(()).ok_or(ErrorKind::IsADirectory.into()))
        }
        Err(error) => Err(error),
    }
    .map_err(|error| cannot("open", path, &error))
}

/// Sees that nobody else can read the files, who could before.
fn make_private(path: &Path) -> Result<(), StoreError> {
    for beside in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        match fs::set_permissions(&name, fs::Permissions::from_mode(0o600)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot("protect", path, &error)),
        }
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn cannot(act: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unusable {
        cause: format!("cannot {act} the database {}: {error}", path.display()),
        remedy: "name a file in a directory that is there and writable for this user".to_owned(),
    }
}

/// A file that SQLite cannot read at all is no damage of ours.
fn not_ours(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Broken(reason) => StoreError::Unusable {
            cause: format!("{} cannot be read as a database: {reason}", path.display()),
            remedy: "name another file, or restore this one from a backup".to_owned(),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqlite_that_can_lose_commits_is_refused_by_its_name() {
        let Err(StoreError::Unusable { cause, remedy }) = check_version(3_051_002) else {
            panic!("it was taken");
        };
        assert!(cause.contains("SQLite 3.51.2"), "{cause}");
        assert!(remedy.contains("3.51.3"), "{remedy}");
        assert!(check_version(3_046_001).is_err());
        assert!(check_version(3_051_003).is_ok());
        assert!(check_version(rusqlite::version_number()).is_ok());
    }
}
