//! What became of a command that was run to its end.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::ExecReport;
use cofferdam_types::{Outcome, Usage};

use crate::collector::Gap;

/// What became of a command that was run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecResult {
    /// How it ended.
    pub outcome: Outcome,
    /// What was kept of its stdout, or of its terminal.
    pub stdout: Bytes,
    /// What was kept of its stderr.
    pub stderr: Bytes,
    /// Whether anything is missing in either.
    pub truncated: bool,
    /// What is missing in stdout, and where.
    pub stdout_gap: Option<Gap>,
    /// What is missing in stderr, and where.
    pub stderr_gap: Option<Gap>,
    /// What it used.
    pub usage: Usage,
    /// How many of its processes were still running when it ended.
    pub left_running: u32,
}

impl ExecResult {
    pub(crate) fn of(outcome: Outcome, report: &ExecReport) -> Self {
        Self {
            outcome,
            stdout: Bytes::new(),
            stderr: Bytes::new(),
            truncated: false,
            stdout_gap: None,
            stderr_gap: None,
            usage: usage(report),
            left_running: report.left_running,
        }
    }

    pub(crate) fn lost(reason: String) -> Self {
        Self {
            outcome: Outcome::Lost { reason },
            stdout: Bytes::new(),
            stderr: Bytes::new(),
            truncated: false,
            stdout_gap: None,
            stderr_gap: None,
            usage: Usage::default(),
            left_running: 0,
        }
    }
}

/// What a command used, by its report.
#[must_use]
pub fn usage(report: &ExecReport) -> Usage {
    Usage {
        duration: Duration::from_micros(report.duration_us),
        cpu: Duration::from_micros(report.cpu_us),
        peak_memory: report.peak_memory,
    }
}
