//! `python` and `typescript`: code cells that keep their state, on kernels in the
//! sandbox.
//!
//! A cell is one command of the aide there. Where that finds no kernel, one is started
//! as a command that stays, and the cell is run again. So nothing has to be remembered
//! here, and whoever takes the job up finds the kernels as they are.

mod collect;

use std::time::Duration;

use bytes::Bytes;
use cofferdam_aide_protocol::{CellEnd, CellPiece, KernelPiece};
use cofferdam_notebook::{Cell, Language, Output, contents};
use cofferdam_sandbox::CallError;
use cofferdam_types::{CallId, ToolOutput, ToolSpec, ToolStatus};
use serde_json::json;

use crate::aide::{Aide, Running};
use crate::arguments::Arguments;
use crate::spool::Spool;
use crate::tools::{Call, Tools, Watcher, spec as object};
use crate::trouble::Trouble;
use collect::Collected;

/// How long a cell may take, if nothing else is said, and at most.
const TIMEOUT: u64 = 120;
const LONGEST_TIMEOUT: u64 = 600;

/// What the aide needs beyond a cell's own time: to interrupt, to wait, to end a kernel.
const PATIENCE: u64 = 30;

/// How long a kernel may take to start, on a machine that is busy.
const START: Duration = Duration::from_secs(90);

/// When a sandbox that says nothing is given up: later than any cell may end.
const DEADLINE: Duration = Duration::from_secs(LONGEST_TIMEOUT + 2 * PATIENCE);

/// The longest name of a kernel.
const LONGEST_NAME: usize = 32;

pub(crate) fn spec(language: Language) -> ToolSpec {
    let description = match language {
        Language::Python => {
            "Run a Python cell in /workspace. Variables and imports stay for the next cell, as in a \
             notebook; the value of the last expression and plots (matplotlib) are shown. `kernel` \
             names a separate interpreter."
        }
        Language::TypeScript => {
            "Run a TypeScript cell (Deno) in /workspace. Declarations stay for the next cell, as in a \
             notebook. `kernel` names a separate interpreter."
        }
    };
    object(
        language.tool(),
        description,
        json!({
            "code": {"type": "string"},
            "kernel": {"type": "string"},
            "timeout": {"type": "integer", "description": "seconds, default 120, at most 600"}
        }),
        &["code"],
    )
}

/// What the aide calls the kernels for a language.
fn kernel_spec(language: Language) -> &'static str {
    match language {
        Language::Python => "python3",
        Language::TypeScript => "deno",
    }
}

/// The name of a call's command in the sandbox, far from those of shells.
pub(crate) fn guest_call(call: CallId) -> CallId {
    CallId(call.0.saturating_add(1 << 33))
}

/// A kernel of the job.
struct Kernel<'a> {
    language: Language,
    name: &'a str,
}

impl Kernel<'_> {
    /// Kernels of several languages may have one name.
    fn inside(&self) -> String {
        format!("{}-{}", self.language.tool(), self.name)
    }
}

pub(crate) async fn run(
    tools: &Tools,
    call: &Call<'_>,
    arguments: Arguments<'_>,
    language: Language,
) -> Result<ToolOutput, Trouble> {
    let tool = language.tool();
    let code = arguments.text("code")?;
    let name = arguments.optional_text("kernel")?.unwrap_or(Cell::KERNEL);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        return Err(Trouble::refused(format!(
            "{tool}: a kernel's name has at most {LONGEST_NAME} letters, digits, `-` and `_`"
        )));
    }
    let seconds = arguments.number("timeout", 0..=LONGEST_TIMEOUT)?.unwrap_or(TIMEOUT).max(1);
    let aide = tools.aide.as_ref().ok_or_else(|| {
        Trouble::refused(format!(
            "{tool}: there are no code cells in this kind of sandbox; use bash"
        ))
    })?;
    let kernel = Kernel { language, name };
    let mut collected = execute(tools, call, aide, &kernel, (code, seconds)).await?;
    let mut before = Vec::new();
    if matches!(collected.end, Some(CellEnd::NoKernel { .. })) {
        start(tools, aide, &kernel).await?;
        before.push(Output::Started("a new interpreter: nothing is defined in it yet".to_owned()));
        tools.sandbox.acknowledge(guest_call(call.call));
        collected = execute(tools, call, aide, &kernel, (code, seconds)).await?;
    }
    Ok(output(before, collected).await)
}

async fn output(mut outputs: Vec<Output>, collected: Collected) -> ToolOutput {
    let (shown, status, rest) = collected.finish().await;
    outputs.extend(shown);
    ToolOutput { content: contents(&outputs), rest, ..ToolOutput::text(status, "") }
}

/// Runs a cell on a kernel.
async fn execute(
    tools: &Tools,
    call: &Call<'_>,
    aide: &Aide,
    kernel: &Kernel<'_>,
    (code, seconds): (&str, u64),
) -> Result<Collected, Trouble> {
    let (name, limit) = (kernel.inside(), seconds.to_string());
    let command = aide
        .command(&tools.sandbox, &["cell", "--name", &name, "--seconds", &limit])
        .timeout(Some(Duration::from_secs(seconds + PATIENCE)));
    let code = code.as_bytes().to_vec();
    let started = Running::start(&tools.sandbox, guest_call(call.call), command, code).await;
    let running = started.map_err(|error| not_run(kernel.language.tool(), &error))?;
    let running = running.with_spool(Spool::new(&tools.outputs, call.call));
    Ok(follow(tools, running, call.call, call.watcher).await)
}

fn not_run(tool: &str, error: &CallError) -> Trouble {
    Trouble::Failed(format!("{tool}: the cell was not run: {error}"))
}

/// Takes what comes of a cell until its end.
async fn follow(
    tools: &Tools,
    mut running: Running<CellPiece>,
    call: CallId,
    watcher: &dyn Watcher,
) -> Collected {
    let mut collected = Collected::new(&tools.outputs, call);
    let to_the_end = async {
        loop {
            match running.next().await {
                Ok(Some(piece)) => collected.take(piece, watcher),
                Ok(None) => break,
                Err(problem) => {
                    // It is not ended for that: what it does may be all right.
                    running.drain().await;
                    collected.doubt(problem);
                    return;
                }
            }
        }
        let how = running.end(&tools.sandbox).await;
        if collected.end.is_none() {
            collected.doubt(how);
        }
    };
    if tokio::time::timeout(DEADLINE, to_the_end).await.is_err() {
        collected.doubt("the sandbox has not answered for too long".to_owned());
    }
    collected
}

/// Starts a kernel, which stays until it is idle for too long or the sandbox ends.
async fn start(tools: &Tools, aide: &Aide, kernel: &Kernel<'_>) -> Result<(), Trouble> {
    let (spec, name, idle) = (kernel_spec(kernel.language), kernel.inside(), aide.idle_seconds());
    let words = ["kernel", "--spec", spec, "--name", &name, "--idle", &idle];
    let command = aide.command(&tools.sandbox, &words).timeout(None);
    let tool = kernel.language.tool();
    let failed = |why: &str| Trouble::Failed(format!("{tool}: {why}"));
    let call = tools.sandbox.next_call_id();
    let started = Running::start(&tools.sandbox, call, command, Bytes::new()).await;
    let mut running = started.map_err(|error| not_run(tool, &error))?;
    let said = match tokio::time::timeout(START, running.next()).await {
        Ok(said) => said.map_err(|problem| failed(&problem))?,
        Err(_) => {
            let seconds = START.as_secs();
            return Err(failed(&format!("the kernel did not start within {seconds} s")));
        }
    };
    match said {
        Some(KernelPiece::Ready(_) | KernelPiece::Found(_)) => {
            running.release();
            tools.something_stays();
            Ok(())
        }
        Some(KernelPiece::Failed { why } | KernelPiece::Ended { how: why }) => Err(failed(&why)),
        None => {
            let how = running.end(&tools.sandbox).await;
            Err(failed(&format!("the kernel did not start: {how}")))
        }
    }
}

/// Takes up the cell of a call that an earlier process began; `None` when the sandbox
/// knows of none.
pub(crate) async fn take_up(
    tools: &Tools,
    call: CallId,
    watcher: &dyn Watcher,
) -> Option<ToolOutput> {
    let spool = Spool::resume(&tools.outputs, call);
    match Running::collect(&tools.sandbox, guest_call(call), spool).await {
        Ok(running) => {
            let collected = follow(tools, running, call, watcher).await;
            Some(output(Vec::new(), collected).await)
        }
        Err(CallError::ConnectionLost { reason }) => {
            let text = format!("the connection to the sandbox was lost ({reason})");
            Some(ToolOutput::text(ToolStatus::Unknown, text))
        }
        Err(_) => None,
    }
}

/// Lets the sandbox forget the cell of a call.
pub(crate) fn acknowledge(tools: &Tools, call: CallId) {
    tools.sandbox.acknowledge(guest_call(call));
}
