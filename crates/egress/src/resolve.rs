//! The seam to the DNS.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::Path;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::hosts;

/// Finds the addresses of a name.
///
/// It is asked once a connection, for a name that the allow-list has; what it
/// answers is judged before anything is dialled.
pub trait Resolve: Send + Sync {
    /// The addresses of this name, the preferred one first. A sandbox has only so many turns
    /// at this: one is kept as long as the look-up is under way, also if nobody waits any more.
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        turn: OwnedSemaphorePermit,
    ) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Look-ups of the host's resolver that are under way at once, in this process. Each has a
/// thread to itself, and the threads of a process are for its other work too.
const MOST_LOOK_UPS: usize = 32;

static LOOK_UPS: Semaphore = Semaphore::const_new(MOST_LOOK_UPS);

/// Where the host keeps names of its own.
const HOSTS: &str = "/etc/hosts";

/// The host's own resolver: its hosts file, its DNS. A name is asked for as it is: the host's
/// search list is for people who write less than they mean, and would have names asked for that
/// nobody judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        turn: OwnedSemaphorePermit,
    ) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        in_turn(&LOOK_UPS, move || {
            let _turn = turn;
            look_up(&name)
        })
        .boxed()
    }
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    let listed = hosts::listed(Path::new(HOSTS), name)?;
    if !listed.is_empty() {
        return Ok(listed);
    }
    // The dot says that this is all of the name.
    let mut found = Vec::new();
    for address in (format!("{name}."), 0).to_socket_addrs()? {
        if !found.contains(&address.ip()) {
            found.push(address.ip());
        }
    }
    Ok(found)
}

/// Looks something up when it has a turn. A look-up cannot be called off: one that nobody
/// waits for any more keeps its turn until it ends.
async fn in_turn<Found: Send + 'static>(
    turns: &'static Semaphore,
    look_up: impl FnOnce() -> io::Result<Found> + Send + 'static,
) -> io::Result<Found> {
    let turn = turns.acquire().await.map_err(io::Error::other)?;
    let looking = tokio::task::spawn_blocking(move || {
        let found = look_up();
        drop(turn);
        found
    });
    looking.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn look_ups_that_nobody_waits_for_any_more_keep_their_turn() {
        const MOST: usize = 3;
        static TURNS: Semaphore = Semaphore::const_new(MOST);
        let begun = Arc::new(AtomicUsize::new(0));
        // Whoever looks something up waits until the test lets go of its end.
        let (closed, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let slow = || {
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            in_turn(&TURNS, move || {
                begun.fetch_add(1, Ordering::SeqCst);
                gate.lock().unwrap().recv().ok();
                Ok(())
            })
        };
        for _ in 0..2 {
            let deadline = Duration::from_millis(20);
            let many = (0..4 * MOST).map(|_| timeout(deadline, slow()));
            let ended = futures_util::future::join_all(many).await;
            assert!(ended.iter().all(Result::is_err), "{ended:?}");
        }
        // Those after them have begun nothing, though no one is waited for.
        assert_eq!(TURNS.available_permits(), 0);
        assert!(begun.load(Ordering::SeqCst) <= MOST);
        drop(closed);
        let patience = Duration::from_secs(30);
        timeout(patience, slow()).await.unwrap().unwrap();
        let all_ended = TURNS.acquire_many(MOST as u32);
        drop(timeout(patience, all_ended).await.unwrap().unwrap());
        assert_eq!(begun.load(Ordering::SeqCst), MOST + 1);
    }

    #[tokio::test]
    async fn the_host_knows_itself() {
        let turns = Arc::new(Semaphore::new(1));
        let turn = Arc::clone(&turns).acquire_owned().await.unwrap();
        let found = SystemResolver.resolve("localhost", turn).await.unwrap();
        assert_eq!(turns.available_permits(), 1);
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
