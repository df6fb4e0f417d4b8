//! What is left on the machine of sandboxes and half-written files. There should be
//! nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use rustix::process::{Pid, Signal, kill_process};

use super::process::GLANCE;
use super::violation::Violation;

/// How deep control groups are looked for.
const DEPTH: usize = 12;

/// Watches a data directory for everything that sandboxes make.
pub(super) struct Watch {
    data: PathBuf,
    /// Tells the names that ever were in the sandboxes' directory.
    names: OwnedFd,
    ids: BTreeSet<String>,
}

impl Watch {
    /// Makes the directory, so that nothing is missed.
    pub(super) fn begin(data: &Path) -> io::Result<Self> {
        let sandboxes = data.join("sandboxes");
        fs::create_dir_all(&sandboxes)?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let names = inotify::init(flags)?;
        let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&names, &sandboxes, events)?;
        Ok(Self { data: data.to_owned(), names, ids: BTreeSet::new() })
    }

    fn look(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.names, &mut buffer);
        while let Ok(event) = events.next() {
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            self.ids.extend(name.filter(|name| !name.starts_with('.')));
        }
    }

    /// Waits until nothing is left.
    pub(super) fn clean_within(&mut self, patience: Duration) -> Result<(), Violation> {
        let deadline = Instant::now() + patience;
        loop {
            self.look();
            let found = self.found();
            if found.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Violation(format!("left behind: {}", found.join(", "))));
            }
            thread::sleep(GLANCE * 5);
        }
    }

    fn found(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (place, allowed) in [("sandboxes", ".shared"), ("blobs/half", ""), ("spool", "")] {
            for name in names(&self.data.join(place)) {
                if name != allowed {
                    found.push(format!("{place}/{name}"));
                }
            }
        }
        groups(Path::new("/sys/fs/cgroup"), DEPTH, &self.ids, &mut found);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let data = self.data.to_string_lossy();
        found.extend(mounts.lines().filter(|line| line.contains(&*data)).map(str::to_owned));
        for process in processes(&self.data) {
            found.push(format!("process {process} ({})", name(process)));
        }
        found
    }

    /// Waits until no sandbox is left of a server that runs.
    pub(super) fn no_sandbox_within(&mut self, patience: Duration) -> Result<(), Violation> {
        let deadline = Instant::now() + patience;
        loop {
            let mut left = names(&self.data.join("sandboxes"));
            left.retain(|name| name != ".shared");
            left.extend(self.supervisors().iter().map(|process| format!("process {process}")));
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Violation(format!("left behind: {}", left.join(", "))));
            }
            thread::sleep(GLANCE * 5);
        }
    }

    /// The supervisors of sandboxes that run.
    pub(super) fn supervisors(&self) -> Vec<i32> {
        let all = processes(&self.data).into_iter();
        all.filter(|process| name(*process) == "cofferdam-super").collect()
    }

    /// Ends what is left by force. For when the suite has failed.
    pub(super) fn end_all(&self) {
        for process in self.supervisors() {
            kill(process);
        }
    }
}

/// `kill -9`.
pub(super) fn kill(process: i32) {
    // One that is gone needs no signal.
    Pid::from_raw(process).map(|process| kill_process(process, Signal::KILL).ok());
}

/// The names in a directory.
pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The processes that are in a directory, or have something of it open.
fn processes(directory: &Path) -> Vec<i32> {
    let within = |link: &Path| fs::read_link(link).is_ok_and(|path| path.starts_with(directory));
    let touches = |process: &i32| {
        let own = Path::new("/proc").join(process.to_string());
        let open = fs::read_dir(own.join("fd")).into_iter().flatten().flatten();
        within(&own.join("cwd"))
            || within(&own.join("exe"))
            || open.into_iter().any(|entry| within(&entry.path()))
    };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let all = names(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
    all.filter(|process| *process != own).filter(touches).collect()
}

/// What a process calls itself.
fn name(process: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The control groups of these sandboxes.
fn groups(directory: &Path, depth: usize, ids: &BTreeSet<String>, found: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix("cofferdam-").is_some_and(|id| ids.contains(id)) {
            found.push(format!("control group {}", entry.path().display()));
        }
        groups(&entry.path(), depth, ids, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found() {
        let data = tempfile::tempdir().unwrap();
        let mut watch = Watch::begin(data.path()).unwrap();
        fs::create_dir_all(data.path().join("sandboxes/.shared/root")).unwrap();
        watch.clean_within(Duration::ZERO).unwrap();
        fs::create_dir(data.path().join("sandboxes/some-id")).unwrap();
        fs::create_dir_all(data.path().join("blobs/half/a.part")).unwrap();
        let found = watch.clean_within(Duration::ZERO).unwrap_err().to_string();
        assert!(found.contains("sandboxes/some-id") && found.contains("a.part"), "{found}");
        assert!(watch.ids.contains("some-id"));
        let mut groups_found = Vec::new();
        fs::create_dir_all(data.path().join("group/cofferdam-some-id")).unwrap();
        groups(data.path(), DEPTH, &watch.ids, &mut groups_found);
        assert_eq!(groups_found.len(), 1);
    }
}
