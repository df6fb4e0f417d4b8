//! What handlers take out of a request, and how they answer in JSON.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::response::Response;
use cofferdam_store::{Principal, TokenHash};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::app::App;
use crate::problem::Refusal;

/// Who sent the request, and by which token, hashed. The gate has put it there.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Arc<Principal>, pub(crate) TokenHash);

impl Caller {
    /// Goes on only for admins.
    pub(crate) fn admin(&self) -> Result<(), Refusal> {
        if self.0.user.admin { Ok(()) } else { Err(Refusal::admins_only()) }
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Refusal> {
        let missing = || Refusal::internal(&"a route without a caller asked for one");
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

/// The `{id}` of the route.
pub(crate) struct Id(pub(crate) String);

impl FromRequestParts<Arc<App>> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        // What is not even text names nothing.
        let parameters = RawPathParams::from_request_parts(parts, app).await;
        let parameters = parameters.map_err(|_| Refusal::no_job())?;
        let id = parameters.iter().find(|(name, _)| *name == "id");
        id.map(|(_, id)| Self(id.to_owned())).ok_or_else(Refusal::no_job)
    }
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Refusal> {
    let bytes = serde_json::to_vec(value).map_err(|error| Refusal::internal(&error))?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// An answer without a body.
pub(crate) fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
