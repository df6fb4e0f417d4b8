//! One accepted connection, from its first byte to its record.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::attempt::Attempt;
use crate::failure::Failure;
use crate::proxy::{Delivered, Shared};
use crate::traffic::farewell;
use crate::{http, socks};

/// A connection's place. It is kept until the connection's record is delivered,
/// so that records that wait for a slow log are as few as connections may be.
pub(crate) struct Seat {
    pub(crate) service: Service,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// What a connection gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Full,
    /// Only word that there is no room.
    TurnedAway,
}

/// Serves a connection until it ends or the proxy stops, and delivers its
/// record.
pub(crate) async fn attend(
    shared: Arc<Shared>,
    mut client: TcpStream,
    seat: Seat,
    stop: CancellationToken,
) -> Delivered {
    let mut attempt = Attempt::new((shared.log.clock)());
    tokio::select! {
        () = async {
            match seat.service {
                Service::Full => speak(&shared, &mut client, &mut attempt).await,
                Service::TurnedAway => turn_away(&mut client, &mut attempt).await,
            }
        } => {}
        () = stop.cancelled() => attempt.stopped(shared.broken.get()),
    }
    drop(client);
    let delivered = shared.deliver(attempt.into_record(), &stop).await;
    drop(seat.permit);
    delivered
}

/// Finds out which protocol is spoken.
async fn speak(shared: &Shared, client: &mut TcpStream, attempt: &mut Attempt) {
    if client.set_nodelay(true).is_err() {
        return; // The peer is gone already.
    }
    let deadline = Instant::now() + shared.settings.head_time_out;
    match first_byte(client, deadline).await {
        First::Byte(5) => socks::serve(shared, client, attempt, deadline).await,
        First::Byte(4) => socks::refuse_version_4(client, attempt).await,
        First::Byte(byte) if byte.is_ascii_alphabetic() => {
            http::serve(shared, client, attempt, deadline).await;
        }
        First::Byte(_) => {
            let failure = Failure::Malformed("this is neither HTTP nor SOCKS5");
            attempt.failed(&failure);
            farewell(client, &failure.http("", 0)).await;
        }
        First::Late => {
            let failure = Failure::HeadTimedOut;
            attempt.failed(&failure);
            farewell(client, &failure.http("", 0)).await;
        }
        First::Gone => {}
    }
}

/// Says that there is no room, in the client's protocol.
async fn turn_away(client: &mut TcpStream, attempt: &mut Attempt) {
    const PATIENCE: Duration = Duration::from_secs(1);
    let failure = Failure::Busy;
    attempt.failed(&failure);
    match first_byte(client, Instant::now() + PATIENCE).await {
        First::Byte(5) => farewell(client, &socks::NO_METHOD).await,
        First::Byte(_) | First::Late => farewell(client, &failure.http("", 0)).await,
        First::Gone => {}
    }
}

enum First {
    Byte(u8),
    Late,
    Gone,
}

/// Looks at the first byte, and leaves it where it is.
async fn first_byte(client: &TcpStream, deadline: Instant) -> First {
    let mut byte = [0];
    match timeout_at(deadline, client.peek(&mut byte)).await {
        Ok(Ok(1..)) => First::Byte(byte[0]),
        Ok(Ok(0) | Err(_)) => First::Gone,
        Err(_) => First::Late,
    }
}
