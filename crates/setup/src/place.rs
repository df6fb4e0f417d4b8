//! The directory of one part: whether it is whole, and what makes it so.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::SetupError;
use crate::host::is_program;
use crate::recipe::{Part, VIEWER};

/// The last file of a part, and the name that it has while it is written.
const READY: &str = ".ready";
const NEARLY: &str = ".nearly-ready";

/// Temporary files of the programs that install.
pub(crate) const TEMPORARY: &str = ".tmp";

/// The version of [`Marker`].
const VERSION: u32 = 1;

/// What `.ready` says.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    version: u32,
    /// The Python that an environment is made of, after all links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interpreter: Option<PathBuf>,
}

/// A part's program in its place; the viewer's first module.
pub(crate) fn program(part: Part, place: &Path) -> PathBuf {
    match part {
        Part::Python => place.join("bin/python"),
        Part::TypeScript => place.join("bin/deno"),
        Part::Viewer => place.join("node_modules").join(VIEWER).join("core/rfb.js"),
    }
}

/// Whether a part is whole, and what it was made with is still there.
pub(crate) fn is_ready(part: Part, place: &Path) -> bool {
    let marker = fs::read(place.join(READY)).ok();
    let marker = marker.and_then(|text| serde_json::from_slice::<Marker>(&text).ok());
    let Some(marker) = marker.filter(|marker| marker.version == VERSION) else { return false };
    let program = program(part, place);
    // After a new release of the system the link may lead to another Python, or nowhere.
    let same = match &marker.interpreter {
        Some(interpreter) => program.canonicalize().is_ok_and(|real| real == *interpreter),
        None => true,
    };
    same && is_there(part, &program)
}

/// Whether a part's program is one; the viewer's is for browsers.
pub(crate) fn is_there(part: Part, program: &Path) -> bool {
    match part {
        Part::Python | Part::TypeScript => is_program(program),
        Part::Viewer => program.is_file(),
    }
}

/// Says that a part is whole, once everything before is on the disk.
pub(crate) fn make_ready(part: Part, place: &Path) -> Result<(), SetupError> {
    let write = || -> io::Result<()> {
        let directory = File::open(place)?;
        rustix::fs::syncfs(&directory)?;
        let interpreter = match part {
            Part::Python => Some(program(part, place).canonicalize()?),
            Part::TypeScript | Part::Viewer => None,
        };
        let marker = serde_json::to_vec(&Marker { version: VERSION, interpreter })?;
        let mut file = File::create(place.join(NEARLY))?;
        file.write_all(&marker)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.sync_all()?;
        fs::rename(place.join(NEARLY), place.join(READY))?;
        directory.sync_all()
    };
    write().map_err(SetupError::system("write the last file of", place))
}

/// Lets everybody read what is in a place, and nobody but its owner write.
pub(crate) fn seal(place: &Path) -> Result<(), SetupError> {
    let mut left = vec![place.to_owned()];
    let mut next = || -> io::Result<bool> {
        let Some(path) = left.pop() else { return Ok(false) };
        let about = path.symlink_metadata()?;
        if about.is_symlink() {
            return Ok(true);
        }
        if about.is_dir() {
            for entry in path.read_dir()? {
                left.push(entry?.path());
            }
        }
        let mode = about.permissions().mode() & 0o7777;
        let run = about.is_dir() || mode & 0o100 != 0;
        let sealed = if run { 0o755 } else { 0o644 };
        if mode != sealed {
            fs::set_permissions(&path, fs::Permissions::from_mode(sealed))?;
        }
        Ok(true)
    };
    loop {
        match next() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(SetupError::system("set permissions in", place)(error)),
        }
    }
}

/// Removes a place. What is half removed does not look ready.
pub(crate) fn remove(place: &Path) -> Result<(), SetupError> {
    let remove = || {
        match fs::remove_file(place.join(READY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::remove_dir_all(place)
    };
    match remove() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SetupError::system("remove", place)(error))
        }
        _ => Ok(()),
    }
}
