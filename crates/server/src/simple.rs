//! The endpoints that most people need: schedule and status.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use cofferdam_api::{CreateJob, Scheduled};
use cofferdam_types::JobId;
use http::{HeaderMap, StatusCode};

use crate::app::App;
use crate::body;
use crate::problem::{KEY_REUSED, Refusal};
use crate::request::{Caller, Id, json};
use crate::show;
use crate::wish::{idempotency, wish};

/// `POST /schedule`, `POST /submit`.
pub(crate) async fn schedule(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let asked = if body::media_type(&headers).eq_ignore_ascii_case("text/plain") {
        let text = std::str::from_utf8(&bytes);
        CreateJob::task(text.map_err(|_| Refusal::malformed("the task is not UTF-8"))?)
    } else if body::media_type(&headers).eq_ignore_ascii_case("application/json") {
        body::json(&headers, &bytes)?
    } else {
        return Err(body::wrong_media("application/json` or `Content-Type: text/plain"));
    };
    let job_id = submit(&app, &caller, &headers, &asked).await?;
    json(StatusCode::ACCEPTED, &Scheduled { job_id })
}

/// Hands a job to the fleet.
pub(crate) async fn submit(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    asked: &CreateJob,
) -> Result<JobId, Refusal> {
    let wish = wish(asked, &caller.0)?;
    let idempotency = idempotency(headers, asked)?;
    let key = idempotency.as_ref().map(|idempotency| idempotency.key.clone());
    let job = app.fleet.submit(caller.0.user.id, wish, idempotency).await?;
    if let Some(key) = key
        && app.store().job(job).await?.is_none()
    {
        let detail = format!("the job of the idempotency key `{key}` was deleted");
        return Err(Refusal::new(KEY_REUSED, detail, "use a new key for a new job"));
    }
    Ok(job)
}

/// `GET /status/{id}`.
pub(crate) async fn status(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    json(StatusCode::OK, &show::status_report(&row))
}
