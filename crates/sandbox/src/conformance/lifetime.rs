//! How long sandboxes, their processes and their results live.

use std::fs;
use std::time::{Duration, Instant};

use cofferdam_guest_protocol::ExecEnd;
use cofferdam_types::{CallId, Outcome, SandboxId};

use super::lab::{
    DEADLINE, Failure, LOOK_AGAIN, Lab, check, read_until, sh, start, text, unique_number, until,
};
use crate::backend::{Lifetime, OpenError, Spec};
use crate::error::SandboxError;
use crate::process::{OutputChunk, Process};
use crate::sandbox::Sandbox;

super::promises! {
    background, Nothing: "a background process outlives its command and ends with the sandbox";
    released, Nothing: "a command that is released runs on, and is forgotten when it has ended";
    followed, Nothing: "a command that somebody follows is not forgotten before its end";
    owned, Nothing: "a sandbox that is dropped ends, with all its processes";
    reconnected, Nothing: "a connection that breaks in mid-command loses no byte and no result";
    reattached, Lingering: "a sandbox is taken up by its id, and a result by its call, with no byte lost";
    inherited, Lingering: "what has ended for whoever was before can be forgotten";
    forsaken, Lingering: "a lingering sandbox that nobody attends ends after its time";
    unkept, Lingering: "a sandbox that is to linger ends with its maker until it is kept";
}

async fn background(lab: &Lab<'_>) -> Result<(), Failure> {
    let directory = lab.directory()?;
    let sandbox = lab.over(&directory).await?;
    let script = "(while :; do echo beat >> heartbeat; sleep 0.05; done) > /dev/null 2>&1 &";
    let result = sh(&sandbox, script).await?;
    check!(result.outcome.success(), "it ended as {:?}", result.outcome);
    check!(result.left_running >= 1, "{} processes were left", result.left_running);
    until(&sandbox, "test $(wc -l < heartbeat) -ge 5").await?;
    let before: u64 = text(&sandbox, "wc -l < heartbeat").await?.trim().parse().unwrap_or(0);
    until(&sandbox, &format!("test $(wc -l < heartbeat) -gt {before}")).await?;
    lab.close(sandbox).await?;
    let heartbeat = directory.join("heartbeat");
    let at_close = fs::metadata(&heartbeat)?.len();
    check!(at_close >= 5 * before, "only {at_close} bytes of heartbeat were brought out");
    // Absence cannot be waited for: twenty beats would have come in this time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let later = fs::metadata(&heartbeat)?.len();
    check!(later == at_close, "the heart beats after the end");
    Ok(())
}

/// Whether a process of this machine has this number in its command line.
fn machine_runs(number: u64) -> bool {
    let wanted = number.to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&wanted))
    })
}

async fn gone_from_machine(number: u64) -> Result<(), Failure> {
    let begin = Instant::now();
    while machine_runs(number) {
        check!(begin.elapsed() < DEADLINE, "its processes are alive after {DEADLINE:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Waits until the guest keeps no call.
async fn no_calls(sandbox: &Sandbox) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let calls = sandbox.calls().await?;
        if calls.is_empty() {
            return Ok(());
        }
        check!(begin.elapsed() < DEADLINE, "{calls:?} are kept after {DEADLINE:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits for `go`, writes more than anybody takes without a reader, and says that it did.
const ALONE: &str = "while [ ! -e go ]; do sleep 0.05; done; head -c 9000000 /dev/zero; \
                     echo done >> done";

async fn released(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    for _ in 0..20 {
        start(&sandbox, ALONE).await?.release();
    }
    let mut over = start(&sandbox, "true").await?;
    while over.next_output().await.is_some() {}
    over.release();
    text(&sandbox, "touch go").await?;
    until(&sandbox, "test $(wc -l < done) -eq 20").await?;
    no_calls(&sandbox).await
}

async fn followed(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let script = "echo begun; while [ ! -e go ]; do sleep 0.05; done; head -c 9000000 /dev/zero";
    let mut process = start(&sandbox, script).await?;
    process.started().await?;
    sandbox.acknowledge(process.call());
    text(&sandbox, "touch go").await?;
    let mut taken = 0;
    while let Some(chunk) = process.next_output().await {
        if let OutputChunk::Stdout(bytes) = chunk {
            taken += bytes.len();
        }
    }
    check!(taken == 9_000_006, "{taken} bytes came");
    let report = process.wait().await?;
    check!(report.end == ExecEnd::Exited(0), "it ended as {:?}", report.end);
    no_calls(&sandbox).await
}

async fn inherited(lab: &Lab<'_>) -> Result<(), Failure> {
    let lifetime = Lifetime::Lingering(DEADLINE);
    let sandbox = lab.open(Spec { lifetime, ..Spec::scratch() }).await?;
    sandbox.keep().await?;
    let id = sandbox.id();
    start(&sandbox, "echo over").await?.wait_unacknowledged().await?;
    let mut theirs = start(&sandbox, "echo theirs").await?;
    theirs.wait_unacknowledged().await?;
    let alone = start(&sandbox, ALONE).await?;
    alone.started().await?;
    let (theirs, alone) = (theirs.call(), alone.detach());
    drop(lab.release(sandbox)?);

    let sandbox = lab.reattach(id).await?;
    let before = sandbox.calls().await?.len();
    check!(before == 3, "{before} calls were found");
    sandbox.forget_ended(|call| call != theirs).await?;
    let after = sandbox.calls().await?;
    let kept = |call: CallId| after.iter().any(|state| state.call == call.0);
    check!(after.len() == 2 && kept(theirs) && kept(alone), "{after:?} are kept");
    Ok(())
}

async fn owned(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let number = unique_number();
    let script = format!("(setsid sh -c 'trap \"\" TERM HUP; sleep {number}; :' &); echo ready");
    let mut process = start(&sandbox, &script).await?;
    read_until(&mut process, "ready").await?;
    process.detach();
    until(&sandbox, "grep -aq 'sleep.[0-9]' /proc/[0-9]*/cmdline").await?;
    let visible = machine_runs(number);
    let id = sandbox.id();
    drop(lab.release(sandbox)?);
    gone_from_machine(number).await?;
    let begin = Instant::now();
    loop {
        match Sandbox::reattach(lab.backend, id, Spec::scratch().limits).await {
            Err(SandboxError::Open(OpenError::Gone(_))) => break,
            Err(_) if begin.elapsed() < DEADLINE => tokio::time::sleep(LOOK_AGAIN).await,
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(Failure::broken("it can be reattached")),
        }
    }
    if !visible {
        let reason = "its processes cannot be seen from here, so their end cannot be either";
        return Err(Failure::NotApplicable(reason.to_owned()));
    }
    Ok(())
}

/// Prints 3,000 numbered lines in 30 bursts, and exits with 5.
const LINES: &str = "each=0; while [ $each -lt 3000 ]; do echo line $each; each=$((each + 1)); \
                     if [ $((each % 100)) -eq 0 ]; then sleep 0.05; fi; done; exit 5";

fn all_lines() -> Vec<u8> {
    (0..3000).flat_map(|line| format!("line {line}\n").into_bytes()).collect()
}

/// Takes output until there is at least this much of it, or until its end.
async fn take(process: &mut Process, output: &mut Vec<u8>, least: usize) -> Result<(), Failure> {
    while output.len() < least {
        match process.next_output().await {
            Some(OutputChunk::Stdout(bytes)) => output.extend_from_slice(&bytes),
            Some(other) => return Err(Failure::broken(format!("{other:?} came"))),
            None => break,
        }
    }
    Ok(())
}

/// Collects the rest of [`LINES`] and checks that nothing is missing or twice.
async fn rest(sandbox: &Sandbox, mut process: Process, mut output: Vec<u8>) -> Result<(), Failure> {
    take(&mut process, &mut output, usize::MAX).await?;
    check!(output == all_lines(), "{} bytes came, or others than were written", output.len());
    let report = process.wait_unacknowledged().await?;
    let outcome = sandbox.outcome(&process, &report).await?;
    check!(outcome == Outcome::Exited { exit_code: 5 }, "it ended as {outcome:?}");
    let call = process.call();
    let kept = sandbox.calls().await?.iter().any(|state| state.call == call.0 && !state.running);
    check!(kept, "the result was not kept until acknowledged");
    sandbox.acknowledge(call);
    let kept = sandbox.calls().await?.iter().any(|state| state.call == call.0);
    check!(!kept, "the result is kept after it was acknowledged");
    Ok(())
}

async fn reconnected(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let mut process = start(&sandbox, LINES).await?;
    let mut output = Vec::new();
    take(&mut process, &mut output, 1000).await?;
    let (call, offsets) = (process.call(), process.offsets());
    sandbox.reconnect().await?;
    let lost = process.wait_unacknowledged().await;
    check!(lost.is_err(), "the old connection still serves");
    let process = sandbox.collect(call, offsets).await?;
    rest(&sandbox, process, output).await
}

async fn reattached(lab: &Lab<'_>) -> Result<(), Failure> {
    let lifetime = Lifetime::Lingering(DEADLINE);
    let sandbox = lab.open(Spec { lifetime, ..Spec::scratch() }).await?;
    sandbox.keep().await?;
    let id = sandbox.id();
    text(&sandbox, "echo still here > file").await?;
    let mut process = start(&sandbox, LINES).await?;
    let mut output = Vec::new();
    take(&mut process, &mut output, 1000).await?;
    let offsets = process.offsets();
    let call = process.detach();
    drop(lab.release(sandbox)?);

    let found = lab.backend.reconcile().await?;
    check!(found.alive.contains(&id), "the sandbox is not among those alive: {found:?}");
    let sandbox = lab.reattach(id).await?;
    let file = text(&sandbox, "cat file").await?;
    check!(file == "still here", "the file holds {file:?}");
    let known = sandbox.calls().await?.iter().any(|state| state.call == call.0);
    check!(known, "the call is not known any more");
    let process = sandbox.collect(call, offsets).await?;
    rest(&sandbox, process, output).await
}

async fn forsaken(lab: &Lab<'_>) -> Result<(), Failure> {
    let lifetime = Lifetime::Lingering(Duration::from_secs(2));
    let sandbox = lab.open(Spec { lifetime, ..Spec::scratch() }).await?;
    sandbox.keep().await?;
    let id = sandbox.id();
    let number = unique_number();
    text(&sandbox, &format!("sleep {number} > /dev/null 2>&1 &")).await?;
    drop(lab.release(sandbox)?);
    gone_from_machine(number).await?;
    not_alive(lab, id).await
}

async fn unkept(lab: &Lab<'_>) -> Result<(), Failure> {
    let lifetime = Lifetime::Lingering(10 * DEADLINE);
    let sandbox = lab.open(Spec { lifetime, ..Spec::scratch() }).await?;
    let id = sandbox.id();
    drop(lab.release(sandbox)?);
    not_alive(lab, id).await
}

async fn not_alive(lab: &Lab<'_>, id: SandboxId) -> Result<(), Failure> {
    let begin = Instant::now();
    while lab.backend.reconcile().await?.alive.contains(&id) {
        check!(begin.elapsed() < DEADLINE, "it is alive after {DEADLINE:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}
