//! From a host that was asked for to a connection: judge, resolve once, judge
//! again, and dial exactly what was judged.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::Failure;
use crate::proxy::Shared;
use crate::target::Host;

/// Of the addresses of a name, this many are tried.
const MOST_TRIED: usize = 8;

/// Connects to a host if the policy allows it.
pub(crate) async fn dial(shared: &Shared, host: &Host, port: u16) -> Result<TcpStream, Failure> {
    let addresses = match host {
        Host::Address(address) => vec![shared.policy.decide_address(*address, port)?],
        Host::Name(name) => {
            let name = shared.policy.decide_name(name, port)?;
            let resolving = shared.resolver.resolve(&name);
            let found = timeout(shared.settings.resolve_time_out, resolving)
                .await
                .map_err(|_| Failure::ResolveTimedOut)?
                .map_err(Failure::Unresolved)?;
            let found: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
            shared.policy.decide_resolved(&found)?
        }
    };
    connect(&addresses, shared.settings.connect_time_out).await
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
                return Ok(stream);
            }
            Ok(Err(cause)) => failure = Failure::Unreachable(cause),
            Err(_) => failure = Failure::ConnectTimedOut,
        }
    }
    Err(failure)
}
