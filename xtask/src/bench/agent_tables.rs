//! The agent's report: what was measured, as tables.

use std::time::Duration;

use cofferdam_testkit::Dialect;

use super::agent::{Participant, Results, SHELL_TURNS, Seen};
use super::agent_contender::{OTHERS, why_not};
use super::agent_trial::Trial;
use super::report::{Table, digits, milliseconds};
use super::sample::Samples;

/// All tables, in the order of the report.
pub(super) fn all(results: &Results) -> [Table; 3] {
    [time(results), size(results), openings(results)]
}

fn time(results: &Results) -> Table {
    let shell = format!("{SHELL_TURNS} turns ms");
    let columns = [
        "no model latency",
        "first request ms",
        "p95",
        "start-up ms",
        "p95",
        &shell,
        "p95",
        "a turn ms",
        "gap ms",
        "p95",
        "samples",
    ];
    let mut table = Table::new("1. Time", &columns);
    for Participant { name, agent, seen } in &results.participants {
        match (agent, times(&seen.borrow())) {
            (Ok(_), Some(cells)) => {
                table.row([(*name).to_owned()].into_iter().chain(cells));
            }
            (Ok(_), None) => table.absent(name, "it failed, see below"),
            (Err(reason), _) => table.absent(name, reason),
        }
    }
    for (name, program, elsewhere) in OTHERS {
        table.absent(name, &why_not(program));
        table.note(format!("measured elsewhere, on a comparable but busy machine: {elsewhere}"));
    }
    for finish in &results.finishes.all {
        if let Err(reason) = &finish.times {
            table.note(format!("{} failed: {reason}", finish.name));
        }
    }
    table.note("first request: from the program's start until the server has read it");
    table.note("start-up: a whole run in which the model says one sentence, to the program's end");
    table.note(format!(
        "a turn: one call of bash, `echo`; ({SHELL_TURNS} turns - start-up) / {SHELL_TURNS}, of the \
         medians"
    ));
    let server = results.server.as_ref().map_or_else(
        || "-".to_owned(),
        |times| {
            format!("{} ms, p95 {} ms", milliseconds(times.median()), milliseconds(times.p95()))
        },
    );
    table.note(format!(
        "gap: from one request to the next within the {SHELL_TURNS} turns. The server's own time is \
         in it; with the longest request and a client that does nothing it is {server}"
    ));
    table.note(format!(
        "{} runs in random order, {} of them while something else ran",
        results.finishes.turns, results.finishes.disturbed
    ));
    table
}

/// The cells of an agent's times.
fn times(seen: &Seen) -> Option<Vec<String>> {
    let samples = |trials: &[Trial], what: fn(&Trial) -> Duration| {
        Samples::of(trials.iter().map(what).collect())
    };
    let first = samples(&seen.start, |trial| trial.first)?;
    let start = samples(&seen.start, |trial| trial.whole)?;
    let shell = samples(&seen.shell, |trial| trial.whole)?;
    let gaps = Samples::of(seen.shell.iter().flat_map(|trial| trial.gaps.clone()).collect())?;
    let turn = shell.median().saturating_sub(start.median()) / SHELL_TURNS;
    let mut cells: Vec<String> = [first, start.clone(), shell]
        .iter()
        .flat_map(|times| [milliseconds(times.median()), milliseconds(times.p95())])
        .collect();
    cells.push(milliseconds(turn));
    cells.extend([milliseconds(gaps.median()), milliseconds(gaps.p95())]);
    cells.push(start.count().to_string());
    Some(cells)
}

fn size(results: &Results) -> Table {
    let columns =
        ["no model latency", "PSS peak MiB", "processes", "looks", "four sleeps s", "slowest s"];
    let mut table = Table::new("2. Memory, and four `sleep 1` in one answer", &columns);
    for Participant { name, agent, seen } in &results.participants {
        if let Err(reason) = agent {
            table.absent(name, reason);
            continue;
        }
        let seen = seen.borrow();
        let memory = seen.memory.iter().map(|trial| trial.memory);
        let memory = memory.max_by(|one, other| one.bytes.total_cmp(&other.bytes));
        let memory = memory.unwrap_or_default();
        let sleeps = seen.sleeps.iter().flat_map(|trial| trial.gaps.clone()).collect();
        let sleeps = Samples::of(sleeps);
        let seconds = |time: fn(&Samples) -> Duration| {
            sleeps.as_ref().map_or_else(|| "-".to_owned(), |all| digits(time(all).as_secs_f64()))
        };
        table.row([
            (*name).to_owned(),
            digits(memory.bytes / f64::from(1 << 20)),
            memory.processes.to_string(),
            memory.looks.to_string(),
            seconds(Samples::median),
            seconds(Samples::p95),
        ]);
    }
    table.note(format!(
        "PSS by smaps_rollup of the program and everything below it (supervisor, sandbox, commands), \
         the most at any look during {SHELL_TURNS} shell turns; processes: at that look"
    ));
    table.note("four sleeps: from the request before the answer with the calls to the next one");
    table
}

fn openings(results: &Results) -> Table {
    let mut table = Table::new("3. The first request", &["wire", "bytes"]);
    for (dialect, bytes) in &results.openings {
        let name = match dialect {
            Dialect::Messages => "cofferdam run, Anthropic Messages",
            Dialect::Responses => "cofferdam run, OpenAI Responses",
            Dialect::Chat => "cofferdam run, OpenAI Chat Completions",
        };
        table.row([name.to_owned(), bytes.to_string()]);
    }
    for Participant { name, seen, .. } in results.participants.iter().skip(1) {
        if let Some(trial) = seen.borrow().start.first() {
            table.row([format!("{name}, Messages"), trial.opening.len().to_string()]);
        }
    }
    table.note("the body: instructions, tools and the task, without the head of the HTTP request");
    table
}
