//! A terminal in a job's sandbox, over a WebSocket.
//!
//! Bytes go both ways as fast as the slower side takes them. A client that is
//! silent, floods, or does not answer pings is let go, and its shell with it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, Request, State};
use axum::response::Response;
use bytes::Bytes;
use cofferdam_api::{TerminalControl, TerminalReport};
use cofferdam_fleet::Visit;
use cofferdam_guest_protocol::{Leftovers, OutputMode, PtySize};
use cofferdam_sandbox::{OutputChunk, Process, StdinWriter};
use cofferdam_store::TokenHash;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::app::{App, place};
use crate::exec::visitor_call;
use crate::problem::Refusal;
use crate::query::Query;
use crate::request::{Caller, Id};
use crate::websocket::{Handshake, Socket, socket};

/// Between two pings.
const PING: Duration = Duration::from_secs(30);
/// Pings without any answer.
const MISSED: u32 = 3;
/// Messages at once, and a second after that, of a client.
const BURST: f64 = 4000.0;
const RATE: f64 = 1000.0;
/// Time for the last words.
const FAREWELL: Duration = Duration::from_secs(2);
/// The shell of people; the plain one where there is no other.
const SHELL: &str = "[ -x /bin/bash ] && exec /bin/bash -i; exec /bin/sh -i";

/// `GET /api/v1/jobs/{id}/terminal`.
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(asked): RawQuery,
    mut request: Request,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let handshake = Handshake::check(request.version(), request.headers())?;
    let asked = Query::of(asked.as_deref(), &["cols", "rows"])?;
    let size = |name, usual| {
        let number = asked.number(name, 1..=1000)?.unwrap_or(usual);
        Ok::<_, Refusal>(u16::try_from(number).unwrap_or(80))
    };
    let size = PtySize { cols: size("cols", 80)?, rows: size("rows", 24)? };
    let place = place(&app.room.terminals, "terminals")?;
    let visit = app.fleet.visit(&row).await?;
    let command = visit
        .shell(SHELL)
        .pty(size)
        .timeout(None)
        .output(OutputMode::Stream)
        .leftovers(Leftovers::Kill);
    let process = visit.start(visitor_call()?, command).await?;
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(Refusal::internal(&"a connection that cannot be upgraded"));
    };
    let tasks = app.tasks.clone();
    tasks.spawn(async move {
        app.meters.terminals.inc();
        match upgrade.await {
            Ok(upgraded) => {
                let socket = socket(upgraded).await;
                converse(&app, caller.1, socket, visit, process).await;
            }
            Err(error) => tracing::debug!(error = %error, "no WebSocket"),
        }
        app.meters.terminals.dec();
        drop(place);
    });
    Ok(handshake.answer())
}

/// Why a terminal ended.
enum End {
    /// The client went.
    Gone,
    /// Something is to be said.
    Told(CloseCode, TerminalReport),
}

fn closed(code: CloseCode, why: &str) -> End {
    End::Told(code, TerminalReport::Closed(why.to_owned()))
}

async fn converse(app: &App, token: TokenHash, socket: Socket, visit: Visit, mut process: Process) {
    let (mut outgoing, mut incoming) = socket.split();
    let (sizes, mut resized) = mpsc::channel(1);
    let stdin = process.take_stdin();
    let end = tokio::select! {
        end = hear(&mut incoming, stdin, sizes) => end,
        end = show(app, &mut outgoing, &visit, &mut process, &mut resized) => end,
        () = visit.over() => closed(CloseCode::Away, "the job took its sandbox back"),
        () = invalid(app, token) => closed(CloseCode::Policy, "the token is valid no more"),
        () = app.stopping.cancelled() => closed(CloseCode::Restart, "the server stops"),
    };
    // Whatever still runs of it ends with it, and the sandbox is not kept for the
    // last words.
    drop((process, visit));
    let End::Told(code, report) = end else { return };
    let farewell = async {
        if let Ok(text) = serde_json::to_string(&report) {
            outgoing.send(Message::text(text)).await?;
        }
        let frame = CloseFrame { code, reason: "".into() };
        outgoing.send(Message::Close(Some(frame))).await?;
        // The client's own farewell ends the connection in order.
        while let Some(Ok(_)) = incoming.next().await {}
        Ok::<_, Error>(())
    };
    drop(tokio::time::timeout(FAREWELL, farewell).await);
}

/// Waits until the token is valid no more.
async fn invalid(app: &App, token: TokenHash) {
    loop {
        tokio::time::sleep(app.limits.heartbeat).await;
        if !app.sessions.is_valid(app.store(), token).await {
            return;
        }
    }
}

/// Takes what the client sends.
async fn hear(
    incoming: &mut SplitStream<Socket>,
    mut stdin: Option<StdinWriter>,
    sizes: mpsc::Sender<PtySize>,
) -> End {
    let mut allowance = Allowance::new(Instant::now());
    let mut silent = 0;
    loop {
        let message = match tokio::time::timeout(PING, incoming.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(Error::Capacity(_)))) => {
                return closed(CloseCode::Size, "a message was too long");
            }
            Ok(Some(Err(Error::Protocol(_) | Error::Utf8(_)))) => {
                return closed(CloseCode::Protocol, "this is no WebSocket any more");
            }
            Ok(Some(Err(_)) | None) => return End::Gone,
            Err(_) => {
                silent += 1;
                if silent >= MISSED {
                    return closed(CloseCode::Away, "no ping was answered");
                }
                continue;
            }
        };
        silent = 0;
        if !allowance.take(Instant::now()) {
            return closed(CloseCode::Policy, "too many messages");
        }
        match message {
            Message::Binary(bytes) => {
                if let Some(writer) = &mut stdin
                    && writer.write(bytes).await.is_err()
                {
                    // The shell is about to end, which is told elsewhere.
                    stdin = None;
                }
            }
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(TerminalControl::Resize(size)) => {
                    let size = PtySize { cols: size.cols.max(1), rows: size.rows.max(1) };
                    sizes.send(size).await.ok();
                }
                Err(_) => return closed(CloseCode::Unsupported, "a text message was no control"),
            },
            Message::Close(_) => return End::Gone,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

/// Sends what the shell writes, and pings.
async fn show(
    app: &App,
    outgoing: &mut SplitSink<Socket, Message>,
    visit: &Visit,
    process: &mut Process,
    resized: &mut mpsc::Receiver<PtySize>,
) -> End {
    let mut ping = tokio::time::interval(PING);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let idle = app.limits.terminal_idle;
    let mut used = Instant::now();
    loop {
        let message = tokio::select! {
            chunk = process.next_output() => match chunk {
                Some(OutputChunk::Stdout(bytes) | OutputChunk::Stderr(bytes)) => {
                    used = Instant::now();
                    Message::Binary(bytes)
                }
                Some(OutputChunk::StdoutGap(_) | OutputChunk::StderrGap(_)) => continue,
                None => break,
            },
            Some(size) = resized.recv() => {
                process.resize(size).await;
                continue;
            }
            _ = ping.tick() => {
                // Whoever types sees what is typed: no output is no use either.
                if used.elapsed() > idle {
                    return closed(CloseCode::Normal, "nothing happened for too long");
                }
                Message::Ping(Bytes::new())
            }
        };
        if outgoing.send(message).await.is_err() {
            return End::Gone;
        }
    }
    let outcome = match process.wait().await {
        Ok(report) => visit.outcome(process, &report).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(outcome) => End::Told(CloseCode::Normal, TerminalReport::Ended(outcome)),
        Err(error) => closed(CloseCode::Error, &error.to_string()),
    }
}

/// How many messages a client may send now.
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { left: BURST, at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + passed * RATE).min(BURST) - 1.0;
        self.left >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_messages_ends_and_typing_does_not() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        let taken = (0..100_000).take_while(|_| allowance.take(now)).count();
        assert_eq!(taken, 4000);
        let mut allowance = Allowance::new(now);
        assert!((0_u64..10_000).all(|n| allowance.take(now + Duration::from_millis(2 * n))));
    }
}
