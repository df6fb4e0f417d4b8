//! One request and its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cofferdam_api::{PROBLEM_JSON, Problem};
use cofferdam_types::{Redacted, error_chain};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION, RETRY_AFTER, USER_AGENT,
};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::Address;
use crate::connect::{Body, Connection, open};
use crate::error::ClientError;
use crate::patience::Patience;
use crate::upload::UploadFile;

/// Bytes of an answer in JSON.
const LONGEST_JSON: usize = 64 << 20;
/// Bytes of a refusal that are read.
const LONGEST_REFUSAL: usize = 64 << 10;
/// Characters of foreign text that are shown.
const LONGEST_QUOTE: usize = 200;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
    pub(crate) content: Content,
}

/// What goes with it.
#[derive(Debug)]
pub(crate) enum Content {
    Nothing,
    Json(Bytes),
    File(UploadFile),
}

impl Ask {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let (path, content) = (path.into(), Content::Nothing);
        Self { method, path, accept: "application/json", header: None, content }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn with(mut self, content: Content) -> Self {
        self.content = content;
        self
    }
}

/// Sends requests to one server.
#[derive(Debug)]
pub(crate) struct Transport {
    address: Address,
    headers: HeaderMap,
    patience: Patience,
}

impl Transport {
    pub(crate) fn new(
        address: Address,
        token: Option<&Redacted<String>>,
        patience: Patience,
    ) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_static(concat!("cofferdam/", env!("CARGO_PKG_VERSION")));
        headers.insert(USER_AGENT, agent);
        let host = HeaderValue::from_str(&address.authority).map_err(|_| {
            let cause = "its name cannot be one".to_owned();
            ClientError::Nonsense { url: address.to_string(), cause, status: 0 }
        })?;
        headers.insert(HOST, host);
        if let Some(token) = token {
            let bearer = format!("Bearer {}", token.reveal());
            let mut bearer = HeaderValue::from_str(&bearer).map_err(|_| ClientError::Token)?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(Self { address, headers, patience })
    }

    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request and waits for the head of a good answer.
    pub(crate) async fn send(&self, ask: &Ask) -> Result<Reply, ClientError> {
        let mut connection = self.connect().await?;
        let sent = Arc::new(AtomicU64::new(0));
        let request = self.request(ask, &sent)?;
        let answering = connection.sender.send_request(request);
        tokio::pin!(answering);
        let response = loop {
            let before = sent.load(Ordering::Relaxed);
            match timeout(self.patience.head, &mut answering).await {
                Ok(Ok(response)) => break response,
                Ok(Err(error)) => return Err(self.broken(&error)),
                // Whoever still takes what we send has not fallen silent.
                Err(_) if sent.load(Ordering::Relaxed) > before => {}
                Err(_) => return Err(self.stalled(self.patience.head)),
            }
        };
        let (head, body) = response.into_parts();
        let mut reply = Reply {
            status: head.status,
            headers: head.headers,
            body,
            url: self.address.to_string(),
            patience: self.patience,
            _connection: connection,
        };
        if head.status.is_success() {
            return Ok(reply);
        }
        Err(reply.refusal().await)
    }

    async fn connect(&self) -> Result<Connection, ClientError> {
        let url = || self.address.to_string();
        match timeout(self.patience.connect, open(&self.address)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(source)) if source.kind() == std::io::ErrorKind::ConnectionRefused => {
                Err(ClientError::NoServer { url: url(), source })
            }
            Ok(Err(source)) => Err(ClientError::Unreachable { url: url(), source }),
            Err(_) => {
                let span = self.patience.connect.as_secs_f32();
                let source = std::io::Error::other(format!("no connection within {span} s"));
                Err(ClientError::Unreachable { url: url(), source })
            }
        }
    }

    fn request(&self, ask: &Ask, sent: &Arc<AtomicU64>) -> Result<Request<Body>, ClientError> {
        let (body, about) = match &ask.content {
            Content::Nothing => (empty(), None),
            Content::Json(bytes) => (full(bytes.clone()), Some(("application/json", None))),
            Content::File(file) => {
                (file.body(Arc::clone(sent)), Some((file.media_type, Some(file.length))))
            }
        };
        let target = format!("{}{}", self.address.prefix, ask.path);
        let builder = Request::builder().method(&ask.method).uri(target);
        let mut request = builder.body(body).map_err(|error| {
            let cause = format!("it cannot be asked: {error}");
            ClientError::Nonsense { url: self.address.to_string(), cause, status: 0 }
        })?;
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static(ask.accept));
        if let Some((media_type, length)) = about {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            if let Some(length) = length {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
        }
        if let Some((name, value)) = &ask.header {
            headers.insert(name, value.clone());
        }
        Ok(request)
    }

    fn broken(&self, error: &hyper::Error) -> ClientError {
        // Our own file could not be read: nothing is wrong with the connection.
        if error.is_user() {
            return ClientError::Content(std::io::Error::other(error_chain(error)));
        }
        if error.is_parse() {
            let cause = format!("it does not speak HTTP: {}", error_chain(error));
            return ClientError::Nonsense { url: self.address.to_string(), cause, status: 0 };
        }
        ClientError::Lost { url: self.address.to_string(), cause: error_chain(error) }
    }

    fn stalled(&self, after: Duration) -> ClientError {
        ClientError::Stalled { url: self.address.to_string(), after }
    }
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// An answer whose head has come. Dropping it closes its connection.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    url: String,
    patience: Patience,
    _connection: Connection,
}

impl Reply {
    /// The next bytes, if they come in time; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let span = self.patience.silence;
        self.next_before(Instant::now() + span, span).await
    }

    /// The next bytes; a call of this that is dropped loses nothing.
    async fn next_before(
        &mut self,
        deadline: Instant,
        span: Duration,
    ) -> Result<Option<Bytes>, ClientError> {
        loop {
            match timeout_at(deadline, self.body.frame()).await {
                Err(_) => return Err(ClientError::Stalled { url: self.url.clone(), after: span }),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    let cause = error_chain(&error);
                    return Err(ClientError::Lost { url: self.url.clone(), cause });
                }
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(data)),
                    // Trailers say nothing here.
                    Err(_) => {}
                },
            }
        }
    }

    /// The whole answer, in JSON.
    pub(crate) async fn json<T: DeserializeOwned>(mut self) -> Result<T, ClientError> {
        let mut body = Vec::new();
        let ends = Instant::now() + self.patience.whole;
        loop {
            let silence = self.patience.silence;
            let deadline = ends.min(Instant::now() + silence);
            let Some(data) = self.next_before(deadline, silence).await? else { break };
            if body.len() + data.len() > LONGEST_JSON {
                return Err(self.nonsense(format!("an answer of more than {LONGEST_JSON} bytes")));
            }
            body.extend_from_slice(&data);
        }
        serde_json::from_slice(&body)
            .map_err(|error| self.nonsense(format!("{error} in {}", quote(&body))))
    }

    /// Whether the answer is of this kind.
    pub(crate) fn is(&self, media_type: &str) -> bool {
        let given = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let given = given.unwrap_or_default().split(';').next().unwrap_or_default();
        given.trim().eq_ignore_ascii_case(media_type)
    }

    pub(crate) fn nonsense(&self, cause: String) -> ClientError {
        ClientError::Nonsense { url: self.url.clone(), cause, status: self.status.as_u16() }
    }

    /// What an answer says that is not a good one.
    async fn refusal(&mut self) -> ClientError {
        if self.status.is_redirection() {
            let place = self.headers.get(LOCATION).map(|place| quote(place.as_bytes()));
            return self.nonsense(format!(
                "it answers {} and redirects to {}, where the token does not belong",
                self.status.as_u16(),
                place.unwrap_or_else(|| "another place".to_owned()),
            ));
        }
        let mut body = Vec::new();
        let deadline = Instant::now() + self.patience.head;
        while body.len() < LONGEST_REFUSAL {
            match self.next_before(deadline, self.patience.head).await {
                Ok(Some(data)) => body.extend_from_slice(&data),
                // What there is has to do.
                Ok(None) | Err(_) => break,
            }
        }
        body.truncate(LONGEST_REFUSAL);
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) if self.is(PROBLEM_JSON) => ClientError::Refused {
                problem: Box::new(Problem { status: self.status.as_u16(), ..problem }),
                retry_after: self.retry_after(),
            },
            _ => self.nonsense(format!("it answers {}: {}", self.status.as_u16(), quote(&body))),
        }
    }

    /// Seconds that the server asks for. Ours never asks by a date.
    fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        value.trim().parse().ok().map(Duration::from_secs)
    }
}

/// The beginning of foreign text, in quotes.
fn quote(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..4 * LONGEST_QUOTE).unwrap_or(bytes));
    let cut: String = text.trim().chars().take(LONGEST_QUOTE).collect();
    format!("{cut:?}")
}
