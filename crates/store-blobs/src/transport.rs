//! HTTP for `object_store`: hyper's HTTP/1.1 connection with tokio-rustls below
//! it, and no more.
//!
//! The client that the library would bring (reqwest, with another provider of
//! cryptography) doubles what is linked for this one purpose. The library does the
//! signing and the retries; here each step has a bound: connecting, waiting for an
//! answer's head, and each part of its body.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::connection::{Connection, Origin, Pool};

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For sending a request and the head of its answer. A part of an upload is in
    /// it.
    answer: Duration,
    /// For the next bytes of an answer's body.
    silence: Duration,
}

const PATIENCE: Patience =
    Patience { answer: Duration::from_secs(90), silence: Duration::from_secs(30) };

/// Makes clients.
#[derive(Debug)]
pub(crate) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service { pool: Arc::new(Pool::default()), patience: PATIENCE }))
    }
}

#[derive(Debug)]
struct Service {
    pool: Arc<Pool>,
    patience: Patience,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (origin, request) = prepared(request)?;
        let connection = self.pool.get(origin).await;
        let mut connection =
            connection.map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?;
        let Patience { answer, silence } = self.patience;
        let response = match timeout(answer, connection.sender.send_request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => return Err(late("no answer", answer)),
        };
        let (head, body) = response.into_parts();
        let connection = Some((connection, self.pool.clone()));
        let body = Answer { body, connection, silence, alarm: Box::pin(sleep(silence)) };
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

/// A request as it is sent: where to, with the host's name and the path alone.
fn prepared(request: HttpRequest) -> Result<(Origin, HttpRequest), HttpError> {
    let wrong = |what: &'static str| HttpError::new(HttpErrorKind::Unknown, io::Error::other(what));
    let (mut head, body) = request.into_parts();
    let secure = match head.uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(wrong("the object store's URL is neither http nor https")),
    };
    let authority = head.uri.authority().ok_or_else(|| wrong("the URL names no host"))?;
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let origin = Origin { secure, host: authority.host().to_owned(), port };
    // Without a user's name, which the library never writes.
    let name = authority.as_str().rsplit('@').next().unwrap_or_default();
    let host = HeaderValue::from_str(name).map_err(|_| wrong("the URL names no host"))?;
    head.headers.entry(HOST).or_insert(host);
    let path = head.uri.path_and_query().cloned();
    head.uri = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
    Ok((origin, Request::from_parts(head, body)))
}

fn failed(error: hyper::Error) -> HttpError {
    // What was not written at all, or not answered, may be asked again: the
    // library knows which requests do no harm twice.
    let kind = if error.is_canceled() || error.is_closed() || error.is_incomplete_message() {
        HttpErrorKind::Request
    } else if error.is_timeout() {
        HttpErrorKind::Timeout
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error)
}

fn late(what: &str, after: Duration) -> HttpError {
    let message = format!("{what} within {after:?}");
    let error = io::Error::new(io::ErrorKind::TimedOut, message);
    HttpError::new(HttpErrorKind::Timeout, error)
}

/// The body of an answer. Read to its end, its connection can be used again.
struct Answer {
    body: Incoming,
    connection: Option<(Connection, Arc<Pool>)>,
    silence: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let answer = &mut *self;
        match Pin::new(&mut answer.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                answer.alarm.as_mut().reset(Instant::now() + answer.silence);
                if answer.body.is_end_stream() {
                    answer.keep();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                answer.connection = None;
                Poll::Ready(Some(Err(failed(error))))
            }
            Poll::Ready(None) => {
                answer.keep();
                Poll::Ready(None)
            }
            Poll::Pending => {
                if answer.alarm.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                answer.connection = None;
                Poll::Ready(Some(Err(late("nothing more of an answer", answer.silence))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Answer {
    fn keep(&mut self) {
        if let Some((connection, pool)) = self.connection.take() {
            pool.keep(connection);
        }
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
