//! The HTTP side: one request head, then a tunnel or one exchange.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::attempt::Attempt;
use crate::dial::dial;
use crate::ending::{Ended, conclude, hold, release};
use crate::exchange::{Plan, exchange};
use crate::failure::Failure;
use crate::head::{Head, HeadError, LineEnds, read_head};
use crate::policy::Denied;
use crate::proxy::Shared;
use crate::request::{Ask, Request};
use crate::target::{Authority, Host, parse_port, shown};
use crate::traffic::farewell;
use crate::tunnel::tunnel;

/// Serves one HTTP request, and closes.
pub(crate) async fn serve(
    shared: &Shared,
    client: &mut TcpStream,
    attempt: &mut Attempt,
    deadline: Instant,
) {
    match converse(shared, client, attempt, deadline).await {
        Ok(ended) => conclude(client, attempt, ended).await,
        Err(failure) => {
            attempt.failed(&failure);
            release(client);
            farewell(client, &failure.http(attempt.host(), attempt.port())).await;
        }
    }
}

/// Fails only as long as the client has not been answered.
async fn converse(
    shared: &Shared,
    client: &mut TcpStream,
    attempt: &mut Attempt,
    deadline: Instant,
) -> Result<Ended, Failure> {
    let head = timeout_at(deadline, read_head(client, Vec::new(), LineEnds::Strict)).await;
    let Head { head, rest } = match head {
        Err(_) => return Err(Failure::HeadTimedOut),
        Ok(Err(HeadError::TooLong)) => return Err(Failure::HeadTooLong),
        Ok(Err(HeadError::LineEnd)) => {
            return Err(Failure::Malformed("this is not an HTTP/1 request"));
        }
        Ok(Err(HeadError::Nothing | HeadError::Ended | HeadError::Broken(_))) => {
            return Err(Failure::Malformed("the connection ended within the request's head"));
        }
        Ok(Ok(head)) => head,
    };
    let request = Request::parse(&head)?;
    let idle = shared.settings.idle_time_out;
    match request.ask()? {
        Ask::Tunnel { authority } => {
            let (host, port) = target(authority, None, attempt)?;
            let mut upstream = dial(shared, &host, port).await?;
            attempt.allowed();
            hold(client);
            let greeting = b"HTTP/1.1 200 Connection established\r\n\r\n";
            Ok(match client.write_all(greeting).await {
                Ok(()) => tunnel(client, &mut upstream, &rest, &attempt.traffic, idle).await,
                Err(_) => Ended::Gone,
            })
        }
        Ask::Forward { authority, path } => {
            let (host, port) = target(authority, Some(80), attempt)?;
            let framing = request.framing()?;
            let mut upstream = dial(shared, &host, port).await?;
            attempt.allowed();
            hold(client);
            let authority = match port {
                80 => host.to_string(),
                _ => format!("{host}:{port}"),
            };
            let head = request.origin_head(&authority, &path, framing);
            let plan = Plan { request: &request, head, framing, early: rest };
            exchange(client, &mut upstream, plan, &attempt.traffic, idle).await
        }
    }
}

/// The host and port of an authority; the attempt takes note of both before
/// they are found wanting.
fn target(
    authority: &str,
    usual_port: Option<u16>,
    attempt: &mut Attempt,
) -> Result<(Host, u16), Failure> {
    // A user part is refused, and may be a secret: it is not noted.
    let (user, authority) = match authority.rsplit_once('@') {
        Some((_, rest)) => ("***@", Authority::split(rest)),
        None => ("", Authority::split(authority)),
    };
    let port = authority.port.map_or(usual_port, parse_port);
    attempt.asked(format!("{user}{}", shown(authority.host.as_bytes())), port.unwrap_or(0));
    let host = Host::parse(authority.host).filter(|_| user.is_empty()).ok_or(Denied::Spelling)?;
    match port {
        Some(port) => Ok((host, port)),
        None => Err(Failure::Malformed("it needs a port between 1 and 65535")),
    }
}
