//! Which job is meant: by its id, the beginning or end of that, or as the last.

use clap::Args;
use cofferdam_client::{Client, JobQuery};
use cofferdam_types::JobId;

use super::{Failed, problem};
use crate::exit;

/// Jobs of one page.
pub(crate) const PAGE: u32 = 200;

/// Pages that are looked through for a short name.
const MOST_PAGES: u32 = 25;

/// A job.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The job: its id, or the beginning or end of it
    #[arg(value_name = "ID", required_unless_present = "last")]
    pub(super) id: Option<String>,
    /// The job that you submitted last
    #[arg(long, conflicts_with = "id")]
    last: bool,
}

impl Which {
    pub(crate) async fn find(&self, client: &Client) -> Result<JobId, Failed> {
        find(client, self.id.as_deref()).await
    }
}

/// The job of this name; without one, the last.
pub(crate) async fn find(client: &Client, name: Option<&str>) -> Result<JobId, Failed> {
    let usage = |problem| (problem, exit::USAGE);
    let Some(name) = name else {
        let query = JobQuery { limit: Some(1), ..JobQuery::default() };
        let page = client.jobs(&query).await.map_err(problem::failed)?;
        return page.jobs.first().map(|job| job.id).ok_or_else(|| usage(problem::no_jobs()));
    };
    let name = name.trim().to_ascii_lowercase();
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let possible = |character: char| character.is_ascii_hexdigit() || character == '-';
    if name.is_empty() || !name.chars().all(possible) {
        return Err(usage(problem::no_job(&name)));
    }
    let mut found = Vec::new();
    let mut query = JobQuery { limit: Some(PAGE), ..JobQuery::default() };
    for _ in 0..MOST_PAGES {
        let page = client.jobs(&query).await.map_err(problem::failed)?;
        found.extend(page.jobs.iter().map(|job| job.id).filter(|id| is_called(*id, &name)));
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    match &found[..] {
        [] => Err(usage(problem::no_job(&name))),
        [job] => Ok(*job),
        several => Err(usage(problem::several_jobs(&name, several))),
    }
}

fn is_called(job: JobId, name: &str) -> bool {
    let id = job.to_string();
    id.starts_with(name) || id.ends_with(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_called_by_the_beginning_and_the_end_of_its_id() {
        let job: JobId = "019a0000-1111-7000-8000-00000000abcd".parse().unwrap();
        for name in ["019a0000-1111-7", "0", "abcd", "019a0000-1111-7000-8000-00000000abcd"] {
            assert!(is_called(job, name), "{name}");
        }
        for name in ["1111", "abc", "x"] {
            assert!(!is_called(job, name), "{name}");
        }
    }
}
