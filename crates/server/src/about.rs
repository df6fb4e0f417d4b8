//! The server itself.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use cofferdam_api::{Health, ModelList, Ready, Version};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use crate::app::App;
use crate::meters::OPEN_METRICS;
use crate::problem::Refusal;
use crate::request::{Caller, json};

/// `GET /health`: asks nobody, so that it tells of this process alone.
pub(crate) async fn health() -> Result<Response, Refusal> {
    json(StatusCode::OK, &Health { status: "ok".to_owned() })
}

/// `GET /api/v1/ready`.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let load = app.fleet.load();
    let reason = if load.draining || app.stopping.is_cancelled() {
        Some("the server is about to stop")
    } else if app.store().about().await.is_err() {
        Some("the database cannot be used")
    } else {
        None
    };
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let ready = Ready {
        ready: reason.is_none(),
        reason: reason.map(str::to_owned),
        running: load.running,
        capacity: load.capacity,
    };
    json(status, &ready)
}

/// `GET /api/v1/version`.
pub(crate) async fn version(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Response, Refusal> {
    let about = if caller.0.user.admin { Some(app.store().about().await?) } else { None };
    let version = Version {
        name: "cofferdam".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api: "v1".to_owned(),
        log: cofferdam_types::LOG_VERSION,
        database: about.as_ref().map(|about| format!("{} {}", about.engine, about.version)),
        database_settings: about.map(|about| about.settings.into_iter().collect()),
    };
    json(StatusCode::OK, &version)
}

/// `GET /api/v1/models`.
pub(crate) async fn models(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    json(StatusCode::OK, &ModelList { models: app.fleet.outfit().model_names() })
}

/// `GET /api/v1/metrics`.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let counts = app.store().counts(None).await?;
    let text = app.meters.text(counts, app.fleet.load());
    let text = text.map_err(|error| Refusal::internal(&error))?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
    Ok(response)
}
