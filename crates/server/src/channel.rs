//! A WebSocket into a job's sandbox: what a terminal and a screen have in common.
//!
//! A client that is silent, floods, or does not answer pings is let go; so is one
//! whose token is valid no more, or whose sandbox is wanted back.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_fleet::Visit;
use cofferdam_store::TokenHash;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use crate::app::App;
use crate::websocket::Socket;

/// Between two pings.
const PING: Duration = Duration::from_secs(30);
/// Pings without any answer.
const MISSED: u32 = 3;
/// Messages at once, and a second after that, of a client.
const BURST: f64 = 4000.0;
const RATE: f64 = 1000.0;
/// Time for the last words.
const FAREWELL: Duration = Duration::from_secs(2);
/// Bytes of the reason in the frame that closes a WebSocket.
const LONGEST_REASON: usize = 123;

/// The way to a client.
pub(crate) type Outgoing = SplitSink<Socket, Message>;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client went.
    Gone,
    /// Something is to be said: a code, the last text message, a reason.
    Told(CloseCode, Option<String>, Cow<'static, str>),
}

/// An end that is told as `{"closed": why}`, and in the frame that closes.
pub(crate) fn closed(code: CloseCode, why: impl Into<Cow<'static, str>>) -> End {
    let why = why.into();
    let text = serde_json::json!({ "closed": why }).to_string();
    End::Told(code, Some(text), why)
}

/// An end with a last message of its own.
pub(crate) fn ended(code: CloseCode, report: &impl Serialize) -> End {
    End::Told(code, serde_json::to_string(report).ok(), Cow::Borrowed(""))
}

/// What a client says.
pub(crate) enum Heard {
    Bytes(Bytes),
    Text(Utf8Bytes),
}

/// Takes what a client sends.
pub(crate) struct Ears {
    incoming: SplitStream<Socket>,
    allowance: Allowance,
    silent: u32,
}

impl Ears {
    pub(crate) fn new(incoming: SplitStream<Socket>) -> Self {
        Self { incoming, allowance: Allowance::new(Instant::now()), silent: 0 }
    }

    /// The next message, or why there is none. Nothing is lost when the answer is not
    /// waited for.
    pub(crate) async fn next(&mut self) -> Result<Heard, End> {
        loop {
            let message = match tokio::time::timeout(PING, self.incoming.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(Error::Capacity(_)))) => {
                    return Err(closed(CloseCode::Size, "a message was too long"));
                }
                Ok(Some(Err(Error::Protocol(_) | Error::Utf8(_)))) => {
                    return Err(closed(CloseCode::Protocol, "this is no WebSocket any more"));
                }
                Ok(Some(Err(_)) | None) => return Err(End::Gone),
                Err(_) => {
                    self.silent += 1;
                    if self.silent >= MISSED {
                        return Err(closed(CloseCode::Away, "no ping was answered"));
                    }
                    continue;
                }
            };
            self.silent = 0;
            if !self.allowance.take(Instant::now()) {
                return Err(closed(CloseCode::Policy, "too many messages"));
            }
            match message {
                Message::Binary(bytes) => return Ok(Heard::Bytes(bytes)),
                Message::Text(text) => return Ok(Heard::Text(text)),
                Message::Close(_) => return Err(End::Gone),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// Says why it ends, and waits a moment for the client's own farewell, which ends
    /// the connection in order.
    pub(crate) async fn farewell(mut self, mut outgoing: Outgoing, end: End) {
        let End::Told(code, text, why) = end else { return };
        let reason = if why.len() <= LONGEST_REASON { why } else { Cow::Borrowed("") };
        let farewell = async {
            if let Some(text) = text {
                outgoing.send(Message::text(text)).await?;
            }
            let frame = CloseFrame { code, reason: reason.as_ref().into() };
            outgoing.send(Message::Close(Some(frame))).await?;
            while let Some(Ok(_)) = self.incoming.next().await {}
            Ok::<_, Error>(())
        };
        drop(tokio::time::timeout(FAREWELL, farewell).await);
    }
}

/// Waits for what ends a connection whatever its client does.
pub(crate) async fn over(app: &App, token: TokenHash, visit: &Visit) -> End {
    tokio::select! {
        () = visit.over() => closed(CloseCode::Away, "the job took its sandbox back"),
        () = invalid(app, token) => closed(CloseCode::Policy, "the token is valid no more"),
        () = app.stopping.cancelled() => closed(CloseCode::Restart, "the server stops"),
    }
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

/// When a client is pinged, and when it has been idle for too long.
pub(crate) struct Pulse {
    ticks: Interval,
    idle: Duration,
    used: Instant,
}

impl Pulse {
    pub(crate) fn new(idle: Duration) -> Self {
        let mut ticks = tokio::time::interval(PING);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, idle, used: Instant::now() }
    }

    /// Something happened.
    pub(crate) fn used(&mut self) {
        self.used = Instant::now();
    }

    /// The next ping, or that it is over.
    pub(crate) async fn next(&mut self) -> Result<Message, End> {
        self.ticks.tick().await;
        if self.used.elapsed() > self.idle {
            return Err(closed(CloseCode::Normal, "nothing happened for too long"));
        }
        Ok(Message::Ping(Bytes::new()))
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

    #[test]
    fn an_end_is_told_twice() {
        let End::Told(_, text, why) = closed(CloseCode::Away, "it is \"over\"") else { panic!() };
        assert_eq!(text.as_deref(), Some(r#"{"closed":"it is \"over\""}"#));
        assert_eq!(why, "it is \"over\"");
    }
}
