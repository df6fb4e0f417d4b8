//! Where the connections of hosts come from, one after the other.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, accept_with, recvmsg,
};

/// A socket that does not wait.
pub(super) struct Entrance {
    pub(super) socket: OwnedFd,
    /// Connections come beside packets; else they are dialled.
    pub(super) handed: bool,
}

impl Entrance {
    /// The next connection, which does not wait either; `AGAIN` if there is none yet,
    /// `PIPE` if there will be none: whoever hands them over is gone.
    pub(super) fn next(&self) -> Result<OwnedFd, Errno> {
        if !self.handed {
            return accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
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
                Ok(connection)
            }
            None if received.bytes == 0 => Err(Errno::PIPE),
            // There was no room for another descriptor.
            None => Err(Errno::MFILE),
        }
    }
}
