//! Hosts: how they come, what they send, what they are sent, how they go.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::getpid;

use super::entrance::{Arrival, Entrance};
use super::{Server, Subject};
use crate::call::Work;
use crate::connection::{Bulk, Candidate, Lost, Written};
use crate::tree;

/// Peers taken at a time; only the last of them can become the host.
const ACCEPTS: usize = 256;

/// Descriptors kept for the next host.
const RESERVED: usize = 2;

/// Reads of the connection in one round of the loop.
const READS: usize = 4;

impl Server {
    /// Lets hosts in from here on.
    pub(super) fn open(&mut self, entrance: Entrance) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(&entrance.socket, true)?;
        self.watches.add(&entrance.socket, Subject::Entrance.plain());
        self.reserve();
        self.entrance = Some(entrance);
        Ok(())
    }

    pub(super) fn accept(&mut self) {
        let mut lacks_memory = false;
        for _ in 0..ACCEPTS {
            let Some(entrance) = &self.entrance else { return };
            self.reserved.clear();
            let accepted = entrance.next().and_then(|arrival| match arrival {
                Arrival::Host(socket, outlets) => {
                    let output = rustix::io::fcntl_dupfd_cloexec(&socket, 0)?;
                    Ok(Some((socket, output, outlets)))
                }
                Arrival::LackOfMemory => Ok(None),
            });
            match accepted {
                Ok(Some((socket, output, outlets))) => {
                    self.outlets = outlets.or(self.outlets.take());
                    self.greet(socket, output);
                }
                Ok(None) => lacks_memory = true,
                Err(Errno::AGAIN) => break,
                // A container's first process has no other way to learn that nobody
                // will ever end it.
                Err(Errno::PIPE) => {
                    self.over = true;
                    break;
                }
                Err(_) => {}
            }
        }
        // However often it was said.
        if lacks_memory {
            tree::kill_largest(getpid());
        }
        self.reserve();
    }

    /// Keeps descriptors for the next host, if there are any.
    pub(crate) fn reserve(&mut self) {
        while self.reserved.len() < RESERVED {
            let Ok(fd) = rustix::io::fcntl_dupfd_cloexec(&self.watches.epoll, 0) else { return };
            self.reserved.push(fd);
        }
    }

    pub(super) fn greet(&mut self, input: OwnedFd, output: OwnedFd) {
        // Only one peer at a time may be about to say hello: the latest.
        self.candidate = None;
        let Ok(candidate) = Candidate::greet(input, output) else {
            self.lose_candidate();
            return;
        };
        self.watches.add(&candidate.input, Subject::Candidate.plain());
        self.candidate = Some(candidate);
        self.listen_to_candidate();
    }

    fn lose_candidate(&mut self) {
        self.candidate = None;
        self.over |= self.entrance.is_none();
    }

    pub(super) fn listen_to_candidate(&mut self) {
        let Some(candidate) = &mut self.candidate else { return };
        match candidate.listen() {
            Ok(false) => {}
            Err(Lost) => self.lose_candidate(),
            Ok(true) => {
                let Some(candidate) = self.candidate.take() else { return };
                self.disconnect();
                self.over = false;
                let connection = candidate.accept();
                self.watches.remove(&connection.input);
                self.watches.add(&connection.input, Subject::ConnectionInput.plain());
                self.watches.add(&connection.output, Subject::ConnectionOutput.plain());
                self.connection = Some(connection);
            }
        }
    }

    /// Running commands go on without a connection. Tunnels end: nobody can go on with
    /// one, and what they lead to is not to wait for somebody who is gone.
    fn disconnect(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        self.watches.remove(&connection.input);
        self.watches.remove(&connection.output);
        self.senders.clear();
        let tunnels = self.calls.iter().filter(|(_, call)| matches!(call.work, Work::Tunnel(_)));
        let tunnels: Vec<(usize, u64)> = tunnels.map(|(slot, call)| (slot, call.id)).collect();
        for (slot, id) in tunnels {
            self.calls.release_id(id);
            self.forget(slot);
        }
        for call in self.calls.iter_mut() {
            call.in_senders = false;
            call.detach();
        }
        // What waited for the connection need not wait any more.
        let slots: Vec<usize> = self.calls.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.give_turn(slot);
        }
        self.over |= self.entrance.is_none();
    }

    pub(super) fn receive(&mut self) {
        for _ in 0..READS {
            let Some(mut connection) = self.connection.take() else { return };
            let outcome = connection.receive().and_then(|()| {
                while let Some(frame) = connection.next_frame()? {
                    self.handle(frame, &mut connection.outgoing)?;
                }
                Ok(())
            });
            let again = connection.wants_turn();
            self.connection = Some(connection);
            if outcome.is_err() {
                self.disconnect();
                return;
            }
            if !again {
                return;
            }
        }
    }

    pub(super) fn flush(&mut self) {
        if self.flush_some().is_err() {
            self.disconnect();
        }
    }

    fn flush_some(&mut self) -> Result<(), Lost> {
        loop {
            self.gather();
            let Some(connection) = &mut self.connection else { return Ok(()) };
            let bulk: &[u8] = match connection.outgoing.bulk() {
                None => &[],
                // A call that is gone, or bytes that were consumed before they
                // were sent: the host does not keep to the protocol.
                Some(bulk) => {
                    self.calls.get(bulk.slot).and_then(|call| call.bulk_bytes(&bulk)).ok_or(Lost)?
                }
            };
            if connection.write(bulk)? == Written::Enough {
                return Ok(());
            }
        }
    }

    /// Takes frames from the calls in turn.
    fn gather(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        while connection.outgoing.gathers() {
            let Some(slot) = self.senders.pop_front() else { return };
            let Some(call) = self.calls.get(slot) else { continue };
            call.in_senders = false;
            let emitted = call.emit(&mut connection.outgoing);
            if let Some((channel, offset, length)) = emitted.bulk {
                let call = call.id;
                let bulk = Bulk { call, slot, channel, offset, length, written: 0 };
                connection.outgoing.push_bulk(bulk);
            }
            if emitted.again {
                call.in_senders = true;
                self.senders.push_back(slot);
            }
            if emitted.data
                && !call.in_turns
                && (call.channels.output.wants_turn() || call.channels.error.wants_turn())
            {
                call.in_turns = true;
                self.turns.push_back(slot);
            }
        }
    }
}
