//! The directory of one desktop: what its processes leave for one another.
//!
//! | file | who holds or writes it |
//! | --- | --- |
//! | `lock` | locked by `desk start` as long as the desktop lives |
//! | `hands` | locked by the action that is being done, touched before and after |
//! | `authority` | the key to the display |
//! | `vnc` | the socket for viewers |
//! | `seen` | what the screen looked like when it was last shown |
//! | `held` | there while the job holds the left button down between two actions |
//! | `lent` | which keys of the keyboard were given a meaning of ours |
//! | `environment` | the variables of programs on the desktop, as a shell reads them |
//! | `ready` | written when the desktop can be used: where all this is |
//!
//! All of it is gone when the desktop is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cofferdam_aide_protocol::Desktop;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};

use super::error::DeskError;

/// What names the state directory of the aide, and where it is below the home.
const VARIABLE: &str = "COFFERDAM_AIDE_STATE";
const BELOW_HOME: &str = ".cofferdam/aide";

/// The kernel takes no longer path for a socket.
const LONGEST_SOCKET: usize = 107;

/// No file here is longer.
const LONGEST_FILE: u64 = 4 << 20;

/// The directory of one desktop.
#[derive(Clone, Debug)]
pub(super) struct State {
    name: String,
    directory: PathBuf,
}

/// What `desk start` writes when the desktop can be used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) desktop: Desktop,
    /// The process that keeps the desktop.
    pub(super) keeper: i32,
}

impl State {
    /// The directory of the desktop of this name, which need not be there.
    pub(super) fn of(name: &str) -> Result<Self, DeskError> {
        let above = match (std::env::var_os(VARIABLE), std::env::var_os("HOME")) {
            (Some(directory), _) => PathBuf::from(directory),
            (None, Some(home)) => PathBuf::from(home).join(BELOW_HOME),
            (None, None) => {
                let why = format!("neither {VARIABLE} nor HOME says where the desktop's files go");
                return Err(DeskError::Refused(why));
            }
        };
        let above = std::path::absolute(above)
            .map_err(|source| DeskError::System { what: "find the state directory", source })?;
        Ok(Self { name: name.to_owned(), directory: above.join(format!("desk-{name}")) })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn authority(&self) -> PathBuf {
        self.directory.join("authority")
    }

    /// Where viewers connect.
    pub(super) fn vnc(&self) -> Result<PathBuf, DeskError> {
        let path = self.directory.join("vnc");
        if path.as_os_str().as_bytes().len() > LONGEST_SOCKET {
            let (path, longest) = (path.display(), LONGEST_SOCKET);
            return Err(DeskError::Refused(format!(
                "{path} is too long for a socket (at most {longest} bytes): \
                 set {VARIABLE} to a shorter directory"
            )));
        }
        Ok(path)
    }

    pub(super) fn not_running(&self) -> DeskError {
        DeskError::NotRunning { name: self.name.clone() }
    }

    /// Becomes the one who keeps this desktop; `None` if there is one already.
    pub(super) fn try_keep(&self) -> Result<Option<File>, DeskError> {
        loop {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.directory)
                .map_err(|source| self.trouble("make", &self.directory, source))?;
            let path = self.directory.join("lock");
            let file = match open(&path, Missing::Create) {
                Ok(file) => file,
                // Its last keeper is just removing the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(self.trouble("open", &path, source)),
            };
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Some(file)),
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => return Ok(None),
                Err(fs::TryLockError::Error(source)) => {
                    return Err(self.trouble("lock", &path, source));
                }
            }
        }
    }

    /// Whether somebody keeps this desktop.
    pub(super) fn is_kept(&self) -> bool {
        let file = open(&self.directory.join("lock"), Missing::Fail);
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
    }

    /// Makes the file that actions lock.
    pub(super) fn make_hands(&self) -> Result<(), DeskError> {
        let path = self.directory.join("hands");
        let made = open(&path, Missing::Create);
        made.map(drop).map_err(|source| self.trouble("make", &path, source))
    }

    /// The desktop's hands, if nobody uses them now.
    pub(super) fn try_hands(&self) -> Option<File> {
        let path = self.directory.join("hands");
        let file = open(&path, Missing::Fail).ok()?;
        (file.try_lock().is_ok() && is_at(&file, &path)).then_some(file)
    }

    /// When the hands were last used, as a value to compare.
    pub(super) fn last_use(&self) -> Option<SystemTime> {
        fs::metadata(self.directory.join("hands")).and_then(|data| data.modified()).ok()
    }

    /// What is written about a desktop that can be used.
    pub(super) fn ready(&self) -> Option<Ready> {
        let ready = self.read("ready").and_then(|bytes| serde_json::from_slice(&bytes).ok())?;
        self.is_kept().then_some(ready)
    }

    /// Writes what others need to know of a desktop that can be used.
    pub(super) fn write_ready(&self, ready: &Ready) -> Result<(), DeskError> {
        let Desktop { display, authority, .. } = &ready.desktop;
        let authority = authority.replace('\'', r"'\''");
        let variables = format!("export DISPLAY={display} XAUTHORITY='{authority}'\n");
        self.write("environment", variables.as_bytes())?;
        let bytes = serde_json::to_vec(ready)
            .map_err(|error| DeskError::Broken(format!("cannot write `ready`: {error}")))?;
        self.write("ready", &bytes)
    }

    pub(super) fn seen(&self) -> Option<Vec<u8>> {
        self.read("seen")
    }

    /// Keeps what the screen looked like. Where that cannot be written nothing is kept:
    /// better than what was seen earlier.
    pub(super) fn keep_seen(&self, seen: &[u8]) {
        if self.write("seen", seen).is_err() {
            fs::remove_file(self.directory.join("seen")).ok();
        }
    }

    /// Whether the job holds the left button down between two actions.
    pub(super) fn is_held(&self) -> bool {
        self.directory.join("held").exists()
    }

    /// Notes whether it does. A note that is missing lets go too early, and only when a
    /// person's connection broke.
    pub(super) fn note_held(&self, held: bool) {
        if held {
            self.write("held", b"").ok();
        } else {
            fs::remove_file(self.directory.join("held")).ok();
        }
    }

    /// The keys that were given another meaning, the longest ago first.
    pub(super) fn lent(&self) -> Vec<u8> {
        self.read("lent").unwrap_or_default()
    }

    pub(super) fn write_lent(&self, keys: &[u8]) -> Result<(), DeskError> {
        self.write("lent", keys)
    }

    pub(super) fn write_authority(&self, bytes: &[u8]) -> Result<(), DeskError> {
        self.write("authority", bytes)
    }

    /// Lets nobody find it any more.
    pub(super) fn hide(&self) {
        for name in ["ready", "environment"] {
            // What is not there needs no removing.
            fs::remove_file(self.directory.join(name)).ok();
        }
    }

    /// Removes what a keeper that was killed left, but not the lock.
    pub(super) fn clear(&self) {
        for name in
            ["ready", "environment", "hands", "authority", "vnc", "seen", "lent", "held", "fluxbox"]
        {
            // What is not there needs no removing.
            fs::remove_file(self.directory.join(name)).ok();
        }
    }

    /// Removes everything. Only its keeper may.
    pub(super) fn remove(&self) -> Result<(), DeskError> {
        // First of all nobody is to find it any more.
        self.clear();
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.trouble("remove", &self.directory, error))
            }
            _ => Ok(()),
        }
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.directory.join(name);
        let length = fs::metadata(&path).ok()?.len();
        if length > LONGEST_FILE { None } else { fs::read(path).ok() }
    }

    /// Writes a file that nobody ever sees half.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DeskError> {
        let path = self.directory.join(name);
        let new = self.directory.join(format!("{name}.new"));
        let written = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            fs::rename(&new, &path)
        };
        written().map_err(|source| {
            // A part of it would take room where there is none.
            fs::remove_file(&new).ok();
            self.trouble("write", &path, source)
        })
    }

    fn trouble(&self, what: &'static str, path: &Path, source: io::Error) -> DeskError {
        DeskError::File { what, path: path.to_owned(), source }
    }
}

/// Notes that the hands were used now.
pub(super) fn touch(hands: &File) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    // An idle time that begins too early is all that can come of it.
    rustix::fs::futimens(hands, &Timestamps { last_access: now, last_modification: now }).ok();
}

#[derive(Clone, Copy)]
enum Missing {
    Create,
    Fail,
}

fn open(path: &Path, missing: Missing) -> io::Result<File> {
    let create = matches!(missing, Missing::Create);
    OpenOptions::new().write(true).create(create).truncate(false).mode(0o600).open(path)
}

/// Whether a file is the one at this path, and none that was removed before it was
/// locked.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |one: &fs::Metadata, other: &fs::Metadata| {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    };
    matches!((file.metadata(), fs::metadata(path)), (Ok(one), Ok(other)) if same(&one, &other))
}
