//! Commands: what they get, and what they use.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::PtySize;

use super::lab::{Failure, Lab, check, read_until, run, sh, text};

super::promises! {
    nothing, Nothing: "a program that does nothing ends with code 0";
    environment, Nothing: "the environment of a command is exactly what was given";
    directory, Nothing: "a command runs in the directory it was given, else in the workspace";
    stdin, Nothing: "8 MiB of stdin come out of cat as they went in";
    no_stdin, Nothing: "a command without stdin reads an end of file";
    terminal, Nothing: "a terminal has its size, passes input on and tells of a new size";
    usage, Nothing: "the time, CPU and memory of a command are measured";
}

async fn nothing(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let result = run(&sandbox, sandbox.argv(["/bin/true"])).await?;
    check!(result.outcome.success(), "it ended as {:?}", result.outcome);
    check!(result.stdout.is_empty() && result.stderr.is_empty(), "it printed something");
    check!(result.left_running == 0, "it left {} processes", result.left_running);
    Ok(())
}

async fn environment(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let command = sandbox
        .argv(["/usr/bin/env", "-0"])
        .clear_env()
        .env("FIRST", "one")
        .env("SECOND", "two\nlines = \u{e9}");
    let result = run(&sandbox, command).await?;
    let mut variables: Vec<&[u8]> =
        result.stdout.split(|byte| *byte == 0).filter(|part| !part.is_empty()).collect();
    variables.sort_unstable();
    let wanted: [&[u8]; 2] = [b"FIRST=one", "SECOND=two\nlines = \u{e9}".as_bytes()];
    let shown = String::from_utf8_lossy(&result.stdout);
    check!(variables == wanted, "the environment is {shown:?}");
    Ok(())
}

async fn directory(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let cwd = text(&sandbox, "pwd && mkdir -p deep/er").await?;
    check!(cwd == "/workspace", "the directory is {cwd:?}");
    let command = sandbox.argv(["/bin/pwd"]).cwd("/workspace/deep/er");
    let result = run(&sandbox, command).await?;
    check!(result.stdout == "/workspace/deep/er\n", "the directory is {:?}", result.stdout);
    Ok(())
}

async fn stdin(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let input: Bytes =
        (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let command = sandbox.argv(["cat"]).input(input.clone());
    let result = run(&sandbox, command).await?;
    check!(result.outcome.success(), "cat ended as {:?}", result.outcome);
    check!(
        result.stdout == input,
        "{} bytes came back of {}, or others",
        result.stdout.len(),
        input.len()
    );
    Ok(())
}

async fn no_stdin(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let count = text(&sandbox, "wc -c").await?;
    check!(count.trim() == "0", "there were {count} bytes");
    Ok(())
}

async fn terminal(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && stty -echo && echo ready \
                  && read -r line && echo \"got $line\" && trap 'stty size; exit 6' WINCH \
                  && echo waiting && while :; do sleep 0.05; done";
    let command = sandbox
        .shell(script)
        .pty(PtySize { rows: 24, cols: 80 })
        .timeout(Some(Duration::from_secs(40)));
    let mut process = sandbox.start(sandbox.next_call_id(), command).await?;
    let first = read_until(&mut process, "ready").await?;
    check!(first.contains("24 80"), "the first size was {first:?}");
    process.write_stdin(Bytes::from_static(b"hello\n")).await?;
    let second = read_until(&mut process, "waiting").await?;
    check!(second.contains("got hello"), "the input was {second:?}");
    process.resize(PtySize { rows: 50, cols: 132 });
    read_until(&mut process, "50 132").await?;
    let report = process.wait().await?;
    let outcome = sandbox.outcome(&process, &report).await?;
    check!(outcome.shell_code() == 6, "it ended as {outcome:?}");
    Ok(())
}

async fn usage(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let idle = sh(&sandbox, "sleep 0.5").await?.usage;
    let half = Duration::from_millis(500);
    check!(idle.duration >= half, "half a second of sleep took {:?}", idle.duration);
    check!(idle.cpu < half, "half a second of sleep used {:?} of CPU", idle.cpu);
    check!(
        (64 << 10..1 << 30).contains(&idle.peak_memory),
        "a shell and sleep took {} bytes of memory",
        idle.peak_memory
    );
    // A child that is waited for counts.
    let busy = "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; true";
    let busy = sh(&sandbox, busy).await?.usage;
    let least = Duration::from_millis(20);
    check!(busy.cpu >= least, "a busy loop used {:?} of CPU", busy.cpu);
    check!(
        busy.cpu <= busy.duration.mul_f64(1.2) + half,
        "one busy loop used {:?} of CPU in {:?}",
        busy.cpu,
        busy.duration
    );
    let large = sh(&sandbox, "head -c 50M /dev/zero | tail -c 40M | wc -c").await?.usage;
    check!(
        large.peak_memory >= 40 << 20,
        "40 MiB in one process were measured as {}",
        large.peak_memory
    );
    Ok(())
}
