//! HTTP to one server.
//!
//! The client is hyper's HTTP/1.1 connection with tokio-rustls below it, and no
//! more. A larger client (reqwest) was considered: it brings redirects, cookies,
//! HTTP/2, an internationalised URL parser and a pool with tasks of its own, none
//! of which is wanted where a key is sent, and it reads the machine's
//! certificates when it is built. Here they are read when the first `https` URL
//! is dialled, once a process; the provider of cryptography is `ring`, which
//! builds with a C compiler alone. One stream is one request, so HTTP/1.1 does.
//!
//! A connection is used again when its last body was read to the end. A request
//! is never sent twice in silence: what fails after it was written is an error.

mod connect;
mod proxy;
mod retry_after;
mod tls;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cofferdam_model::ModelError;
use cofferdam_types::{FailureKind, Redacted};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

use self::connect::{Connection, Route};
use crate::endpoint::{Endpoint, EndpointError, Site, headers};
use crate::failure::{Said, interrupted};

/// Bytes of an error's body that are read.
const LONGEST_ERROR: usize = 64 << 10;
/// How long a connection may be unused and still be trusted.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// Connections that are kept for later.
const MOST_KEPT: usize = 4;
/// How long the end of a body may come after the end of what is in it.
const END_OF_BODY: Duration = Duration::from_millis(50);

/// What is sent, and what can be asked for.
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Speaks with one server.
#[derive(Debug)]
pub(crate) struct Client {
    site: Site,
    route: Route,
    headers: HeaderMap,
    /// To be taken out of whatever is said about a failure.
    key: Option<Redacted<String>>,
    idle_timeout: Duration,
    connect_timeout: Duration,
    kept: Mutex<Vec<(Connection, Instant)>>,
}

impl Client {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        let site = Site::parse(&endpoint.base_url)?;
        let mut headers = headers(endpoint)?;
        let agent = HeaderValue::from_static(concat!("cofferdam/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(agent);
        let host = HeaderValue::from_str(&site.authority)
            .map_err(|_| EndpointError::Url { url: endpoint.base_url.clone() })?;
        headers.insert(HOST, host);
        let route = Route::to(&site, |name| std::env::var(name).ok());
        if let Some((name, value)) = route.header() {
            headers.insert(name, value);
        }
        Ok(Self {
            site,
            route,
            headers,
            key: endpoint.key.clone(),
            idle_timeout: endpoint.idle_timeout,
            connect_timeout: endpoint.connect_timeout,
            kept: Mutex::new(Vec::new()),
        })
    }

    /// The host, for people.
    pub(crate) fn host(&self) -> &str {
        &self.site.host
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// A failure as it is told: with the host, and without the key.
    pub(crate) fn told(&self, mut failure: ModelError) -> ModelError {
        failure.message = format!("{} {}", self.site.authority, failure.message);
        if let Some(key) = &self.key {
            let key = key.reveal().trim();
            if !key.is_empty() {
                failure.message = failure.message.replace(key, "[key]");
            }
        }
        failure
    }

    /// Posts a body and waits for the head of a good answer.
    pub(crate) async fn post(&self, resource: &str, body: Bytes) -> Result<Reply, ModelError> {
        self.send(Method::POST, resource, EVENTS, body).await
    }

    /// The same, for an answer that comes as a whole.
    pub(crate) async fn post_for_json(
        &self,
        resource: &str,
        body: Bytes,
    ) -> Result<Reply, ModelError> {
        self.send(Method::POST, resource, JSON, body).await
    }

    /// Gets a resource.
    pub(crate) async fn get(&self, resource: &str) -> Result<Reply, ModelError> {
        self.send(Method::GET, resource, JSON, Bytes::new()).await
    }

    async fn send(
        &self,
        method: Method,
        resource: &str,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Reply, ModelError> {
        let mut connection = self.connection().await?;
        let request = self.request(method, resource, accept, body)?;
        let answer = timeout(self.idle_timeout, connection.sender.send_request(request)).await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                return Err(interrupted(format!("closed the connection: {}", causes(&error))));
            }
            Err(_) => return Err(stalled(self.idle_timeout)),
        };
        let (head, body) = response.into_parts();
        let mut reply =
            Reply { headers: head.headers, body, connection, idle_timeout: self.idle_timeout };
        if head.status == StatusCode::OK {
            return Ok(reply);
        }
        let words = reply.read_to_end(LONGEST_ERROR).await.unwrap_or_default();
        let mut failure = if head.status.is_redirection() {
            let place = reply.headers.get(http::header::LOCATION).and_then(|to| to.to_str().ok());
            let message = format!(
                "answered {}: redirects to {} and is not followed there: correct the base URL",
                head.status.as_u16(),
                place.unwrap_or("another place"),
            );
            ModelError::new(FailureKind::Rejected, message)
        } else {
            Said::in_body(&words).with_status(head.status.as_u16())
        };
        failure.retry_after = retry_after::retry_after(&reply.headers);
        self.keep(reply).await;
        Err(failure)
    }

    fn request(
        &self,
        method: Method,
        resource: &str,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ModelError> {
        let path = self.site.path(resource);
        let target = self.route.target(&self.site, &path);
        let builder = Request::builder().method(&method).uri(target);
        let mut request = builder.body(Full::new(body)).map_err(|error| {
            ModelError::new(FailureKind::Rejected, format!("cannot be asked: {error}"))
        })?;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        if method == Method::POST {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        Ok(request)
    }

    /// A connection that is ready for a request.
    async fn connection(&self) -> Result<Connection, ModelError> {
        while let Some(mut connection) = self.take() {
            if let Ok(Ok(())) = timeout(END_OF_BODY, connection.sender.ready()).await {
                return Ok(connection);
            }
        }
        let message = match timeout(self.connect_timeout, self.route.open(&self.site)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => format!("cannot be reached: {}", causes(&error)),
            Err(_) => format!("cannot be reached: no connection within {:?}", self.connect_timeout),
        };
        Err(ModelError::new(FailureKind::Unreachable, message))
    }

    fn take(&self) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(connection, since)| {
            !connection.sender.is_closed() && since.elapsed() < LONGEST_REST
        });
        kept.pop().map(|(connection, _)| connection)
    }

    /// Keeps the connection of an answer that is over, if its body is too.
    pub(crate) async fn keep(&self, mut reply: Reply) {
        let rest = async {
            loop {
                match reply.body.frame().await {
                    Some(Ok(_)) => {}
                    Some(Err(_)) => return false,
                    None => return true,
                }
            }
        };
        let ended = timeout(END_OF_BODY, rest).await.unwrap_or(false);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if ended && kept.len() < MOST_KEPT && !reply.connection.sender.is_closed() {
            kept.push((reply.connection, Instant::now()));
        }
    }
}

/// An answer whose head has come. Dropping it closes its connection.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    body: Incoming,
    connection: Connection,
    idle_timeout: Duration,
}

impl Reply {
    /// The next bytes, before a deadline; nothing at the end.
    pub(crate) async fn next(&mut self, deadline: Instant) -> Result<Option<Bytes>, ModelError> {
        loop {
            match tokio::time::timeout_at(deadline, self.body.frame()).await {
                Err(_) => return Err(stalled(self.idle_timeout)),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    let message = format!("cut the answer off: {}", causes(&error));
                    return Err(interrupted(message));
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

    /// The rest of the body, or as much of it as is wanted.
    pub(crate) async fn read_to_end(&mut self, most: usize) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        // One deadline for all of it: nobody waits for drops.
        let deadline = Instant::now() + self.idle_timeout;
        while body.len() < most {
            let Some(data) = self.next(deadline).await? else { break };
            body.extend_from_slice(&data);
        }
        body.truncate(most);
        Ok(body)
    }
}

fn stalled(after: Duration) -> ModelError {
    ModelError::new(FailureKind::Stalled, format!("sent nothing for {after:?}"))
}

/// An error with all its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
