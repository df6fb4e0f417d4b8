//! Lack of memory in a sandbox whose kernel is a program.
//!
//! To the host's kernel that program is one process, and killing it would end the sandbox. So
//! would refusing it memory: it has no answer to that while it makes a process, say. So a part
//! of what the control group has is in reserve. When that is begun, the supervisor is told, and
//! has the guest kill the processes inside that take the most.
//!
//! Whoever is faster than that and wants more than there is, is stopped, and the supervisor
//! told again. It lends some memory for the guest to do the same, and takes it back as soon as
//! it can. Where that does not help for long enough, the host's kernel does what it would have
//! done.
//!
//! Only groups of version 1 can tell and stop rather than kill; with others the sandbox ends.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;

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
    /// Where the kernel tells that somebody was stopped, or that the reserve is begun.
    told: OwnedFd,
    loans: u32,
    look_again: Option<Instant>,
    /// How often somebody had to be killed.
    pub kills: u64,
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
        Some(Self { group, limit, scarce, told, loans: 0, look_again: None, kills: 0 })
    }

    /// Where it is told.
    #[must_use]
    pub fn told(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }

    /// When it has to be looked at again, whatever happens.
    #[must_use]
    pub fn look_again(&self) -> Option<Instant> {
        self.look_again
    }

    /// Looks at the group; whether the guest has to kill somebody.
    pub fn look(&mut self) -> bool {
        ignore(rustix::io::read(&self.told, &mut [0; 8]));
        let now = Instant::now();
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
        }
        let used = number(&self.group.join("memory.usage_in_bytes")).unwrap_or(0);
        // What is used for files may be taken back, and hides from then on what is not.
        let begun = used > self.scarce;
        self.look_again = (begun || self.loans > 0).then(|| now + PAUSE);
        let is_scarce = begun && used - self.files().min(used) > self.scarce;
        self.kills += u64::from(is_scarce);
        is_scarce
    }

    /// What the kernel would take back before it stops anybody.
    fn files(&self) -> u64 {
        let stat = procfs::read(self.group.join("memory.stat")).unwrap_or_default();
        let of = |line: &str| {
            let names = ["total_inactive_file ", "total_active_file "];
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
