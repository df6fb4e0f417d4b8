//! Where the connections of hosts come from, one after the other.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, accept_with, recvmsg,
};

/// A packet of this byte and nothing beside it says that there is no memory left.
pub const LACK_OF_MEMORY: u8 = b'm';

/// What comes in.
pub(super) enum Arrival {
    /// A host's connection.
    Host(OwnedFd),
    /// Word that there is no memory left.
    LackOfMemory,
}

/// A socket that does not wait.
pub(super) struct Entrance {
    pub(super) socket: OwnedFd,
    /// Connections come beside packets; else they are dialled.
    pub(super) handed: bool,
}

impl Entrance {
    /// The next connection, which does not wait either; `AGAIN` if there is none yet,
    /// `PIPE` if there will be none: whoever hands them over is gone.
    pub(super) fn next(&self) -> Result<Arrival, Errno> {
        if !self.handed {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            return accept_with(&self.socket, flags).map(Arrival::Host);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut packet = [0; 1];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received =
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut packet)], &mut beside, flags)?;
        let connection = beside.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match connection {
            Some(connection) => {
                rustix::io::ioctl_fionbio(&connection, true)?;
                Ok(Arrival::Host(connection))
            }
            None if received.bytes == 0 => Err(Errno::PIPE),
            None if packet == [LACK_OF_MEMORY] => Ok(Arrival::LackOfMemory),
            // There was no room for another descriptor.
            None => Err(Errno::MFILE),
        }
    }
}
