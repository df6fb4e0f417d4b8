//! What a sandbox's root directory holds: programs and their data, read-only,
//! and the few files of `/etc` that programs cannot do without.
//!
//! The host's root is taken by an allow-list. No home, no socket, no state of a
//! service and no configuration that may hold a secret is on it.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use crate::failure::{Failure, Step};
use crate::mounts::{self, Attributes};
use crate::wire::{NetworkPlan, RootPlan};

/// Directories of the host with programs and their data.
const PROGRAMS: &[&str] =
    &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "gnu"];

/// Entries of the host's `/etc` that programs read and that hold no secret.
const CONFIGURATION: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    // Without one of them Debian's chromium does not start; the keys beside them stay out.
    "chromium.d/default-flags",
    "chromium.d/dev-shm",
    "debian_version",
    "fonts",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "pki",
    "profile",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "xdg",
];

/// Entries of an image that the sandbox provides itself.
const PROVIDED: &[&str] = &[
    ".cofferdam",
    "dev",
    "proc",
    "sys",
    "tmp",
    "run",
    "workspace",
    "home",
    "root",
    "boot",
    "mnt",
    "media",
    "var/run",
    "var/tmp",
];

/// A root of more mounts than this is not built.
const MAX_MOUNTS: usize = 4096;

/// One thing to be put into a root, taken from the host while that is possible.
pub struct Source {
    target: PathBuf,
    content: Content,
}

enum Content {
    /// Files of the host, shown read-only.
    Mount(OwnedFd, Shape),
    /// A symbolic link.
    Link(PathBuf),
    /// Nothing, in place of a directory of what was put there before; but for these paths in
    /// it, which come later.
    Nothing(Vec<PathBuf>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Directory,
    File,
}

/// What the host's root is taken by, as paths of the host; not all of them are there.
pub fn of_host() -> impl Iterator<Item = PathBuf> {
    of_programs().chain(CONFIGURATION.iter().map(|name| Path::new("/etc").join(name)))
}

/// Those of them that have programs.
pub fn of_programs() -> impl Iterator<Item = PathBuf> {
    PROGRAMS.iter().map(|name| Path::new("/").join(name))
}

/// Takes from the host what the plan names. Runs with the identity of the
/// process that made the sandbox, because that may read what a sandbox may not.
///
/// # Errors
/// When something that was asked for by name is not there.
pub fn take(plan: &RootPlan) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    match plan {
        RootPlan::Host(readable) => {
            take_host(&mut sources)?;
            take_readable(readable, &mut sources)?;
        }
        RootPlan::HostBut(readable, hidden) => {
            take_host(&mut sources)?;
            sources.extend(hidden.iter().map(|path| nothing_at(path, readable)));
            take_readable(readable, &mut sources)?;
        }
        RootPlan::Image(image, readable) => {
            take_image(image, Path::new(""), readable, &mut sources)?;
            take_readable(readable, &mut sources)?;
        }
    }
    Ok(sources)
}

fn take_host(sources: &mut Vec<Source>) -> Result<(), Failure> {
    for path in of_host() {
        let target = path.strip_prefix("/").unwrap_or(&path);
        sources.extend(take_entry(&path, target)?);
    }
    Ok(())
}

/// An empty directory in place of one of the host's, with places for what is to be read in it.
fn nothing_at(path: &Path, readable: &[PathBuf]) -> Source {
    let within = readable.iter().filter_map(|place| place.strip_prefix(path).ok());
    let target = path.strip_prefix("/").unwrap_or(path).to_path_buf();
    Source { target, content: Content::Nothing(within.map(Path::to_path_buf).collect()) }
}

/// Takes directories of the host, to be shown at the same path.
fn take_readable(readable: &[PathBuf], sources: &mut Vec<Source>) -> Result<(), Failure> {
    for path in readable {
        let target = path
            .strip_prefix("/")
            .map_err(|_| Failure::new(format!("{} is not an absolute path", path.display())))?;
        let source = take_entry(path, target)?;
        sources.push(source.ok_or_else(|| Failure {
            step: format!("read {}", path.display()),
            errno: libc::ENOENT,
        })?);
    }
    Ok(())
}

/// Takes what an image has below `inside`. No place can be made in an image's directory, so one
/// on the way to a readable directory of the host, or to what the sandbox provides, is taken
/// entry by entry.
fn take_image(
    image: &Path,
    inside: &Path,
    readable: &[PathBuf],
    sources: &mut Vec<Source>,
) -> Result<(), Failure> {
    let read = || format!("read image {}", image.display());
    for entry in fs::read_dir(image.join(inside)).step_with(read)? {
        let entry = entry.step_with(read)?;
        let target = inside.join(entry.file_name());
        if PROVIDED.iter().any(|provided| Path::new(provided) == target) {
            continue;
        }
        let at = Path::new("/").join(&target);
        if readable.contains(&at) {
            continue;
        }
        let provided_below = |path: &&str| Path::new(path).starts_with(&target);
        if readable.iter().any(|path| path.starts_with(&at)) || PROVIDED.iter().any(provided_below)
        {
            // What is no directory gives way to one.
            if entry.file_type().step_with(read)?.is_dir() {
                take_image(image, &target, readable, sources)?;
            }
            continue;
        }
        sources.extend(take_entry(&entry.path(), &target)?);
        if sources.len() > MAX_MOUNTS {
            return Err(Failure::new(format!(
                "image {} has more than {MAX_MOUNTS} files on the way to {readable:?}",
                image.display()
            )));
        }
    }
    Ok(())
}

fn take_entry(path: &Path, target: &Path) -> Result<Option<Source>, Failure> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(None) };
    let target = target.to_path_buf();
    let kind = metadata.file_type();
    if kind.is_symlink() {
        let link = fs::read_link(path).step_with(|| format!("read the link {}", path.display()))?;
        return Ok(Some(Source { target, content: Content::Link(link) }));
    }
    let shape = if kind.is_dir() {
        Shape::Directory
    } else if kind.is_file() {
        Shape::File
    } else {
        return Ok(None);
    };
    let mount = mounts::copy_of(path)?;
    mounts::restrict(mount.as_fd(), Attributes::READ_ONLY)?;
    Ok(Some(Source { target, content: Content::Mount(mount, shape) }))
}

/// Puts everything into the root that is being built in the working directory.
///
/// # Errors
/// When a place cannot be made.
pub fn put(sources: Vec<Source>) -> Result<(), Failure> {
    for (number, Source { target, content }) in sources.into_iter().enumerate() {
        let parent = target.parent().unwrap_or(Path::new(""));
        let is_there = matches!(content, Content::Nothing(_))
            || [Path::new(""), Path::new("etc"), Path::new("etc/ssl")].contains(&parent);
        if !is_there {
            make_directories(parent)?;
        }
        match content {
            Content::Link(link) => {
                rustix::fs::symlink(&link, &target)
                    .step_with(|| format!("link {}", target.display()))?;
            }
            Content::Mount(mount, Shape::Directory) => {
                make_directories(&target)?;
                mounts::place(mount, &target)?;
            }
            Content::Mount(mount, Shape::File) => {
                make_place(&target)?;
                mounts::place(mount, &target)?;
            }
            Content::Nothing(within) => {
                let empty = Path::new(".cofferdam").join(format!("nothing-{number}"));
                put_nothing(&empty, &within, &target)?;
            }
        }
    }
    Ok(())
}

fn put_nothing(empty: &Path, within: &[PathBuf], target: &Path) -> Result<(), Failure> {
    // Where nobody may go there is nothing to hide.
    if !target.is_dir() {
        return Ok(());
    }
    make_directory(empty)?;
    for place in within {
        make_directories(&empty.join(place))?;
    }
    mounts::bind(empty, target, Attributes::READ_ONLY)
}

/// The files of `/etc` that say who and where we are. An image's own `/etc` is
/// read-only: there each is shown in place of the image's file, if it has one.
///
/// # Errors
/// When one cannot be written.
pub fn introduce(plan: &RootPlan, resolver: &Resolver, agent: u32) -> Result<(), Failure> {
    let shell = if Path::new("bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
    for (name, content) in introductions(agent, shell, resolver) {
        let target = Path::new("etc").join(name);
        match plan {
            RootPlan::Host(_) | RootPlan::HostBut(..) => make_file(&target, &content)?,
            RootPlan::Image(..) => {
                if target.is_file() {
                    let own = Path::new(".cofferdam").join(name);
                    make_file(&own, &content)?;
                    mounts::bind(&own, &target, Attributes::READ_ONLY)?;
                }
            }
        }
    }
    Ok(())
}

/// Who resolves names.
#[derive(Debug)]
pub enum Resolver {
    /// Nobody.
    Nobody,
    /// Whom the host's `resolv.conf` names.
    Host(String),
}

impl Resolver {
    /// Of a sandbox with this network; looked up while the host's files are in sight.
    #[must_use]
    pub fn of(network: NetworkPlan) -> Self {
        match network {
            NetworkPlan::Host => {
                Self::Host(fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
            }
            NetworkPlan::None | NetworkPlan::Proxy(_) => Self::Nobody,
        }
    }
}

/// The files of `/etc` that say who and where we are: names and contents.
fn introductions(agent: u32, shell: &str, resolver: &Resolver) -> [(&'static str, String); 6] {
    let (names, resolver) = match resolver {
        Resolver::Nobody => ("files", "# no names are resolved in this sandbox\n"),
        Resolver::Host(text) => ("files dns", text.as_str()),
    };
    [
        (
            "passwd",
            format!(
                "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
                 agent:x:{agent}:{agent}:agent:/home/agent:{shell}\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        ("group", format!("root:x:0:\nagent:x:{agent}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost cofferdam\n::1 localhost\n".to_owned()),
        ("hostname", "cofferdam\n".to_owned()),
        ("nsswitch.conf", format!("passwd: files\ngroup: files\nhosts: {names}\n")),
        ("resolv.conf", resolver.to_owned()),
    ]
}

/// Makes a directory in a directory that is there.
///
/// # Errors
/// When it cannot be made.
pub fn make_directory(path: &Path) -> Result<(), Failure> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error).step_with(|| format!("make {}", path.display())),
    }
}

/// Makes a directory and its missing parents.
///
/// # Errors
/// When one cannot be made.
pub fn make_directories(path: &Path) -> Result<(), Failure> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Err(rustix::io::Errno::NOENT) => {
            fs::create_dir_all(path).step_with(|| format!("make {}", path.display()))
        }
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error).step_with(|| format!("make {}", path.display())),
    }
}

/// Makes an empty file for another to be mounted at.
///
/// # Errors
/// When it cannot be made.
pub fn make_place(path: &Path) -> Result<(), Failure> {
    rustix::fs::mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(0o644), 0)
        .step_with(|| format!("make {}", path.display()))
}

/// Makes a file with this content.
///
/// # Errors
/// When it cannot be made.
pub fn make_file(path: &Path, content: &str) -> Result<(), Failure> {
    fs::write(path, content).step_with(|| format!("write {}", path.display()))
}
