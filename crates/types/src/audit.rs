//! What a sandbox did: one record an act, as the host saw it.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// One act of a process inside a sandbox.
///
/// Records say what was attempted, as far as the kernel told the host; they
/// decide nothing. A process can change the memory a path was read from before
/// the kernel reads it again, so a path is what the process showed, not proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Microseconds since 1970.
    pub at_us: u64,
    /// The call whose command did it, where that is known.
    pub call: Option<CallId>,
    /// The process that did it, as the host numbers it, or the sandbox's own kernel where it
    /// has one; 0 where none did.
    pub pid: u32,
    /// What was done.
    pub act: AuditAct,
}

/// What was done. Paths are as the process wrote them, made absolute where they
/// were not, cut at 4 KiB (in gVisor's kernel at 16). One that begins with `?` is not certain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAct {
    /// A program was executed.
    Executed {
        /// The program.
        path: String,
    },
    /// A file was opened for writing, or made.
    OpenedForWriting {
        /// The file.
        path: String,
    },
    /// A directory, link or special file was made.
    Created {
        /// The new name.
        path: String,
    },
    /// Something was renamed.
    Renamed {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Something was deleted.
    Deleted {
        /// The name.
        path: String,
    },
    /// A connection was attempted from inside.
    Connected {
        /// The address and port, or the path of a socket.
        address: String,
    },
    /// The egress proxy was asked to connect, and answered.
    Egress {
        /// The host as asked for.
        host: String,
        /// The port as asked for.
        port: u16,
        /// What was done: `allowed`, or why not.
        verdict: String,
        /// Bytes from the sandbox.
        sent: u64,
        /// Bytes to the sandbox.
        received: u64,
    },
    /// Records from here on were dropped, because the trail reached its size
    /// limit.
    Truncated,
}
