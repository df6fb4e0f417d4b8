//! Leftovers: what sandboxes that were closed have left on the host. There
//! should be nothing.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{host, process_table};

/// How long the kernel may take to be done with what was ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// How deep control groups are looked for.
const DEPTH: usize = 12;

/// The host before there were sandboxes.
pub(super) struct Before {
    processes: HashSet<i32>,
    mounts: usize,
    networks: BTreeSet<String>,
}

/// What is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    /// Each thing that is left, in words.
    pub(super) things: Vec<String>,
    /// Network namespaces that were not there before. They may be others'.
    pub(super) new_networks: usize,
}

impl Before {
    /// Looks at the host.
    pub(super) fn look() -> Self {
        Self {
            processes: own_processes().into_iter().map(|entry| entry.process).collect(),
            mounts: host::mounts().len(),
            networks: host::network_namespaces(),
        }
    }

    /// What is left of sandboxes with these ids, whose directories are in `home`.
    pub(super) fn compare(&self, home: &Path, ids: &HashSet<String>) -> Leftovers {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.compare_now(home, ids);
            if found == Leftovers::default() || Instant::now() >= deadline {
                return found;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn compare_now(&self, home: &Path, ids: &HashSet<String>) -> Leftovers {
        let mut things = Vec::new();
        let mut add = |count: usize, what: &str| {
            if count > 0 {
                things.push(format!("{what}: {count}"));
            }
        };
        add(directories(home), "directories");
        add(groups(ids).len(), "control groups");
        let new = own_processes().into_iter();
        let new = new.filter(|entry| !self.processes.contains(&entry.process));
        let (ended, alive): (Vec<_>, Vec<_>) = new.partition(|entry| entry.ended);
        add(alive.len(), "processes");
        add(ended.len(), "ended processes that nobody waited for");
        add(strays(home), "supervisors without a parent");
        let mounts = host::mounts().len();
        if mounts != self.mounts {
            things.push(format!("mounts: {mounts}, before {}", self.mounts));
        }
        let new_networks = host::network_namespaces().difference(&self.networks).count();
        Leftovers { things, new_networks }
    }
}

fn own_processes() -> Vec<process_table::Entry> {
    process_table::below(process_table::own(), &process_table::all())
}

/// Supervisors that run from the copies in `home` but are not below this process.
fn strays(home: &Path) -> usize {
    let own: HashSet<i32> = own_processes().iter().map(|entry| entry.process).collect();
    let others = process_table::all();
    let others = others.iter().filter(|entry| !own.contains(&entry.process));
    let programs = others.filter_map(|entry| process_table::program(entry.process));
    programs.filter(|program| program.starts_with(home)).count()
}

fn directories(home: &Path) -> usize {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    // The copies of the programs stay for the next sandbox.
    entries.filter(|entry| entry.file_name() != ".shared").count()
}

/// The control groups of these sandboxes, in every hierarchy.
fn groups(ids: &HashSet<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (kind, place) in host::mounts() {
        if kind == "cgroup" || kind == "cgroup2" {
            collect(Path::new(&place), ids, DEPTH, &mut found);
        }
    }
    found
}

fn collect(directory: &Path, ids: &HashSet<String>, depth: usize, found: &mut Vec<PathBuf>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("cofferdam-"));
        if id.is_some_and(|id| ids.contains(id)) {
            found.push(entry.path());
        }
        collect(&entry.path(), ids, depth, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_groups_that_are_left_are_found() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".shared")).unwrap();
        assert_eq!(directories(home.path()), 0);
        fs::create_dir_all(home.path().join("a/cofferdam-7")).unwrap();
        fs::create_dir_all(home.path().join("a/cofferdam-8")).unwrap();
        assert_eq!(directories(home.path()), 1);
        let mut found = Vec::new();
        collect(home.path(), &HashSet::from(["7".to_owned()]), DEPTH, &mut found);
        assert_eq!(found, [home.path().join("a/cofferdam-7")]);
    }
}
