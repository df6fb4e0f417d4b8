//! Control groups: where the limits of a sandbox as a whole live.
//!
//! Version 2 where its controllers can be used, else version 1, else none.
//!
//! Joining is the expensive part of version 1: writing another process's number
//! to `cgroup.procs` waits for a grace period of the kernel, some ten
//! milliseconds. The first process therefore joins by itself, through
//! descriptors of `tasks` that are opened here and inherited.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_types::Limits;
use rustix::fs::{Mode, OFlags};

use crate::failure::{Failure, Step, ignore};
use crate::places::{Controller, Places, apart, hierarchies};
use crate::processors;
use crate::procfs;
use crate::relief::Relief;
use crate::wire::GroupKind;

/// Prefix of the names of all groups this product makes.
pub const PREFIX: &str = "cofferdam-";

const PERIOD_US: u64 = 100_000;

/// Where CPUs are short, a sandbox gets this much less of them than another process of
/// the host: many of them do not keep a server from answering.
const YIELDS: u32 = 8;

/// The groups of one sandbox.
#[derive(Debug, Default)]
pub struct Groups {
    /// Version 2: the one directory.
    unified: Option<PathBuf>,
    /// Version 2: whether memory, CPU and processes are limited there.
    given: [bool; 3],
    /// Version 1: a directory a controller.
    legacy: Vec<(Controller, PathBuf)>,
    /// They are an engine's, which removes them; these limits of it are in force.
    adopted: Option<[bool; 3]>,
}

impl Groups {
    /// Makes the groups and sets the limits. What cannot be made is left out.
    #[must_use]
    pub fn make(places: &Places, id: &str, limits: &Limits) -> Self {
        let name = format!("{PREFIX}{id}");
        if let Some((parent, given)) = &places.unified {
            let path = parent.join(&name);
            if fs::create_dir(&path).is_ok() {
                let groups = Self { unified: Some(path), given: *given, ..Self::default() };
                if groups.limit_unified(limits).is_ok() {
                    return groups;
                }
                groups.remove(Duration::ZERO);
            }
        }
        let mut groups = Self::default();
        for controller in Controller::ALL {
            let parent = places.legacy.iter().find(|(known, _)| known == controller.name());
            let Some((_, parent)) = parent else { continue };
            let path = parent.join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            if limit_legacy(controller, &path, limits).is_ok() {
                groups.legacy.push((controller, path));
            } else {
                remove_all(&[path], Duration::ZERO);
            }
        }
        groups
    }

    /// The groups that an engine put a container's first process into. One that this process
    /// is in too is not the container's: others are counted there, and would be frozen.
    #[must_use]
    pub fn of_container(pid: u32, limits: &Limits) -> Self {
        let mounts = procfs::read("/proc/self/mountinfo").unwrap_or_default();
        let groups = procfs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let own = procfs::read("/proc/self/cgroup").unwrap_or_default();
        let (unified, legacy) = apart(hierarchies(&mounts, &groups), &hierarchies(&mounts, &own));
        let controller = |name: &str| Controller::ALL.into_iter().find(|one| one.name() == name);
        let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
        let legacy: Vec<_> = legacy
            .into_iter()
            .filter_map(|(name, path)| Some((controller(&name)?, path)))
            .filter(|(kind, path)| {
                *kind != Controller::Freezer || writable(&path.join("freezer.state"))
            })
            .collect();
        let unified = unified
            .map(|(_, path)| path)
            .filter(|path| legacy.is_empty() && path.join("memory.max").exists());
        let groups = Self { unified, legacy, ..Self::default() };
        Self { adopted: Some(groups.in_force(limits)), ..groups }
    }

    /// Which of the limits are in force, whoever set them.
    fn in_force(&self, limits: &Limits) -> [bool; 3] {
        let (memory, cpu, pids) = match &self.unified {
            Some(path) => (
                Some(path.join("memory.max")),
                Some(path.join("cpu.max")),
                Some(path.join("pids.max")),
            ),
            None => {
                let file = |kind, name| self.legacy_path(kind).map(|path| path.join(name));
                (
                    file(Controller::Memory, "memory.limit_in_bytes"),
                    file(Controller::Cpu, "cpu.cfs_quota_us"),
                    file(Controller::Pids, "pids.max"),
                )
            }
        };
        let value = |file: Option<PathBuf>| {
            let text = procfs::read(file?).ok()?;
            text.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let at_most = |value: Option<u64>, most: u64| value.is_some_and(|value| value <= most);
        [
            // The kernel rounds to pages.
            at_most(value(memory), limits.memory),
            !needs_quota(limits) || at_most(value(cpu), quota_us(limits)),
            at_most(value(pids), u64::from(limits.pids)),
        ]
    }

    /// Which version holds the limits.
    #[must_use]
    pub fn kind(&self) -> GroupKind {
        match (&self.unified, self.legacy.is_empty()) {
            (Some(_), _) => GroupKind::V2,
            (None, false) => GroupKind::V1,
            (None, true) => GroupKind::None,
        }
    }

    /// Whether memory, CPU and processes are limited.
    #[must_use]
    pub fn hold(&self) -> [bool; 3] {
        if let Some(in_force) = self.adopted {
            return in_force;
        }
        if self.unified.is_some() {
            return self.given;
        }
        [Controller::Memory, Controller::Cpu, Controller::Pids]
            .map(|controller| self.legacy_path(controller).is_some())
    }

    /// Version 2: a descriptor of the group, to be born into.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn birthplace(&self) -> Result<Option<OwnedFd>, Failure> {
        let Some(path) = &self.unified else { return Ok(None) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).step("open the control group").map(Some)
    }

    /// Version 1: descriptors of `tasks`, for the first process to join by.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn doors(&self) -> Result<Vec<OwnedFd>, Failure> {
        if self.adopted.is_some() {
            return Ok(Vec::new());
        }
        self.legacy
            .iter()
            .map(|(_, path)| {
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::open(path.join("tasks"), flags, Mode::empty())
                    .step("open a control group's tasks")
            })
            .collect()
    }

    /// How many processes were killed for lack of memory.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        let file = match (&self.unified, self.legacy_path(Controller::Memory)) {
            (Some(path), _) => path.join("memory.events"),
            (None, Some(path)) => path.join("memory.oom_control"),
            (None, None) => return 0,
        };
        keyed(&procfs::read(file).unwrap_or_default(), "oom_kill").unwrap_or(0)
    }

    /// Has lack of memory told rather than met by a kill, where that can be had.
    #[must_use]
    pub fn relief(&self) -> Option<Relief> {
        match (&self.unified, self.legacy_path(Controller::Memory)) {
            (Some(group), _) => Relief::watch_unified(group),
            (None, group) => Relief::watch(group?),
        }
    }

    /// Stops every process in the groups; `false` where no group can. A process
    /// that waits for an answer of the supervisor's only stops once it has it:
    /// `meanwhile` gives such answers.
    ///
    /// # Errors
    /// When they do not all stop in time.
    pub fn freeze(&self, patience: Duration, mut meanwhile: impl FnMut()) -> Result<bool, Failure> {
        let (file, value, state, frozen) = match (&self.unified, self.freezer()) {
            (Some(path), _) => {
                (path.join("cgroup.freeze"), "1", path.join("cgroup.events"), "frozen 1")
            }
            (None, Some(path)) => {
                (path.join("freezer.state"), "FROZEN", path.join("freezer.state"), "FROZEN")
            }
            (None, None) => return Ok(false),
        };
        write(&file, value).step("freeze the sandbox")?;
        let deadline = Instant::now() + patience;
        loop {
            let now = procfs::read(&state).step("read whether the sandbox is frozen")?;
            if now.lines().any(|line| line == frozen) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                self.thaw();
                return Err(Failure::new("the sandbox's processes did not freeze in time"));
            }
            meanwhile();
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Lets the processes go on.
    pub fn thaw(&self) {
        let (file, value) = match (&self.unified, self.freezer()) {
            (Some(path), _) => (path.join("cgroup.freeze"), "0"),
            (None, Some(path)) => (path.join("freezer.state"), "THAWED"),
            (None, None) => return,
        };
        // A group that cannot be thawed is about to be killed and removed.
        ignore(write(&file, value));
    }

    /// Kills what is in the groups, unless they are an engine's. They are not frozen.
    pub fn kill(&self) {
        if self.adopted.is_none() {
            self.paths().for_each(|path| kill_members(path));
        }
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.unified.iter().chain(self.legacy.iter().map(|(_, path)| path))
    }

    /// Removes the groups, unless they are an engine's; kills what may still be in them
    /// first.
    pub fn remove(&self, patience: Duration) {
        if self.adopted.is_none() {
            remove_all(&self.paths().cloned().collect::<Vec<_>>(), patience);
        }
    }

    fn legacy_path(&self, wanted: Controller) -> Option<&PathBuf> {
        self.legacy.iter().find(|(controller, _)| *controller == wanted).map(|(_, path)| path)
    }

    fn freezer(&self) -> Option<&PathBuf> {
        self.legacy_path(Controller::Freezer)
    }

    fn limit_unified(&self, limits: &Limits) -> std::io::Result<()> {
        let Some(path) = &self.unified else { return Ok(()) };
        let [memory, cpu, pids] = self.given;
        if memory {
            write(&path.join("memory.max"), &limits.memory.to_string())?;
            if path.join("memory.swap.max").exists() {
                write(&path.join("memory.swap.max"), "0")?;
            }
        }
        if pids {
            write(&path.join("pids.max"), &limits.pids.to_string())?;
        }
        if cpu {
            write(&path.join("cpu.weight"), &(100 / YIELDS).to_string())?;
        }
        if cpu && needs_quota(limits) {
            write(&path.join("cpu.max"), &format!("{} {PERIOD_US}", quota_us(limits)))?;
        }
        Ok(())
    }
}

fn limit_legacy(controller: Controller, path: &Path, limits: &Limits) -> std::io::Result<()> {
    match controller {
        Controller::Memory => {
            write(&path.join("memory.limit_in_bytes"), &limits.memory.to_string())?;
            let with_swap = path.join("memory.memsw.limit_in_bytes");
            if with_swap.exists() { write(&with_swap, &limits.memory.to_string()) } else { Ok(()) }
        }
        Controller::Cpu => {
            write(&path.join("cpu.shares"), &(1024 / YIELDS).to_string())?;
            if !needs_quota(limits) {
                return Ok(());
            }
            write(&path.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
            write(&path.join("cpu.cfs_quota_us"), &quota_us(limits).to_string())
        }
        Controller::Pids => write(&path.join("pids.max"), &limits.pids.to_string()),
        Controller::Freezer => Ok(()),
    }
}

/// As many CPUs as the machine has need no quota. The first quota of a machine
/// and the end of its last make the kernel rewrite its own code, which takes a
/// millisecond. How many this process may use is no measure: a sandbox may use others.
fn needs_quota(limits: &Limits) -> bool {
    limits.milli_cpus / 1000 < processors::of_the_machine()
}

fn quota_us(limits: &Limits) -> u64 {
    (u64::from(limits.milli_cpus) * PERIOD_US / 1000).max(1000)
}

/// Kills what is in groups and removes them, with every group below them, within this time in
/// all; whether nobody is left in any.
pub fn remove_all(paths: &[PathBuf], patience: Duration) -> bool {
    // Who was frozen by a supervisor that is dead does not die before it goes on.
    for path in paths {
        for (file, value) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
            let file = path.join(file);
            if file.exists() {
                ignore(write(&file, value));
            }
        }
    }
    let deadline = Instant::now() + patience;
    paths.iter().for_each(|path| remove_directory(path, deadline));
    !paths.iter().any(|path| has_members(path))
}

/// Whether somebody is in a group that is there; whoever cannot look does not know that nobody
/// is.
fn has_members(path: &Path) -> bool {
    let members = procfs::read(path.join("cgroup.procs"));
    members.map_or_else(|_| path.exists(), |members| !members.is_empty())
}

fn remove_directory(path: &Path, deadline: Instant) {
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
            _ => return,
        }
        kill_members(path);
        for child in fs::read_dir(path).into_iter().flatten().flatten() {
            if child.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_directory(&child.path(), Instant::now());
            }
        }
        if Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn kill_members(path: &Path) {
    if write(&path.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let members = procfs::read(path.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| line.parse().ok()) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            // It may have ended since the list was read.
            ignore(rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
    }
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

fn write(path: &Path, value: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_limits_that_a_group_has_are_set_and_told() {
        let directory = tempfile::tempdir().unwrap();
        let group = directory.path().join("cofferdam-x");
        fs::create_dir(&group).unwrap();
        for file in ["memory.max", "pids.max"] {
            fs::write(group.join(file), "").unwrap();
        }
        let given = [true, false, true];
        let groups = Groups { unified: Some(group.clone()), given, ..Groups::default() };
        let limits = Limits { milli_cpus: 1, ..Limits::default() };
        groups.limit_unified(&limits).unwrap();
        assert_eq!(fs::read_to_string(group.join("pids.max")).unwrap(), limits.pids.to_string());
        assert_eq!(groups.hold(), given);
        let all = Groups { given: [true; 3], ..groups };
        assert!(all.limit_unified(&limits).is_err(), "a limit that is promised and not there");
    }

    #[test]
    fn counters_are_found_by_their_whole_name() {
        assert_eq!(keyed("low 0\noom 3\noom_kill 2\n", "oom_kill"), Some(2));
        assert_eq!(keyed("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", "oom_kill"), Some(5));
        assert_eq!(keyed("", "oom_kill"), None);
    }
}
