//! Control groups: where the limits of a sandbox as a whole live.
//!
//! Version 2 where its controllers can be used, else version 1, else none. The
//! groups are made below the one this process is in (or the nearest one above
//! it where it may make some), so that whatever limits the host process also
//! limits its sandboxes.
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
    /// Version 1: a directory a controller.
    legacy: Vec<(Controller, PathBuf)>,
    /// They are an engine's, which removes them; these limits of it are in force.
    adopted: Option<[bool; 3]>,
}

/// A controller of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Memory,
    Cpu,
    Pids,
    Freezer,
}

impl Controller {
    const ALL: [Self; 4] = [Self::Memory, Self::Cpu, Self::Pids, Self::Freezer];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }
}

/// Where groups may be made: found once, without making any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// A version 2 directory whose children get all needed controllers.
    unified: Option<PathBuf>,
    /// A version 1 directory a controller.
    legacy: Vec<(String, PathBuf)>,
}

impl Places {
    /// Looks at this process's groups and the mounted hierarchies.
    #[must_use]
    pub fn find() -> Self {
        let mounts = procfs::read("/proc/self/mountinfo").unwrap_or_default();
        let groups = procfs::read("/proc/self/cgroup").unwrap_or_default();
        let (unified, legacy) = hierarchies(&mounts, &groups);
        let unified = unified.and_then(|(mount, own)| usable_ancestor(&mount, &own));
        let legacy = legacy
            .into_iter()
            .filter(|(controller, _)| Controller::ALL.iter().any(|c| c.name() == controller))
            .collect();
        Self { unified, legacy }
    }

    /// Whether a process has to be born into its groups rather than join them.
    #[must_use]
    pub fn need_birthplace(&self) -> bool {
        self.unified.is_some()
    }

    /// The controllers whose groups this process may make.
    #[must_use]
    pub fn usable(&self) -> Vec<String> {
        if self.unified.is_some() {
            return vec!["memory".to_owned(), "cpu".to_owned(), "pids".to_owned()];
        }
        let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
        let usable = self.legacy.iter().filter(|(_, path)| writable(path));
        usable.map(|(controller, _)| controller.clone()).collect()
    }

    /// Every directory where groups of this product may be.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        let legacy = self.legacy.iter().map(|(_, path)| path.clone());
        self.unified.iter().cloned().chain(legacy).collect()
    }
}

/// Whether the machine has groups of version 2 alone, where it is usual to have
/// them.
#[must_use]
pub fn is_unified() -> bool {
    const CGROUP2: i64 = 0x6367_7270;
    rustix::fs::statfs("/sys/fs/cgroup").is_ok_and(|found| found.f_type == CGROUP2)
}

/// The nearest directory at or above `own` in which this process may make
/// groups that get the memory, CPU and process controllers.
fn usable_ancestor(mount: &Path, own: &Path) -> Option<PathBuf> {
    own.ancestors().take_while(|directory| directory.starts_with(mount)).find_map(|directory| {
        let enabled = procfs::read(directory.join("cgroup.subtree_control")).ok()?;
        let has = |name: &str| enabled.split_ascii_whitespace().any(|word| word == name);
        let writable = rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
            && rustix::fs::access(directory.join("cgroup.procs"), rustix::fs::Access::WRITE_OK)
                .is_ok();
        (has("memory") && has("pids") && has("cpu") && writable).then(|| directory.to_path_buf())
    })
}

type Unified = Option<(PathBuf, PathBuf)>;
type Legacy = Vec<(String, PathBuf)>;

/// Mount points of the hierarchies joined with this process's place in them,
/// from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn hierarchies(mountinfo: &str, cgroup: &str) -> (Unified, Legacy) {
    let own = |wanted: &str| {
        cgroup.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            let matches = if wanted.is_empty() {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|name| name == wanted)
            };
            matches.then_some(path)
        })
    };
    let mut unified = None;
    let mut legacy = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let mut left = left.split(' ').skip(3);
        let (Some(root), Some(point)) = (left.next(), left.next()) else { continue };
        let mut right = right.split(' ');
        let (Some(kind), Some(options)) = (right.next(), right.nth(1)) else { continue };
        let place = |path: &str| {
            let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
            Path::new(point).join(below.trim_start_matches('/'))
        };
        match kind {
            "cgroup2" => {
                if let Some(path) = own("") {
                    unified = Some((PathBuf::from(point), place(path)));
                }
            }
            "cgroup" => {
                for controller in options.split(',') {
                    let known = Controller::ALL.iter().any(|c| c.name() == controller);
                    if let (true, Some(path)) = (known, own(controller)) {
                        legacy.push((controller.to_owned(), place(path)));
                    }
                }
            }
            _ => {}
        }
    }
    (unified, legacy)
}

impl Groups {
    /// Makes the groups and sets the limits. What cannot be made is left out.
    #[must_use]
    pub fn make(places: &Places, id: &str, limits: &Limits) -> Self {
        let name = format!("{PREFIX}{id}");
        if let Some(parent) = &places.unified {
            let path = parent.join(&name);
            if fs::create_dir(&path).is_ok() {
                let groups = Self { unified: Some(path), ..Self::default() };
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
                remove_directory(&path, Duration::ZERO);
            }
        }
        groups
    }

    /// The groups that an engine put a container's first process into.
    #[must_use]
    pub fn of_container(pid: u32, limits: &Limits) -> Self {
        let mounts = procfs::read("/proc/self/mountinfo").unwrap_or_default();
        let groups = procfs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let (unified, legacy) = hierarchies(&mounts, &groups);
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
        let groups = Self { unified, legacy, adopted: None };
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
        [Controller::Memory, Controller::Cpu, Controller::Pids]
            .map(|controller| self.unified.is_some() || self.legacy_path(controller).is_some())
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
        self.legacy_path(Controller::Memory).and_then(|group| Relief::watch(group))
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

    /// Removes the groups, unless they are an engine's; kills what may still be in them
    /// first. They are not frozen.
    pub fn remove(&self, patience: Duration) {
        if self.adopted.is_some() {
            return;
        }
        for path in self.unified.iter().chain(self.legacy.iter().map(|(_, path)| path)) {
            remove_directory(path, patience);
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
        write(&path.join("memory.max"), &limits.memory.to_string())?;
        if path.join("memory.swap.max").exists() {
            write(&path.join("memory.swap.max"), "0")?;
        }
        write(&path.join("pids.max"), &limits.pids.to_string())?;
        write(&path.join("cpu.weight"), &(100 / YIELDS).to_string())?;
        if needs_quota(limits) {
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
/// millisecond.
fn needs_quota(limits: &Limits) -> bool {
    let cpus = rustix::thread::sched_getaffinity(None).map_or(u32::MAX, |set| set.count());
    limits.milli_cpus / 1000 < cpus
}

fn quota_us(limits: &Limits) -> u64 {
    (u64::from(limits.milli_cpus) * PERIOD_US / 1000).max(1000)
}

/// Kills what is in a group and removes it, with every group below it.
pub fn remove_directory(path: &Path, patience: Duration) {
    let deadline = Instant::now() + patience;
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
            _ => return,
        }
        kill_members(path);
        for child in fs::read_dir(path).into_iter().flatten().flatten() {
            if child.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_directory(&child.path(), Duration::ZERO);
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

    const MOUNTINFO: &str = "\
30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
34 30 0:30 /outer /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
";
    const CGROUP: &str = "\
9:memory:/service/one
8:cpu,cpuacct:/
7:pids:/outer/inner
0::/user.slice
";

    #[test]
    fn a_process_finds_its_own_groups_in_every_hierarchy() {
        let (unified, legacy) = hierarchies(MOUNTINFO, CGROUP);
        assert_eq!(
            unified,
            Some(("/sys/fs/cgroup/unified".into(), "/sys/fs/cgroup/unified/user.slice".into()))
        );
        assert_eq!(
            legacy,
            vec![
                ("cpu".to_owned(), PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")),
                ("memory".to_owned(), "/sys/fs/cgroup/memory/service/one".into()),
                ("pids".to_owned(), "/sys/fs/cgroup/pids/inner".into()),
            ]
        );
    }

    #[test]
    fn counters_are_found_by_their_whole_name() {
        assert_eq!(keyed("low 0\noom 3\noom_kill 2\n", "oom_kill"), Some(2));
        assert_eq!(keyed("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", "oom_kill"), Some(5));
        assert_eq!(keyed("", "oom_kill"), None);
    }
}
