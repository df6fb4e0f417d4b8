//! The seam to the DNS.

use std::io;
use std::net::IpAddr;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

/// Finds the addresses of a name.
///
/// It is asked once a connection, for a name that the allow-list has; what it
/// answers is judged before anything is dialled.
pub trait Resolve: Send + Sync {
    /// The addresses of this name, the preferred one first.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The host's own resolver: its hosts file, its DNS.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        async move {
            let mut found = Vec::new();
            for address in tokio::net::lookup_host((name, 0)).await? {
                if !found.contains(&address.ip()) {
                    found.push(address.ip());
                }
            }
            Ok(found)
        }
        .boxed()
    }
}
