//! Output: apart, byte-exact, bounded, and never in each other's way.

use std::io::{PipeReader, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cofferdam_types::{Limits, Outcome};

use super::lab::{DEADLINE, Failure, LOOK_AGAIN, Lab, check, read_until, sh, start, text};
use crate::backend::{Outlets, Spec};
use crate::process::OutputChunk;

super::promises! {
    every_byte, Nothing: "stdout and stderr are kept apart and every byte survives";
    large, Nothing: "16 MiB of output arrive whole";
    limit, Nothing: "beyond the output limit the beginning and the end are kept and the rest counted";
    flood, Nothing: "a flood of output on one call does not delay another";
    late_output, Nothing: "output that came before the end is there after it";
    held, Nothing: "nobody can keep the reader of an output from going on";
    outlets, Outlets: "a first command writes to its maker's pipes, which end with the sandbox";
}

async fn every_byte(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let forward: Vec<u8> = (0..=255).collect();
    let backward: Vec<u8> = (0..=255).rev().collect();
    let octal = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03o}")).collect::<String>();
    let script = format!("printf '{}'; printf '{}' >&2", octal(&forward), octal(&backward));
    let result = sh(&sandbox, &script).await?;
    check!(result.stdout == forward, "stdout is {:?}", result.stdout);
    check!(result.stderr == backward, "stderr is {:?}", result.stderr);
    check!(!result.truncated, "nothing was to be dropped");
    Ok(())
}

async fn large(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let result = sh(&sandbox, "seq 1000000 2999999").await?;
    let wanted: String = (1_000_000..3_000_000).map(|number| format!("{number}\n")).collect();
    check!(result.stdout == wanted, "{} bytes came of {}", result.stdout.len(), wanted.len());
    Ok(())
}

async fn limit(lab: &Lab<'_>) -> Result<(), Failure> {
    let limit = 64 << 10;
    let limits = Limits { output: Some(limit), ..Limits::default() };
    let sandbox = lab.open(Spec { limits, ..Spec::scratch() }).await?;
    let all: Vec<u8> = (1..=100_000).flat_map(|line| format!("{line}\n").into_bytes()).collect();

    let result = sh(&sandbox, "seq 1 100000; echo complaint >&2").await?;
    check!(result.outcome.success() && result.truncated, "it ended as {:?}", result.outcome);
    check!(result.stderr == "complaint\n", "stderr is {:?}", result.stderr);
    let Some(gap) = result.stdout_gap else {
        return Err(Failure::broken("no gap is reported"));
    };
    let kept = result.stdout.len() as u64;
    check!(kept == limit, "{kept} bytes were kept of a limit of {limit}");
    check!(kept + gap.dropped == all.len() as u64, "{kept} kept, {} dropped", gap.dropped);
    let (head, tail) = result.stdout.split_at(usize::try_from(gap.offset).unwrap_or_default());
    check!(all.starts_with(head) && head.len() >= 1000, "the head of {} is wrong", head.len());
    check!(all.ends_with(tail) && tail.len() >= 1000, "the tail of {} is wrong", tail.len());

    let short = sh(&sandbox, "echo short").await?;
    check!(short.stdout == "short\n" && !short.truncated, "short output was cut: {short:?}");
    Ok(())
}

async fn flood(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    // One whose output nobody takes, and one whose output is taken all the time.
    let stuck = start(&sandbox, "yes").await?;
    stuck.started().await?;
    let mut flowing = start(&sandbox, "yes").await?;
    let mut received = 0;
    let drain = async {
        while let Some(chunk) = flowing.next_output().await {
            if let OutputChunk::Stdout(bytes) = chunk {
                received += bytes.len();
            }
        }
    };
    let others = async {
        let begin = Instant::now();
        for round in 0..20 {
            let said = text(&sandbox, &format!("echo {round}")).await?;
            check!(said == round.to_string(), "call {round} said {said:?}");
        }
        let took = begin.elapsed();
        check!(took < Duration::from_secs(20), "20 short calls took {took:?} beside a flood");
        Ok(())
    };
    let outcome = tokio::select! {
        () = drain => Err(Failure::broken("the flood ended by itself")),
        outcome = others => outcome,
    };
    check!(received > 0, "nothing of the flood arrived");
    outcome
}

async fn late_output(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let mut process = start(&sandbox, "echo first; head -c 500000 /dev/zero; echo last").await?;
    read_until(&mut process, "first").await?;
    // Half a megabyte is within a window: the command ends although nobody reads.
    let call = process.call().0;
    let begin = Instant::now();
    while sandbox.calls().await?.iter().any(|state| state.call == call && state.running) {
        check!(begin.elapsed() < DEADLINE, "it waits for a reader");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let mut rest = Vec::new();
    while let Some(chunk) = process.next_output().await {
        if let OutputChunk::Stdout(bytes) = chunk {
            rest.extend_from_slice(&bytes);
        }
    }
    process.wait().await?;
    check!(Bytes::from(rest).ends_with(b"\0last\n"), "the end is missing");
    Ok(())
}

/// A kernel that moves bytes from a socket to a pipe for somebody keeps all others off the pipe.
async fn held(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let script = "command -v perl > /dev/null || { echo missing; exit; }; exec perl -e '\
        use Socket; $| = 1; my ($splice, $sendfile) = `uname -m` =~ /x86/ ? (275, 40) : (76, 71); \
        socketpair(my $empty, my $other, AF_UNIX, SOCK_STREAM, 0) or die; \
        for (1 .. 50) { \
            print \"x\"; syscall($splice, fileno($empty), 0, 1, 0, 9, 0); \
            print \"x\"; syscall($sendfile, 1, fileno($empty), 0, 9); \
        }'";
    let written = text(&sandbox, script).await?;
    if written == "missing" {
        return Err(Failure::NotApplicable("there is no perl to try it with".to_owned()));
    }
    check!(written == "x".repeat(100), "{written:?} was written");
    Ok(())
}

async fn outlets(lab: &Lab<'_>) -> Result<(), Failure> {
    let no_pipe = |error| Failure::broken(format!("no pipe is to be had: {error}"));
    let (stdout, for_stdout) = std::io::pipe().map_err(no_pipe)?;
    let (stderr, for_stderr) = std::io::pipe().map_err(no_pipe)?;
    let given =
        Outlets { stdout: Arc::new(for_stdout.into()), stderr: Arc::new(for_stderr.into()) };
    let sandbox = lab.open(Spec { outlets: Some(given), ..Spec::scratch() }).await?;
    // What it leaves behind would write there too.
    let first = sh(&sandbox, "echo word; echo complaint >&2; sleep 1000 & exit 3").await?;
    check!(first.outcome == Outcome::Exited { exit_code: 3 }, "it ended as {:?}", first.outcome);
    check!(first.stdout.is_empty() && first.stderr.is_empty(), "the guest has some of it");
    let second = text(&sandbox, "echo second").await?;
    check!(second == "second", "the second command wrote {second:?}");
    lab.close(sandbox).await?;
    let (stdout, stderr) = (to_its_end(stdout).await?, to_its_end(stderr).await?);
    check!(stdout == b"word\n" && stderr == b"complaint\n", "{stdout:?} and {stderr:?} came");
    Ok(())
}

async fn to_its_end(mut pipe: PipeReader) -> Result<Vec<u8>, Failure> {
    let reading = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes)
    });
    match tokio::time::timeout(DEADLINE, reading).await {
        Ok(Ok(Ok(bytes))) => Ok(bytes),
        _ => Err(Failure::broken("somebody holds a pipe of a sandbox that is closed")),
    }
}
