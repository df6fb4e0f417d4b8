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

/// What is to be sent.
pub(crate) struct Plan<'a> {
    pub(crate) request: &'a Request,
    /// The head, as the host is to see it.
    pub(crate) head: Vec<u8>,
    pub(crate) framing: Framing,
    /// What the client sent together with its head.
    pub(crate) early: Vec<u8>,
}

/// Why a request's body stopped short.
enum Short {
    /// The client left.
    Gone,
    /// The framing is wrong.
    Malformed,
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
/// waited for.
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
    std::future::pending().await
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
