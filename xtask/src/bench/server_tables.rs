//! The server's report: what was aimed at, and what was measured.

use std::time::Duration;

use super::report::{Table, digits, microseconds, milliseconds};
use super::server::{Outcome, Results};
use super::server_burst::Burst;
use super::server_load::{Times, count, median};
use super::server_peers::Peer;
use super::server_race::{CELLS, PRODUCT, Participant, Question, Score};
use super::server_readers::READERS;

/// All tables, in the order of the report.
pub(super) fn all(results: &Results) -> Vec<Table> {
    let mut tables = vec![goals(results)];
    tables.extend(results.race.as_ref().map(race));
    if !results.bursts.is_empty() {
        tables.push(bursts(&results.bursts));
    }
    tables.push(crowds(results));
    tables
}

fn mebibytes(bytes: f64) -> String {
    digits(bytes / f64::from(1 << 20))
}

/// The score of one in one cell, if it has one.
fn score(participants: &[Participant], name: &str, cell: usize) -> Option<Score> {
    let found = participants.iter().find(|participant| participant.name == name)?;
    found.outcome.as_ref().ok()?.cells.get(cell).copied()
}

/// How many times as many the product answers as the fastest peer, at its worst.
fn least_ratio(participants: &[Participant], question: Question) -> Option<f64> {
    let cells = CELLS.iter().enumerate().filter(|(_, (asked, _))| *asked == question);
    let ratios = cells.map(|(cell, _)| {
        let best = Peer::ALL.iter().filter_map(|peer| score(participants, peer.name(), cell));
        let best = best.map(|score| score.a_second).reduce(f64::max)?;
        Some(score(participants, PRODUCT, cell)?.a_second / best)
    });
    ratios.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::min)
}

fn measured<Measured>(outcome: &Outcome<Measured>) -> Option<&Measured> {
    outcome.as_ref()?.as_ref().ok()
}

/// The health that was seen in each part.
fn health(results: &Results) -> Vec<&Times> {
    let bursts = results.bursts.iter().flatten().map(|burst| &burst.health);
    let others = [
        measured(&results.queued).map(|queued| &queued.health),
        measured(&results.followed).map(|followed| &followed.health),
        measured(&results.alive).map(|alive| &alive.health),
    ];
    bursts.chain(others.into_iter().flatten()).collect()
}

fn goals(results: &Results) -> Table {
    let mut table = Table::new("What was aimed at", &["aim", "", "measured"]);
    let mut add = |aim: &str, number: Option<f64>, good: fn(f64) -> bool, unit: &str| {
        let (mark, text) = match number {
            Some(number) if good(number) => ("reached", format!("{} {unit}", digits(number))),
            Some(number) => ("NOT reached", format!("{} {unit}", digits(number))),
            None => ("-", "not measured".to_owned()),
        };
        table.row([aim.to_owned(), mark.to_owned(), text]);
    };
    let race = measured(&results.race).map_or(&[][..], Vec::as_slice);
    let submit = least_ratio(race, Question::Submit);
    add("a durable submission as fast as the peers' in memory", submit, |n| n >= 1.0, "times");
    let status = least_ratio(race, Question::Status);
    add("a status 5 times faster", status, |n| n >= 5.0, "times");
    let bursts: Vec<&Burst> = results.bursts.iter().flatten().collect();
    let lost = bursts.iter().map(|burst| count(burst.lost)).reduce(f64::max);
    add("no job of a burst lost", lost, |n| n < 1.0, "lost");
    let as_usual = bursts.iter().filter(|burst| burst.places.is_none());
    let speed = median(as_usual.map(|burst| burst.a_second()).collect());
    add("100 complete sandboxed jobs a second", speed, |n| n >= 100.0, "a second");
    let memory = measured(&results.queued).map(|queued| queued.usage.most / 1e6);
    add("below 100 MB with 1,000 waiting jobs", memory, |n| n < 100.0, "MB");
    let health = health(results).into_iter().map(|times| times.p99().as_secs_f64() * 1e3);
    add("p99 of health below 50 ms throughout", health.reduce(f64::max), |n| n < 50.0, "ms");
    table.note(
        "faster: requests a second over those of the faster peer, the lesser of both numbers of \
         connections; jobs a second: the median of the bursts as usual",
    );
    table
}

fn race(outcome: &Result<Vec<Participant>, String>) -> Table {
    let columns = ["", "connections", "a second", "x ours", "p99 ms", "CPU µs each"];
    let mut table = Table::new("1. Submissions and statuses", &columns);
    let participants = match outcome {
        Ok(participants) => participants,
        Err(reason) => {
            table.absent("the race", reason);
            return table;
        }
    };
    for (cell, (question, connections)) in CELLS.iter().enumerate() {
        let ours = score(participants, PRODUCT, cell);
        for Participant { name, .. } in participants {
            let Some(score) = score(participants, name, cell) else { continue };
            let what = match question {
                Question::Submit => "submit",
                Question::Status => "status",
            };
            table.row([
                format!("{what}: {name}"),
                connections.to_string(),
                format!("{:.0}", score.a_second),
                ours.map_or_else(String::new, |ours| digits(score.a_second / ours.a_second)),
                milliseconds(score.p99),
                microseconds(score.cpu),
            ]);
        }
    }
    for Participant { name, outcome } in participants {
        match outcome {
            Ok(scores) => table.note(format!("{name}: {} jobs in the end", scores.jobs)),
            Err(reason) => table.absent(name, reason),
        }
    }
    table.note(
        "medians of the rounds, taken in random order; every connection asks again as soon as it is \
         answered, all from one thread on the same machine; nobody is pinned to a CPU",
    );
    table.note(
        "ours has the job and its first event on disk (SQLite, synchronous=full) before it \
         answers, and checks a token; its one place for a job has one that sleeps, so that nothing \
         else is run meanwhile. The peers have one process each, as a dictionary needs, and no log",
    );
    table
}

fn bursts(bursts: &[Result<Burst, String>]) -> Table {
    let columns = [
        "jobs at once",
        "jobs",
        "lost",
        "jobs/s",
        "whole s",
        "submitted s",
        "submit p99 ms",
        "RSS peak MiB",
        "PSS MiB",
        "health p99 ms",
        "longest",
        "server CPU ms a job",
        "all CPU",
    ];
    let mut table = Table::new("2. A burst of jobs, each one command in a sandbox", &columns);
    for burst in bursts {
        let burst = match burst {
            Ok(burst) => burst,
            Err(reason) => {
                table.absent("a burst", reason);
                continue;
            }
        };
        let each = |time: Duration| milliseconds(time / u32::try_from(burst.jobs).unwrap_or(1));
        table.row([
            burst.at_once().to_owned(),
            burst.jobs.to_string(),
            burst.lost.to_string(),
            digits(burst.a_second()),
            digits(burst.whole.as_secs_f64()),
            digits(burst.submitting.as_secs_f64()),
            milliseconds(burst.submit.p99()),
            mebibytes(burst.usage.most),
            mebibytes(burst.usage.proportional),
            milliseconds(burst.health.p99()),
            milliseconds(burst.health.longest()),
            each(burst.usage.cpu),
            each(burst.machine),
        ]);
    }
    let archives: usize = bursts.iter().flatten().map(|burst| burst.archives).sum();
    table.note(format!("{archives} archives were fetched and hold what the command wrote"));
    table.note(
        "the scripted model runs `echo hi > out.txt`, looks at its exit code and is done: two answers, \
         13 events, a sandbox, a ZIP and an audit trail for each job. Whole: from the first submission \
         until the last job is complete",
    );
    table.note(
        "memory: of the server's process, without the sandboxes; all CPU: of the whole machine, with \
         whoever asks",
    );
    table
}

fn crowds(results: &Results) -> Table {
    let columns =
        ["", "number", "RSS MiB", "peak", "PSS MiB", "health p99 ms", "longest", "samples"];
    let mut table = Table::new("3. Crowds", &columns);
    let cells = |times: &Times| {
        [milliseconds(times.p99()), milliseconds(times.longest()), times.count().to_string()]
    };
    match &results.queued {
        Some(Ok(queued)) => {
            let memory = [queued.usage.resident, queued.usage.most, queued.usage.proportional];
            let row = ["jobs that wait".to_owned(), queued.jobs.to_string()];
            table.row(row.into_iter().chain(memory.map(mebibytes)).chain(cells(&queued.health)));
            let empty = mebibytes(queued.empty.resident);
            table.note(format!("a server that has just started: {empty} MiB (RSS)"));
        }
        Some(Err(reason)) => table.absent("jobs that wait", reason),
        None => {}
    }
    match &results.followed {
        Some(Ok(seen)) => {
            let memory = [seen.after.resident, seen.after.most, seen.after.proportional];
            let row = ["readers".to_owned(), seen.readers.to_string()];
            table.row(row.into_iter().chain(memory.map(mebibytes)).chain(cells(&seen.health)));
            table.note(format!(
                "readers: {READERS} of each of {} jobs, {} of them read nothing at all; {} of the other \
                 {} got every event in order to the end, {} events in all; from an event's time to its \
                 arrival p99 {} ms, at most {} ms ({} that came live); {} MiB (RSS) before",
                seen.jobs,
                seen.slow,
                seen.whole,
                seen.readers - seen.slow,
                seen.events,
                milliseconds(seen.lags.p99()),
                milliseconds(seen.lags.longest()),
                seen.lags.count(),
                mebibytes(seen.before.resident),
            ));
        }
        Some(Err(reason)) => table.absent("readers", reason),
        None => {}
    }
    match &results.alive {
        Some(Ok(alive)) => {
            let memory = [alive.usage.resident, alive.usage.most, alive.usage.proportional];
            let row = ["jobs alive".to_owned(), alive.most.to_string()];
            table.row(row.into_iter().chain(memory.map(mebibytes)).chain(cells(&alive.health)));
            let until = alive.until_all.map_or_else(
                || "not all ran at the same time".to_owned(),
                |time| {
                    format!("all ran {} s after the first submission", digits(time.as_secs_f64()))
                },
            );
            table.note(format!(
                "jobs alive: {} that sleep, counted among the machine's processes; {until}; {} became \
                 complete",
                alive.jobs, alive.complete
            ));
        }
        Some(Err(reason)) => table.absent("jobs alive", reason),
        None => {}
    }
    table.note("memory: of the server's process, without the sandboxes");
    table
}
