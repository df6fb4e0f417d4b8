//! Opening what is beneath a directory, whatever names and links say: the kernel sees to
//! it in one step where it can, else one name is opened after the other.
//!
//! Both refuse the same with the same error: `XDEV` for a way that leads out. Neither can
//! be outrun by somebody who changes the way meanwhile. In the second no name is looked up
//! but in a directory that is held open, no link is followed but by reading it, and the
//! way back up is the way that was come down.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The kernel gives up on a path that changes beneath it; asked again it may not.
const ATTEMPTS: usize = 128;

/// Links followed on one way, as the kernel has it.
const MOST_LINKS: usize = 40;

/// What becomes of links on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// They are followed, as long as they stay beneath.
    Followed,
    /// They are refused, with `LOOP`.
    Refused,
}

/// Opens a path beneath `root`.
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    match open_at_once(root, path, flags, mode, links) {
        // A kernel without this call: gVisor's.
        Err(Errno::NOSYS) => walk(root, path, flags, mode, links),
        outcome => outcome,
    }
}

fn open_at_once(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let resolve = match links {
        Links::Followed => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        Links::Refused => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    };
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(root, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            outcome => return outcome,
        }
    }
    Err(Errno::AGAIN)
}

/// The same, name by name.
fn walk(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let mut way = Way { root, opened: Vec::new(), ahead: VecDeque::new(), left: MOST_LINKS };
    way.go(path)?;
    while let Some(name) = way.ahead.pop_front() {
        let last = way.ahead.is_empty();
        match name.as_slice() {
            b"." if last => return open_one(way.here(), b".", flags, mode),
            b"." => {}
            b".." => {
                way.opened.pop().ok_or(Errno::XDEV)?;
                if last {
                    return open_one(way.here(), b".", flags, mode);
                }
            }
            name if last && flags.contains(OFlags::DIRECTORY) => {
                // gVisor's kernel follows a link that is to be opened as a directory,
                // whatever it is told: so a link is found out before.
                let seen = open_one(way.here(), name, GLANCE, Mode::empty())?;
                if !is_link(&seen)? {
                    return open_one(seen.as_fd(), b".", flags, mode);
                }
                if flags.contains(OFlags::NOFOLLOW) {
                    return Err(Errno::NOTDIR);
                }
                way.follow(&seen, links)?;
            }
            name if last => {
                // What is no link, and what is to be opened as one.
                let opened = open_one(way.here(), name, flags | OFlags::NOFOLLOW, mode);
                let as_path = flags.contains(OFlags::PATH);
                match opened {
                    Ok(file) if as_path && is_link(&file)? => {
                        if flags.contains(OFlags::NOFOLLOW) {
                            return Ok(file);
                        }
                        way.follow(&file, links)?;
                    }
                    Err(Errno::LOOP) if !flags.contains(OFlags::NOFOLLOW) => {
                        let link = open_one(way.here(), name, GLANCE, Mode::empty())?;
                        if !is_link(&link)? {
                            return Err(Errno::LOOP);
                        }
                        way.follow(&link, links)?;
                    }
                    outcome => return outcome,
                }
            }
            name => {
                let next = open_one(way.here(), name, GLANCE, Mode::empty())?;
                match kind(&next)? {
                    FileType::Symlink => way.follow(&next, links)?,
                    FileType::Directory => way.opened.push(next),
                    _ => return Err(Errno::NOTDIR),
                }
            }
        }
    }
    Err(Errno::NOENT)
}

/// Opens nothing but the name itself.
const GLANCE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How far a walk has come.
struct Way<'a> {
    root: BorrowedFd<'a>,
    /// The directories that were passed below the root.
    opened: Vec<OwnedFd>,
    /// The names ahead.
    ahead: VecDeque<Vec<u8>>,
    /// Links that may still be followed.
    left: usize,
}

impl Way<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.opened.last().map_or(self.root, AsFd::as_fd)
    }

    /// Has this path before it, and then what was ahead.
    fn go(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        // What ends so is a directory.
        if path.ends_with(b"/") {
            self.ahead.push_front(b".".to_vec());
        }
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        for name in names.rev() {
            self.ahead.push_front(name.to_vec());
        }
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd, links: Links) -> Result<(), Errno> {
        self.left = self.left.checked_sub(1).ok_or(Errno::LOOP)?;
        if links == Links::Refused {
            return Err(Errno::LOOP);
        }
        let target = rustix::fs::readlinkat(link, c"", Vec::new())?;
        self.go(target.to_bytes())
    }
}

fn open_one(
    place: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::openat(place, name, flags, mode))
}

fn is_link(file: &OwnedFd) -> Result<bool, Errno> {
    Ok(kind(file)? == FileType::Symlink)
}

fn kind(file: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A directory with every kind of way in it, beside one that is out of bounds.
    fn maze() -> (tempfile::TempDir, OwnedFd) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir(place.path().join("outside")).unwrap();
        fs::write(place.path().join("outside/secret"), "").unwrap();
        fs::write(root.join("file"), "").unwrap();
        fs::write(root.join("a/b/deep"), "").unwrap();
        for (target, link) in [
            ("a/b", "down"),
            ("../../file", "a/b/up"),
            ("../../../outside", "a/b/out"),
            ("/etc", "absolute"),
            ("..", "above"),
            (".", "here"),
            ("loop", "loop"),
            ("one", "two"),
            ("two", "one"),
            ("down/up", "chain"),
            ("a/b/", "slash"),
            ("file/", "file-slash"),
            ("nothing", "dangling"),
            ("a/b/new", "to-new"),
            ("a/../../outside/secret", "sneaky"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&root, flags, Mode::empty()).unwrap();
        (place, root)
    }

    fn identity(opened: Result<OwnedFd, Errno>) -> Result<(u64, u64), Errno> {
        let stat = rustix::fs::fstat(opened?).unwrap();
        Ok((stat.st_dev, stat.st_ino))
    }

    #[test]
    fn both_ways_find_the_same_and_refuse_the_same() {
        let (_place, root) = maze();
        let paths = [
            ".",
            "..",
            "a",
            "a/b/c",
            "a/..",
            "a/../..",
            "a/./b",
            "a//b/deep",
            "file",
            "file/x",
            "file/",
            "file/..",
            "down",
            "down/",
            "down/deep",
            "down/up",
            "down/out",
            "down/out/secret",
            "absolute",
            "absolute/passwd",
            "above",
            "above/outside",
            "here/here/file",
            "loop",
            "loop/x",
            "one",
            "one/x",
            "chain",
            "slash",
            "slash/deep",
            "file-slash",
            "dangling",
            "dangling/x",
            "sneaky",
            "down/..",
            "down/../..",
            "down/../../..",
            "nowhere",
            "nowhere/x",
            "a/b/c/../../../file",
            "/",
            "/etc",
            "",
        ];
        let kinds = [
            OFlags::PATH,
            OFlags::PATH | OFlags::NOFOLLOW,
            OFlags::PATH | OFlags::DIRECTORY,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            OFlags::RDONLY,
            OFlags::RDONLY | OFlags::NOFOLLOW,
            OFlags::RDONLY | OFlags::DIRECTORY,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            OFlags::WRONLY,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW,
        ];
        let mut differing = Vec::new();
        for path in paths {
            for kind in kinds {
                for links in [Links::Followed, Links::Refused] {
                    let flags = kind | OFlags::CLOEXEC;
                    let mode = match kind.contains(OFlags::CREATE) {
                        true => Mode::from_raw_mode(0o600),
                        false => Mode::empty(),
                    };
                    let try_by = |way: fn(_, &[u8], _, _, _) -> _| {
                        let found =
                            identity(way(root.as_fd(), path.as_bytes(), flags, mode, links));
                        rustix::fs::unlinkat(&root, "nowhere", rustix::fs::AtFlags::empty()).ok();
                        // A new file is another one each time, and what is in its way has
                        // several names.
                        match kind.contains(OFlags::CREATE) {
                            true => found.map(|_| (0, 0)).map_err(|_| Errno::EXIST),
                            false => found,
                        }
                    };
                    let (one, other) = (try_by(open_at_once), try_by(walk));
                    if one != other {
                        differing.push((path, kind, links, one, other));
                    }
                }
            }
        }
        assert!(differing.is_empty(), "{differing:#?}");
    }

    #[test]
    fn a_file_is_made_at_the_end_of_a_link_that_stays_inside_and_of_no_other() {
        let (place, root) = maze();
        let make = |path: &str| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o600);
            walk(root.as_fd(), path.as_bytes(), flags, mode, Links::Followed).map(drop)
        };
        assert_eq!(make("to-new"), Ok(()));
        assert!(place.path().join("root/a/b/new").exists());
        assert_eq!(make("down/out/made"), Err(Errno::XDEV));
        assert_eq!(make("above/made"), Err(Errno::XDEV));
        assert!(!place.path().join("outside/made").exists());
    }

    #[test]
    fn nobody_who_swaps_a_directory_for_a_link_gets_out() {
        let (place, root) = maze();
        let path = place.path();
        let (swapped, stop) = (path.join("root/swapped"), AtomicBool::new(false));
        let outside = fs::metadata(path.join("outside/secret")).unwrap();
        let outside = std::os::unix::fs::MetadataExt::ino(&outside);
        fs::create_dir(path.join("root/kept")).unwrap();
        fs::write(path.join("root/kept/secret"), "").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    fs::rename(path.join("root/kept"), &swapped).unwrap();
                    fs::rename(&swapped, path.join("root/kept")).unwrap();
                    symlink(Path::new("../outside"), &swapped).unwrap();
                    fs::remove_file(&swapped).unwrap();
                }
            });
            for _ in 0..20_000 {
                let opened = walk(
                    root.as_fd(),
                    b"swapped/secret",
                    OFlags::RDONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                    Links::Followed,
                );
                let found = identity(opened);
                assert!(found.is_err() || found.unwrap().1 != outside);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
