//! The kernel's list of the descriptors that the loop is told of.
//!
//! The list may be full: what it holds is counted for all processes of a user together, and
//! whoever runs beside the guest can use that up. What it does not take is looked at every few
//! milliseconds, as if it were ready, and offered again.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::{Server, Subject, watched};

/// Between two looks at what the kernel does not tell of.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// The list.
pub(super) struct Watches {
    pub(super) epoll: OwnedFd,
    /// Events that the kernel will not tell of.
    refused: BTreeSet<u64>,
    /// When those are looked at, if there are any.
    pub(super) look_at: Option<Instant>,
}

impl Watches {
    pub(super) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, refused: BTreeSet::new(), look_at: None })
    }

    /// Has the loop told of a descriptor, at once if it is ready now; false if the loop will
    /// have to look for itself.
    pub(super) fn add(&mut self, fd: impl AsFd, event: u64) -> bool {
        let flags = Subject::of(event).map_or(EventFlags::IN, Subject::flags) | EventFlags::ET;
        match epoll::add(&self.epoll, fd, EventData::new_u64(event), flags) {
            Ok(()) | Err(Errno::EXIST) => true,
            Err(_) => {
                self.refused.insert(event);
                self.look_at.get_or_insert_with(|| Instant::now() + LOOK_PAUSE);
                false
            }
        }
    }

    /// Has the loop told no more of a descriptor. Closing it is not enough: forks may share
    /// its description.
    pub(super) fn remove(&self, fd: impl AsFd) {
        // One that was refused is not there.
        epoll::delete(&self.epoll, fd).ok();
    }
}

impl Server {
    /// Looks at what the kernel does not tell of, if it is time to.
    pub(super) fn look(&mut self, now: Instant) {
        if self.watches.look_at.is_none_or(|at| now < at) {
            return;
        }
        self.watches.look_at = None;
        for event in std::mem::take(&mut self.watches.refused) {
            if self.offer_again(event) == Some(false) {
                self.note(event);
            }
        }
    }

    /// Whether the kernel tells of an event now; `None` if there is nobody any more to tell of.
    fn offer_again(&mut self, event: u64) -> Option<bool> {
        let Self { watches, calls, entrance, children, candidate, connection, .. } = self;
        let (slot, generation) = Subject::call_of(event);
        let fd = match Subject::of(event)? {
            Subject::Entrance => entrance.as_ref()?.socket.as_fd(),
            Subject::Children => children.as_fd(),
            Subject::ConnectionInput => connection.as_ref()?.input.as_fd(),
            Subject::ConnectionOutput => connection.as_ref()?.output.as_fd(),
            Subject::Candidate => candidate.as_ref()?.input.as_fd(),
            subject => watched(calls.get_current(slot, generation)?, subject)?.fd.as_fd(),
        };
        Some(watches.add(fd, event))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustix::process::Rlimit;

    use super::*;
    use crate::server::Door;
    use crate::server::entrance::Entrance;

    #[test]
    fn what_was_refused_is_offered_again_until_it_is_taken() {
        let limit = Rlimit { current: None, maximum: None };
        // The kernel takes no files.
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        let mut server = Server::new(Door::Listener(file), Vec::new(), limit).unwrap();
        assert!(server.wait().unwrap() <= 2 * LOOK_PAUSE);
        for _ in 0..3 {
            server.look(Instant::now() + LOOK_PAUSE);
            assert_eq!(server.watches.refused, BTreeSet::from([Subject::Entrance.plain()]));
            assert!(server.watches.look_at.is_some());
        }
        let (socket, _other) = UnixStream::pair().unwrap();
        server.entrance = Some(Entrance { socket: OwnedFd::from(socket), handed: true });
        server.look(Instant::now() + LOOK_PAUSE);
        assert_eq!(server.watches.refused, BTreeSet::new());
        assert_eq!((server.watches.look_at, server.wait()), (None, None));
    }
}
