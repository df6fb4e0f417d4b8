//! Reading what a client sends, so much and so slowly at most.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::problem::{MALFORMED, MEDIA, Refusal, SLOW, TOO_BIG};
use crate::setup::Limits;

/// Time in which a streamed body may be slower than the least rate.
const WARM_UP: Duration = Duration::from_secs(30);

/// A body that is read whole.
pub(crate) async fn whole(
    headers: &HeaderMap,
    mut body: Body,
    limits: &Limits,
) -> Result<Bytes, Refusal> {
    if announced(headers).is_some_and(|length| length > limits.body) {
        return Err(too_big(limits.body));
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let read = async {
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| broken())?;
            let Ok(bytes) = frame.into_data() else { continue };
            if (first.len() + all.len() + bytes.len()) as u64 > limits.body {
                return Err(too_big(limits.body));
            }
            if first.is_empty() && all.is_empty() {
                first = bytes;
                continue;
            }
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&bytes);
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    };
    match tokio::time::timeout(limits.body_time, read).await {
        Ok(read) => read,
        Err(_) => Err(too_slow()),
    }
}

/// What a body is said to be, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// A JSON object of this type. Nothing else is taken in its place.
pub(crate) fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    if !media_type(headers).eq_ignore_ascii_case("application/json") {
        return Err(wrong_media("application/json"));
    }
    // Where an object is wanted, serde would take an array of its fields as well.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Refusal::malformed("the body is no JSON object"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Refusal::malformed(format!("the body is not as it should be: {error}")))
}

/// A body of another media type than these.
pub(crate) fn wrong_media(taken: &str) -> Refusal {
    let remedy = format!("send `Content-Type: {taken}`");
    Refusal::new(MEDIA, "the body is of a media type that is not taken here", remedy)
}

/// How long the body is said to be.
pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_big(limit: u64) -> Refusal {
    Refusal::new(TOO_BIG, format!("the body is longer than {limit} bytes"), "send less")
}

fn too_slow() -> Refusal {
    Refusal::new(SLOW, "the body came too slowly", "send it again over a better connection")
}

fn broken() -> Refusal {
    Refusal::new(MALFORMED, "the body ended before its end", "send it again")
}

/// Why a streamed body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum StreamError {
    #[error("the body is longer than {0} bytes")]
    TooBig(u64),
    #[error("the body came too slowly")]
    TooSlow,
    #[error("the body ended before its end")]
    Broken,
}

/// A failure to read a streamed body, told.
pub(crate) fn told(error: &io::Error) -> Refusal {
    match error.get_ref().and_then(|error| error.downcast_ref::<StreamError>()) {
        Some(StreamError::TooBig(limit)) => too_big(*limit),
        Some(StreamError::TooSlow) => too_slow(),
        Some(StreamError::Broken) => broken(),
        None => Refusal::internal(error),
    }
}

/// A body that is read as it comes.
pub(crate) struct Streamed {
    body: Body,
    unread: Bytes,
    limit: u64,
    taken: u64,
    stall: Duration,
    least_rate: u64,
    begun: Instant,
    deadline: Pin<Box<Sleep>>,
}

impl Streamed {
    /// The body, of which so many bytes are taken. Fails if it is said to be longer.
    pub(crate) fn new(
        headers: &HeaderMap,
        body: Body,
        limit: u64,
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        if announced(headers).is_some_and(|length| length > limit) {
            return Err(too_big(limit));
        }
        Ok(Self {
            body,
            unread: Bytes::new(),
            limit,
            taken: 0,
            stall: limits.stall,
            least_rate: limits.least_rate,
            begun: Instant::now(),
            deadline: Box::pin(tokio::time::sleep(limits.stall)),
        })
    }

    /// The next bytes; none at the end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        std::future::poll_fn(|context| self.poll_bytes(context)).await
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if !self.unread.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.unread))));
        }
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.taken += bytes.len() as u64;
                    if self.taken > self.limit {
                        return failed(StreamError::TooBig(self.limit));
                    }
                    let now = Instant::now();
                    let took = now.duration_since(self.begun);
                    if took > WARM_UP && self.taken / took.as_secs().max(1) < self.least_rate {
                        return failed(StreamError::TooSlow);
                    }
                    self.deadline.as_mut().reset(now + self.stall);
                    if !bytes.is_empty() {
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                }
                Poll::Ready(Some(Err(_))) => return failed(StreamError::Broken),
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                Poll::Pending => {
                    ready!(self.deadline.as_mut().poll(context));
                    return failed(StreamError::TooSlow);
                }
            }
        }
    }
}

fn failed<T>(error: StreamError) -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::Error::other(error)))
}

impl AsyncRead for Streamed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(bytes) = ready!(self.poll_bytes(context))? else { return Poll::Ready(Ok(())) };
        self.unread = bytes;
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(self.unread.get(..length).unwrap_or_default());
        self.unread.advance(length);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    fn pieces(pieces: Vec<&'static str>) -> Body {
        Body::from_stream(stream::iter(pieces).map(Ok::<_, io::Error>))
    }

    fn limits() -> Limits {
        Limits { body: 10, ..Limits::default() }
    }

    #[tokio::test]
    async fn a_body_is_put_together_of_its_pieces() {
        let bytes = whole(&HeaderMap::new(), pieces(vec!["ab", "cd", "e"]), &limits()).await;
        assert_eq!(bytes.unwrap(), "abcde");
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_before_and_while_it_comes() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, 11.into());
        let refusal = whole(&headers, pieces(vec!["a"]), &limits()).await.unwrap_err();
        assert_eq!(refusal.status(), 413);
        let refusal = whole(&HeaderMap::new(), pieces(vec!["abcdef"; 2]), &limits()).await;
        assert_eq!(refusal.unwrap_err().status(), 413);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let refusal = whole(&HeaderMap::new(), body, &limits()).await.unwrap_err();
        assert_eq!(refusal.status(), 408);

        let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let mut body = Streamed::new(&HeaderMap::new(), body, 100, &limits()).unwrap();
        assert_eq!(told(&body.next().await.unwrap_err()).status(), 408);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_not_waited_for() {
        let drip = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Some((Ok::<_, io::Error>(Bytes::from_static(b"a")), ()))
        });
        let mut body =
            Streamed::new(&HeaderMap::new(), Body::from_stream(drip), 1 << 20, &limits()).unwrap();
        let error = loop {
            match body.next().await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(told(&error).status(), 408);
        assert!(body.taken < 10, "{}", body.taken);
    }

    #[tokio::test]
    async fn a_streamed_body_has_its_limit() {
        let mut body =
            Streamed::new(&HeaderMap::new(), pieces(vec!["abc"; 4]), 10, &limits()).unwrap();
        let mut read = 0;
        let error = loop {
            match body.next().await {
                Ok(bytes) => read += bytes.unwrap().len(),
                Err(error) => break error,
            }
        };
        assert_eq!((read, told(&error).status().as_u16()), (9, 413));
    }

    #[test]
    fn json_is_taken_only_as_json() {
        type Message = cofferdam_api::Message;
        let object = br#" {"text": "x"}"#;
        let mut headers = HeaderMap::new();
        assert_eq!(json::<Message>(&headers, object).unwrap_err().status(), 415);
        headers.insert(CONTENT_TYPE, "text/plain".parse().unwrap());
        assert_eq!(json::<Message>(&headers, object).unwrap_err().status(), 415);
        headers.insert(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap());
        assert_eq!(json::<Message>(&headers, object).unwrap().text, "x");
        for bad in [&br#"{"text": "x"} x"#[..], br#"["x"]"#, b"", b"null", b"\"x\""] {
            assert_eq!(json::<Message>(&headers, bad).unwrap_err().status(), 400);
        }
    }

    #[test]
    fn deep_json_is_refused_and_not_followed() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
        let deep = "{\"a\":".repeat(100_000);
        let refusal = json::<serde_json::Value>(&headers, deep.as_bytes()).unwrap_err();
        assert_eq!(refusal.status(), 400);
    }
}
