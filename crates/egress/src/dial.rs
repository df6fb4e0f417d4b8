//! From a host that was asked for to a connection: judge, resolve once, judge
//! again, and dial exactly what was judged.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::ending::hold;
use crate::failure::Failure;
use crate::proxy::Shared;
use crate::target::Host;

/// Addresses that no machine has.
const FOREIGN_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FOREIGN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Of the addresses of a name, this many are tried.
const MOST_TRIED: usize = 8;

/// Connects to a host if the policy allows it. The connection is [held](hold).
pub(crate) async fn dial(shared: &Shared, host: &Host, port: u16) -> Result<TcpStream, Failure> {
    let addresses = match host {
        Host::Address(address) => vec![shared.policy.decide_address(*address, port)?],
        Host::Name(name) => {
            let name = shared.policy.decide_name(name, port)?;
            let resolving = async {
                let turns = Arc::clone(&shared.look_ups);
                let turn = turns.acquire_owned().await.map_err(io::Error::other)?;
                shared.resolver.resolve(&name, turn).await
            };
            let found = timeout(shared.settings.resolve_time_out, resolving)
                .await
                .map_err(|_| Failure::ResolveTimedOut)?
                .map_err(Failure::Unresolved)?;
            let found: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
            shared.policy.decide_resolved(&found, is_own)?
        }
    };
    connect(&addresses, shared.settings.connect_time_out).await
}

/// Whether an address is one of this machine's own, whatever range it is from: a socket can have
/// it. Nothing is sent to find that out.
fn is_own(address: IpAddr) -> bool {
    let (foreign, anywhere): (IpAddr, IpAddr) = match address {
        IpAddr::V4(_) => (FOREIGN_V4.into(), Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(_) => (FOREIGN_V6.into(), Ipv6Addr::UNSPECIFIED.into()),
    };
    let can_have = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    if !can_have(address) {
        return false;
    }
    if !can_have(foreign) {
        return true;
    }
    // Machines that take over others' addresses let sockets have any. There an own one is told
    // by what is sent to it coming from it.
    let from = UdpSocket::bind((anywhere, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

/// Tries the addresses in order. Each gets its share of the time that is left,
/// so that one that never answers does not take the others' chance.
async fn connect(
    addresses: &[SocketAddr],
    limit: std::time::Duration,
) -> Result<TcpStream, Failure> {
    let no_address = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    let mut failure = Failure::Unresolved(no_address);
    let deadline = Instant::now() + limit;
    let tried = addresses.len().min(MOST_TRIED);
    for (address, left) in addresses.iter().zip((1..=tried as u32).rev()) {
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / left;
        match timeout_at(now + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(Failure::Unreachable)?;
                hold(&stream);
                return Ok(stream);
            }
            Ok(Err(cause)) => failure = Failure::Unreachable(cause),
            Err(_) => failure = Failure::ConnectTimedOut,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_own_addresses_are_known_from_others() {
        for own in ["127.0.0.1", "127.9.9.9"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["192.0.2.1", "2001:db8::1"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }
}
