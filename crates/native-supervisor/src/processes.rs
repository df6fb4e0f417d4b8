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
    /// Its session: 0 for one that began outside of what this `/proc` shows. Whoever has left
    /// one cannot come back.
    pub(crate) session: i32,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&procfs::read_line(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name may hold anything, a closing bracket too; the last one ends it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = tail.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let _group = fields.next()?;
        let session = fields.next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), state, parent, session })
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
    // A command begins a session of its own. If what watches over it is killed, it becomes a
    // child of the guest, but no helper of its, whatever it calls itself.
    let session = all.get(&init).map(|stat| stat.session);
    let idle_helper = |stat: &Stat| {
        stat.parent == init && stat.name == GUEST_NAME && Some(stat.session) == session
    };
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
pub(crate) const GUEST_NAME: &str = "cofferdam";

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

/// Kills every process below `init` that can be seen now.
pub fn kill_below(init: u32) {
    for pid in below(init).into_keys() {
        send(pid, Signal::KILL);
    }
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = Stat::parse("42 (a) b ((c) S 7 43 41 0").unwrap();
        let name = "a) b ((c".to_owned();
        assert_eq!(stat, Stat { name, state: 'S', parent: 7, session: 41 });
        assert_eq!(Stat::parse("garbage"), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "processes to look at")]
    fn all_children_but_the_guests_helpers_are_stopped_whatever_they_are_called() {
        // A program's file gives a process its name.
        let place = tempfile::tempdir().unwrap();
        let named = |name: &[u8]| {
            let path = place.path().join(OsStr::from_bytes(name));
            std::os::unix::fs::symlink("/bin/sleep", &path).unwrap();
            path
        };
        let (nameless, guest) = (named(b"\xff"), named(GUEST_NAME.as_bytes()));
        let mut in_another_session = Command::new("setsid");
        in_another_session.arg(&guest);
        let commands = [
            Command::new("sleep"),
            Command::new(nameless),
            in_another_session,
            Command::new(guest),
        ];
        let mut children = commands.map(|mut command| command.arg("60").spawn().unwrap());
        let pids = children.each_ref().map(Child::id);
        let name = |pid| Stat::read(pid).unwrap().name;
        let deadline = Instant::now() + Duration::from_secs(60);
        while pids.map(name) != ["sleep", "\u{fffd}", GUEST_NAME, GUEST_NAME] {
            assert!(Instant::now() < deadline, "{:?}", pids.map(name));
            std::thread::yield_now();
        }

        let [plain, nameless, pretender, helper] = pids;
        assert!(any_below(std::process::id()));
        let stopped = stop_below(std::process::id(), || {}).unwrap();
        for pid in [plain, nameless, pretender] {
            assert!(stopped.contains(&pid) && all_threads_stopped(pid), "{}", name(pid));
        }
        assert!(!stopped.contains(&helper));
        continue_all(&stopped);

        kill_below(std::process::id());
        for (child, pid) in children.iter_mut().zip(pids) {
            if pid == helper {
                assert!(child.try_wait().unwrap().is_none());
                child.kill().unwrap();
            }
            child.wait().unwrap();
        }
    }
}
