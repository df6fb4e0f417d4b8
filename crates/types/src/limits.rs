//! How much a sandbox may use. The kernel enforces every one of these; none is
//! checked by polling.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// The limits of one sandbox, complete: there is no "default elsewhere".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory of all its processes together, temporary files included.
    pub memory: u64,
    /// Thousandths of one CPU.
    pub milli_cpus: u32,
    /// Processes and threads alive at once.
    pub pids: u32,
    /// Bytes the workspace may grow by.
    pub disk: u64,
    /// Files and directories the workspace may grow by.
    pub inodes: u64,
    /// Open files of one process.
    pub open_files: u32,
    /// How long one command may run; `None` is for ever.
    pub wall_time: Option<Duration>,
    /// Bytes of output kept of one command, for each of stdout and stderr;
    /// `None` passes everything on.
    pub output: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 2048 * MIB,
            milli_cpus: 2000,
            pids: 512,
            disk: 2048 * MIB,
            inodes: 200_000,
            open_files: 16_384,
            wall_time: None,
            output: None,
        }
    }
}

/// What becomes of a sandbox's memory where its workspace is kept in memory too, in eighths: a
/// full file system is told to whoever writes to it, but lack of memory kills, and nobody's death
/// frees what is in a file. So all files together leave room for those who write them.
const EIGHTHS: u64 = 8;
const WORKSPACE_EIGHTHS: u64 = 4;
const TEMPORARY_EIGHTHS: u64 = 2;
/// For the names of both, a half of it each.
const NAMES_EIGHTHS: u64 = 1;

/// What the kernel remembers of a file in memory, however short.
const BYTES_A_NAME: u64 = 1024;

/// Where what a workspace grows by is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kept {
    /// On the host's disk.
    OnDisk,
    /// In memory, which it shares with everything else.
    InMemory,
}

impl Limits {
    /// The limits of a sandbox whose workspace is kept in memory: it cannot grow by more than
    /// there is room for.
    #[must_use]
    pub fn with_workspace_in_memory(self) -> Self {
        let most = self.memory / EIGHTHS * WORKSPACE_EIGHTHS;
        Self { disk: self.disk.min(most), inodes: self.names(), ..self }
    }

    /// Files and directories that may be in memory on one file system.
    fn names(&self) -> u64 {
        self.inodes.min(self.memory / EIGHTHS * NAMES_EIGHTHS / 2 / BYTES_A_NAME)
    }

    /// Bytes of temporary files (`/tmp`, the home, shared memory), which are always in memory.
    #[must_use]
    pub fn temporary(&self, workspace: Kept) -> u64 {
        match workspace {
            Kept::InMemory => self.memory / EIGHTHS * TEMPORARY_EIGHTHS,
            Kept::OnDisk => self.memory / 2,
        }
    }

    /// How many of them there may be.
    #[must_use]
    pub fn temporary_inodes(&self) -> u64 {
        self.names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_memory_leave_room_for_processes() {
        for memory in [4 * MIB, 64 * MIB, 2048 * MIB, u64::MAX] {
            let asked = Limits { memory, disk: u64::MAX, inodes: u64::MAX, ..Limits::default() };
            let limits = asked.clone().with_workspace_in_memory();
            let names = (limits.inodes + limits.temporary_inodes()) * BYTES_A_NAME;
            let files = limits.disk + limits.temporary(Kept::InMemory) + names;
            assert!(memory - files >= memory / 8, "{files} of {memory}");
            assert!(asked.temporary(Kept::OnDisk) <= memory / 2);
        }
    }

    #[test]
    fn a_workspace_that_fits_is_as_large_as_asked_for() {
        let limits = Limits { disk: 16 * MIB, inodes: 1000, ..Limits::default() };
        assert_eq!(limits.clone().with_workspace_in_memory(), limits);
    }
}
