//! A terminal in a job's sandbox, over a WebSocket.
//!
//! Bytes go both ways as fast as the slower side takes them. The shell ends with the
//! connection.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::response::Response;
use cofferdam_api::{TERMINAL_PROTOCOL, TerminalControl, TerminalReport};
use cofferdam_fleet::Visit;
use cofferdam_guest_protocol::{Leftovers, OutputMode, PtySize};
use cofferdam_sandbox::{OutputChunk, Process, StdinWriter};
use cofferdam_store::TokenHash;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::app::{App, place};
use crate::channel::{Ears, End, Heard, Outgoing, Pulse, closed, ended, over};
use crate::exec::visitor_call;
use crate::problem::Refusal;
use crate::query::Query;
use crate::request::{Caller, Id};
use crate::websocket::{Handshake, Socket, socket};

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
    let handshake = Handshake::check(request.version(), request.headers(), &[TERMINAL_PROTOCOL])?;
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

async fn converse(app: &App, token: TokenHash, socket: Socket, visit: Visit, mut process: Process) {
    let (mut outgoing, incoming) = socket.split();
    let mut ears = Ears::new(incoming);
    let (sizes, mut resized) = mpsc::channel(1);
    let stdin = process.take_stdin();
    let end = tokio::select! {
        end = hear(&mut ears, stdin, sizes) => end,
        end = show(app, &mut outgoing, &visit, &mut process, &mut resized) => end,
        end = over(app, token, &visit) => end,
    };
    // Whatever still runs of it ends with it, and the sandbox is not kept for the
    // last words.
    drop((process, visit));
    ears.farewell(outgoing, end).await;
}

/// Takes what the client sends.
async fn hear(
    ears: &mut Ears,
    mut stdin: Option<StdinWriter>,
    sizes: mpsc::Sender<PtySize>,
) -> End {
    loop {
        match ears.next().await {
            Ok(Heard::Bytes(bytes)) => {
                if let Some(writer) = &mut stdin
                    && writer.write(bytes).await.is_err()
                {
                    // The shell is about to end, which is told elsewhere.
                    stdin = None;
                }
            }
            Ok(Heard::Text(text)) => match serde_json::from_str(&text) {
                Ok(TerminalControl::Resize(size)) => {
                    let size = PtySize { cols: size.cols.max(1), rows: size.rows.max(1) };
                    sizes.send(size).await.ok();
                }
                Err(_) => return closed(CloseCode::Unsupported, "a text message was no control"),
            },
            Err(end) => return end,
        }
    }
}

/// Sends what the shell writes, and pings.
async fn show(
    app: &App,
    outgoing: &mut Outgoing,
    visit: &Visit,
    process: &mut Process,
    resized: &mut mpsc::Receiver<PtySize>,
) -> End {
    // Whoever types sees what is typed: no output is no use either.
    let mut pulse = Pulse::new(app.limits.terminal_idle);
    loop {
        let message = tokio::select! {
            chunk = process.next_output() => match chunk {
                Some(OutputChunk::Stdout(bytes) | OutputChunk::Stderr(bytes)) => {
                    pulse.used();
                    Message::Binary(bytes)
                }
                Some(OutputChunk::StdoutGap(_) | OutputChunk::StderrGap(_)) => continue,
                None => break,
            },
            Some(size) = resized.recv() => {
                process.resize(size);
                continue;
            }
            ping = pulse.next() => match ping {
                Ok(ping) => ping,
                Err(end) => return end,
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
        Ok(outcome) => ended(CloseCode::Normal, &TerminalReport::Ended(outcome)),
        Err(error) => closed(CloseCode::Error, error.to_string()),
    }
}
