//! The processes of the sandbox, as `/proc` shows them, and how to signal and
//! kill a whole tree of them.
//!
//! Killing a tree cannot be outrun by forking: each round stops everything it finds,
//! which then cannot fork, until it finds nothing new, and kills only then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::sys;

/// How often a round looks again for processes that were forked meanwhile.
const STOP_PASSES: usize = 16;

/// What part of all memory is freed at a time when there is too little.
const SHARE: u64 = 2;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    /// Whether any of its threads still runs: a zombie is not alive.
    pub(crate) alive: bool,
    /// Pages of memory that it has.
    pub(crate) pages: u64,
}

/// All processes that there are now. One that has ended meanwhile is not among them; but whoever
/// cannot look, for want of a descriptor say, has not seen that there is nobody.
///
/// # Errors
/// When not all of them could be looked at.
pub(crate) fn processes() -> Result<Vec<Process>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, "/proc", flags, Mode::empty())?;
    let mut found = Vec::new();
    let mut path = Vec::new();
    for entry in Dir::read_from(&root)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !name.first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        path.clear();
        path.extend_from_slice(name);
        path.extend_from_slice(b"/stat");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut text = [0; 512];
        let read = openat(&root, path.as_slice(), flags, Mode::empty())
            .and_then(|file| rustix::io::read(&file, &mut text));
        match read {
            Ok(length) => found.extend(parse_stat(text.get(..length).unwrap_or_default())),
            Err(Errno::NOENT | Errno::SRCH) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}

/// Reads a line of `/proc/<pid>/stat`. The name in it is chosen by the process
/// and may contain anything.
fn parse_stat(text: &[u8]) -> Option<Process> {
    let open = memchr::memchr(b'(', text)?;
    let close = memchr::memrchr(b')', text)?;
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.trim().parse::<i32>().ok();
    let pid = Pid::from_raw(number(text.get(..open)?)?)?;
    let mut fields =
        text.get(close + 1..)?.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty());
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?;
    // A zombie whose main thread has left while others go on is no zombie.
    let threads = fields.nth(15).and_then(number).unwrap_or(1);
    let alive = !matches!(state, b'Z' | b'X' | b'x') || threads > 1;
    let pages = fields.nth(3).and_then(|pages| std::str::from_utf8(pages).ok()?.parse().ok());
    Some(Process { pid, parent, alive, pages: pages.unwrap_or(0) })
}

/// Those of the processes that come from `root`, without itself.
pub(crate) fn descendants(processes: &[Process], root: Pid) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut waiting = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = waiting.pop() {
        // Taken out, so that no circle in a torn snapshot is walked twice.
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(*child);
            waiting.push(child.pid.as_raw_nonzero().get());
        }
    }
    found
}

/// The living processes that come from `root`.
///
/// # Errors
/// Those of [`processes`].
pub(crate) fn living(root: Pid) -> Result<Vec<Pid>, Errno> {
    Ok(alive(&descendants(&processes()?, root)))
}

fn alive(processes: &[Process]) -> Vec<Pid> {
    processes.iter().filter(|process| process.alive).map(|process| process.pid).collect()
}

/// Sends a signal to everything that comes from `root`. One that asks to end also
/// wakes what is stopped, for a stopped process cannot hear it.
pub(crate) fn signal(root: Pid, signal: i32) {
    let wakes = matches!(signal, libc::SIGTERM | libc::SIGINT | libc::SIGHUP);
    // A signal that cannot be delivered now has deadlines after it, and those kill.
    for pid in living(root).unwrap_or_default() {
        send(pid, signal);
        if wakes {
            send(pid, libc::SIGCONT);
        }
    }
}

/// Kills everything that `select` chooses, and says how much was alive at first.
/// What was killed may take a moment to be gone.
///
/// # Errors
/// Those of [`processes`], when nobody was seen: whether there is somebody is not known.
pub(crate) fn kill(select: impl Fn(&[Process]) -> Vec<Process>) -> Result<usize, Errno> {
    let mut known = BTreeSet::new();
    let mut first = None;
    for _ in 0..STOP_PASSES {
        let now = match processes() {
            Ok(processes) => alive(&select(&processes)),
            Err(errno) if first.is_none() => return Err(errno),
            // Those that are known are killed all the same.
            Err(_) => break,
        };
        first.get_or_insert(now.len());
        let before = known.len();
        for pid in now {
            if known.insert(pid.as_raw_nonzero()) {
                send(pid, libc::SIGSTOP);
            }
        }
        if known.len() == before {
            break;
        }
    }
    for pid in known {
        if let Some(pid) = Pid::from_raw(pid.get()) {
            send(pid, libc::SIGKILL);
        }
    }
    Ok(first.unwrap_or(0))
}

/// Kills, once, those that have the most memory among all that come from `root`, but for its
/// children.
pub(crate) fn kill_largest(root: Pid) {
    let Ok(processes) = processes() else { return };
    let mut candidates = descendants(&processes, root);
    candidates.retain(|process| process.alive && process.parent != root.as_raw_nonzero().get());
    for process in largest(candidates) {
        send(process.pid, libc::SIGKILL);
    }
}

/// Those that have the most memory, until they have a share of what all have: one that has
/// outgrown the others goes alone, and of a crowd of equals so many that it is felt.
fn largest(mut processes: Vec<Process>) -> Vec<Process> {
    processes.sort_by_key(|process| Reverse(process.pages));
    let share = processes.iter().map(|process| process.pages).sum::<u64>() / SHARE;
    let mut theirs = 0;
    let beyond = processes.iter().position(|process| {
        theirs += process.pages;
        theirs >= share
    });
    processes.truncate(beyond.map_or(0, |last| last + 1));
    processes
}

/// Sends a signal to a process that may be gone by now.
pub(crate) fn send(pid: Pid, signal: i32) {
    // Gone is as good as told; nothing else can be done about a refusal.
    sys::kill(pid, signal).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, alive: bool) -> Process {
        Process { pid: Pid::from_raw(pid).unwrap(), parent, alive, pages: 0 }
    }

    fn stat(name: &str, state: char, threads: u32) -> String {
        format!("42 ({name}) {state} 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 99\n")
    }

    #[test]
    fn a_line_of_stat_is_read() {
        assert_eq!(parse_stat(stat("sh", 'S', 1).as_bytes()), Some(process(42, 7, true)));
        assert_eq!(parse_stat(stat("sh", 'Z', 1).as_bytes()), Some(process(42, 7, false)));
    }

    #[test]
    fn a_name_cannot_forge_the_rest_of_the_line() {
        let line = stat("x) Z 1 (y) Z 1", 'R', 1);
        assert_eq!(parse_stat(line.as_bytes()), Some(process(42, 7, true)));
    }

    #[test]
    fn a_process_whose_main_thread_has_left_is_alive() {
        assert_eq!(parse_stat(stat("sh", 'Z', 3).as_bytes()), Some(process(42, 7, true)));
    }

    #[test]
    fn the_memory_of_a_process_is_read() {
        let line = "1 (sh) S 0 1 1 0 0 0 0 0 0 0 17 5 0 0 20 0 1 0 5 23359488 3933 1844 0 0\n";
        assert_eq!(parse_stat(line.as_bytes()).unwrap().pages, 3933);
    }

    #[test]
    fn lack_of_memory_ends_whoever_has_the_most_and_of_equals_a_share() {
        let sizes = |sizes: &[u64]| -> Vec<u64> {
            let processes =
                sizes.iter().map(|pages| Process { pages: *pages, ..process(9, 1, true) });
            largest(processes.collect()).iter().map(|process| process.pages).collect()
        };
        assert_eq!(sizes(&[10, 900, 20, 70]), [900]);
        assert_eq!(sizes(&[5; 80]), [5; 40]);
        assert_eq!(sizes(&[1, 7, 7, 7, 7]), [7, 7]);
        assert_eq!(sizes(&[3]), [3]);
        assert_eq!(sizes(&[0, 0]), [0]);
        assert_eq!(sizes(&[]), [0; 0]);
    }

    #[test]
    fn torn_lines_are_no_process() {
        for text in ["", "42", "42 (sh", "42 (sh)", "42 (sh) R", "x (sh) R 1", "0 (a) R 1"] {
            assert_eq!(parse_stat(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_no_others() {
        let all = [
            process(10, 1, true),
            process(11, 10, true),
            process(12, 11, false),
            process(13, 12, true),
            process(20, 1, true),
            process(21, 20, true),
        ];
        let mut found: Vec<i32> = descendants(&all, Pid::from_raw(10).unwrap())
            .iter()
            .map(|process| process.pid.as_raw_nonzero().get())
            .collect();
        found.sort_unstable();
        assert_eq!(found, [11, 12, 13]);
    }

    #[test]
    fn a_circle_in_a_torn_snapshot_ends() {
        let all = [process(11, 10, true), process(10, 11, true)];
        assert_eq!(descendants(&all, Pid::from_raw(10).unwrap()).len(), 2);
    }

    #[test]
    fn this_process_is_seen() {
        let me = rustix::process::getpid();
        assert!(processes().unwrap().iter().any(|process| process.pid == me && process.alive));
    }

    #[test]
    fn whoever_cannot_look_has_not_seen_that_there_is_nobody() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        // As many as are open, and one or two more: not enough to look.
        let next = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let open = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
        for more in 0..3 {
            let current = Some(open + more);
            setrlimit(Resource::Nofile, Rlimit { current, maximum: before.maximum }).unwrap();
            let (seen, killed) = (processes(), kill(|_| Vec::new()));
            setrlimit(Resource::Nofile, before).unwrap();
            assert_eq!(seen, Err(Errno::MFILE), "with {more} more");
            assert_eq!(killed, Err(Errno::MFILE), "with {more} more");
        }
    }
}
