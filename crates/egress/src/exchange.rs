//! One HTTP exchange with a host: the request's body out as far as its framing
//! goes, the answer back, and no more.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;

use crate::body::{Body, Framing};
use crate::failure::Failure;
use crate::head::{Head, HeadError, LineEnds, read_head};
use crate::request::Request;
use crate::response::{Answer, Asked};
use crate::traffic::{PIECE, Traffic, Way};
use crate::tunnel::Ended;

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
    /// The host's answer is not one.
    Answer(&'static str),
    /// The client does not take it.
    Gone,
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
    let answered = AtomicBool::new(false);
    let (mut client_read, mut client_write) = client.split();
    let (mut upstream_read, mut upstream_write) = upstream.split();
    let failure = tokio::select! {
        biased;
        relayed = relay(plan.request, &mut upstream_read, &mut client_write, traffic, &answered) => {
            match relayed {
                Ok(()) | Err(Cut::Gone) => return Ok(Ended::ByPeer),
                Err(Cut::Answer(why)) => Failure::Answer(why),
            }
        }
        Err(short) = send(&plan, &mut client_read, &mut upstream_write, traffic) => match short {
            Short::Gone => return Ok(Ended::ByPeer),
            Short::Malformed => Failure::Malformed("the chunked body is malformed"),
            // The record of an idle end would name the idle time, which was not waited for.
            Short::Quiet if answered.load(Ordering::Relaxed) => return Ok(Ended::ByPeer),
            Short::Quiet => Failure::AnswerTimedOut,
        },
        () = traffic.silence(idle) => Failure::AnswerTimedOut,
    };
    if !answered.load(Ordering::Relaxed) {
        return Err(failure);
    }
    Ok(if matches!(failure, Failure::AnswerTimedOut) { Ended::Idle } else { Ended::ByPeer })
}

/// Sends the request. Returns only if the client's part of it is broken; when
/// it has been sent, or the host takes no more of it, the answer is all that is
/// waited for, as long as there is a client who may be waiting for it too.
async fn send(
    plan: &Plan<'_>,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
) -> Result<Infallible, Short> {
    let mut body = Body::new(plan.framing);
    let mut piece = plan.early.clone();
    let mut open = traffic.write(Way::Out, to, &plan.head).await.is_ok();
    while open {
        let taken = body.take(&piece).map_err(|_| Short::Malformed)?;
        let bytes = piece.get(..taken).unwrap_or_default();
        open = traffic.write(Way::Out, to, bytes).await.is_ok();
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
    answered: &AtomicBool,
) -> Result<(), Cut> {
    let asked = if request.is_head() { Asked::Head } else { Asked::Other };
    let mut before = Vec::new();
    for _ in 0..=MOST_INTERIM {
        let Head { head, rest } =
            read_head(from, before, LineEnds::Lenient).await.map_err(|error| {
                Cut::Answer(match error {
                    HeadError::TooLong => "its head is too long",
                    HeadError::LineEnd => "its head is malformed",
                    HeadError::Nothing => "it closed the connection without an answer",
                    HeadError::Ended => "it ended within its head",
                    HeadError::Broken(_) => "the connection broke",
                })
            })?;
        traffic.touch();
        let answer = Answer::parse(&head, asked).map_err(Cut::Answer)?;
        if answer.is_interim {
            before = rest;
            if request.takes_interim_answers() {
                traffic.write(Way::Back, to, &answer.head).await.map_err(|_| Cut::Gone)?;
            }
            continue;
        }
        answered.store(true, Ordering::Relaxed);
        traffic.write(Way::Back, to, &answer.head).await.map_err(|_| Cut::Gone)?;
        return relay_body(Body::new(answer.framing), rest, from, to, traffic).await;
    }
    Err(Cut::Answer("it has too many interim answers"))
}

async fn relay_body(
    mut body: Body,
    early: Vec<u8>,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
) -> Result<(), Cut> {
    let mut piece = early;
    loop {
        let taken = body.take(&piece).map_err(|_| Cut::Answer("its chunks are malformed"))?;
        let bytes = piece.get(..taken).unwrap_or_default();
        traffic.write(Way::Back, to, bytes).await.map_err(|_| Cut::Gone)?;
        if body.is_done() {
            return Ok(());
        }
        piece.resize(PIECE, 0);
        let count = from.read(&mut piece).await.map_err(|_| Cut::Answer("the connection broke"))?;
        if count == 0 {
            let proper = body.may_end();
            return if proper { Ok(()) } else { Err(Cut::Answer("its body is cut short")) };
        }
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
    async fn a_client_that_never_stops_talking_is_listened_to_for_a_while() {
        let traffic = Traffic::new();
        let mut endless = tokio::io::repeat(b'x');
        assert!(matches!(outlast(&mut endless, &traffic, SHORT).await, Short::Quiet));
        assert_eq!((traffic.sent(), traffic.received()), (0, 0));
    }
}
