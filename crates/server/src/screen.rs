//! The screen of a job's desktop, over a WebSocket: a viewer in a browser speaks with
//! the VNC server in the sandbox.
//!
//! Whoever connects watches. What a watcher sends and could act is left out here, not
//! in the page. Whoever takes over has mouse and keys until they are given back, the
//! connection ends, or they are not used for a while.

mod pressed;
mod rfb;
mod turn;
mod way;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use cofferdam_api::{PLAIN_SCREEN_PROTOCOL, SCREEN_PROTOCOL, ScreenControl, ScreenReport};
use cofferdam_fleet::Visit;
use cofferdam_guest_protocol::TunnelTarget;
use cofferdam_sandbox::Tunnel;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use tokio::io::{AsyncReadExt, ReadHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::app::{App, place};
use crate::channel::{Ears, End, Heard, Outgoing, Pulse, closed, over};
use crate::desktop::find;
use crate::exec::visitor_call;
use crate::problem::{CONFLICT, Refusal};
use crate::request::{Caller, Id};
use crate::websocket::{Handshake, Socket, socket};
use turn::{Change, Table, Turn};
use way::Way;

/// Bytes of the screen that are sent at once.
const PIECE: usize = 32 << 10;
/// How long the way into the sandbox may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// `GET /api/v1/jobs/{id}/desktop/screen`.
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    mut request: Request,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let known = [SCREEN_PROTOCOL, PLAIN_SCREEN_PROTOCOL];
    let handshake = Handshake::check(request.version(), request.headers(), &known)?;
    let plain = handshake.protocol() == Some(PLAIN_SCREEN_PROTOCOL);
    let place = place(&app.room.screens, "screens")?;
    let (visit, desktop) = find(&app, &row).await?;
    let desktop = desktop.ok_or_else(|| {
        let remedy = format!("start it: POST /api/v1/jobs/{}/desktop", row.id);
        Refusal::new(CONFLICT, "the job's desktop does not run", remedy)
    })?;
    let target = TunnelTarget::Unix(desktop.vnc.into_bytes());
    let connected = tokio::time::timeout(CONNECT, visit.tunnel(visitor_call()?, target)).await;
    let tunnel = connected.map_err(|_| {
        Refusal::new(CONFLICT, "the job's desktop does not answer", "try again in a moment")
    })??;
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(Refusal::internal(&"a connection that cannot be upgraded"));
    };
    let tasks = app.tasks.clone();
    tasks.spawn(async move {
        app.meters.screens.inc();
        match upgrade.await {
            Ok(upgraded) => {
                let socket = socket(upgraded).await;
                let viewer = Viewer { app: &app, caller, job: row.id, plain };
                viewer.converse(socket, visit, tunnel).await;
            }
            Err(error) => tracing::debug!(error = %error, "no WebSocket"),
        }
        app.meters.screens.dec();
        drop(place);
    });
    Ok(handshake.answer())
}

/// Who looks at which screen.
struct Viewer<'a> {
    app: &'a App,
    caller: Caller,
    job: cofferdam_types::JobId,
    /// Text messages are not understood.
    plain: bool,
}

impl Viewer<'_> {
    async fn converse(&self, socket: Socket, visit: Visit, tunnel: Tunnel) {
        let (mut outgoing, incoming) = socket.split();
        let mut ears = Ears::new(incoming);
        let (screen, writer) = tokio::io::split(tunnel);
        let mut way = Way::new(writer);
        let mut turn = Turn::new(self, &visit);
        // A client that orders faster than orders are carried out waits.
        let (orders, ordered) = mpsc::channel(4);
        let (changes, changed) = mpsc::channel(1);
        let (reports, told) = mpsc::channel(4);
        let (used, last_use) = watch::channel(Instant::now());
        let table = Table { ordered, changes, reports, last_use };
        let end = tokio::select! {
            end = self.hear(&mut ears, &mut way, &orders, changed, used) => end,
            end = self.show(&mut outgoing, screen, told) => end,
            end = turn.rule(table) => end,
            end = over(self.app, self.caller.1, &visit) => end,
        };
        turn.end(&mut way).await;
        // The sandbox is not kept for the last words.
        drop((way, visit));
        let end = match end {
            End::Told(code, _, why) if self.plain => End::Told(code, None, why),
            end => end,
        };
        ears.farewell(outgoing, end).await;
    }

    /// Takes what the viewer sends.
    async fn hear(
        &self,
        ears: &mut Ears,
        way: &mut Way,
        orders: &mpsc::Sender<ScreenControl>,
        mut changed: mpsc::Receiver<Change>,
        used: watch::Sender<Instant>,
    ) -> End {
        loop {
            tokio::select! {
                Some(Change { mode, done }) = changed.recv() => {
                    way.set_mode(mode);
                    if way.flush().await.is_err() {
                        return desktop_ended();
                    }
                    // Whoever asked may have given up.
                    done.send(()).ok();
                }
                heard = ears.next() => match heard {
                    Ok(Heard::Bytes(bytes)) => {
                        match way.take(&bytes) {
                            Ok(true) => drop(used.send_replace(Instant::now())),
                            Ok(false) => {}
                            Err(refused) => {
                                return closed(CloseCode::Protocol, refused.to_string());
                            }
                        }
                        if way.flush().await.is_err() {
                            return desktop_ended();
                        }
                    }
                    Ok(Heard::Text(text)) => match serde_json::from_str(&text) {
                        Ok(control) if !self.plain => drop(orders.send(control).await),
                        _ => {
                            let why = "a text message was no control";
                            return closed(CloseCode::Unsupported, why);
                        }
                    },
                    Err(end) => return end,
                },
            }
        }
    }

    /// Sends what the desktop shows, reports, and pings.
    async fn show(
        &self,
        outgoing: &mut Outgoing,
        mut screen: ReadHalf<Tunnel>,
        mut told: mpsc::Receiver<ScreenReport>,
    ) -> End {
        let mut pulse = Pulse::new(self.app.limits.terminal_idle);
        let mut piece = vec![0; PIECE];
        loop {
            let message = tokio::select! {
                read = screen.read(&mut piece) => match read {
                    Ok(0) | Err(_) => return desktop_ended(),
                    Ok(length) => {
                        pulse.used();
                        let bytes = piece.get(..length).unwrap_or_default();
                        Message::Binary(Bytes::copy_from_slice(bytes))
                    }
                },
                Some(report) = told.recv() => {
                    if self.plain {
                        continue;
                    }
                    match serde_json::to_string(&report) {
                        Ok(text) => Message::text(text),
                        Err(_) => continue,
                    }
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
    }
}

fn desktop_ended() -> End {
    closed(CloseCode::Normal, "the desktop has ended")
}
