//! A crowd: many sandboxes at once, many one after the other, and nothing left
//! of them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

use super::Setting;
use super::leftovers::{Before, Leftovers};
use super::library::{AT_A_TIME, run_true};
use super::report::{Table, digits, milliseconds};

/// Measures and tells. `false` if something was left behind.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<(Table, bool)> {
    let mut table = Table::new("4. A crowd", &["step", "total s", "each ms", "a second"]);
    let before = Before::look();
    let mut ids = HashSet::new();
    at_once(setting, &mut table, &mut ids)?;
    for at_a_time in [1, AT_A_TIME] {
        in_turn(setting, at_a_time, &mut table, &mut ids)?;
    }
    let left = before.compare(setting.library.home(), &ids);
    table.note(told(&left, ids.len()));
    Ok((table, left.things.is_empty()))
}

fn at_once(setting: &Setting, table: &mut Table, ids: &mut HashSet<String>) -> anyhow::Result<()> {
    let library = &setting.library;
    let count = setting.scale.crowd;
    let start = Instant::now();
    let sandboxes = library.open_many(count)?;
    row(table, &format!("{count} made, {AT_A_TIME} at a time"), start.elapsed(), count);
    ids.extend(sandboxes.iter().map(|sandbox| sandbox.id().to_string()));
    let start = Instant::now();
    library.each(AT_A_TIME, &sandboxes, |sandbox| run_true(sandbox).boxed_local())?;
    row(table, "`true` in each", start.elapsed(), count);
    let start = Instant::now();
    library.close_all(sandboxes)?;
    row(table, "all closed", start.elapsed(), count);
    Ok(())
}

fn in_turn(
    setting: &Setting,
    at_a_time: usize,
    table: &mut Table,
    ids: &mut HashSet<String>,
) -> anyhow::Result<()> {
    let library = &setting.library;
    let count = setting.scale.turnover;
    let start = Instant::now();
    let closed = library.each(at_a_time, 0..count, |_| {
        async {
            let sandbox = library.open().await?;
            let id = sandbox.id().to_string();
            sandbox.close().await?;
            Ok(id)
        }
        .boxed_local()
    })?;
    ids.extend(closed);
    let how = if at_a_time == 1 { "in turn".to_owned() } else { format!("{at_a_time} at a time") };
    row(table, &format!("{count} made and closed, {how}"), start.elapsed(), count);
    Ok(())
}

fn row(table: &mut Table, step: &str, taken: Duration, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
    table.row([
        step.to_owned(),
        digits(taken.as_secs_f64()),
        milliseconds(taken / count),
        digits(f64::from(count) / taken.as_secs_f64()),
    ]);
}

fn told(left: &Leftovers, sandboxes: usize) -> String {
    let what = match left.things.as_slice() {
        [] => "nothing (no directory, control group, process or mount)".to_owned(),
        things => things.join(", "),
    };
    let networks = match left.new_networks {
        0 => "no network namespace that was not there before".to_owned(),
        count => format!("{count} network namespaces that were not there before, perhaps others'"),
    };
    format!("left of {sandboxes} sandboxes: {what}; {networks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told() {
        let left = Leftovers { things: vec!["directories: 3".to_owned()], new_networks: 0 };
        assert_eq!(
            told(&left, 7),
            "left of 7 sandboxes: directories: 3; no network namespace that was not there before"
        );
        assert!(told(&Leftovers::default(), 7).contains("nothing"));
    }
}
