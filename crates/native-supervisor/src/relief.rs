//! Lack of memory in a sandbox whose kernel is a program.
//!
//! To the host's kernel that program is one process, and killing it would end the sandbox. So
//! would refusing it memory: it has no answer to that while it makes a process, say. So a part
//! of what the control group has is in reserve. When that is begun, the supervisor is told, and
//! has the guest kill the processes inside that take the most.
//!
//! Once is enough, unless more is taken again: what files in memory hold is freed by nobody's
//! end.
//!
//! With groups of version 1, whoever is faster than that and wants more than there is, is
//! stopped, and the supervisor told again. It lends some memory for the guest to do the same,
//! and takes it back as soon as it can. Where that does not help for long enough, the host's
//! kernel does what it would have done.
//!
//! Groups of version 2 cannot stop anybody. They slow down whoever takes of the reserve, which
//! leaves time to kill; should somebody still come to its end, the sandbox ends. Only what is
//! taken anew is slowed down: where nobody's end frees the reserve, work goes on in it.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFlags};

use crate::failure::ignore;
use crate::procfs;

/// The part of the memory that is in reserve.
const RESERVE: u64 = 8;

/// What is lent at a time, and how often until it is given back.
const LOAN: u64 = 8 << 20;
const MOST_LOANS: u32 = 24;

/// How long the guest has with each. Whoever takes all of it meanwhile is stopped again, and
/// gets no more before that.
const PAUSE: Duration = Duration::from_millis(250);

/// Watches over the memory of one sandbox.
#[derive(Debug)]
pub struct Relief {
    group: PathBuf,
    limit: u64,
    /// Where the reserve begins.
    scarce: u64,
    version: Version,
    /// Where the kernel tells that somebody was stopped, or that the reserve is begun.
    told: OwnedFd,
    loans: u32,
    look_again: Option<Instant>,
    /// The least that was held since somebody was killed for the reserve.
    least: Option<u64>,
    /// How often somebody had to be killed.
    pub kills: u64,
}

/// What is different between the versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// What is in use.
    fn usage(self) -> &'static str {
        match self {
            Self::One => "memory.usage_in_bytes",
            Self::Two => "memory.current",
        }
    }

    /// What of it the kernel would take back.
    fn files(self) -> [&'static str; 2] {
        match self {
            Self::One => ["total_inactive_file ", "total_active_file "],
            Self::Two => ["inactive_file ", "active_file "],
        }
    }
}

impl Relief {
    /// Has lack of memory in this group of the memory controller, version 1, told.
    #[must_use]
    pub fn watch(group: &Path) -> Option<Self> {
        let limit = number(&group.join("memory.limit_in_bytes"))?;
        let scarce = limit - limit / RESERVE;
        let told =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let tell = |file: &str, when: &str| {
            let file = File::open(group.join(file)).ok()?;
            let request = format!("{} {} {when}", told.as_raw_fd(), file.as_raw_fd());
            write(&group.join("cgroup.event_control"), &request).ok()
        };
        tell("memory.oom_control", "")?;
        tell("memory.usage_in_bytes", &scarce.to_string())?;
        write(&group.join("memory.oom_control"), "1").ok()?;
        let group = group.to_owned();
        Some(Self::new(group, (limit, scarce), Version::One, told))
    }

    /// The same for a group of version 2.
    #[must_use]
    pub fn watch_unified(group: &Path) -> Option<Self> {
        let limit = number(&group.join("memory.max"))?;
        let told = File::open(group.join("memory.events")).ok()?.into();
        let scarce = limit - limit / RESERVE;
        let relief = Self::new(group.to_owned(), (limit, scarce), Version::Two, told);
        relief.slow_down_beyond(scarce).ok().map(|()| relief)
    }

    fn new(group: PathBuf, (limit, scarce): (u64, u64), version: Version, told: OwnedFd) -> Self {
        // Whoever is beyond the reserve already does not come to it.
        let look_again = Some(Instant::now());
        Self { group, limit, scarce, version, told, loans: 0, look_again, least: None, kills: 0 }
    }

    /// Where it is told, and how.
    #[must_use]
    pub fn told(&self) -> (BorrowedFd<'_>, PollFlags) {
        let how = match self.version {
            Version::One => PollFlags::IN,
            // It can always be read; that it has changed is told apart.
            Version::Two => PollFlags::PRI,
        };
        (self.told.as_fd(), how)
    }

    /// Takes note of what was told, so that it is told again.
    fn hear(&self) {
        match self.version {
            Version::One => ignore(rustix::io::read(&self.told, &mut [0; 8])),
            Version::Two => ignore(rustix::io::pread(&self.told, &mut [0; 512], 0)),
        }
    }

    /// When it has to be looked at again, whatever happens.
    #[must_use]
    pub fn look_again(&self) -> Option<Instant> {
        self.look_again
    }

    /// Looks at the group; whether the guest has to kill somebody.
    pub fn look(&mut self, now: Instant) -> bool {
        self.hear();
        if self.look_again.is_some_and(|at| now < at) {
            return false;
        }
        if self.is_short() {
            self.look_again = Some(now + PAUSE);
            if self.loans == MOST_LOANS {
                // Whoever kills now is not asked whom.
                ignore(write(&self.group.join("memory.oom_control"), "0"));
                return false;
            }
            self.loans += 1;
            self.kills += 1;
            ignore(self.set_limit(self.limit + u64::from(self.loans) * LOAN));
            return true;
        }
        if self.loans > 0 && self.set_limit(self.limit).is_ok() {
            self.loans = 0;
            ignore(write(&self.group.join("memory.oom_control"), "1"));
        }
        let used = number(&self.group.join(self.version.usage())).unwrap_or(0);
        // What is used for files may be taken back, and hides from then on what is not.
        let begun = used > self.scarce;
        self.look_again = (begun || self.loans > 0).then(|| now + PAUSE);
        let files = if begun { self.files() } else { 0 };
        let kill = self.is_taken(used.saturating_sub(files));
        self.kills += u64::from(kill);
        if self.version == Version::Two {
            ignore(
                self.slow_down_beyond(self.least.map_or(self.scarce, |least| least + self.more())),
            );
        }
        kill
    }

    /// What has to be taken of the reserve for somebody to be killed once more.
    fn more(&self) -> u64 {
        (self.limit - self.scarce) / 4
    }

    fn slow_down_beyond(&self, bytes: u64) -> std::io::Result<()> {
        write(&self.group.join("memory.high"), &bytes.to_string())
    }

    /// Whether so much is held that somebody has to be killed, who has not been yet.
    fn is_taken(&mut self, held: u64) -> bool {
        if held <= self.scarce {
            self.least = None;
            return false;
        }
        match self.least {
            Some(least) if held <= least + self.more() => {
                self.least = Some(least.min(held));
                false
            }
            _ => {
                self.least = Some(held);
                true
            }
        }
    }

    /// What the kernel would take back before it stops anybody.
    fn files(&self) -> u64 {
        let stat = procfs::read(self.group.join("memory.stat")).unwrap_or_default();
        let of = |line: &str| {
            let names = self.version.files();
            names.iter().find_map(|name| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        stat.lines().filter_map(of).sum()
    }

    fn is_short(&self) -> bool {
        let control = procfs::read(self.group.join("memory.oom_control")).unwrap_or_default();
        control.lines().any(|line| line == "under_oom 1")
    }

    /// Fails while more is in use.
    fn set_limit(&self, limit: u64) -> std::io::Result<()> {
        let files = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
        let files = files.map(|name| self.group.join(name));
        // One may not be less than the other; whichever is in the way comes second.
        let set = |file: &PathBuf| match file.exists() {
            true => write(file, &limit.to_string()),
            false => Ok(()),
        };
        let [memory, with_swap] = &files;
        match set(memory) {
            Ok(()) => set(with_swap),
            Err(_) => set(with_swap).and_then(|()| set(memory)),
        }
    }
}

fn number(path: &Path) -> Option<u64> {
    procfs::read(path).ok()?.trim().parse().ok()
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A group of 400 MiB, made of plain files: the last fifty are the reserve.
    struct Group {
        files: tempfile::TempDir,
        relief: Relief,
        now: Instant,
    }

    impl Group {
        fn new() -> Self {
            let files = tempfile::tempdir().unwrap();
            let set = |name: &str, text: &str| fs::write(files.path().join(name), text).unwrap();
            set("cgroup.event_control", "");
            set("memory.limit_in_bytes", &(400 * MIB).to_string());
            set("memory.oom_control", "");
            set("memory.usage_in_bytes", "0");
            let relief = Relief::watch(files.path()).unwrap();
            Self { files, relief, now: Instant::now() }
        }

        fn set(&self, name: &str, text: &str) {
            fs::write(self.files.path().join(name), text).unwrap();
        }

        fn get(&self, name: &str) -> String {
            fs::read_to_string(self.files.path().join(name)).unwrap()
        }

        /// Looks once more, with so much in use, and so much of it for files.
        fn uses(&mut self, mib: u64, files: u64) -> bool {
            self.set("memory.usage_in_bytes", &(mib * MIB).to_string());
            let (active, inactive) = (files * MIB / 4, files * MIB - files * MIB / 4);
            let stat = format!("total_rss 9\ntotal_inactive_file {inactive}\n");
            self.set("memory.stat", &format!("{stat}total_active_file {active}\n"));
            self.now += PAUSE;
            self.relief.look(self.now)
        }

        /// Looks once more while somebody is stopped.
        fn is_short(&mut self) -> bool {
            self.set("memory.oom_control", "oom_kill_disable 1\nunder_oom 1\n");
            self.now += PAUSE;
            self.relief.look(self.now)
        }
    }

    #[test]
    fn the_reserve_is_told_of_once_and_again_when_more_is_taken() {
        let mut group = Group::new();
        assert!(!group.uses(350, 0));
        assert!(group.uses(351, 0));
        assert!(!group.uses(362, 0), "it has not had its effect yet");
        assert!(!group.uses(355, 0));
        assert!(group.uses(364, 0), "more is taken");
        assert!(!group.uses(300, 0));
        assert!(group.uses(351, 0), "it was over in between");
        assert_eq!(group.relief.kills, 3);
    }

    #[test]
    fn with_groups_v2_the_reserve_is_told_of_and_only_what_is_taken_anew_is_slowed_down() {
        let files = tempfile::tempdir().unwrap();
        let set = |name: &str, text: String| fs::write(files.path().join(name), text).unwrap();
        set("memory.max", format!("{}\n", 400 * MIB));
        set("memory.events", "high 0\n".to_owned());
        set("memory.high", "max\n".to_owned());
        let high = || number(&files.path().join("memory.high")).unwrap() / MIB;
        let mut relief = Relief::watch_unified(files.path()).unwrap();
        assert_eq!(high(), 350);
        let mut now = Instant::now();
        let mut uses = |mib: u64, files: u64| {
            set("memory.current", (mib * MIB).to_string());
            set("memory.stat", format!("active_file {}\ninactive_file 0\n", files * MIB));
            now += PAUSE;
            relief.look(now)
        };
        assert!(!uses(350, 0) && !uses(395, 200));
        assert!(uses(360, 0));
        assert_eq!(high(), 372, "whoever is in the reserve by now works on");
        assert!(!uses(370, 0) && uses(373, 0), "more is taken");
        assert!(!uses(300, 0));
        assert_eq!(high(), 350);
        assert_eq!(relief.kills, 2);
    }

    #[test]
    fn what_is_used_for_files_is_not_taken() {
        let mut group = Group::new();
        assert!(!group.uses(395, 200));
        assert!(group.relief.look_again().is_some(), "it hides what is taken from now on");
        assert!(group.uses(395, 25));
    }

    #[test]
    fn nobody_is_looked_at_before_it_is_time() {
        let mut group = Group::new();
        assert!(group.uses(375, 0));
        group.set("memory.oom_control", "under_oom 1\n");
        assert!(!group.relief.look(group.now + PAUSE / 2));
        assert!(group.relief.look(group.now + PAUSE));
    }

    #[test]
    fn what_was_lent_is_given_back_and_the_kernel_stops_again_rather_than_kill() {
        let mut group = Group::new();
        for loan in 1..=MOST_LOANS {
            assert!(group.is_short());
            let limit = 400 * MIB + u64::from(loan) * LOAN;
            assert_eq!(group.get("memory.limit_in_bytes"), limit.to_string());
        }
        assert!(!group.is_short());
        assert!(group.get("memory.oom_control").starts_with('0'), "the kernel is let loose");
        group.set("memory.oom_control", "under_oom 0\n");
        assert!(!group.uses(300, 0));
        assert_eq!(group.get("memory.limit_in_bytes"), (400 * MIB).to_string());
        assert!(group.get("memory.oom_control").starts_with('1'));
        assert_eq!(group.relief.look_again(), None);
    }
}
