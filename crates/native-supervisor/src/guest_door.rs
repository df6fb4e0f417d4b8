//! The way to the guest, as the supervisor has it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair, sockopt};

use crate::failure::{Failure, Step, ignore};
use crate::wire;

/// What either side of a connection may have under way. With less, a flood of output has both
/// wait for each other all the time.
const UNDER_WAY: usize = 512 << 10;

/// The other ends of connections go over this socket.
pub(crate) struct GuestDoor(OwnedFd);

impl GuestDoor {
    /// Makes it; beside it the socket that is the guest's.
    pub(crate) fn make() -> Result<(Self, OwnedFd), Failure> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .step("make a socket pair")?;
        Ok((Self(here), there))
    }

    /// One more connection to the guest, and what its first command is to write to. One that is
    /// frozen gets it later; one that takes none for long is not waited for.
    pub(crate) fn dial(&self, outlets: &[OwnedFd]) -> Result<OwnedFd, Failure> {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .step("make a socket pair")?;
        for end in [&here, &there] {
            // The machine allows an ordinary user less, and no less than there is now.
            if sockopt::set_socket_send_buffer_size_force(end, UNDER_WAY).is_err() {
                ignore(sockopt::set_socket_send_buffer_size(end, UNDER_WAY));
            }
        }
        let beside: Vec<_> = std::iter::once(&there).chain(outlets).map(AsFd::as_fd).collect();
        wire::send(&self.0, &(), &beside).step("hand the guest a connection")?;
        Ok(here)
    }

    /// Has the guest kill whoever takes the most memory.
    pub(crate) fn ask_for_memory(&self) {
        // One that does not hear it leaves the rest to the host's kernel.
        let packet = [cofferdam_guest::LACK_OF_MEMORY];
        ignore(rustix::net::send(&self.0, &packet, SendFlags::NOSIGNAL));
    }
}
