//! The memory of a program and all below it, looked at while it runs.
//!
//! A process that was just started may still share the memory of its parent as
//! a whole; such memory counts once.

use std::collections::HashMap;
use std::fs;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::host;
use super::process_table;
use super::program::Companion;

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// The most memory that a program's processes had together, at any look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) bytes: f64,
    /// How many processes had it.
    pub(super) processes: usize,
    pub(super) looks: usize,
}

impl Memory {
    /// Looks at a program until it ends; no status if it does not in time.
    pub(super) fn watch(
        program: &mut Companion,
        patience: Duration,
    ) -> anyhow::Result<(Option<ExitStatus>, Self)> {
        let deadline = Instant::now() + patience;
        let top = program.pid().as_raw_nonzero().get();
        let mut most = Self::default();
        while Instant::now() < deadline {
            if let Some(status) = program.ends_within(LOOK)? {
                return Ok((Some(status), most));
            }
            let (bytes, processes) = sum(&look(top));
            if bytes > most.bytes {
                most = Self { bytes, processes, looks: most.looks };
            }
            most.looks += 1;
        }
        Ok((None, most))
    }
}

/// What the kernel says of one process.
struct Rollup {
    process: i32,
    parent: i32,
    text: String,
}

/// A program and all below it. What has ended meanwhile has no memory.
fn look(top: i32) -> Vec<Rollup> {
    let below = process_table::below(top, &process_table::all());
    let processes = below.iter().map(|entry| (entry.process, entry.parent));
    let all = [(top, 0)].into_iter().chain(processes);
    all.filter_map(|(process, parent)| {
        let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        Some(Rollup { process, parent, text })
    })
    .collect()
}

/// The bytes of all, and how many processes have some of their own.
fn sum(rollups: &[Rollup]) -> (f64, usize) {
    let texts: HashMap<i32, &str> =
        rollups.iter().map(|rollup| (rollup.process, rollup.text.as_str())).collect();
    let own = rollups.iter().filter(|rollup| {
        texts.get(&rollup.parent).is_none_or(|parent| !is_shared(parent, &rollup.text))
    });
    own.fold((0.0, 0), |(bytes, count), rollup| {
        (bytes + host::kibibytes(&rollup.text, "Pss") * 1024.0, count + 1)
    })
}

/// Whether a child still uses its parent's very memory, as between `vfork` and
/// `exec`. It is at the same addresses then. So is a copy made by `fork`, but
/// there what had been written is marked as shared.
fn is_shared(parent: &str, child: &str) -> bool {
    let addresses = |text: &str| text.split_ascii_whitespace().next().map(str::to_owned);
    addresses(parent) == addresses(child)
        && host::kibibytes(child, "Private_Dirty") > host::kibibytes(child, "Shared_Dirty")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollup(process: i32, parent: i32, at: &str, dirty: (u32, u32)) -> Rollup {
        let (shared, private) = dirty;
        let text = format!(
            "{at} ---p 00000000 00:00 0 [rollup]\nPss: 100 kB\nShared_Dirty: {shared} kB\n\
             Private_Dirty: {private} kB\n"
        );
        Rollup { process, parent, text }
    }

    #[test]
    fn memory_that_a_child_has_not_left_yet_counts_once() {
        let parent = || rollup(2, 1, "5500-7fff", (0, 90));
        let started = rollup(3, 2, "5600-7fff", (0, 90));
        assert_eq!(sum(&[parent(), started]), (200.0 * 1024.0, 2), "a program of its own");
        let copied = rollup(3, 2, "5500-7fff", (80, 10));
        assert_eq!(sum(&[parent(), copied]), (200.0 * 1024.0, 2), "a copy");
        let shared = rollup(3, 2, "5500-7fff", (0, 90));
        assert_eq!(sum(&[parent(), shared]), (100.0 * 1024.0, 1), "the parent's own");
    }

    #[test]
    fn a_program_with_its_children_is_watched_to_its_end() {
        let mut command = super::super::program::command("/bin/sh");
        command.args(["-c", "sleep 0.2; true"]);
        let mut program = Companion(command.spawn().unwrap());
        let (status, memory) = Memory::watch(&mut program, Duration::from_secs(60)).unwrap();
        assert!(status.unwrap().success());
        assert!(memory.looks > 0 && memory.bytes > 0.0, "{memory:?}");
    }
}
