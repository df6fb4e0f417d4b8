//! `cofferdam list`.

use std::collections::HashMap;

use clap::Args;
use cofferdam_api::{Job, JobStatus};
use cofferdam_client::JobQuery;
use jiff::Timestamp;

use super::access::ServerOptions;
use super::table::{Table, stdout_width};
use super::which::PAGE;
use super::{Failed, print, print_json, problem};
use crate::streams::{self, Writer};
use crate::{Product, exit};

/// The options of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Only jobs at one of these: pending, running, complete, error, cancelled
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<JobStatus>,
    /// How many at most
    #[arg(
        long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=100_000),
    )]
    limit: u32,
    /// The jobs of every user; for admins
    #[arg(long)]
    all: bool,
    /// Print one JSON object a line for each job
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

fn status(text: &str) -> Result<JobStatus, String> {
    use JobStatus::{Cancelled, Complete, Error, Pending, Running};
    let all = [Pending, Running, Complete, Error, Cancelled];
    all.into_iter().find(|status| status.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|status| status.name()).collect();
        format!("use one of: {}", names.join(", "))
    })
}

pub(crate) async fn run(
    product: &Product,
    arguments: &ListArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let client = arguments.server.client(product)?;
    let mut query = JobQuery {
        statuses: arguments.status.clone(),
        of_everybody: arguments.all,
        ..JobQuery::default()
    };
    let mut jobs = Vec::new();
    let mut left = arguments.limit;
    while left > 0 {
        query.limit = Some(left.min(PAGE));
        let page = client.jobs(&query).await.map_err(problem::failed)?;
        // A server that answers more than it is asked for is not believed.
        let taken = page.jobs.into_iter().take(left as usize);
        let before = jobs.len();
        jobs.extend(taken);
        left = left.saturating_sub(u32::try_from(jobs.len() - before).unwrap_or(u32::MAX));
        query.cursor = page.next;
        if query.cursor.is_none() || jobs.len() == before {
            break;
        }
    }
    if arguments.json {
        for job in &jobs {
            print_json(out, job).await;
        }
        return Ok(0);
    }
    if jobs.is_empty() {
        streams::tell("There are no jobs.");
        return Ok(0);
    }
    let names = if arguments.all {
        let users = client.users().await.map_err(problem::failed)?.users;
        Some(users.into_iter().map(|user| (user.id, user.name)).collect())
    } else {
        None
    };
    let table = table(&jobs, names.as_ref(), Timestamp::now());
    print(out, &table.text(stdout_width())).await;
    if query.cursor.is_some() {
        streams::tell(&format!(
            "There are more; see --limit. These are the newest {}.",
            jobs.len()
        ));
    }
    Ok(exit::told(None))
}

fn table(jobs: &[Job], names: Option<&HashMap<String, String>>, now: Timestamp) -> Table {
    let mut table = match names {
        Some(_) => Table::new(["ID", "STATUS", "AGE", "USER", "TITLE"]),
        None => Table::new(["ID", "STATUS", "AGE", "TITLE"]),
    };
    for job in jobs {
        let state = if job.paused { "paused" } else { job.status.name() };
        let mut cells = vec![job.id.to_string(), state.to_owned(), age(&job.created, now)];
        if let Some(names) = names {
            cells.push(names.get(&job.user).unwrap_or(&job.user).clone());
        }
        cells.push(job.title.clone());
        table.row(cells);
    }
    table
}

/// How long ago a moment was, in one unit.
pub(crate) fn age(moment: &str, now: Timestamp) -> String {
    let Ok(moment) = moment.parse::<Timestamp>() else { return "?".to_owned() };
    let seconds = now.duration_since(moment).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        for (moment, expected) in [
            ("2026-11-16T11:59:58.5Z", "1s"),
            ("2026-11-16T11:01:00Z", "59m"),
            ("2026-11-16T00:00:00Z", "12h"),
            ("2026-11-01T00:00:00Z", "15d"),
            ("2026-11-16T13:00:00Z", "0s"),
            ("soon", "?"),
        ] {
            assert_eq!(age(moment, now), expected, "{moment}");
        }
    }

    #[test]
    fn a_status_is_one_of_five() {
        assert_eq!(status("running"), Ok(JobStatus::Running));
        assert!(status("paused").unwrap_err().contains("pending, running"));
    }
}
