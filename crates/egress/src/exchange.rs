//! One HTTP exchange with a host: the request's body out as far as its framing
//! goes, the answer back, and no more.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;

use crate::body::{Body, Framing};
use crate::ending::{Ended, release};
use crate::failure::Failure;
use crate::head::{Head, HeadError, LineEnds, read_head};
use crate::request::Request;
use crate::response::{Answer, Asked};
use crate::traffic::{Lost, PIECE, Traffic, Way};

/// Interim answers before the answer proper are at most this many.
const MOST_INTERIM: usize = 16;

/// A client that has ended its half waits for its answer, or has left: which of the two cannot be
/// told before something is written to it. So the answer is waited for only until nothing has
/// come or gone for this long: enough for one that takes its time, and little enough that
/// clients who lose patience do not keep all places until the idle time is over.
const QUIET: Duration = Duration::from_secs(30);

/// What a client sends beyond its request is read, and thrown away, in at most this many pieces.
/// With more it has to wait; and as it is not heard any more, it is as if it had ended its half.
const MOST_EXTRA: usize = 64;

/// What is to be sent.
pub(crate) struct Plan<'a> {
    pub(crate) request: &'a Request,
    /// The head, as the host is to see it.
    pub(crate) head: Vec<u8>,
    pub(crate) framing: Framing,
    /// What the client sent together with its head.
    pub(crate) early: Vec<u8>,
}

/// Why a request came to its end before its answer did.
enum Short {
    /// The client left.
    Gone,
    /// The framing is wrong.
    Malformed,
    /// The client may have left, and nothing has happened since for long enough.
    Quiet,
}

/// Why an answer stopped short.
enum Cut {
    /// The host's answer is not one, or not a whole one.
    Answer(Failure),
    /// The client does not take it.
    Gone,
}

/// What the two halves of an exchange know of each other.
#[derive(Default)]
struct Progress {
    /// Whether the client has begun to be answered.
    answered: AtomicBool,
    /// What a write to the host was told.
    lost: Lost,
}

/// Carries one exchange. Fails only as long as the client has not been answered.
pub(crate) async fn exchange(
    client: &mut TcpStream,
    upstream: &mut TcpStream,
    plan: Plan<'_>,
    traffic: &Traffic,
    idle: Duration,
) -> Result<Ended, Failure> {
    traffic.touch();
    let progress = Progress::default();
    let is_answered = || progress.answered.load(Ordering::Relaxed);
    let (mut client_read, mut client_write) = client.split();
    let (mut upstream_read, mut upstream_write) = upstream.split();
    let failure = tokio::select! {
        biased;
        relayed = relay(plan.request, &mut upstream_read, &mut client_write, traffic, &progress) => {
            match relayed {
                Ok(()) => {
                    release(upstream);
                    return Ok(Ended::Whole);
                }
                Err(Cut::Gone) => return Ok(Ended::Gone),
                Err(Cut::Answer(failure)) => failure,
            }
        }
        Err(short) = send(&plan, &mut client_read, &mut upstream_write, traffic, &progress) => {
            match short {
                Short::Gone => return Ok(Ended::Gone),
                Short::Malformed => Failure::Malformed("the chunked body is malformed"),
                Short::Quiet if is_answered() => return Ok(Ended::Idle(QUIET)),
                Short::Quiet => Failure::AnswerTimedOut,
            }
        }
        () = traffic.silence(idle) => match is_answered() {
            true => return Ok(Ended::Idle(idle)),
            false => Failure::AnswerTimedOut,
        },
    };
    if is_answered() { Ok(Ended::Broken(failure)) } else { Err(failure) }
}

/// Sends the request. Returns only if the client's part of it is broken; when
/// it has been sent, or the host takes no more of it, the answer is all that is
/// waited for, as long as there is a client who may be waiting for it too.
async fn send(
    plan: &Plan<'_>,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
    progress: &Progress,
) -> Result<Infallible, Short> {
    let mut body = Body::new(plan.framing);
    let mut piece = plan.early.clone();
    let note = |error: &_| progress.lost.note(error);
    let mut open = traffic.write(Way::Out, to, &plan.head).await.inspect_err(note).is_ok();
    while open {
        let taken = body.take(&piece).map_err(|_| Short::Malformed)?;
        let bytes = piece.get(..taken).unwrap_or_default();
        open = traffic.write(Way::Out, to, bytes).await.inspect_err(note).is_ok();
        if body.is_done() {
            break;
        }
        piece.resize(PIECE, 0);
        let count = from.read(&mut piece).await.map_err(|_| Short::Gone)?;
        if count == 0 {
            return Err(Short::Gone);
        }
        piece.truncate(count);
    }
    Err(outlast(from, traffic, QUIET).await)
}

/// Waits until the client has gone; or, once that cannot be told any more, until nothing has
/// happened for this long. There is one request a connection: what else the client sends is not
/// answered, and does not count as traffic.
async fn outlast(
    client: &mut (impl AsyncRead + Unpin),
    traffic: &Traffic,
    patience: Duration,
) -> Short {
    let mut scratch = vec![0; PIECE];
    for _ in 0..MOST_EXTRA {
        match client.read(&mut scratch).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return Short::Gone,
        }
    }
    traffic.silence(patience).await;
    Short::Quiet
}

/// Passes the answer on, interim ones first, and ends where its framing says.
async fn relay(
    request: &Request,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
    progress: &Progress,
) -> Result<(), Cut> {
    let asked = if request.is_head() { Asked::Head } else { Asked::Other };
    let mut before = Vec::new();
    for _ in 0..=MOST_INTERIM {
        let Head { head, rest } =
            read_head(from, before, LineEnds::Lenient).await.map_err(|error| {
                Cut::Answer(match error {
                    HeadError::TooLong => Failure::Answer("its head is too long"),
                    HeadError::LineEnd => Failure::Answer("its head is malformed"),
                    HeadError::Nothing => {
                        Failure::Answer("it closed the connection without an answer")
                    }
                    HeadError::Ended => Failure::Answer("it ended within its head"),
                    HeadError::Broken(cause) => Failure::Broken(cause.kind()),
                })
            })?;
        traffic.touch();
        let answer =
            Answer::parse(&head, asked).map_err(|why| Cut::Answer(Failure::Answer(why)))?;
        if answer.is_interim {
            before = rest;
            if request.takes_interim_answers() {
                traffic.write(Way::Back, to, &answer.head).await.map_err(|_| Cut::Gone)?;
            }
            continue;
        }
        progress.answered.store(true, Ordering::Relaxed);
        traffic.write(Way::Back, to, &answer.head).await.map_err(|_| Cut::Gone)?;
        return relay_body(Body::new(answer.framing), rest, from, to, traffic, progress).await;
    }
    Err(Cut::Answer(Failure::Answer("it has too many interim answers")))
}

async fn relay_body(
    mut body: Body,
    early: Vec<u8>,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
    progress: &Progress,
) -> Result<(), Cut> {
    let cut = |failure| Err(Cut::Answer(failure));
    let mut piece = early;
    loop {
        let Ok(taken) = body.take(&piece) else {
            return cut(Failure::Answer("its chunks are malformed"));
        };
        let bytes = piece.get(..taken).unwrap_or_default();
        traffic.write(Way::Back, to, bytes).await.map_err(|_| Cut::Gone)?;
        if body.is_done() {
            return Ok(());
        }
        piece.resize(PIECE, 0);
        let count = match (from.read(&mut piece).await, progress.lost.get()) {
            (Err(cause), _) => return cut(Failure::Broken(cause.kind())),
            (Ok(0), Some(lost)) => return cut(Failure::Broken(lost)),
            (Ok(0), None) if body.may_end() => return Ok(()),
            (Ok(0), None) => return cut(Failure::Answer("its body is cut short")),
            (Ok(count), _) => count,
        };
        piece.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_client_that_may_have_gone_is_waited_for_until_it_is_quiet() {
        let traffic = Traffic::new();
        let begun = Instant::now();
        let mut ended: &[u8] = b"GET /another HTTP/1.1\r\n\r\n";
        assert!(matches!(outlast(&mut ended, &traffic, SHORT).await, Short::Quiet));
        assert!(ended.is_empty(), "what it said besides was read");
        assert!(begun.elapsed() >= SHORT / 2);
    }

    #[tokio::test]
    async fn a_reset_that_only_the_writer_was_told_of_cuts_the_answer() {
        let (traffic, progress) = (Traffic::new(), Progress::default());
        progress.lost.note(&std::io::ErrorKind::ConnectionReset.into());
        let (body, mut from, mut to) = (Body::new(Framing::UntilClose), &b"text"[..], Vec::new());
        let relayed = relay_body(body, Vec::new(), &mut from, &mut to, &traffic, &progress).await;
        assert!(matches!(relayed, Err(Cut::Answer(Failure::Broken(_)))));
        assert_eq!(to, b"text");
    }

    #[tokio::test]
    async fn a_client_that_never_stops_talking_is_listened_to_for_a_while() {
        let traffic = Traffic::new();
        let mut endless = tokio::io::repeat(b'x');
        assert!(matches!(outlast(&mut endless, &traffic, SHORT).await, Short::Quiet));
        assert_eq!((traffic.sent(), traffic.received()), (0, 0));
    }
}
