//! Jobs: made, listed, shown, forgotten.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use cofferdam_api::{CreateJob, JobPage};
use cofferdam_store::{JobQuery, Status};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::app::App;
use crate::body;
use crate::problem::{CONFLICT, Refusal};
use crate::query::Query;
use crate::request::{Caller, Id, json, nothing};
use crate::show;
use crate::simple::submit;

const PAGE: u64 = 50;
const LARGEST_PAGE: u64 = 200;

/// `POST /api/v1/jobs`.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let asked: CreateJob = body::json(&headers, &bytes)?;
    let id = submit(&app, &caller, &headers, &asked).await?;
    let row = app.store().job(id).await?.ok_or_else(Refusal::no_job)?;
    let job = show::whole_job(&app, &row).await?;
    let mut response = json(StatusCode::ACCEPTED, &job)?;
    if let Ok(location) = HeaderValue::try_from(job.links.this) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// `GET /api/v1/jobs`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = Query::of(query.as_deref(), &["status", "cursor", "limit", "user"])?;
    let statuses = statuses(query.text("status")?)?;
    let before = match query.text("cursor")? {
        Some(text) => {
            Some(text.parse().map_err(|_| Refusal::malformed("this is no cursor of ours"))?)
        }
        None => None,
    };
    let limit = query.number("limit", 1..=LARGEST_PAGE)?.unwrap_or(PAGE);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let user = match query.text("user")? {
        None => Some(caller.0.user.id),
        Some("all") => {
            caller.admin()?;
            None
        }
        Some(_) => return Err(Refusal::malformed("user can only be `all`")),
    };
    // One more tells whether there is another page.
    let asked = JobQuery { user, statuses, before, limit: limit.saturating_add(1) };
    let mut rows = app.store().jobs(asked).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|row| row.id.to_string());
    json(StatusCode::OK, &JobPage { jobs: rows.iter().map(show::job).collect(), next })
}

fn statuses(text: Option<&str>) -> Result<Vec<Status>, Refusal> {
    let names = text.into_iter().flat_map(|text| text.split(','));
    let known = |name: &str| {
        Status::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
            Refusal::malformed(format!("status can be: {}", names.join(", ")))
        })
    };
    names.map(known).collect()
}

/// `GET /api/v1/jobs/{id}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    json(StatusCode::OK, &show::whole_job(&app, &row).await?)
}

/// `DELETE /api/v1/jobs/{id}`.
pub(crate) async fn forget(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    if !row.status.is_over() {
        return Err(Refusal::new(CONFLICT, "the job is not over", "cancel it first"));
    }
    app.fleet.forget(row.id).await?;
    Ok(nothing())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_named_with_commas_between_them() {
        assert_eq!(statuses(None).unwrap(), []);
        assert_eq!(statuses(Some("pending,error")).unwrap(), [Status::Pending, Status::Error]);
        assert_eq!(statuses(Some("done")).unwrap_err().status(), 400);
        assert_eq!(statuses(Some("")).unwrap_err().status(), 400);
    }
}
