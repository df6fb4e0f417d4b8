//! A job's events: as pages, and as a stream that begins with what there is and
//! goes on with what comes.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use cofferdam_api::EventPage;
use cofferdam_fleet::Follower;
use cofferdam_store::{JobRow, Line, StoreError, TokenHash};
use futures_util::stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::app::App;
use crate::problem::Refusal;
use crate::query::Query;
use crate::request::{Caller, Id, json};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// For proxies that would otherwise keep events back.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

const PAGE: u64 = 100;
const LARGEST_PAGE: u64 = 1000;
/// Bytes of one page, so that big events do not make a huge answer.
const LARGEST_ANSWER: usize = 8 << 20;
/// Milliseconds after which a browser comes back.
const RETRY: &str = "retry: 2000\n\n";
const HEARTBEAT: &[u8] = b":\n\n";
/// Bytes that are framed at once.
const PIECE: usize = 32 << 10;

/// `GET /api/v1/jobs/{id}/events`.
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let query = Query::of(query.as_deref(), &["after", "limit"])?;
    let after = query.number("after", 0..=i64::MAX as u64)?;
    let limit = query.number("limit", 1..=LARGEST_PAGE)?.unwrap_or(PAGE);
    let row = app.job(&caller.0, &id).await?;
    if wants_stream(&headers) {
        let after = match last_event(&headers)? {
            Some(last) => last,
            None => after.unwrap_or(0),
        };
        return Ok(stream_of(&app, &row, caller.1, after));
    }
    page(&app, &row, after.unwrap_or(0), limit).await
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(','));
    types.any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    })
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    // A browser that has read nothing yet sends it empty.
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number| *number <= i64::MAX as u64);
    number.map(Some).ok_or_else(|| Refusal::malformed("Last-Event-ID is no number of an event"))
}

async fn page(app: &App, row: &JobRow, after: u64, limit: u64) -> Result<Response, Refusal> {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let lines = app.store().events(row.id, after, limit).await?;
    let mut page = EventPage { events: Vec::new(), after, more: false, over: row.status.is_over() };
    let mut length = 0;
    for line in lines {
        length += line.text.len();
        if length > LARGEST_ANSWER && !page.events.is_empty() {
            break;
        }
        page.after = line.seq;
        let raw = RawValue::from_string(line.text);
        page.events.push(raw.map_err(|error| Refusal::internal(&error))?);
    }
    page.more = page.after < row.last_seq;
    json(StatusCode::OK, &page)
}

struct Reader {
    app: Arc<App>,
    follower: Follower,
    /// What was fetched and not yet sent.
    waiting: VecDeque<Arc<Line>>,
    /// Whose it is, and when that is asked again: a stream outlives no token.
    token: TokenHash,
    check: Instant,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.app.meters.readers.dec();
    }
}

/// The answer is written as fast as it is read: nothing is fetched for a reader
/// that takes nothing, and its connection ends when that lasts.
fn stream_of(app: &Arc<App>, row: &JobRow, token: TokenHash, after: u64) -> Response {
    app.meters.readers.inc();
    let follower = app.fleet.follow(row.id, after);
    let check = Instant::now() + app.limits.heartbeat;
    let app = Arc::clone(app);
    let reader = Reader { app, follower, waiting: VecDeque::new(), token, check };
    let first = stream::once(async { Ok(Bytes::from_static(RETRY.as_bytes())) });
    let rest = stream::unfold(reader, |mut reader| async move {
        let piece = next(&mut reader).await?;
        Some((piece, reader))
    });
    let mut response = Response::new(Body::from_stream(stream::StreamExt::chain(first, rest)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

/// The next piece of the stream; none at its end. A stream that fails ends
/// without its end, and its reader comes back.
async fn next(reader: &mut Reader) -> Option<Result<Bytes, StoreError>> {
    let heartbeat = reader.app.limits.heartbeat;
    // Also while so much happens that no heartbeat is needed.
    if Instant::now() >= reader.check {
        let app = &reader.app;
        if !app.sessions.is_valid(app.store(), reader.token).await {
            return None;
        }
        reader.check = Instant::now() + heartbeat;
    }
    if reader.waiting.is_empty() {
        let lines = tokio::select! {
            lines = tokio::time::timeout(heartbeat, reader.follower.next()) => lines,
            () = reader.app.stopping.cancelled() => return None,
        };
        match lines {
            Err(_) => return Some(Ok(Bytes::from_static(HEARTBEAT))),
            Ok(Ok(lines)) if lines.is_empty() => return None,
            Ok(Ok(lines)) => reader.waiting.extend(lines),
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "a stream of events broke");
                return Some(Err(error));
            }
        }
    }
    let before = reader.waiting.len();
    let piece = framed(&mut reader.waiting);
    reader.app.meters.events.inc_by((before - reader.waiting.len()) as u64);
    Some(Ok(piece))
}

/// Takes events off the front and frames them: one, and more while they are small.
fn framed(waiting: &mut VecDeque<Arc<Line>>) -> Bytes {
    let mut frames = String::new();
    while let Some(line) = waiting.front() {
        if !frames.is_empty() && frames.len() + line.text.len() > PIECE {
            break;
        }
        let number = line.seq.to_string();
        for part in ["id: ", &number, "\nevent: ", kind(&line.text), "\ndata: ", &line.text, "\n\n"]
        {
            frames.push_str(part);
        }
        waiting.pop_front();
    }
    frames.into()
}

/// The kind of a stored event. Only numbers come before it.
pub(crate) fn kind(text: &str) -> &str {
    let rest = text.split_once("\"event\":\"").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or("message")
}

#[cfg(test)]
mod tests {
    use cofferdam_types::{Event, LOG_VERSION, Record, Timestamp};

    use super::*;

    fn line(seq: u64, event: Event) -> Arc<Line> {
        let record = Record { v: LOG_VERSION, seq, at: Timestamp(5), event };
        Arc::new(Line::of(&record).unwrap())
    }

    #[test]
    fn an_event_is_framed_byte_for_byte() {
        let text = "a\nb\r\n\ndata: x\u{2028}\0 \"event\":\"no\"";
        let lines = [line(3, Event::Noted { text: text.to_owned() }), line(4, Event::Paused)];
        let mut waiting = VecDeque::from(lines.clone());
        let frames = framed(&mut waiting);
        assert!(waiting.is_empty());
        let expected = format!(
            "id: 3\nevent: noted\ndata: {}\n\nid: 4\nevent: paused\ndata: {}\n\n",
            lines[0].text, lines[1].text
        );
        assert_eq!(frames, expected);
        assert_eq!(lines[0].text.lines().count(), 1);
        let data = frames.split(|byte| *byte == b'\n').nth(2).unwrap();
        let data = data.strip_prefix(b"data: ").unwrap();
        let back: Record = serde_json::from_slice(data).unwrap();
        assert_eq!(back.event, Event::Noted { text: text.to_owned() });
    }

    #[test]
    fn big_events_are_framed_one_by_one() {
        let big = |seq| line(seq, Event::Noted { text: "x".repeat(PIECE) });
        let mut waiting = VecDeque::from([big(1), line(2, Event::Paused), big(3)]);
        let pieces: Vec<usize> =
            std::iter::from_fn(|| (!waiting.is_empty()).then(|| framed(&mut waiting)))
                .map(|piece| piece.windows(4).filter(|part| part == b"id: ").count())
                .collect();
        assert_eq!(pieces, [1, 1, 1]);
    }

    #[test]
    fn a_stream_is_asked_for_by_its_media_type() {
        let mut headers = HeaderMap::new();
        assert!(!wants_stream(&headers));
        headers.insert(ACCEPT, "application/json, text/event-stream;q=0.9".parse().unwrap());
        assert!(wants_stream(&headers));
        headers.insert(ACCEPT, "*/*".parse().unwrap());
        assert!(!wants_stream(&headers));
    }

    #[test]
    fn a_reader_says_what_it_has_read() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_EVENT_ID, text.parse().unwrap());
            last_event(&headers).map_err(|refusal| refusal.status().as_u16())
        };
        assert_eq!(of("7"), Ok(Some(7)));
        assert_eq!(of(""), Ok(None));
        for text in ["x", "-1", "7.5", "99999999999999999999"] {
            assert_eq!(of(text), Err(400), "{text}");
        }
        assert_eq!(last_event(&HeaderMap::new()).unwrap(), None);
    }
}
