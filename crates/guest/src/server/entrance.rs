//! Where the connections of hosts come from, one after the other.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, accept_with, recvmsg,
};

use crate::command::Outlets;

/// A packet of this byte and nothing beside it says that there is no memory left.
pub const LACK_OF_MEMORY: u8 = b'm';

/// The most that comes beside a packet: a connection, and outlets.
const MOST: usize = 3;

/// What comes in.
pub(super) enum Arrival {
    /// A host's connection, and what came beside it for the first command to write to.
    Host(OwnedFd, Option<Outlets>),
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
            return accept_with(&self.socket, flags).map(|host| Arrival::Host(host, None));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut packet = [0; 1];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received =
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut packet)], &mut beside, flags)?;
        let mut descriptors = beside.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        match descriptors.next() {
            Some(connection) => {
                rustix::io::ioctl_fionbio(&connection, true)?;
                let outlets = descriptors.next().zip(descriptors.next());
                Ok(Arrival::Host(connection, outlets))
            }
            None if received.bytes == 0 => Err(Errno::PIPE),
            None if packet == [LACK_OF_MEMORY] => Ok(Arrival::LackOfMemory),
            // There was no room for another descriptor.
            None => Err(Errno::MFILE),
        }
    }
}
