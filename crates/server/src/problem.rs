//! Failures, told. Each code has a page in `docs/errors/`.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use cofferdam_api::{PROBLEM_JSON, Problem};
use cofferdam_fleet::{IntakeFailure, OutputError, SubmitError, VisitError};
use cofferdam_guest_protocol::FileError;
use cofferdam_sandbox::{CallError, FilesError};
use cofferdam_store::{BlobError, StoreError};
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, SEC_WEBSOCKET_VERSION, WWW_AUTHENTICATE,
};
use http::{HeaderValue, StatusCode};

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    code: &'static str,
    status: StatusCode,
    title: &'static str,
}

const fn kind(code: &'static str, status: StatusCode, title: &'static str) -> Kind {
    Kind { code, status, title }
}

pub(crate) const MALFORMED: Kind =
    kind("API-001", StatusCode::BAD_REQUEST, "the request makes no sense");
pub(crate) const NO_TOKEN: Kind = kind("API-002", StatusCode::UNAUTHORIZED, "no valid token");
pub(crate) const FORBIDDEN: Kind = kind("API-003", StatusCode::FORBIDDEN, "not allowed");
pub(crate) const MISSING: Kind = kind("API-004", StatusCode::NOT_FOUND, "no such thing");
pub(crate) const METHOD: Kind =
    kind("API-005", StatusCode::METHOD_NOT_ALLOWED, "this cannot be done here");
pub(crate) const SLOW: Kind = kind("API-006", StatusCode::REQUEST_TIMEOUT, "it took too long");
pub(crate) const CONFLICT: Kind = kind("API-007", StatusCode::CONFLICT, "not as things are");
pub(crate) const TOO_BIG: Kind = kind("API-008", StatusCode::PAYLOAD_TOO_LARGE, "too big");
pub(crate) const MEDIA: Kind =
    kind("API-009", StatusCode::UNSUPPORTED_MEDIA_TYPE, "this media type is not taken");
pub(crate) const HOST: Kind =
    kind("API-010", StatusCode::MISDIRECTED_REQUEST, "this server has another name");
pub(crate) const FOREIGN: Kind =
    kind("API-011", StatusCode::FORBIDDEN, "another site may not ask for this");
pub(crate) const UNFIT: Kind =
    kind("API-012", StatusCode::UNPROCESSABLE_ENTITY, "this cannot be done as asked");
pub(crate) const KEY_REUSED: Kind =
    kind("API-013", StatusCode::UNPROCESSABLE_ENTITY, "the idempotency key was used");
pub(crate) const TOO_MANY: Kind =
    kind("API-014", StatusCode::TOO_MANY_REQUESTS, "too many requests");
pub(crate) const INTERNAL: Kind =
    kind("API-015", StatusCode::INTERNAL_SERVER_ERROR, "the server failed");
pub(crate) const UNAVAILABLE: Kind =
    kind("API-016", StatusCode::SERVICE_UNAVAILABLE, "not available now");
pub(crate) const FULL: Kind = kind("API-017", StatusCode::INSUFFICIENT_STORAGE, "there is no room");
pub(crate) const UPGRADE: Kind =
    kind("API-018", StatusCode::UPGRADE_REQUIRED, "this is for WebSockets");
pub(crate) const LONG_URI: Kind =
    kind("API-019", StatusCode::URI_TOO_LONG, "the address is too long");
pub(crate) const NO_NOTEBOOK: Kind =
    kind("API-020", StatusCode::NOT_FOUND, "there is no such notebook");
pub(crate) const BROKEN: Kind =
    kind("API-021", StatusCode::BAD_GATEWAY, "nothing in the sandbox answers this");
pub(crate) const SILENT: Kind =
    kind("API-022", StatusCode::GATEWAY_TIMEOUT, "the sandbox does not answer");

/// Characters of a cause: what is echoed of a request is short.
const LONGEST: usize = 400;

/// A request that is not fulfilled: what failed, why, and what to do.
#[derive(Debug)]
pub(crate) struct Refusal {
    kind: Kind,
    detail: Cow<'static, str>,
    remedy: Cow<'static, str>,
    retry_after: Option<u32>,
}

impl Refusal {
    pub(crate) fn new(
        kind: Kind,
        detail: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, detail: detail.into(), remedy: remedy.into(), retry_after: None }
    }

    /// The same, with the time after which another try may help.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(MALFORMED, detail, "see /api/v1/openapi.json for what is taken")
    }

    /// There is no such job, or it is another user's: nobody can tell which.
    pub(crate) fn no_job() -> Self {
        Self::new(MISSING, "there is no job of this id", "list your jobs: GET /api/v1/jobs")
    }

    pub(crate) fn admins_only() -> Self {
        Self::new(FORBIDDEN, "only admins may do this", "ask an admin, or use an admin's token")
    }

    /// Everything of a kind is in use.
    pub(crate) fn busy(what: &str) -> Self {
        let detail = format!("too many {what} at once");
        Self::new(UNAVAILABLE, detail, "try again in a moment").retry_after(2)
    }

    /// Something that should not be. What it was is in the log alone.
    pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "a request failed");
        let remedy = "try again; if it happens again, look into the server's log";
        Self::new(INTERNAL, "an error that was not foreseen; the log has it", remedy)
    }

    /// The same as a page, for people who came here by a link.
    pub(crate) fn plain(self) -> Response {
        let Problem { title, detail, remedy, code, .. } = self.told();
        let text = format!("{title}\n\n{detail}\n\nWhat to do: {remedy}\n\n({code})\n");
        let mut response = self.into_response();
        *response.body_mut() = Body::from(text);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        crate::headers::add(headers, false);
        response
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.kind.status
    }

    fn told(&self) -> Problem {
        Problem {
            kind: format!("urn:cofferdam:error:{}", self.kind.code),
            title: self.kind.title.to_owned(),
            status: self.kind.status.as_u16(),
            code: self.kind.code.to_owned(),
            detail: cut(&self.detail),
            remedy: cut(&self.remedy),
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some(_) => text.chars().take(LONGEST).chain(['…']).collect(),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.told()).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.kind.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.kind.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.kind == UPGRADE {
            headers.insert(http::header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => {
                tracing::warn!(error = %error, "the store cannot be used");
                let detail = "the database cannot be reached or is too busy";
                Self::new(UNAVAILABLE, detail, "try again in a moment").retry_after(2)
            }
            StoreError::Full(_) => {
                tracing::error!(error = %error, "the store is full");
                let remedy = "make room on the server's disk; nothing was stored";
                Self::new(FULL, "the database has no room", remedy)
            }
            StoreError::Missing(what) => {
                Self::new(MISSING, format!("there is no such {what}"), "check its id")
            }
            StoreError::Taken(what) => Self::new(
                CONFLICT,
                format!("there is already a {what} of this name"),
                "choose another name",
            ),
            error => Self::internal(&error),
        }
    }
}

impl From<SubmitError> for Refusal {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Wish(wish) => Self::new(UNFIT, wish.cause, wish.remedy),
            SubmitError::NoUpload => Self::new(
                UNFIT,
                "there is no such upload",
                "send the files first: POST /api/v1/uploads",
            ),
            SubmitError::KeyReused => Self::new(
                KEY_REUSED,
                "the idempotency key was used for another submission",
                "use a new key for a new job, and the same body for the same one",
            ),
            SubmitError::TooMany { own } => {
                let whose = if own { "of your jobs" } else { "jobs" };
                let detail = format!("too many {whose} wait already");
                Self::new(TOO_MANY, detail, "wait until some are over, or cancel some")
                    .retry_after(5)
            }
            SubmitError::Draining => {
                let remedy = "try again when the server is back";
                Self::new(UNAVAILABLE, "the server is about to stop", remedy).retry_after(10)
            }
            SubmitError::Store(error) => error.into(),
        }
    }
}

impl From<IntakeFailure> for Refusal {
    fn from(error: IntakeFailure) -> Self {
        match error {
            IntakeFailure::Refused(cause) => {
                Self::new(UNFIT, cause, "send a tar, tar.gz, tar.zst or zip of plain files")
            }
            IntakeFailure::TooBig(cause) => Self::new(TOO_BIG, cause, "send less"),
            IntakeFailure::Blob(error) => error.into(),
            IntakeFailure::Store(error) => error.into(),
            IntakeFailure::Disk(cause) => {
                tracing::error!(error = %cause, "an archive could not be kept");
                Self::new(FULL, "the archive could not be kept", "make room on the server's disk")
            }
        }
    }
}

impl From<BlobError> for Refusal {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Full(_) => {
                Self::new(FULL, "there is no room for files", "make room on the server's disk")
            }
            BlobError::Place { .. } => {
                tracing::warn!(error = %error, "blobs cannot be used");
                let detail = "the place for big files cannot be used";
                Self::new(UNAVAILABLE, detail, "try again in a moment").retry_after(2)
            }
            BlobError::Missing(_) => {
                tracing::warn!(error = %error, "something kept is not here");
                let detail = "it is kept on another server, or is lost";
                let remedy = "ask the server that ended the job; servers with one database need \
                              one place for files: start them with --artifacts";
                Self::new(CONFLICT, detail, remedy)
            }
            error => Self::internal(&error),
        }
    }
}

impl From<VisitError> for Refusal {
    fn from(error: VisitError) -> Self {
        let remedy = match &error {
            VisitError::NotNow => "try again when the job is running",
            VisitError::Over => "look at its files, download its output, or resume it",
            VisitError::Elsewhere | VisitError::NotHere => "ask the server that has it",
            VisitError::Sandbox(cause) => {
                tracing::warn!(error = %cause, "a sandbox for a look could not be made");
                let detail = "a sandbox to look at the files in could not be made";
                return Self::new(UNAVAILABLE, detail, "run `cofferdam doctor` on the server")
                    .retry_after(5);
            }
        };
        Self::new(CONFLICT, error.to_string(), remedy)
    }
}

impl From<OutputError> for Refusal {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Visit(error) => error.into(),
            OutputError::Blob(error) => error.into(),
            OutputError::Store(error) => error.into(),
        }
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotStarted { .. } => Self::new(
                UNFIT,
                error.to_string(),
                "check the name of the program and the directory",
            ),
            CallError::Encode(_) => Self::new(TOO_BIG, error.to_string(), "ask for less at once"),
            CallError::Refused(_) => Self::new(UNAVAILABLE, error.to_string(), "try again later"),
            error => {
                let remedy = "try again; the job may be about to end";
                Self::new(UNAVAILABLE, error.to_string(), remedy).retry_after(2)
            }
        }
    }
}

impl From<FilesError> for Refusal {
    fn from(error: FilesError) -> Self {
        let told = error.to_string();
        match error {
            FilesError::File(FileError::NotFound) => {
                Self::new(MISSING, told, "list the directory: GET /api/v1/jobs/{id}/files")
            }
            FilesError::File(FileError::Outside) => {
                Self::new(FORBIDDEN, told, "name a path in the workspace")
            }
            FilesError::File(FileError::Denied) => {
                Self::new(FORBIDDEN, told, "change the file's permissions: POST .../exec")
            }
            FilesError::File(FileError::TooLarge { .. }) | FilesError::TooMuch { .. } => {
                Self::new(TOO_BIG, told, "ask for less at once")
            }
            FilesError::File(FileError::NoSpace) => {
                Self::new(FULL, told, "delete something, or give the job more with `disk`")
            }
            FilesError::File(FileError::NotFile) => {
                Self::new(CONFLICT, told, "name a regular file")
            }
            FilesError::File(FileError::NotDirectory) => {
                Self::new(CONFLICT, told, "name a directory")
            }
            FilesError::File(FileError::NotEmpty) => {
                Self::new(CONFLICT, told, "say recursive=true to delete it with what is in it")
            }
            FilesError::File(FileError::Exists) => {
                Self::new(CONFLICT, told, "choose another name, or say overwrite")
            }
            FilesError::File(_) => Self::new(CONFLICT, told, "look at the file and try again"),
            FilesError::Call(error) => error.into(),
            FilesError::Source(error) => crate::body::told(&error),
            FilesError::Record(error) => Self::internal(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_echoed_of_a_request_is_short() {
        let refusal = Refusal::malformed(format!("unknown field `{}`", "k".repeat(1 << 20)));
        assert!(serde_json::to_vec(&refusal.told()).unwrap().len() < 1200);
    }

    #[test]
    fn a_refusal_is_told_by_the_rfc_with_a_code_and_a_remedy() {
        let refusal = Refusal::new(TOO_MANY, "why", "what to do").retry_after(7);
        let told = serde_json::to_value(refusal.told()).unwrap();
        assert_eq!(
            told,
            serde_json::json!({
                "type": "urn:cofferdam:error:API-014",
                "title": "too many requests",
                "status": 429,
                "code": "API-014",
                "detail": "why",
                "remedy": "what to do",
            })
        );
        let response = refusal.into_response();
        assert_eq!(response.headers()["retry-after"], "7");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }

    #[test]
    fn store_errors_have_their_own_statuses() {
        let status = |error: StoreError| Refusal::from(error).status().as_u16();
        assert_eq!(status(StoreError::Unavailable("x".to_owned())), 503);
        assert_eq!(status(StoreError::Full("x".to_owned())), 507);
        assert_eq!(status(StoreError::Missing("user")), 404);
        assert_eq!(status(StoreError::Taken("user")), 409);
        assert_eq!(status(StoreError::Broken("x".to_owned())), 500);
    }

    #[test]
    fn a_blob_that_is_not_here_is_no_failure_of_the_server() {
        let key = cofferdam_store::BlobKey::of(&["jobs", "secret"]).unwrap();
        let refusal = Refusal::from(BlobError::Missing(key));
        assert_eq!(refusal.status(), 409);
        let told = serde_json::to_string(&refusal.told()).unwrap();
        assert!(told.contains("--artifacts") && !told.contains("secret"), "{told}");
    }

    #[test]
    fn a_store_error_says_nothing_of_the_machine() {
        let refusal = Refusal::from(StoreError::Broken("/srv/secret/db".to_owned()));
        assert!(!serde_json::to_string(&refusal.told()).unwrap().contains("secret"));
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let source = include_str!("problem.rs");
        let mut used: Vec<String> = source
            .lines()
            .filter_map(|line| line.split_once("kind(\"API-"))
            .filter_map(|(_, rest)| rest.split('"').next())
            .map(|number| format!("API-{number}"))
            .collect();
        used.sort();
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if name.starts_with("API-") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(text.starts_with(&format!("# {name}: ")), "{}", path.display());
                pages.push(name);
            }
        }
        pages.sort();
        assert_eq!(used, pages);
        assert_eq!(used.len(), 22);
    }
}
