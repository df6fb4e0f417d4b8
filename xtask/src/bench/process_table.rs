//! The process table: who is whose child, and what memory each has.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use super::host;

/// A process as the table lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) process: i32,
    pub(super) parent: i32,
    /// It has ended, and nobody has waited for it.
    pub(super) ended: bool,
}

/// All processes that this one sees.
pub(super) fn all() -> Vec<Entry> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|process: i32| {
            entry(process, &fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
        })
        .collect()
}

fn entry(process: i32, stat: &str) -> Option<Entry> {
    // The name is in brackets and may hold anything, brackets too.
    let mut rest = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let ended = rest.next()? == "Z";
    Some(Entry { process, parent: rest.next()?.parse().ok()?, ended })
}

/// The processes below one, among those listed.
pub(super) fn below(process: i32, all: &[Entry]) -> Vec<Entry> {
    let mut children: HashMap<i32, Vec<Entry>> = HashMap::new();
    for entry in all {
        children.entry(entry.parent).or_default().push(*entry);
    }
    let mut found = Vec::new();
    let mut next = vec![process];
    while let Some(parent) = next.pop() {
        for entry in children.remove(&parent).unwrap_or_default() {
            next.push(entry.process);
            found.push(entry);
        }
    }
    found
}

/// This process.
pub(super) fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Bytes of memory that a process has, with its share of what it shares; `None`
/// if it is gone or not ours to look at.
pub(super) fn memory(process: i32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    Some(host::kibibytes(&text, "Pss") * 1024.0)
}

/// Bytes of memory that a process ever had at once; `None` if it has ended.
pub(super) fn most_memory(process: i32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let bytes = host::kibibytes(&text, "VmHWM") * 1024.0;
    (bytes > 0.0).then_some(bytes)
}

/// The program that a process runs.
pub(super) fn program(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/exe")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let found = entry(7, "7 (a) Z 9 (b)) S 3 7 7 0").unwrap();
        assert_eq!(found, Entry { process: 7, parent: 3, ended: false });
        assert!(entry(8, "8 (x) Z 3 8").unwrap().ended);
        assert_eq!(entry(9, "garbage"), None);
    }

    #[test]
    fn grandchildren_are_below_too() {
        let pairs = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 6)];
        let all = pairs.map(|(process, parent)| Entry { process, parent, ended: false });
        let mut found: Vec<_> = below(2, &all).iter().map(|entry| entry.process).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
    }

    #[test]
    fn this_process_has_memory_and_a_program() {
        assert!(all().iter().any(|entry| entry.process == own()));
        assert!(memory(own()).unwrap() > 0.0);
        assert!(most_memory(own()).unwrap() > 0.0);
        assert_eq!(program(own()), std::env::current_exe().ok());
    }
}
