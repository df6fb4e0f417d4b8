//! Limits: the kernel enforces each, and the sandbox is of use afterwards.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cofferdam_guest_protocol::Leftovers;
use cofferdam_types::{Limits, Outcome};

use super::lab::{DEADLINE, Failure, LOOK_AGAIN, Lab, check, run, sh, start, text, until};
use crate::backend::{Grade, Spec};
use crate::sandbox::Sandbox;

super::promises! {
    memory_of_one, Nothing: "a process that takes memory without end is stopped at the limit";
    memory_of_all, Nothing: "many processes together stay within the memory limit";
    temporary_files, Nothing: "temporary files are bounded";
    processes, Nothing: "a fork bomb is bounded and the sandbox stays usable";
    disk, Nothing: "a full workspace is an error of the writer, and space freed can be used";
    files, Nothing: "the number of files in a workspace is bounded";
    open_files, Nothing: "the open files of a process are limited";
    cpu, CpuTime: "busy processes together get no more CPU than the limit";
}

const MIB: u64 = 1 << 20;

/// What holds for a sandbox as a whole is only promised from this grade on.
fn bounded(sandbox: &Sandbox) -> Result<(), Failure> {
    let Grade::Contained = sandbox.isolation().grade else { return Ok(()) };
    let weak: Vec<String> = sandbox
        .isolation()
        .facts
        .iter()
        .filter_map(|fact| Some(format!("{}: {}", fact.part, fact.weakness.as_ref()?)))
        .collect();
    Err(Failure::NotApplicable(format!("the sandbox is only contained ({})", weak.join("; "))))
}

fn spec(limits: Limits) -> Spec {
    Spec { limits, ..Spec::scratch() }
}

async fn memory_of_one(lab: &Lab<'_>) -> Result<(), Failure> {
    let memory = 128 * MIB;
    let sandbox = lab.open(spec(Limits { memory, ..Limits::default() })).await?;
    // There is no end of line: tail keeps everything.
    let result = run(&sandbox, sandbox.argv(["tail", "/dev/zero"])).await?;
    let clean = matches!(result.outcome, Outcome::Exited { exit_code } if exit_code != 0);
    check!(
        clean || result.outcome == Outcome::OutOfMemory,
        "it ended as {:?}, with {:?}",
        result.outcome,
        result.stderr
    );
    let peak = result.usage.peak_memory;
    check!(peak <= memory + memory / 8, "it took {peak} bytes of a limit of {memory}");
    let alive = text(&sandbox, "echo alive").await?;
    check!(alive == "alive", "the sandbox said {alive:?}");
    Ok(())
}

async fn memory_of_all(lab: &Lab<'_>) -> Result<(), Failure> {
    let memory = 160 * MIB;
    let sandbox = lab.open(spec(Limits { memory, ..Limits::default() })).await?;
    bounded(&sandbox)?;
    // Each keeps 40 MiB and cannot write them on.
    let script = "for each in 1 2 3 4 5 6 7 8; do \
                  (head -c 40M /dev/zero | tail -c 40M | (sleep 600; cat > /dev/null)) & done; wait";
    let process = start(&sandbox, script).await?;
    process.started().await?;
    // A kernel of the sandbox's own that does not tell this of each process tells it of all.
    let look = "if grep -q ^RssAnon: /proc/self/status; then \
                grep -s ^RssAnon: /proc/[0-9]*/status; echo; \
                grep -s ^RssAnon: /proc/[0-9]*/status; \
                else sed -n 's/^Active(anon):[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/meminfo; fi";
    let begin = Instant::now();
    let mut most = 0;
    // Long enough to go beyond the limit, and on a slow machine as long as it takes to get near.
    let (least, long, longest) = (40 * MIB, Duration::from_secs(5), Duration::from_secs(60));
    while begin.elapsed() < long || (most < least && begin.elapsed() < longest) {
        let result = sh(&sandbox, look).await?;
        // The one who looks may itself be killed for lack of memory.
        if let Some(kib) = used_at_once(&String::from_utf8_lossy(&result.stdout)) {
            most = most.max(kib << 10);
        }
        check!(most <= memory + memory / 8, "{most} bytes were used of a limit of {memory}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    check!(most >= least, "only {most} bytes were ever used");
    drop(process);
    until(&sandbox, "true").await
}

/// KiB that processes held at one moment at least, from two looks at each of them: a
/// process is killed and another takes its room while a single look goes through them,
/// but whoever is there in both was there between them, with no less than the smaller.
fn used_at_once(looks: &str) -> Option<u64> {
    let Some((first, second)) = looks.split_once("\n\n") else {
        return looks.trim().parse().ok();
    };
    let held = |look: &str| -> HashMap<String, u64> {
        let of_one = |line: &str| {
            let (process, kib) = line.split_once(":RssAnon:")?;
            Some((process.to_owned(), kib.trim().strip_suffix(" kB")?.parse().ok()?))
        };
        look.lines().filter_map(of_one).collect()
    };
    let second = held(second);
    let in_both = held(first).into_iter();
    Some(in_both.filter_map(|(process, kib)| Some(kib.min(*second.get(&process)?))).sum())
}

async fn temporary_files(lab: &Lab<'_>) -> Result<(), Failure> {
    let memory = 128 * MIB;
    let sandbox = lab.open(spec(Limits { memory, ..Limits::default() })).await?;
    let result = sh(&sandbox, "head -c 300M /dev/zero > /tmp/fill").await?;
    check!(!result.outcome.success(), "300 MiB fit into a limit of {memory} bytes");
    let length = "rm -f /tmp/fill; echo x > /tmp/small && wc -c < /tmp/small";
    until(&sandbox, length).await
}

async fn processes(lab: &Lab<'_>) -> Result<(), Failure> {
    let pids = 64;
    let sandbox = lab.open(spec(Limits { pids, ..Limits::default() })).await?;
    let script = "each=0; while [ $each -lt 300 ]; do sleep 600 & each=$((each + 1)); done";
    let bomb = sandbox
        .shell(script)
        .leftovers(Leftovers::Kill)
        .timeout(Some(Duration::from_secs(20)))
        .grace(Duration::ZERO);
    let result = run(&sandbox, bomb).await?;
    check!(!result.outcome.success(), "300 processes were started under a limit of {pids}");
    check!(result.left_running <= pids, "{} processes were running", result.left_running);
    until(&sandbox, "sleep 0 & wait; test -n \"$(echo alive | cat)\"").await
}

async fn disk(lab: &Lab<'_>) -> Result<(), Failure> {
    let disk = 16 * MIB;
    let sandbox = lab.open(spec(Limits { disk, ..Limits::default() })).await?;
    let result = sh(&sandbox, "dd if=/dev/zero of=fill bs=1M count=64").await?;
    let failed = matches!(result.outcome, Outcome::Exited { exit_code } if exit_code != 0);
    check!(failed, "dd ended as {:?} after 64 MiB of {disk} bytes", result.outcome);
    let kib: u64 = text(&sandbox, "du -sk . | cut -f 1").await?.parse().unwrap_or(u64::MAX);
    check!(kib << 10 <= disk + MIB, "{kib} KiB are used of {disk} bytes");
    check!(kib << 10 >= disk / 2, "only {kib} KiB could be used of {disk} bytes");
    text(&sandbox, "rm fill && head -c 4M /dev/zero > again && wc -c < again").await?;
    Ok(())
}

async fn files(lab: &Lab<'_>) -> Result<(), Failure> {
    let limits = Limits { inodes: 500, ..Limits::default() };
    let sandbox = lab.open(spec(limits)).await?;
    let script = "each=0; while [ $each -lt 2000 ]; do : > f$each || exit 9; \
                  each=$((each + 1)); done";
    let result = sh(&sandbox, script).await?;
    check!(!result.outcome.success(), "2000 files were made under a limit of 500");
    let count: u32 = text(&sandbox, "ls | wc -l").await?.trim().parse().unwrap_or_default();
    check!((100..=520).contains(&count), "{count} files were made under a limit of 500");
    text(&sandbox, "rm f* && : > again").await?;
    Ok(())
}

async fn open_files(lab: &Lab<'_>) -> Result<(), Failure> {
    let limits = Limits { open_files: 64, ..Limits::default() };
    let sandbox = lab.open(spec(limits)).await?;
    let limits = text(&sandbox, "ulimit -Sn; ulimit -Hn").await?;
    check!(limits == "64\n64", "the limits are {limits:?}");
    super::lab::fails(&sandbox, "(ulimit -n 65) 2> /dev/null").await
}

async fn cpu(lab: &Lab<'_>) -> Result<(), Failure> {
    let limits = Limits { milli_cpus: 500, ..Limits::default() };
    let sandbox = lab.open(spec(limits)).await?;
    bounded(&sandbox)?;
    let script = "(while :; do :; done) & first=$!; (while :; do :; done) & second=$!; \
                  sleep 3; kill $first $second; wait; true";
    let usage = sh(&sandbox, script).await?.usage;
    check!(
        usage.cpu <= usage.duration.mul_f64(0.5 * 1.3),
        "two busy loops got {:?} of CPU in {:?} under a limit of half a CPU",
        usage.cpu,
        usage.duration
    );
    check!(usage.duration < DEADLINE, "three seconds took {:?}", usage.duration);
    Ok(())
}
