//! How an open connection comes to its end.
//!
//! What both peers ended in order is ended in order. Whatever else ends a connection, also the
//! end of this process, resets it on both sides: a body may have no other end than that of its
//! connection, and neither side is to take a part for the whole.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::attempt::Attempt;
use crate::failure::Failure;
use crate::traffic::farewell;

/// How an open connection came to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Both have said everything, or the answer is whole.
    Whole,
    /// The client left in the middle.
    Gone,
    /// By the host or the proxy, in the middle.
    Broken(Failure),
    /// For lack of traffic for this long.
    Idle(Duration),
}

/// From here on the stream is reset when it is closed, whoever closes it, unless it is
/// [released](release).
pub(crate) fn hold(stream: &TcpStream) {
    // It fails only for what is no socket.
    stream.set_zero_linger().ok();
}

/// The stream is closed in order.
#[expect(deprecated, reason = "a lingering close would block; this has it not linger")]
pub(crate) fn release(stream: &TcpStream) {
    stream.set_linger(None).ok();
}

/// Ends the client's side of a connection as the connection has ended.
pub(crate) async fn conclude(client: &mut TcpStream, attempt: &mut Attempt, ended: Ended) {
    let is_whole = matches!(ended, Ended::Whole);
    attempt.ended(ended);
    if is_whole {
        release(client);
        farewell(client, b"").await;
    }
}
