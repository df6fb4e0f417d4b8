//! A file that is being written and does not have its name yet.
//!
//! Where the file system can do it, a draft has no name at all until it is whole:
//! it goes with its process, however that ends. Elsewhere, and for the moment in
//! which it takes another file's place, it has a hidden name. A process that is
//! killed leaves that behind, and the next one that writes the same file removes
//! it. A draft is locked, so what somebody still writes is never taken for that.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

/// A new file's permissions, less what the user's mask takes away.
const PERMISSIONS: u32 = 0o666;

/// A hidden name is `.NAME.cofferdam-XXXXXX.part`.
const MARK: &str = ".cofferdam-";
const RANDOM: usize = 6;
const END: &str = ".part";

/// The bytes of the target's name that are in a hidden one.
const KEPT: usize = 100;

/// A file that is being written.
pub(crate) struct Draft {
    place: Place,
    form: Form,
}

enum Form {
    Nameless(File),
    Hidden(NamedTempFile),
}

impl Draft {
    /// An empty draft of the file `name` in a directory.
    pub(crate) fn new(directory: &Path, name: &OsStr) -> io::Result<Self> {
        let place = Place::new(directory, name);
        place.clear();
        let form = match nameless(directory)? {
            Some(file) => Form::Nameless(file),
            None => Form::Hidden(place.hidden()?),
        };
        Ok(Self { place, form })
    }

    /// What it is written to.
    pub(crate) fn file(&self) -> &File {
        match &self.form {
            Form::Nameless(file) => file,
            Form::Hidden(file) => file.as_file(),
        }
    }

    /// Puts the file in its place, such that it also survives a power cut.
    pub(crate) fn publish(self, target: &Path) -> io::Result<()> {
        self.file().sync_all()?;
        match self.form {
            Form::Hidden(file) => drop(file.persist(target).map_err(|error| error.error)?),
            Form::Nameless(file) => match link(&file, target) {
                // A link takes nobody's place, and a name can.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let linked = |path: &Path| link(&file, path);
                    let named = self.place.names().make_in(&self.place.directory, linked);
                    named.map_err(plain)?.persist(target).map_err(|error| error.error)?;
                }
                linked => linked?,
            },
        }
        File::open(&self.place.directory)?.sync_all()
    }
}

/// A file without a name, unless the file system knows none.
fn nameless(directory: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::from_raw_mode(PERMISSIONS)) {
        Ok(file) => {
            let file = File::from(file);
            file.try_lock().ok(); // for the moment in which it has a hidden name
            Ok(named_by_system(&file).exists().then_some(file))
        }
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives a file without a name this one, which must be free.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let follow = AtFlags::SYMLINK_FOLLOW;
    Ok(rustix::fs::linkat(CWD, named_by_system(file), CWD, path, follow)?)
}

/// The only way to a file without a name, for users without privileges.
fn named_by_system(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Where the hidden drafts of one file are.
struct Place {
    directory: PathBuf,
    prefix: String,
}

impl Place {
    fn new(directory: &Path, name: &OsStr) -> Self {
        let kept: Vec<u8> = name.as_encoded_bytes().iter().copied().take(KEPT).collect();
        let prefix = format!(".{}{MARK}", String::from_utf8_lossy(&kept));
        Self { directory: directory.to_owned(), prefix }
    }

    fn names(&self) -> tempfile::Builder<'_, 'static> {
        let mut names = tempfile::Builder::new();
        names.prefix(&self.prefix).rand_bytes(RANDOM).suffix(END);
        names
    }

    /// A new file with a hidden name.
    fn hidden(&self) -> io::Result<NamedTempFile> {
        loop {
            let mut names = self.names();
            names.permissions(Permissions::from_mode(PERMISSIONS));
            let made = names.tempfile_in(&self.directory).map_err(plain)?;
            // A file system without locks has none for those who tidy up either.
            made.as_file().lock().ok();
            // Somebody may have tidied it up before it was locked.
            if made.as_file().metadata()?.nlink() > 0 {
                return Ok(made);
            }
        }
    }

    /// Removes what processes that were killed have left behind. Whatever cannot
    /// be removed does no harm.
    fn clear(&self) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| self.is_hidden_draft(entry)) {
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let opened = OpenOptions::new()
                .read(true)
                .custom_flags(flags.bits().cast_signed())
                .open(entry.path());
            if opened.is_ok_and(|file| is_left_behind(&file)) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    fn is_hidden_draft(&self, entry: &DirEntry) -> bool {
        let name = entry.file_name();
        let name = name.as_encoded_bytes().strip_prefix(self.prefix.as_bytes());
        let random = name.and_then(|name| name.strip_suffix(END.as_bytes()));
        random.is_some_and(|random| {
            random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric)
        })
    }
}

/// Whether a draft is this user's, and nobody writes it.
fn is_left_behind(file: &File) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let ours = file.metadata().is_ok_and(|about| about.is_file() && about.uid() == own);
    ours && file.try_lock().is_ok()
}

/// The system's error without the draft's name, which says nothing to a user.
fn plain(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| std::error::Error::source(inner));
    let system = inner.and_then(|inner| inner.downcast_ref::<io::Error>());
    match system.and_then(io::Error::raw_os_error) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error,
    }
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
