//! A call: its channels, the work behind them, and what the host has been told.

use std::time::Instant;

use cofferdam_guest_protocol::{Channel, Control, Frame, Refusal, Reply};
use rustix::process::{Pid, WaitStatus};

use crate::channel::{InChannel, Means, OutChannel, Turn};
use crate::command::Command;
use crate::connection::{Bulk, Outgoing};
use crate::output::{NeverSent, Piece};
use crate::tunnel::Tunnel;
use crate::worker::Worker;

/// Data up to this long is copied next to the frames around it: one write less.
const SMALL: usize = 8 << 10;

/// The channels of a call.
pub(crate) struct Channels {
    pub(crate) output: OutChannel,
    pub(crate) error: OutChannel,
    pub(crate) input: InChannel,
}

impl Channels {
    pub(crate) fn out(&mut self, channel: Channel) -> Option<&mut OutChannel> {
        match channel {
            Channel::Input => None,
            Channel::Output => Some(&mut self.output),
            Channel::Error => Some(&mut self.error),
        }
    }

    /// Whether both channels to the host are taken in.
    pub(crate) fn are_taken(&self) -> bool {
        self.output.is_taken() && self.error.is_taken()
    }
}

/// What is behind a call.
pub(crate) enum Work {
    Command(Box<Command>),
    Worker(Box<Worker>),
    Tunnel(Box<Tunnel>),
}

/// A call.
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) channels: Channels,
    pub(crate) work: Work,
    /// Whether the host of this connection follows it.
    pub(crate) attached: bool,
    /// Whether the host has its reply and the id is free again.
    pub(crate) acknowledged: bool,
    /// Whether it waits in the queue of turns, and in that of senders.
    pub(crate) in_turns: bool,
    pub(crate) in_senders: bool,
    started: Option<u32>,
    started_told: bool,
    reply: Option<Reply>,
    done_told: bool,
    error_first: bool,
}

/// What [`Call::emit`] did.
#[derive(Default)]
pub(crate) struct Emitted {
    /// A long piece, to be written right after the frames.
    pub(crate) bulk: Option<(Channel, u64, usize)>,
    /// Whether data was sent, so that there may be room for more.
    pub(crate) data: bool,
    /// Whether there is more to send.
    pub(crate) again: bool,
}

impl Call {
    pub(crate) fn new(id: u64, channels: Channels, work: Work) -> Self {
        Self {
            id,
            channels,
            work,
            attached: true,
            acknowledged: false,
            in_turns: false,
            in_senders: false,
            started: None,
            started_told: false,
            reply: None,
            done_told: false,
            error_first: false,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.reply.is_none()
    }

    /// Whether it is a command that is not yet known to run.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(&self.work, Work::Command(command) if command.is_starting())
    }

    /// Whether nothing of it is left to look after.
    pub(crate) fn is_over(&self) -> bool {
        self.acknowledged && self.child().is_none()
    }

    /// The guest's own child that works for it.
    pub(crate) fn child(&self) -> Option<Pid> {
        match &self.work {
            Work::Command(command) => command.monitor(),
            Work::Worker(worker) => worker.child(),
            Work::Tunnel(_) => None,
        }
    }

    pub(crate) fn child_ended(&mut self, status: WaitStatus) {
        match &mut self.work {
            Work::Command(command) => command.monitor_ended(),
            Work::Worker(worker) => worker.child_ended(status),
            Work::Tunnel(_) => {}
        }
    }

    pub(crate) fn control(&mut self, control: Control, now: Instant) {
        match &mut self.work {
            Work::Command(command) => command.control(control, &self.channels, now),
            Work::Worker(worker) => worker.control(control),
            Work::Tunnel(tunnel) => tunnel.control(control),
        }
    }

    /// When it has to be looked at, whatever happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let work = match &self.work {
            Work::Command(command) => command.deadline(),
            Work::Worker(_) => None,
            Work::Tunnel(tunnel) => tunnel.deadline(),
        };
        let channels = [self.channels.output.deadline(), self.channels.error.deadline()];
        work.into_iter().chain(channels.into_iter().flatten()).min()
    }

    /// Does a bounded amount of what there is to do.
    pub(crate) fn turn(&mut self, means: &mut Means<'_>) -> Turn {
        let mut more = false;
        match &mut self.work {
            Work::Command(command) => command.read_report(),
            Work::Worker(worker) => worker.read_reply(),
            Work::Tunnel(_) => {}
        }
        // A socket that is not connected yet would only say so.
        if !matches!(&self.work, Work::Tunnel(tunnel) if !tunnel.is_connected()) {
            more |= self.channels.input.turn() == Turn::More;
            more |= self.channels.output.turn(self.attached, means) == Turn::More;
            more |= self.channels.error.turn(self.attached, means) == Turn::More;
        }
        let reply = match &mut self.work {
            Work::Command(command) => {
                self.started = self.started.or(command.started());
                command.advance(&mut self.channels, means.now, &mut more).map(Reply::Exec)
            }
            Work::Worker(worker) => worker.advance(&mut self.channels).map(Reply::File),
            Work::Tunnel(tunnel) => {
                let reply = tunnel.advance(&mut self.channels, means.now, &mut more);
                self.started = self.started.or(tunnel.is_connected().then_some(0));
                reply.map(Reply::Tunnel)
            }
        };
        if self.reply.is_none() {
            self.reply = reply;
        }
        if more { Turn::More } else { Turn::Wait }
    }

    /// The connection is gone: nothing is sent until a host asks.
    pub(crate) fn detach(&mut self) {
        self.attached = false;
        self.channels.input.new_sender();
    }

    /// A host takes the call up, and has this much of its output.
    pub(crate) fn resume(&mut self, output: u64, error: u64) -> Result<(), NeverSent> {
        self.channels.output.buffer.resume(output)?;
        self.channels.error.buffer.resume(error)?;
        self.attached = true;
        self.started_told = false;
        self.done_told = false;
        if let Work::Command(_) = self.work {
            self.channels.error.end_told = false;
        }
        self.channels.output.end_told = false;
        Ok(())
    }

    /// Writes frames that are due: small ones all, data at most one piece a
    /// channel, so that other calls have their turn.
    pub(crate) fn emit(&mut self, out: &mut Outgoing) -> Emitted {
        let mut emitted = Emitted::default();
        if !self.attached || self.acknowledged {
            return emitted;
        }
        let call = self.id;
        if let Some(pid) = self.started
            && !self.started_told
        {
            self.started_told = true;
            out.push(&Frame::Started { call, pid });
        }
        if let Some(total) = self.channels.input.announcement() {
            out.push(&Frame::Consumed { call, channel: Channel::Input, total });
        }
        // Output of a command may be here before the word that it runs.
        let is_command = matches!(self.work, Work::Command(_));
        if is_command && self.started.is_none() && self.reply.is_none() {
            return emitted;
        }
        self.error_first = !self.error_first;
        let order = if self.error_first {
            [Channel::Error, Channel::Output]
        } else {
            [Channel::Output, Channel::Error]
        };
        for channel in order {
            let Some(side) = self.channels.out(channel) else { continue };
            match side.buffer.next_piece() {
                None => {}
                Some(piece @ Piece::Gap(dropped)) => {
                    side.buffer.mark_sent(piece);
                    out.push(&Frame::Gap { call, channel, dropped });
                    emitted.again = true;
                }
                // Only one long piece can be on its way at a time.
                Some(Piece::Data { length, .. }) if length > SMALL && emitted.bulk.is_some() => {
                    emitted.again = true;
                }
                Some(piece @ Piece::Data { offset, length }) => {
                    emitted.data = true;
                    side.buffer.mark_sent(piece);
                    if length > SMALL {
                        emitted.bulk = Some((channel, offset, length));
                    } else if let Some(bytes) = side.buffer.bytes(offset, length) {
                        out.push_data(call, channel, bytes);
                    }
                }
            }
            emitted.again |= side.buffer.next_piece().is_some();
            // An end must not overtake the bulk before it.
            if side.buffer.is_delivered() && !side.end_told {
                if emitted.bulk.is_some() {
                    emitted.again = true;
                } else {
                    side.end_told = true;
                    out.push(&Frame::End { call, channel });
                }
            }
        }
        let ended = self.channels.output.end_told && self.channels.error.end_told;
        if let Some(reply) = &self.reply
            && ended
            && !self.done_told
        {
            self.done_told = true;
            out.push_reply(call, reply);
        }
        emitted
    }

    /// The bytes of a long piece that are still to be written.
    pub(crate) fn bulk_bytes(&mut self, bulk: &Bulk) -> Option<&[u8]> {
        if self.id != bulk.call {
            return None;
        }
        let side = self.channels.out(bulk.channel)?;
        side.buffer.bytes(bulk.offset, bulk.length)?.get(bulk.written..)
    }
}

impl Outgoing {
    /// A reply too long for a frame becomes one that says so.
    pub(crate) fn push_reply(&mut self, call: u64, reply: &Reply) {
        if !self.push(&Frame::Done { call, reply: reply.clone() }) {
            let refusal = Refusal::Exhausted("the reply is longer than a frame".to_owned());
            self.push(&Frame::Done { call, reply: Reply::Refused(refusal) });
        }
    }
}
