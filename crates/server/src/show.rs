//! Rows of the store, as the API shows them.

use cofferdam_api as api;
use cofferdam_store::{JobRow, Status, TokenRow, UserRow};
use cofferdam_types::{Ending, Event, JobSpec, Record};

use crate::app::App;
use crate::moment;
use crate::problem::Refusal;

/// A job as lists show it.
pub(crate) fn job(row: &JobRow) -> api::Job {
    let id = row.id;
    let this = format!("{}/jobs/{id}", api::PREFIX);
    let (verified, summary) = match &row.ending {
        Some(Ending::Complete { summary, verified }) => (Some(*verified), Some(summary.clone())),
        Some(Ending::Unverified { summary }) => (None, Some(summary.clone())),
        _ => (None, None),
    };
    let tokens = row.spent.tokens;
    api::Job {
        id,
        user: row.user.to_string(),
        title: row.title.clone(),
        task: None,
        status: status(row.status),
        paused: row.paused,
        ending: row.ending.as_ref().map(ending),
        verified,
        summary,
        error: error(row),
        created: moment::text(row.created),
        started: row.started.map(moment::text),
        ended: row.ended.map(moment::text),
        priority: row.priority,
        model: None,
        coder: None,
        summariser: None,
        checks: None,
        network: None,
        upload: row.upload.map(|upload| upload.to_string()),
        turns: row.spent.turns,
        tokens: tokens.total(),
        tokens_read: Some(tokens.read()),
        // Nothing written to a cache and nothing read from it: nobody has said.
        tokens_cached: (tokens.cache_read > 0 || tokens.cache_write > 0)
            .then_some(tokens.cache_read),
        cost: row.spent.cost,
        time_ms: u64::try_from(row.spent.time.as_millis()).unwrap_or(u64::MAX),
        last_event: row.last_seq,
        result: result(row),
        links: api::JobLinks {
            events: format!("{this}/events"),
            output: format!("{this}/output.zip"),
            files: format!("{this}/files"),
            this,
        },
    }
}

/// A job, with what was asked for.
pub(crate) async fn whole_job(app: &App, row: &JobRow) -> Result<api::Job, Refusal> {
    let spec = spec(app, row).await?;
    Ok(api::Job {
        model: Some(spec.orchestrator.to_string()),
        coder: Some(spec.coder.to_string()),
        summariser: spec.summariser.map(|name| name.to_string()),
        network: Some(spec.place.network.to_string()),
        checks: Some(spec.checks),
        task: Some(spec.task),
        ..job(row)
    })
}

/// What was asked for: a job's first event says it.
pub(crate) async fn spec(app: &App, row: &JobRow) -> Result<JobSpec, Refusal> {
    let first = app.store().events(row.id, 0, 1).await?;
    let record = first.first().map(|line| serde_json::from_str::<Record>(&line.text));
    match record {
        Some(Ok(Record { event: Event::Created { spec }, .. })) => Ok(*spec),
        Some(Err(error)) => Err(Refusal::internal(&error)),
        // The job was forgotten meanwhile.
        _ => Err(Refusal::no_job()),
    }
}

/// What a job is at.
pub(crate) fn status_report(row: &JobRow) -> api::StatusReport {
    api::StatusReport {
        job_id: row.id,
        status: status(row.status),
        paused: row.paused,
        verified: match &row.ending {
            Some(Ending::Complete { verified, .. }) => Some(*verified),
            _ => None,
        },
        result: result(row),
        error: error(row),
        created: moment::text(row.created),
        started: row.started.map(moment::text),
        ended: row.ended.map(moment::text),
    }
}

/// Where the project is, once the job is complete.
fn result(row: &JobRow) -> Option<String> {
    (row.status == Status::Complete).then(|| format!("/jobs/{}/output.zip", row.id))
}

/// Why the job ended in an error, if it did.
fn error(row: &JobRow) -> Option<String> {
    if row.status != Status::Error {
        return None;
    }
    Some(match &row.ending {
        Some(Ending::Unverified { .. }) => {
            "the model says that the work is done, and the checks say that it is not".to_owned()
        }
        Some(Ending::Failed { reason }) => reason.clone(),
        Some(Ending::LimitReached { limit }) => format!("the limit on {limit} was reached"),
        Some(Ending::ModelUnavailable { reason }) => {
            format!("the model could not be reached, or refused: {reason}")
        }
        Some(Ending::SandboxUnavailable { reason }) => {
            format!("there was no sandbox to work in: {reason}")
        }
        Some(Ending::Complete { .. } | Ending::Cancelled { .. }) | None => {
            "it ended without saying why".to_owned()
        }
    })
}

fn status(status: Status) -> api::JobStatus {
    match status {
        Status::Pending => api::JobStatus::Pending,
        Status::Running => api::JobStatus::Running,
        Status::Complete => api::JobStatus::Complete,
        Status::Error => api::JobStatus::Error,
        Status::Cancelled => api::JobStatus::Cancelled,
    }
}

fn ending(ending: &Ending) -> api::Ending {
    match ending {
        Ending::Complete { .. } => api::Ending::Complete,
        Ending::Unverified { .. } => api::Ending::Unverified,
        Ending::Failed { .. } => api::Ending::Failed,
        Ending::LimitReached { .. } => api::Ending::LimitReached,
        Ending::ModelUnavailable { .. } => api::Ending::ModelUnavailable,
        Ending::SandboxUnavailable { .. } => api::Ending::SandboxUnavailable,
        Ending::Cancelled { .. } => api::Ending::Cancelled,
    }
}

/// A user.
pub(crate) fn user(row: &UserRow) -> api::User {
    api::User {
        id: row.id.to_string(),
        name: row.name.clone(),
        admin: row.admin,
        created: moment::text(row.created),
    }
}

/// A token, without its secret.
pub(crate) fn token(row: &TokenRow) -> api::Token {
    api::Token {
        id: row.id.to_string(),
        user: row.user.to_string(),
        label: row.label.clone(),
        created: moment::text(row.created),
        expires: row.expires.map(moment::text),
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_store::UserId;
    use cofferdam_types::{JobId, Limit, Spent, Timestamp};
    use serde_json::json;

    use super::*;

    fn row(status: Status, ending: Option<Ending>) -> JobRow {
        JobRow {
            id: "019a0000-0000-7000-8000-000000000001".parse::<JobId>().unwrap(),
            user: "019a0000-0000-7000-8000-000000000002".parse::<UserId>().unwrap(),
            title: "x".to_owned(),
            status,
            paused: false,
            priority: 0,
            created: Timestamp(0),
            started: None,
            ended: None,
            ending,
            spent: Spent::default(),
            last_seq: 1,
            upload: None,
            node: None,
            epoch: 0,
        }
    }

    #[test]
    fn a_status_has_a_result_only_when_it_is_complete() {
        let complete = Ending::Complete { summary: "s".to_owned(), verified: true };
        let told = status_report(&row(Status::Complete, Some(complete)));
        assert_eq!(
            serde_json::to_value(told).unwrap(),
            json!({
                "job_id": "019a0000-0000-7000-8000-000000000001",
                "status": "complete",
                "paused": false,
                "verified": true,
                "result": "/jobs/019a0000-0000-7000-8000-000000000001/output.zip",
                "created": "1970-01-01T00:00:00Z",
            })
        );
        let told = status_report(&row(Status::Pending, None));
        assert_eq!((told.result, told.error), (None, None));
    }

    #[test]
    fn what_was_cached_is_told_only_where_a_provider_has_said() {
        let told = |cache_read, cache_write| {
            let mut row = row(Status::Complete, None);
            let (input, output) = (100, 10);
            row.spent.tokens = cofferdam_types::Tokens { input, cache_read, cache_write, output };
            let job = job(&row);
            (job.tokens, job.tokens_read, job.tokens_cached)
        };
        assert_eq!(told(0, 0), (110, Some(100), None));
        assert_eq!(told(0, 50), (160, Some(150), Some(0)));
        assert_eq!(told(300, 50), (460, Some(450), Some(300)));
    }

    #[test]
    fn a_status_has_an_error_only_when_it_is_one() {
        let ending = Ending::LimitReached { limit: Limit::Turns };
        let told = status_report(&row(Status::Error, Some(ending)));
        assert_eq!(told.error.as_deref(), Some("the limit on turns was reached"));
        assert_eq!(told.result, None);
        let cancelled = Ending::Cancelled { by: cofferdam_types::Cancel::User };
        assert_eq!(status_report(&row(Status::Cancelled, Some(cancelled))).error, None);
    }
}
