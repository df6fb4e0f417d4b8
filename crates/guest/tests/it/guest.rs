//! A guest process with a workspace of its own, gone with all its descendants
//! when the test is over.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;

/// Nothing that goes well takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The guest that was built with the tests, or another one that is named.
pub(crate) fn guest_program() -> String {
    let named = std::env::var("COFFERDAM_GUEST_PROGRAM");
    named.unwrap_or_else(|_| env!("CARGO_BIN_EXE_cofferdam-guest").to_owned())
}

/// The user that tests run the guest as, if they are allowed to choose.
const NOBODY: u32 = 65_534;

/// A guest.
pub(crate) struct Guest {
    child: Child,
    directory: tempfile::TempDir,
}

impl Guest {
    pub(crate) fn start() -> Self {
        Self::start_after(":")
    }

    /// Starts a guest from a shell that did something else before.
    pub(crate) fn start_after(script: &str) -> Self {
        Self::start_prepared(script, |_| {})
    }

    /// Starts a guest from a shell that somebody has prepared.
    pub(crate) fn start_prepared(script: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let workspace = directory.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        // The shell moves the socket to where the guest looks for it.
        let mut command = program("/bin/sh");
        command.args(["-c", &format!("{script}; exec \"$0\" 3<&0 0</dev/null"), &guest_program()]);
        command.stdin(Stdio::from(OwnedFd::from(listener)));
        command.env_clear().env("COFFERDAM_WORKSPACE", &workspace);
        as_nobody(&mut command, &workspace);
        prepare(&mut command);
        let child = command.spawn().unwrap();
        Self { child, directory }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    /// Writes a file into the workspace, as its user.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.workspace().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        self.give_away();
        file
    }

    /// Makes a directory with directories one in the other, each with a file,
    /// deeper than any path is long.
    pub(crate) fn put_deep(&self, levels: usize) {
        let owner = fs::metadata(self.workspace()).unwrap();
        let owner = (
            Some(rustix::fs::Uid::from_raw(owner.uid())),
            Some(rustix::fs::Gid::from_raw(owner.gid())),
        );
        let mode = rustix::fs::Mode::from_raw_mode(0o755);
        let open = |place: &OwnedFd, name: &str, flags| {
            let fd = rustix::fs::openat(place, name, flags, mode).unwrap();
            rustix::fs::fchown(&fd, owner.0, owner.1).unwrap();
            fd
        };
        let mut place = OwnedFd::from(fs::File::open(self.workspace()).unwrap());
        for level in 0..levels {
            let name = format!("directory-{level}");
            rustix::fs::mkdirat(&place, name.as_str(), mode).unwrap();
            place = open(&place, &name, rustix::fs::OFlags::DIRECTORY);
            open(&place, "file", rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY);
        }
    }

    /// Makes everything in the workspace the guest's own.
    pub(crate) fn give_away(&self) {
        let owner = fs::metadata(self.workspace()).unwrap();
        give(&self.workspace(), owner.uid(), owner.gid());
    }

    pub(crate) fn dial(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("socket")).unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(self.dial())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// A field of `/proc/<pid>/status`, in kilobytes.
    pub(crate) fn memory_kb(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        for pid in descendants(self.pid()) {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).ok();
        }
        self.child.kill().ok();
        self.child.wait().ok();
        // Directories that a test made inaccessible.
        for _ in 0..2 {
            unlock(&self.workspace());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the guest is the program under test")]
pub(crate) fn program(path: &str) -> Command {
    Command::new(path)
}

/// Lets a command run as somebody without privileges, where that can be chosen
/// and the guest's program can be reached by them.
pub(crate) fn as_nobody(command: &mut Command, workspace: &Path) {
    let reachable = Path::new(&guest_program()).ancestors().skip(1).all(|directory| {
        directory.as_os_str().is_empty()
            || fs::metadata(directory).is_ok_and(|metadata| metadata.mode() & 0o001 != 0)
    });
    if rustix::process::getuid().is_root() && reachable {
        give(workspace, NOBODY, NOBODY);
        command.uid(NOBODY).gid(NOBODY);
    }
}

fn give(path: &Path, uid: u32, gid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), uid, gid);
        }
    }
}

fn unlock(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).ok();
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            unlock(&entry.path());
        }
    }
}

/// All processes as pairs of id and parent's id, with state and name.
pub(crate) fn processes() -> Vec<(i32, i32, char, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let (Some((pid, rest)), Some((_, after))) = (stat.split_once(" ("), stat.rsplit_once(") "))
        else {
            continue;
        };
        let name = rest.rsplit_once(") ").map(|(name, _)| name.to_owned()).unwrap_or_default();
        let mut fields = after.split(' ');
        let state = fields.next().unwrap().chars().next().unwrap();
        let parent = fields.next().unwrap().parse().unwrap();
        let Ok(pid) = pid.parse() else { continue };
        found.push((pid, parent, state, name));
    }
    found
}

/// The processes that come from one, zombies too.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let all = processes();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|process| process.1 == parent).map(|process| process.0));
        at += 1;
    }
    found.remove(0);
    found
}

/// The monitor that waits for the next command: the only child that has the guest's name.
pub(crate) fn spare(guest: i32) -> Option<i32> {
    let all = processes();
    let is_spare = |(_, parent, state, name): &&(i32, i32, char, String)| {
        *parent == guest && *state != 'Z' && name == "cofferdam"
    };
    all.iter().find(is_spare).map(|(pid, ..)| *pid)
}

/// What comes from a guest and works, or did.
pub(crate) fn at_work(guest: i32) -> Vec<i32> {
    let spare = spare(guest);
    descendants(guest).into_iter().filter(|pid| Some(*pid) != spare).collect()
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is alive and no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    processes().iter().any(|process| process.0 == pid && process.2 != 'Z')
}
