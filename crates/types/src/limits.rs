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
