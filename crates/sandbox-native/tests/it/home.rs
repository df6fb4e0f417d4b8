//! A place for the sandboxes of one test, which leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_sandbox_native::Native;
use tempfile::TempDir;

/// The directories of one test.
pub(crate) struct Home {
    directory: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::Builder::new().prefix("cofferdam-test-").tempdir().unwrap() }
    }

    /// A back end of its own.
    pub(crate) fn native(&self) -> Native {
        Native::new(self.sandboxes())
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.directory.path().join("sandboxes")
    }

    /// A new directory beside the sandboxes.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// The names of sandboxes that have a directory.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sandboxes()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".shared").collect()
    }

    /// Waits until nothing of any sandbox is left.
    pub(crate) fn assert_empty(&self) {
        wait_until("no sandbox has a directory", || self.left().is_empty());
        wait_until("no supervisor runs", || supervisors(&self.sandboxes()).is_empty());
    }
}

/// The supervisors whose sandbox's directory is below this one.
pub(crate) fn supervisors(home: &Path) -> Vec<u32> {
    processes()
        .filter(|pid| comm(*pid) == "cofferdam-super")
        .filter(|pid| {
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            cwd.starts_with(home)
        })
        .collect()
}

/// The processes with this word in their command line.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
    };
    processes().filter(has).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Control groups of this sandbox, in any hierarchy.
pub(crate) fn groups_of(id: &str) -> Vec<PathBuf> {
    let name = format!("cofferdam-{id}");
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy() == name {
                    found.push(entry.path());
                }
                directories.push(entry.path());
            }
        }
    }
    found
}

/// Waits for a condition, a minute at most.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs something asynchronous.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}
