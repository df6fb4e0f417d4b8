//! The files that a job begins with: an archive as it is, or a directory, packed.
//!
//! Of a directory go files, directories and links that stay inside; what version
//! control ignores, and `.git` itself, stays here. No link is followed.

use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use rustix::fs::{Mode, OFlags};
use tar::{Builder, EntryType, Header};

/// Entries and bytes that no server takes more of.
const MOST_ENTRIES: u64 = 200_000;
const MOST_BYTES: u64 = 4 << 30;

/// What was left out that is named; more is counted.
const MOST_NAMED: usize = 10;

/// Fast, and better than gzip.
const LEVEL: i32 = 3;

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) file: File,
    /// What is not in it although nobody said so, in words.
    pub(crate) left_out: Vec<String>,
}

/// Packs a directory, or takes an archive as it is. It is packed in full before
/// anything is sent, so that it can be sent again.
pub(crate) async fn pack(path: PathBuf) -> io::Result<Packed> {
    let packing = move || {
        if std::fs::metadata(&path)?.is_dir() {
            pack_directory(&path)
        } else {
            Ok(Packed { file: File::open(&path)?, left_out: Vec::new() })
        }
    };
    tokio::task::spawn_blocking(packing).await.map_err(io::Error::other)?
}

fn pack_directory(top: &Path) -> io::Result<Packed> {
    let mut pack = Pack {
        tar: Builder::new(zstd::Encoder::new(BufWriter::new(tempfile::tempfile()?), LEVEL)?),
        entries: 0,
        bytes: 0,
        left_out: Vec::new(),
    };
    let walk = WalkBuilder::new(top)
        .hidden(false)
        .require_git(false)
        // What the machine's owner ignores everywhere is no property of the project.
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    for entry in walk {
        let entry = entry.map_err(io::Error::other)?;
        let inner = entry.path().strip_prefix(top).map_err(io::Error::other)?;
        if inner.as_os_str().is_empty() {
            continue;
        }
        pack.add(entry.path(), inner).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", inner.display()))
        })?;
    }
    pack.finish()
}

struct Pack<W: Write> {
    tar: Builder<W>,
    entries: u64,
    bytes: u64,
    left_out: Vec<PathBuf>,
}

impl<W: Write> Pack<W> {
    fn add(&mut self, path: &Path, inner: &Path) -> io::Result<()> {
        let about = std::fs::symlink_metadata(path)?;
        self.entries += 1;
        if self.entries > MOST_ENTRIES {
            return Err(too_much(MOST_ENTRIES, "files"));
        }
        if about.is_dir() {
            let mut header = header(EntryType::Directory, &about, 0);
            self.tar.append_data(&mut header, inner, io::empty())
        } else if about.is_file() {
            self.add_file(path, inner)
        } else if about.is_symlink() {
            let target = std::fs::read_link(path)?;
            if !stays_inside(inner, &target) {
                self.left_out.push(inner.to_owned());
                return Ok(());
            }
            self.tar.append_link(&mut header(EntryType::Symlink, &about, 0), inner, target)
        } else {
            self.left_out.push(inner.to_owned());
            Ok(())
        }
    }

    fn add_file(&mut self, path: &Path, inner: &Path) -> io::Result<()> {
        // What has become a link or a pipe since is not followed or waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("it changed while it was packed"));
        }
        let size = about.len();
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > MOST_BYTES {
            return Err(too_much(MOST_BYTES, "bytes"));
        }
        // A file that grows meanwhile is sent as long as it was, one that shrinks
        // not at all.
        let content = Exactly { file: file.take(size), left: size };
        self.tar.append_data(&mut header(EntryType::Regular, &about, size), inner, content)
    }
}

impl Pack<zstd::Encoder<'_, BufWriter<File>>> {
    fn finish(self) -> io::Result<Packed> {
        let file = self.tar.into_inner()?.finish()?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let name = |path: &PathBuf| {
            format!("{} is not sent: only files, and links that stay inside, are", path.display())
        };
        let mut left_out: Vec<String> = self.left_out.iter().take(MOST_NAMED).map(name).collect();
        if self.left_out.len() > MOST_NAMED {
            left_out.push(format!("and {} more like it", self.left_out.len() - MOST_NAMED));
        }
        Ok(Packed { file, left_out })
    }
}

/// A header that says nothing of this machine: no user, no group.
fn header(kind: EntryType, about: &Metadata, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(about.mode() & 0o777);
    header.set_mtime(u64::try_from(about.mtime()).unwrap_or(0));
    header.set_size(size);
    header
}

/// Reads so much, and fails if there is less.
struct Exactly {
    file: io::Take<File>,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::other("it changed while it was packed"));
        }
        Ok(read)
    }
}

fn too_much(most: u64, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("there are more than {most} {what}"))
}

/// Whether a link at a path of the directory leads to another of its paths. Going up
/// is allowed only at the beginning: behind another link, `..` may be anywhere.
fn stays_inside(inner: &Path, target: &Path) -> bool {
    let mut above = inner.components().count().saturating_sub(1);
    let mut down = false;
    for component in target.components() {
        match component {
            Component::Normal(_) => down = true,
            Component::CurDir => {}
            Component::ParentDir if !down && above > 0 => above -= 1,
            _ => return false,
        }
    }
    !target.as_os_str().as_bytes().is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Seek;
    use std::os::unix::fs::symlink;

    use super::*;

    /// The paths of an archive with their content, kind or target.
    fn unpacked(mut packed: Packed) -> BTreeMap<String, String> {
        packed.file.rewind().unwrap();
        let mut archive = tar::Archive::new(zstd::Decoder::new(packed.file).unwrap());
        let mut found = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let told = match entry.header().entry_type() {
                EntryType::Directory => "directory".to_owned(),
                EntryType::Symlink => {
                    format!("-> {}", entry.link_name().unwrap().unwrap().display())
                }
                _ => {
                    let mut content = String::new();
                    entry.read_to_string(&mut content).unwrap();
                    content
                }
            };
            assert!(found.insert(path, told).is_none());
        }
        found
    }

    fn write(top: &Path, path: &str, content: &str) {
        let path = top.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[tokio::test]
    async fn a_directory_is_packed_without_what_is_ignored() {
        let top = tempfile::tempdir().unwrap();
        write(top.path(), ".gitignore", "target/\n*.log\n");
        write(top.path(), ".git/config", "secret");
        write(top.path(), "sub/.git/config", "secret");
        write(top.path(), "target/big", "x");
        write(top.path(), "sub/noise.log", "x");
        write(top.path(), "sub/code.py", "print()");
        write(top.path(), ".hidden", "h");
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
        write(top.path(), &long, "long");
        let packed = pack(top.path().to_owned()).await.unwrap();
        assert!(packed.left_out.is_empty());
        let found = unpacked(packed);
        let expected = [
            (".gitignore", "target/\n*.log\n"),
            (".hidden", "h"),
            (&"d".repeat(120), "directory"),
            (long.as_str(), "long"),
            ("sub", "directory"),
            ("sub/code.py", "print()"),
        ];
        let expected = expected.map(|(path, told)| (path.to_owned(), told.to_owned()));
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[tokio::test]
    async fn no_link_leads_out_and_none_is_followed() {
        let outside = tempfile::tempdir().unwrap();
        write(outside.path(), "secret", "secret");
        let top = tempfile::tempdir().unwrap();
        write(top.path(), "sub/file", "content");
        symlink("file", top.path().join("sub/good")).unwrap();
        symlink("../sub", top.path().join("sub/up")).unwrap();
        symlink(outside.path(), top.path().join("out")).unwrap();
        symlink("../../x", top.path().join("sub/higher")).unwrap();
        symlink("up/../../x", top.path().join("sub/around")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, top.path().join("pipe"), Mode::from(0o600)).unwrap();
        let packed = pack(top.path().to_owned()).await.unwrap();
        let left_out = packed.left_out.join("\n");
        for name in ["out", "sub/higher", "sub/around", "pipe"] {
            assert!(left_out.contains(&format!("{name} is not sent")), "{left_out}");
        }
        let found = unpacked(packed);
        let paths: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(paths, ["sub", "sub/file", "sub/good", "sub/up"]);
        assert!(!found.values().any(|told| told.contains("secret")));
    }

    #[tokio::test]
    async fn what_is_not_there_or_cannot_be_read_is_told() {
        let top = tempfile::tempdir().unwrap();
        assert!(pack(top.path().join("nothing")).await.is_err());
    }

    #[test]
    fn what_is_left_out_is_named_only_so_often() {
        let pack = Pack {
            tar: Builder::new(
                zstd::Encoder::new(BufWriter::new(tempfile::tempfile().unwrap()), 1).unwrap(),
            ),
            entries: 0,
            bytes: 0,
            left_out: (0..25).map(|number| PathBuf::from(number.to_string())).collect(),
        };
        let left_out = pack.finish().unwrap().left_out;
        assert_eq!(left_out.len(), MOST_NAMED + 1);
        assert_eq!(left_out[MOST_NAMED], "and 15 more like it");
    }
}
