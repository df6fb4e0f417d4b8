//! The SOCKS side: version 5, no authentication, CONNECT only.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::attempt::Attempt;
use crate::dial::dial;
use crate::ending::{Ended, conclude, hold};
use crate::failure::Failure;
use crate::policy::Denied;
use crate::proxy::Shared;
use crate::target::{Host, shown};
use crate::traffic::farewell;
use crate::tunnel::tunnel;

/// What a version 4 client understands as "rejected".
const REJECTED_4: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// "None of your methods of authentication will do."
pub(crate) const NO_METHOD: [u8; 2] = [5, 0xff];

/// Why a negotiation came to nothing.
enum Refusal {
    /// The client offers only methods of authentication that are not known.
    Method,
    /// The request is not served; the client waits for a reply.
    Request(Failure),
    /// The client left.
    Gone,
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Request(failure)
    }
}

/// Serves one SOCKS5 connection.
pub(crate) async fn serve(
    shared: &Shared,
    client: &mut TcpStream,
    attempt: &mut Attempt,
    deadline: Instant,
) {
    let idle = shared.settings.idle_time_out;
    match negotiate(shared, client, attempt, deadline).await {
        Ok(mut upstream) => {
            attempt.allowed();
            hold(client);
            let ended = match client.write_all(&reply(0)).await {
                Ok(()) => tunnel(client, &mut upstream, b"", &attempt.traffic, idle).await,
                Err(_) => Ended::Gone,
            };
            drop(upstream);
            conclude(client, attempt, ended).await;
        }
        Err(Refusal::Method) => {
            attempt.failed(&Failure::Malformed("SOCKS5 is served without authentication only"));
            farewell(client, &NO_METHOD).await;
        }
        Err(Refusal::Request(failure)) => {
            attempt.failed(&failure);
            farewell(client, &reply(failure.socks())).await;
        }
        Err(Refusal::Gone) => {
            attempt.failed(&Failure::Malformed("the connection ended within the negotiation"));
        }
    }
}

/// Turns a SOCKS4 client away in its own words.
pub(crate) async fn refuse_version_4(client: &mut TcpStream, attempt: &mut Attempt) {
    attempt.failed(&Failure::Malformed("SOCKS4 is not served, SOCKS5 is"));
    farewell(client, &REJECTED_4).await;
}

async fn negotiate(
    shared: &Shared,
    client: &mut TcpStream,
    attempt: &mut Attempt,
    deadline: Instant,
) -> Result<TcpStream, Refusal> {
    let asked = timeout_at(deadline, ask(client, attempt)).await;
    let (host, port) = asked.map_err(|_| Failure::HeadTimedOut)??;
    Ok(dial(shared, &host, port).await?)
}

/// Reads what is asked for, and not a byte beyond it.
async fn ask(client: &mut TcpStream, attempt: &mut Attempt) -> Result<(Host, u16), Refusal> {
    let _version = client.read_u8().await?;
    let mut methods = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&0) {
        return Err(Refusal::Method);
    }
    client.write_all(&[5, 0]).await?;

    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let [version, command, reserved, address_type] = request;
    if version != 5 || reserved != 0 {
        return Err(Failure::Malformed("this is not a SOCKS5 request").into());
    }
    let spelled = match address_type {
        1 => Host::Address(Ipv4Addr::from(client.read_u32().await?).into()).to_string(),
        4 => Host::Address(Ipv6Addr::from(client.read_u128().await?).into()).to_string(),
        3 => {
            let mut name = vec![0; client.read_u8().await?.into()];
            client.read_exact(&mut name).await?;
            // Bytes that are not ASCII are escaped here, and no host has a backslash.
            shown(&name)
        }
        _ => return Err(Failure::SocksAddressType.into()),
    };
    let port = client.read_u16().await?;
    let host = Host::parse(&spelled);
    attempt.asked(spelled, port);
    if command != 1 {
        return Err(Failure::SocksCommand.into());
    }
    if port == 0 {
        return Err(Failure::Malformed("it needs a port between 1 and 65535").into());
    }
    Ok((host.ok_or(Failure::Denied(Denied::Spelling))?, port))
}

/// A reply without an address: where the proxy dialled from is not told.
fn reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}
