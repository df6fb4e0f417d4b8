//! Acceptance: the job's checks, run by us in a clean fork of the workspace
//! without network. What a check writes is thrown away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Backend, ExecResult, Sandbox, Workspace};
use cofferdam_types::{CheckResult, Outcome, Place, error_chain};
use tokio::time::timeout;

use crate::fail_point::fail_point;
use crate::place;
use crate::work::OPENING;

/// How long one check may take.
const LONGEST: Duration = Duration::from_secs(600);

/// Bytes shown of each of a check's streams: half from its beginning, half from
/// its end.
const SHOWN: u64 = 6_000;

/// Runs the checks until one fails. A check that could not be run has not
/// passed: its end is not known.
pub(crate) async fn check(
    backend: Arc<dyn Backend>,
    sandbox: Arc<Sandbox>,
    place: Place,
    checks: Vec<String>,
) -> Vec<CheckResult> {
    let forking = timeout(OPENING, fork(&*backend, &sandbox, &place));
    let fork = match forking.await.unwrap_or_else(|_| Err("it took too long".to_owned())) {
        Ok(fork) => fork,
        Err(reason) => {
            let command = checks.into_iter().next().unwrap_or_default();
            return vec![not_run(command, format!("the workspace could not be forked: {reason}"))];
        }
    };
    fail_point("checking");
    let mut results = Vec::new();
    for command in checks {
        let result = run(&fork, command).await;
        let passed = result.passed();
        results.push(result);
        if !passed {
            break;
        }
    }
    // A fork has nothing to keep, and dropping it ends it.
    fork.close().await.ok();
    results
}

async fn fork(backend: &dyn Backend, sandbox: &Sandbox, place: &Place) -> Result<Sandbox, String> {
    let snapshot = sandbox.snapshot().await.map_err(|error| error_chain(&error))?;
    let fork = Sandbox::open(backend, place::beside(place, Workspace::Fork(snapshot))).await;
    Ok(fork.map_err(|error| error_chain(&error))?.with_variables(place.variables.iter().cloned()))
}

async fn run(fork: &Sandbox, command: String) -> CheckResult {
    let begun = Instant::now();
    let asked = fork.shell(command.as_str()).timeout(Some(LONGEST)).keep(SHOWN);
    match fork.run(fork.next_call_id(), asked).await {
        Ok(result) => {
            let output = output(&result);
            CheckResult { command, outcome: result.outcome, output, took: begun.elapsed() }
        }
        Err(error) => not_run(command, error.to_string()),
    }
}

fn not_run(command: String, reason: String) -> CheckResult {
    let outcome = Outcome::Lost { reason };
    CheckResult { command, outcome, output: String::new(), took: Duration::ZERO }
}

/// Both streams as text, with a line where something is missing.
fn output(result: &ExecResult) -> String {
    let mut text = String::new();
    let streams = [(&result.stdout, result.stdout_gap), (&result.stderr, result.stderr_gap)];
    for (bytes, gap) in streams {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match gap {
            Some(gap) => {
                let at = usize::try_from(gap.offset).unwrap_or(bytes.len()).min(bytes.len());
                let (before, after) = bytes.split_at(at);
                text.push_str(&String::from_utf8_lossy(before));
                text.push_str(&format!("\n[{} bytes left out]\n", gap.dropped));
                text.push_str(&String::from_utf8_lossy(after));
            }
            None => text.push_str(&String::from_utf8_lossy(bytes)),
        }
    }
    text
}
