//! Writing, replacing, renaming, making directories.
//!
//! New content is complete on disk before it has a name, so that a reader sees
//! the old content or the new, and a request that is killed leaves nothing.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use cofferdam_guest_protocol::{CHUNK, FileError, FileReply, WriteMode};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use sha2::{Digest, Sha256};

use super::error;
use super::read::read_some;
use super::resolve::{Relative, Workspace, own_link, stat_at};

/// The largest file that text is replaced in.
const LARGEST_REPLACED: u64 = 64 << 20;

/// Permission bits that a file may have; no set-id, no sticky bit.
const PERMISSIONS: u32 = 0o777;

/// Writes the input to a file.
pub(super) fn write(
    workspace: &Workspace,
    path: &[u8],
    mode: WriteMode,
    permissions: u32,
    input: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let path = workspace.relative(path)?;
    if mode == WriteMode::Append {
        return append(workspace, path, permissions, input);
    }
    // A link counts as something that is there already.
    let path = if mode == WriteMode::Create { path } else { workspace.follow(path)? };
    let existing = existing_file(workspace, &path)?;
    match (mode, &existing) {
        (WriteMode::Create, Some(_)) => return Err(FileError::Exists),
        (WriteMode::ReplaceIf(_), None) => return Err(FileError::NotFound),
        _ => {}
    }
    let mut compared = None;
    if let WriteMode::ReplaceIf(expected) = mode {
        let (file, before) = workspace.open_file(&path, OFlags::RDONLY, Mode::empty())?;
        let actual = digest_of(file.as_fd())?;
        if actual != expected {
            return Err(FileError::Changed(actual));
        }
        compared = Some(before);
    }
    let (parent, name) = path.split()?;
    let parent = workspace.make_directories(&parent)?;
    let mut new = NewFile::create(parent)?;
    let sha256 = copy(input, &mut new.file)?;
    if let Some(before) = compared {
        unchanged(workspace, &path, &before)?;
    }
    let permissions = existing.map_or(permissions, |stat| stat.st_mode) & PERMISSIONS;
    let size = new.finish(name, permissions, mode != WriteMode::Create)?;
    Ok(FileReply::Written { size, sha256: Some(sha256), replaced: 0 })
}

/// What is at the path: a regular file or nothing.
fn existing_file(workspace: &Workspace, path: &Relative) -> Result<Option<Stat>, FileError> {
    match workspace.stat(path) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Symlink => Ok(Some(stat)),
            _ => Err(FileError::NotFile),
        },
        Err(FileError::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}

fn append(
    workspace: &Workspace,
    path: Relative,
    permissions: u32,
    input: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let path = workspace.follow(path)?;
    let (parent, _) = path.split()?;
    workspace.make_directories(&parent)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let mode = Mode::from_raw_mode(permissions & PERMISSIONS);
    // The permissions are meant as they are given.
    let before = rustix::process::umask(Mode::empty());
    let opened = workspace.open_file(&path, flags, mode);
    rustix::process::umask(before);
    let (file, _) = opened?;
    let mut file = File::from(file);
    copy(input, &mut file)?;
    file.sync_all().map_err(|error| error::of_std(&error))?;
    let size = file.metadata().map_err(|error| error::of_std(&error))?.len();
    Ok(FileReply::Written { size, sha256: None, replaced: 0 })
}

/// Text to put in the place of other text.
pub(super) struct Change<'a> {
    pub(super) old: &'a [u8],
    pub(super) new: &'a [u8],
    pub(super) all: bool,
}

/// Replaces text in a file.
pub(super) fn replace(
    workspace: &Workspace,
    path: &[u8],
    change: &Change<'_>,
    expected: Option<[u8; 32]>,
) -> Result<FileReply, FileError> {
    let path = workspace.follow(workspace.relative(path)?)?;
    let (file, before) = workspace.open_file(&path, OFlags::RDONLY, Mode::empty())?;
    let too_large = |size: u64| FileError::TooLarge { size, limit: LARGEST_REPLACED };
    let size = u64::try_from(before.st_size).unwrap_or(0);
    if size > LARGEST_REPLACED {
        return Err(too_large(size));
    }
    let mut content = Vec::new();
    let file = File::from(file);
    (&file)
        .take(LARGEST_REPLACED + 1)
        .read_to_end(&mut content)
        .map_err(|error| error::of_std(&error))?;
    if content.len() as u64 > LARGEST_REPLACED {
        return Err(too_large(content.len() as u64));
    }
    if let Some(expected) = expected {
        let actual = Sha256::digest(&content).into();
        if actual != expected {
            return Err(FileError::Changed(actual));
        }
    }
    let (content, replaced) = replaced(&content, change)?;
    if content.len() as u64 > LARGEST_REPLACED {
        return Err(too_large(content.len() as u64));
    }
    let (parent, name) = workspace.open_parent(&path)?;
    let mut new = NewFile::create(parent)?;
    new.file.write_all(&content).map_err(|error| error::of_std(&error))?;
    unchanged(workspace, &path, &before)?;
    let size = new.finish(name, before.st_mode & PERMISSIONS, true)?;
    let sha256 = Some(Sha256::digest(&content).into());
    Ok(FileReply::Written { size, sha256, replaced })
}

/// Whether a file is still what was read: others write too while its next content is made.
fn unchanged(workspace: &Workspace, path: &Relative, before: &Stat) -> Result<(), FileError> {
    let now = workspace.stat(path)?;
    let marks = |stat: &Stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    if marks(before) == marks(&now) {
        return Ok(());
    }
    let (file, _) = workspace.open_file(path, OFlags::RDONLY, Mode::empty())?;
    Err(FileError::Changed(digest_of(file.as_fd())?))
}

/// The content after a change, and how many places were changed.
fn replaced(content: &[u8], change: &Change<'_>) -> Result<(Vec<u8>, u32), FileError> {
    if change.old.is_empty() {
        return Err(FileError::Pattern("the text to replace is empty".to_owned()));
    }
    let places: Vec<usize> = memchr::memmem::find_iter(content, change.old).collect();
    let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
    match count {
        0 => return Err(FileError::NoMatch),
        1 => {}
        _ if change.all => {}
        _ => return Err(FileError::Ambiguous(count)),
    }
    let mut result = Vec::with_capacity(content.len());
    let mut done = 0;
    for place in places {
        result.extend_from_slice(content.get(done..place).unwrap_or_default());
        result.extend_from_slice(change.new);
        done = place + change.old.len();
        if result.len() as u64 > LARGEST_REPLACED {
            let size = result.len() as u64;
            return Err(FileError::TooLarge { size, limit: LARGEST_REPLACED });
        }
    }
    result.extend_from_slice(content.get(done..).unwrap_or_default());
    Ok((result, count))
}

/// Renames something.
pub(super) fn rename(
    workspace: &Workspace,
    from: &[u8],
    to: &[u8],
    overwrite: bool,
) -> Result<FileReply, FileError> {
    let from = workspace.relative(from)?;
    let to = workspace.relative(to)?;
    let (source, old) = workspace.open_parent(&from)?;
    stat_at(&source, old).map_err(error::of)?;
    let (parent, new) = to.split()?;
    let target = workspace.make_directories(&parent)?;
    // Another file system beneath the workspace does not lead out of it.
    let failed = |errno| if errno == Errno::XDEV { error::io(errno) } else { error::of(errno) };
    if overwrite {
        rustix::fs::renameat(&source, old, &target, new).map_err(failed)?;
    } else {
        rename_to_nothing(source.as_fd(), old, target.as_fd(), new).map_err(failed)?;
    }
    Ok(FileReply::Done)
}

/// Renames to a name that nothing has.
fn rename_to_nothing(
    source: BorrowedFd<'_>,
    old: &[u8],
    target: BorrowedFd<'_>,
    new: &[u8],
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(source, old, target, new, RenameFlags::NOREPLACE) {
        // A file system that cannot do it in one step.
        Err(Errno::INVAL) => match stat_at(target, new) {
            Err(Errno::NOENT) => rustix::fs::renameat(source, old, target, new),
            Err(errno) => Err(errno),
            Ok(_) => Err(Errno::EXIST),
        },
        outcome => outcome,
    }
}

/// Makes a directory and its missing parents.
pub(super) fn make_directory(workspace: &Workspace, path: &[u8]) -> Result<FileReply, FileError> {
    let path = workspace.relative(path)?;
    match workspace.make_directories(&path) {
        Ok(_) => Ok(FileReply::Done),
        // Something of that name is there, or in the way to it.
        Err(FileError::NotDirectory) if workspace.stat(&path).is_ok() => Err(FileError::Exists),
        Err(other) => Err(other),
    }
}

/// Content that has no name yet, or only for the time being.
pub(super) struct NewFile {
    parent: OwnedFd,
    pub(super) file: File,
    temporary: Option<Vec<u8>>,
}

impl NewFile {
    /// Begins a file in a directory.
    pub(super) fn create(parent: OwnedFd) -> Result<Self, FileError> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let owner_only = Mode::from_raw_mode(0o600);
        let nameless = rustix::fs::openat(&parent, ".", flags | OFlags::TMPFILE, owner_only);
        if let Ok(file) = nameless
            && rustix::fs::statat(CWD, own_link(file.as_fd()), AtFlags::empty()).is_ok()
        {
            return Ok(Self { parent, file: File::from(file), temporary: None });
        }
        // Not every file system knows files without a name.
        Self::create_as(parent, &temporary_name()?)
    }

    /// Begins a file under a name that nothing has. It is gone again unless it is placed.
    pub(super) fn create_as(parent: OwnedFd, name: &[u8]) -> Result<Self, FileError> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let owner_only = Mode::from_raw_mode(0o600);
        let file = rustix::fs::openat(&parent, name, flags, owner_only).map_err(error::of)?;
        Ok(Self { parent, file: File::from(file), temporary: Some(name.to_vec()) })
    }

    /// Gives it its permissions and its name, and returns its size.
    pub(super) fn finish(
        self,
        name: &[u8],
        permissions: u32,
        overwrite: bool,
    ) -> Result<u64, FileError> {
        let in_std = |error: std::io::Error| error::of_std(&error);
        self.file.set_permissions(std::fs::Permissions::from_mode(permissions)).map_err(in_std)?;
        self.file.sync_all().map_err(in_std)?;
        let size = self.file.metadata().map_err(in_std)?.size();
        self.place(name, overwrite)?;
        Ok(size)
    }

    /// Gives it its name.
    pub(super) fn place(mut self, name: &[u8], overwrite: bool) -> Result<(), FileError> {
        if self.temporary.is_none() && !overwrite {
            return self.link(name).map_err(error::of);
        }
        if self.temporary.is_none() {
            let temporary = temporary_name()?;
            self.link(&temporary).map_err(error::of)?;
            self.temporary = Some(temporary);
        }
        if let Some(temporary) = self.temporary.as_deref().filter(|temporary| *temporary != name) {
            let (parent, old) = (self.parent.as_fd(), temporary);
            if overwrite {
                rustix::fs::renameat(parent, old, parent, name).map_err(error::of)?;
            } else {
                rename_to_nothing(parent, old, parent, name).map_err(error::of)?;
            }
        }
        self.temporary = None;
        Ok(())
    }

    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        let own = own_link(self.file.as_fd());
        rustix::fs::linkat(CWD, own, &self.parent, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(name) = &self.temporary {
            // If it cannot be removed, it was removed.
            rustix::fs::unlinkat(&self.parent, name.as_slice(), AtFlags::empty()).ok();
        }
    }
}

/// A name that nothing has.
pub(super) fn temporary_name() -> Result<Vec<u8>, FileError> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, GetRandomFlags::empty()).map_err(error::of)?;
    Ok(format!(".cofferdam-{:016x}", u64::from_le_bytes(random)).into_bytes())
}

/// Copies up to the end and returns the digest of what was copied.
fn copy(input: BorrowedFd<'_>, file: &mut File) -> Result<[u8; 32], FileError> {
    let mut digest = Sha256::new();
    let mut buffer = Vec::new();
    loop {
        let bytes = read_some(input, &mut buffer, CHUNK).map_err(error::of)?;
        if bytes.is_empty() {
            return Ok(digest.finalize().into());
        }
        digest.update(bytes);
        file.write_all(bytes).map_err(|error| error::of_std(&error))?;
    }
}

fn digest_of(file: BorrowedFd<'_>) -> Result<[u8; 32], FileError> {
    let mut digest = Sha256::new();
    let mut buffer = Vec::new();
    loop {
        let bytes = read_some(file, &mut buffer, CHUNK).map_err(error::of)?;
        if bytes.is_empty() {
            return Ok(digest.finalize().into());
        }
        digest.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change<'a>(old: &'a str, new: &'a str, all: bool) -> Change<'a> {
        Change { old: old.as_bytes(), new: new.as_bytes(), all }
    }

    #[test]
    fn one_place_is_replaced_or_all_of_them() {
        let text = b"one two one";
        assert_eq!(replaced(text, &change("two", "2", false)), Ok((b"one 2 one".to_vec(), 1)));
        assert_eq!(replaced(text, &change("one", "1", true)), Ok((b"1 two 1".to_vec(), 2)));
        assert_eq!(replaced(text, &change("one", "1", false)), Err(FileError::Ambiguous(2)));
        assert_eq!(replaced(text, &change("six", "6", true)), Err(FileError::NoMatch));
        assert!(replaced(text, &change("", "x", true)).is_err());
    }

    #[test]
    fn places_do_not_overlap() {
        assert_eq!(replaced(b"aaaa", &change("aa", "b", true)), Ok((b"bb".to_vec(), 2)));
    }

    #[test]
    fn a_replacement_cannot_grow_without_bound() {
        let text = vec![b'a'; 1 << 20];
        let long = "x".repeat(1 << 20);
        let outcome = replaced(&text, &change("a", &long, true));
        assert!(matches!(outcome, Err(FileError::TooLarge { .. })));
    }
}
