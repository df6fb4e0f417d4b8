//! How commands end: each way is its own outcome.

use std::time::{Duration, Instant};

use cofferdam_guest_protocol::Leftovers;
use cofferdam_types::{Limits, Outcome};

use super::lab::{Failure, Lab, check, read_until, run, sh, start, text, unique_number, until};
use crate::backend::Spec;
use crate::error::CallError;

super::promises! {
    exit_codes, Nothing: "the exit code of a command is its own";
    signals, Nothing: "a command that a signal ends is told from one that exits";
    not_started, Nothing: "a program that cannot be started says why, and none is run";
    wall_time, Nothing: "a command ends when the time of the limits is up";
    time_out, Nothing: "a time-out kills deaf, stopped and double-forked processes";
    signal_to_all, Nothing: "a signal from outside reaches every process of the command";
    kill_by_drop, Nothing: "a command that is dropped is killed, descendants and all";
    first_process, Nothing: "what can end every process cannot be held back by one";
    leftovers, Nothing: "processes left behind are counted, and killed when that was asked for";
}

/// The first process is of the commands' own user, to whom the kernel gives much power over it.
async fn first_process(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let script = "command -v perl > /dev/null || { echo missing; exit; }; exec perl -e '\
        my ($prlimit, $scheduler, $affinity, $priority, $io) = \
            `uname -m` =~ /x86/ ? (302, 144, 203, 141, 251) : (261, 119, 122, 140, 30); \
        my ($none, $few) = (pack(\"Q2\", 0, 0), pack(\"Q2\", 64, 64)); \
        my ($lowest, $cpu) = (pack(\"i\", 0), pack(\"Q\", 1)); \
        my %tried = ( \
            files => syscall($prlimit, 1, 7, $none, 0), \
            idle => syscall($scheduler, 1, 5, $lowest), \
            cpu => syscall($affinity, 1, 8, $cpu), \
            nice => syscall($priority, 0, 1, 19), \
            group => syscall($priority, 1, 1, 19), \
            user => syscall($priority, 2, 0, 19), \
            io => syscall($io, 1, 1, 3 << 13), \
        ); \
        print join(\" \", sort grep { $tried{$_} != -1 } keys %tried), \";\"; \
        print syscall($prlimit, 0, 7, $few, 0), syscall($priority, 0, 0, 19); \
        print syscall($scheduler, 0, 5, $lowest), getpriority(0, 0);'";
    let done = text(&sandbox, script).await?;
    if done == "missing" {
        return Err(Failure::NotApplicable("there is no perl to try it with".to_owned()));
    }
    // One's own limits may be lowered. One's own turns at the processor are not, though nobody
    // is told: whoever has none of them may hold what the first process waits for.
    check!(done == ";0000", "{done:?} could be done");
    Ok(())
}

async fn exit_codes(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    for exit_code in [0, 1, 7, 126, 127, 130, 255] {
        let outcome = sh(&sandbox, &format!("exit {exit_code}")).await?.outcome;
        check!(outcome == Outcome::Exited { exit_code }, "exit {exit_code} gave {outcome:?}");
    }
    Ok(())
}

async fn signals(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    for signal in [1, 9, 15] {
        let outcome = sh(&sandbox, &format!("kill -{signal} $$")).await?.outcome;
        check!(outcome == Outcome::Signaled { signal }, "signal {signal} gave {outcome:?}");
    }
    Ok(())
}

async fn not_started(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    text(&sandbox, "echo text > plain && mkdir folder").await?;
    for (program, wanted) in [("/no/such/program", 2), ("no-such-program", 2), ("./plain", 13)] {
        let command = sandbox.argv([program]);
        match sandbox.run(sandbox.next_call_id(), command).await {
            Err(CallError::NotStarted { errno, what }) => {
                check!(errno == wanted, "{program} gave error {errno} ({what}), not {wanted}");
            }
            other => return Err(Failure::broken(format!("{program} gave {other:?}"))),
        }
    }
    let command = sandbox.argv(["/bin/true"]).cwd("/no/such/directory");
    let started = sandbox.run(sandbox.next_call_id(), command).await;
    check!(
        matches!(started, Err(CallError::NotStarted { .. })),
        "a missing directory gave {started:?}"
    );
    Ok(())
}

async fn wall_time(lab: &Lab<'_>) -> Result<(), Failure> {
    // Long enough for a shell to begin on a machine that is busy.
    let wall_time = Some(Duration::from_secs(3));
    let limits = Limits { wall_time, ..Limits::default() };
    let sandbox = lab.open(Spec { limits, ..Spec::scratch() }).await?;
    let result = sh(&sandbox, "echo before; sleep 50; echo after").await?;
    check!(result.outcome == Outcome::TimedOut, "it ended as {:?}", result.outcome);
    check!(result.stdout == "before\n", "it printed {:?}", result.stdout);
    let took = result.usage.duration;
    check!((3..20).contains(&took.as_secs()), "it took {took:?}");
    let quick = sh(&sandbox, "echo quick").await?;
    check!(quick.outcome.success(), "a quick one ended as {:?}", quick.outcome);
    Ok(())
}

/// A script whose processes all carry a number: a deaf one, a stopped one, one
/// that left its parent, and one that left its session too.
fn hydra(number: u64) -> String {
    format!(
        "trap '' TERM INT HUP
         sh -c 'trap \"\" TERM; while :; do sleep 0.1; done; : {number}' &
         sh -c 'kill -STOP $$; : {number}' &
         (sh -c 'sleep {number}; :' &)
         (setsid sh -c 'trap \"\" TERM HUP; (while :; do sleep 0.1; done); : {number}' \
             > /dev/null 2>&1 < /dev/null &)
         echo ready
         while :; do sleep 0.1; done; : {number}"
    )
}

/// A script that succeeds when no process carries the number, but itself.
fn nobody_has(number: u64) -> String {
    // The number is put together so that the script does not carry it.
    let (high, low) = (number / 1000, number % 1000);
    format!(
        "wanted={high}$(printf %03d {low}); for each in /proc/[0-9]*/cmdline; do \
         if tr '\\0' ' ' < \"$each\" 2>/dev/null | grep -q \"$wanted\"; then exit 1; fi; done"
    )
}

async fn time_out(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let number = unique_number();
    let command = sandbox
        .shell(hydra(number))
        .timeout(Some(Duration::from_secs(2)))
        .grace(Duration::from_millis(200));
    let start = Instant::now();
    let result = run(&sandbox, command).await?;
    check!(result.outcome == Outcome::TimedOut, "it ended as {:?}", result.outcome);
    check!(result.stdout == "ready\n", "it printed {:?}", result.stdout);
    check!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    until(&sandbox, &nobody_has(number)).await
}

async fn signal_to_all(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let script = "sh -c 'trap \"echo child; exit\" USR1; echo one; while :; do sleep 0.05; done' &
                  trap 'wait; echo parent; exit 4' USR1; echo two; while :; do sleep 0.05; done";
    let mut process = start(&sandbox, script).await?;
    let mut seen = read_until(&mut process, "o").await?;
    while !(seen.contains("one") && seen.contains("two")) {
        seen += &read_until(&mut process, "o").await?;
    }
    process.signal(10);
    let rest = read_until(&mut process, "parent").await?;
    check!(rest.contains("child"), "the child heard nothing: {rest:?}");
    let report = process.wait().await?;
    let outcome = sandbox.outcome(&process, &report).await?;
    check!(outcome == Outcome::Exited { exit_code: 4 }, "it ended as {outcome:?}");
    Ok(())
}

async fn kill_by_drop(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let number = unique_number();
    let mut process = start(&sandbox, &hydra(number)).await?;
    read_until(&mut process, "ready").await?;
    drop(process);
    until(&sandbox, &nobody_has(number)).await
}

async fn leftovers(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let number = unique_number();
    let script = format!("sleep {number} > /dev/null 2>&1 & echo started");
    let kept = sh(&sandbox, &script).await?;
    check!(kept.outcome.success(), "it ended as {:?}", kept.outcome);
    check!(kept.left_running >= 1, "{} processes were counted", kept.left_running);
    let alone = sh(&sandbox, &nobody_has(number)).await?;
    check!(!alone.outcome.success(), "the process that was to go on is gone");

    let number = unique_number();
    let script = format!("sleep {number} > /dev/null 2>&1 & echo started");
    let killed = run(&sandbox, sandbox.shell(script).leftovers(Leftovers::Kill)).await?;
    check!(killed.outcome.success(), "it ended as {:?}", killed.outcome);
    until(&sandbox, &nobody_has(number)).await
}
