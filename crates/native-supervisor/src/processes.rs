//! The processes of a sandbox, as the host sees them.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Failure, ignore};
use crate::procfs;

/// A line of `/proc/PID/stat`, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    state: char,
    pub(crate) parent: u32,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&procfs::read_line(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name may hold anything, a closing bracket too; the last one ends it.
    fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = tail.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), state, parent })
    }

    /// It runs nothing of its own any more.
    fn at_rest(&self) -> bool {
        matches!(self.state, 'T' | 't' | 'Z' | 'X')
    }
}

/// Whether all threads of a process have stopped.
fn all_threads_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| procfs::read(thread.path().join("stat")).ok())
        .filter_map(|text| Stat::parse(&text))
        .all(|stat| stat.at_rest())
}

/// Every living process below `init`, and whether it is stopped; the guest's own
/// helpers that stand ready and do nothing are left out.
fn below(init: u32) -> HashMap<u32, bool> {
    let mut all: HashMap<u32, Stat> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((pid, stat)) = pid.and_then(|pid| Some((pid, Stat::read(pid)?))) {
            all.insert(pid, stat);
        }
    }
    let mut found: HashSet<u32> = HashSet::from([init]);
    loop {
        let before = found.len();
        let children = all.iter().filter(|(_, stat)| found.contains(&stat.parent));
        found.extend(children.map(|(pid, _)| *pid).collect::<Vec<_>>());
        if found.len() == before {
            break;
        }
    }
    found.remove(&init);
    let idle_helper = |stat: &Stat| stat.parent == init && stat.name == GUEST_NAME;
    // A process that waits for a child to begin another program cannot be seen to
    // stop, but it does nothing before that child does.
    let waits_for_stopped = |pid: u32| {
        let stopped_child = |stat: &Stat| stat.parent == pid && stat.at_rest();
        all.get(&pid).is_some_and(|stat| stat.state == 'D') && all.values().any(stopped_child)
    };
    // The guest does not let its own children stop. Those that watch over a
    // command touch no files; those without a command are at work on files, and
    // that is soon over.
    let watches = |pid: u32, stat: &Stat| {
        stat.parent == init && all.values().any(|child| child.parent == pid)
    };
    let living = |pid: u32| {
        let stat = all.get(&pid)?;
        let stopped = all_threads_stopped(pid) || waits_for_stopped(pid) || watches(pid, stat);
        (!idle_helper(stat) && !matches!(stat.state, 'Z' | 'X')).then_some((pid, stopped))
    };
    found.into_iter().filter_map(living).collect()
}

/// What the guest calls itself and its idle helpers.
const GUEST_NAME: &str = "cofferdam";

/// Whether anything but the guest runs below `init`.
#[must_use]
pub fn any_below(init: u32) -> bool {
    !below(init).is_empty()
}

/// Stops every process below `init` by signals, where no control group can do
/// it; returns those that ran before.
///
/// # Errors
/// When new ones keep appearing.
pub fn stop_below(init: u32, mut meanwhile: impl FnMut()) -> Result<Vec<u32>, Failure> {
    let mut stopped = Vec::new();
    for _ in 0..1000 {
        let running: Vec<u32> =
            below(init).into_iter().filter(|(_, stopped)| !stopped).map(|(pid, _)| pid).collect();
        if running.is_empty() {
            return Ok(stopped);
        }
        for pid in running {
            send(pid, Signal::STOP);
            // Only processes that are not the guest's own stay stopped.
            if !stopped.contains(&pid) {
                stopped.push(pid);
            }
        }
        meanwhile();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let restless: Vec<String> = below(init)
        .into_iter()
        .filter(|(_, stopped)| !stopped)
        .filter_map(|(pid, _)| Stat::read(pid))
        .map(|stat| format!("{} ({})", stat.name, stat.state))
        .collect();
    continue_all(&stopped);
    Err(Failure::new(format!(
        "the sandbox's processes could not be stopped: {}",
        restless.join(", ")
    )))
}

/// Lets stopped processes go on.
pub fn continue_all(pids: &[u32]) {
    for pid in pids {
        send(*pid, Signal::CONT);
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended since it was seen.
        ignore(kill_process(pid, signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = Stat::parse("42 (a) b ((c) S 7 42 42 0").unwrap();
        assert_eq!(stat, Stat { name: "a) b ((c".to_owned(), state: 'S', parent: 7 });
        assert_eq!(Stat::parse("garbage"), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process to look at")]
    fn a_child_is_below_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(any_below(std::process::id()));
        let stopped = stop_below(std::process::id(), || {}).unwrap();
        assert!(stopped.contains(&child.id()));
        assert!(all_threads_stopped(child.id()));
        continue_all(&stopped);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
