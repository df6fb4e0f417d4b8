//! One command in a job's sandbox.

use cofferdam_types::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command to be run: either `command` or `argv`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// A line for `/bin/sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 131_072, pattern = r"^[^\u0000]*$")]
    pub command: Option<String>,
    /// A program and its arguments, without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 1024)]
    pub argv: Option<Vec<String>>,
    /// Where, inside the sandbox; the workspace if not said. A relative path is
    /// one in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 4096, pattern = r"^[^\u0000]*$")]
    pub cwd: Option<String>,
    /// After how long it is ended: `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 32,
        pattern = r"^([0-9]+\.?[0-9]*|\.[0-9]+)(ms|s|m|h|d)?$",
        example = "30s"
    )]
    pub timeout: Option<String>,
    /// What it reads from its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecResult {
    /// How it ended: `{"outcome": "exited", "exit_code": 0}`, or `signaled` with
    /// `signal`, `timed_out`, `out_of_memory`, or `lost` with `reason`.
    #[schema(value_type = Object)]
    pub outcome: Outcome,
    /// What was kept of its standard output, as text.
    pub stdout: String,
    /// The same in base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// What was kept of its standard error, as text.
    pub stderr: String,
    /// The same in base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Whether anything is missing in either.
    pub truncated: bool,
    /// Milliseconds from its start to its end.
    pub duration_ms: u64,
    /// Milliseconds of CPU time.
    pub cpu_ms: u64,
    /// Bytes of the largest resident set of any one of its processes.
    pub peak_memory: u64,
    /// How many of its processes were still running when it ended.
    pub left_running: u32,
}
