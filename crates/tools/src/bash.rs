//! `bash`: a command in the sandbox, waited for or in the background.
//!
//! One command is one process tree and one question to the guest. What it prints
//! is taken as it comes, so that it never waits for us and takes no memory here
//! beyond what is shown.

mod background;
mod ending;
mod shell;

use std::time::Duration;

use cofferdam_guest_protocol::Refusal;
use cofferdam_sandbox::{CallError, Command, Offsets, OutputChunk, Process};
use cofferdam_types::{CallId, Content, Outcome, ToolOutput, ToolSpec};
use serde_json::json;

use crate::arguments::Arguments;
use crate::cut::Recording;
use crate::tools::{Call, Tools, Watcher, spec as object};
use crate::trouble::Trouble;
use background::Background;
use ending::{Ending, under};
use shell::{Leaves, Shell};

pub(crate) const NAME: &str = "bash";

/// How long a command may take, if nothing else is said, and at most.
const TIMEOUT: u64 = 120;
const LONGEST_TIMEOUT: u64 = 600;

/// Beyond a command's own time, until the guest is no longer believed to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// "No such file": the shell is not there.
const ENOENT: i32 = 2;

/// The shells of a job.
#[derive(Default)]
pub(crate) struct Shells {
    shell: Shell,
    background: Background,
}

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "Run a command in the sandbox, in /workspace at first. Directory, exported variables and \
         functions stay for the next call. stdin is empty. A server or anything long: \
         background=true returns a name such as p1; process=\"p1\" then returns its new output, \
         with stop=true it is ended.",
        json!({
            "command": {"type": "string"},
            "timeout": {"type": "integer", "description": "seconds, default 120, at most 600"},
            "background": {"type": "boolean"},
            "process": {"type": "string", "description": "instead of command"},
            "stop": {"type": "boolean"}
        }),
        &[],
    )
}

/// The name of a call's command in the sandbox, far from those of other calls.
pub(crate) fn guest_call(call: CallId) -> CallId {
    CallId(call.0.saturating_add(1 << 32))
}

pub(crate) async fn run(
    tools: &Tools,
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<ToolOutput, Trouble> {
    let timeout = arguments.number("timeout", 0..=LONGEST_TIMEOUT)?;
    let (background, stop) = (arguments.flag("background")?, arguments.flag("stop")?);
    let command = arguments.optional_text("command")?;
    if let Some(name) = arguments.optional_text("process")? {
        if command.is_some() {
            return Err(Trouble::refused("bash: give `command` or `process`, not both"));
        }
        return tools.shells.background.look(tools, name, timeout, stop).await;
    }
    let script = arguments.text("command")?;
    shell::check(script)?;
    if stop {
        return Err(Trouble::refused("bash: `stop` goes with `process`, not with `command`"));
    }
    if background {
        return tools.shells.background.start(tools, call, script).await;
    }
    foreground(tools, call, script, timeout.unwrap_or(TIMEOUT).max(1)).await
}

async fn foreground(
    tools: &Tools,
    call: &Call<'_>,
    script: &str,
    seconds: u64,
) -> Result<ToolOutput, Trouble> {
    let shell = &tools.shells.shell;
    let turn = shell.turn(call.thread);
    let leaves = if turn.is_some() { Leaves::State } else { Leaves::Nothing };
    let allowed = Duration::from_secs(seconds);
    let allowed = tools.sandbox.limits().wall_time.map_or(allowed, |most| most.min(allowed));
    loop {
        let kind = shell.kind();
        let command = kind.command(&tools.sandbox, call, script, leaves).timeout(Some(allowed));
        let mut recording = Recording::of_call(&tools.outputs, call.call);
        let Some(mut process) = begin(tools, call.call, command).await? else {
            return Ok(lost(recording).await);
        };
        let deadline = allowed + PATIENCE;
        match follow(tools, &mut process, &mut recording, call.watcher, deadline).await {
            Err(CallError::NotStarted { errno: ENOENT, .. }) if shell.is_missing(kind) => {
                // The same call begins again with another shell.
                acknowledge(tools, call.call);
            }
            Err(error) => return Err(not_run(&error)),
            Ok(ending) => return Ok(output(recording, &ending, Some(allowed.as_secs())).await),
        }
    }
}

/// Starts a command; `None` when the connection is lost.
async fn begin(tools: &Tools, call: CallId, command: Command) -> Result<Option<Process>, Trouble> {
    let start = tools.sandbox.start(guest_call(call), command);
    match tokio::time::timeout(PATIENCE, start).await {
        Ok(Ok(process)) => Ok(Some(process)),
        Ok(Err(CallError::ConnectionLost { .. })) | Err(_) => Ok(None),
        Ok(Err(error)) => Err(not_run(&error)),
    }
}

fn not_run(error: &CallError) -> Trouble {
    Trouble::Failed(format!("bash: the command was not run: {error}"))
}

/// Takes the output of a command until its end.
async fn follow(
    tools: &Tools,
    process: &mut Process,
    recording: &mut Recording,
    watcher: &dyn Watcher,
    deadline: Duration,
) -> Result<Ending, CallError> {
    let to_the_end = async {
        while let Some(chunk) = process.next_output().await {
            record(recording, chunk, process.offsets(), watcher);
        }
        // The sandbox keeps the result until ours is in safe hands.
        let report = process.wait_unacknowledged().await?;
        let outcome = tools.sandbox.outcome(process, &report).await?;
        if report.left_running > 0 {
            tools.something_stays();
        }
        Ok(Ending { outcome, left_running: report.left_running })
    };
    let reason = match tokio::time::timeout(deadline, to_the_end).await {
        Ok(Err(CallError::ConnectionLost { reason })) => reason,
        Ok(ended) => return ended,
        Err(_) => format!("the sandbox has not answered for {} s", deadline.as_secs()),
    };
    Ok(Ending { outcome: Outcome::Lost { reason }, left_running: 0 })
}

/// Puts a piece of output where it belongs, in a recording that has so much of it then.
fn record(recording: &mut Recording, chunk: OutputChunk, offsets: Offsets, watcher: &dyn Watcher) {
    match chunk {
        OutputChunk::Stdout(bytes) | OutputChunk::Stderr(bytes) => {
            watcher.output(&bytes);
            recording.take(&bytes, offsets);
        }
        OutputChunk::StdoutGap(dropped) | OutputChunk::StderrGap(dropped) => {
            let gap = format!("\n[… {dropped} bytes of output are missing here …]\n");
            watcher.output(gap.as_bytes());
            // No place to go on from: there the guest would say it again.
            recording.push(gap.as_bytes());
        }
    }
}

async fn output(recording: Recording, ending: &Ending, seconds: Option<u64>) -> ToolOutput {
    let shown = recording.finish().await;
    let text = under(&shown, &ending.text(seconds));
    let content = vec![Content::text(text)];
    ToolOutput { content, rest: shown.rest, ..ToolOutput::text(ending.status(), "") }
}

async fn lost(recording: Recording) -> ToolOutput {
    let reason = "the connection to the sandbox was lost".to_owned();
    let ending = Ending { outcome: Outcome::Lost { reason }, left_running: 0 };
    output(recording, &ending, None).await
}

/// Takes up the command of a call that an earlier process began.
pub(crate) async fn take_up(
    tools: &Tools,
    call: CallId,
    watcher: &dyn Watcher,
) -> Option<ToolOutput> {
    let (mut recording, offsets) = Recording::resume(&tools.outputs, call);
    let collected = tools.sandbox.collect(guest_call(call), offsets).await;
    let Ok(mut process) = collected else { return Some(lost(recording).await) };
    let deadline = Duration::from_secs(LONGEST_TIMEOUT) + PATIENCE;
    match follow(tools, &mut process, &mut recording, watcher, deadline).await {
        Ok(ending) => Some(output(recording, &ending, None).await),
        Err(CallError::Refused(Refusal::Unknown)) => None,
        Err(error) => Some(not_run(&error).output()),
    }
}

/// Lets the sandbox forget the command of a call.
pub(crate) fn acknowledge(tools: &Tools, call: CallId) {
    tools.sandbox.acknowledge(guest_call(call));
}
