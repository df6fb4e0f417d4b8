//! What the guest does with each frame of a host.

use std::time::Instant;

use cofferdam_guest_protocol::{CallState, Channel, Frame, Refusal, Reply, Request};

use crate::call::{Call, Work};
use crate::calls::MOST_CALLS;
use crate::connection::{Lost, Outgoing};
use crate::server::Server;
use crate::tunnel::Tunnel;
use crate::{command, worker};

impl Server {
    /// Acts on a frame. One that breaks the protocol costs the connection;
    /// frames of calls that are not known lead nowhere.
    pub(crate) fn handle(&mut self, frame: Frame, out: &mut Outgoing) -> Result<(), Lost> {
        match frame {
            Frame::Request { call, request } => self.begin(call, &request, out),
            Frame::Control { call, control } => {
                if let Some(slot) = self.calls.slot_of_any(call) {
                    if let Some(call) = self.calls.get(slot) {
                        call.control(control, Instant::now());
                    }
                    self.give_turn(slot);
                }
            }
            Frame::Resume { call, output, error } => {
                return self.resume(call, output, error, out);
            }
            Frame::Ack { call } => self.acknowledge(call),
            Frame::Data { call, channel: Channel::Input, bytes } => {
                if let Some(slot) = self.calls.slot_of(call) {
                    if let Some(call) = self.calls.get(slot) {
                        call.channels.input.push(&bytes).map_err(|_| Lost)?;
                    }
                    self.give_turn(slot);
                }
            }
            Frame::End { call, channel: Channel::Input } => {
                if let Some(slot) = self.calls.slot_of(call) {
                    if let Some(call) = self.calls.get(slot) {
                        call.channels.input.end();
                    }
                    self.give_turn(slot);
                }
            }
            Frame::Consumed { call, channel, total } => {
                return self.consumed(call, channel, total);
            }
            // Only a guest sends these.
            Frame::Data { .. }
            | Frame::End { .. }
            | Frame::Gap { .. }
            | Frame::Started { .. }
            | Frame::Done { .. } => return Err(Lost),
        }
        Ok(())
    }

    fn begin(&mut self, id: u64, request: &Request, out: &mut Outgoing) {
        if self.calls.contains(id) {
            return refuse(out, id, Refusal::IdInUse);
        }
        if matches!(request, Request::Calls) {
            let state = |call: &Call| CallState { call: call.id, running: call.is_running() };
            let kept = self.calls.iter().filter(|(_, call)| !call.acknowledged);
            let states = kept.map(|(_, call)| state(call)).collect();
            return out.push_reply(id, &Reply::Calls(states));
        }
        if self.calls.is_full() {
            return refuse(out, id, Refusal::Full(MOST_CALLS as u32));
        }
        self.reserve();
        let now = Instant::now();
        let begun = match request {
            Request::Exec(exec) => {
                self.count_command();
                let prepared = (&mut self.spare, &mut self.outlets);
                command::start(id, exec, &self.open_files, prepared, now)
                    .map(|(command, channels)| (channels, Work::Command(Box::new(command))))
            }
            Request::File(request) => worker::start(id, request, &self.workspace)
                .map(|(worker, channels)| (channels, Work::Worker(Box::new(worker)))),
            Request::Tunnel(target) => {
                let (tunnel, channels) = Tunnel::new(target, now);
                Ok((channels, Work::Tunnel(Box::new(tunnel))))
            }
            Request::Calls => return,
        };
        match begun {
            Ok((channels, work)) => {
                let slot = self.calls.insert(Call::new(id, channels, work));
                self.watch(slot);
                self.give_turn(slot);
            }
            Err(errno) => refuse(out, id, Refusal::Exhausted(errno.to_string())),
        }
    }

    fn resume(&mut self, id: u64, output: u64, error: u64, out: &mut Outgoing) -> Result<(), Lost> {
        let Some(slot) = self.calls.slot_of(id) else {
            refuse(out, id, Refusal::Unknown);
            return Ok(());
        };
        if let Some(call) = self.calls.get(slot) {
            call.resume(output, error).map_err(|_| Lost)?;
        }
        self.give_send(slot);
        self.give_turn(slot);
        Ok(())
    }

    fn consumed(&mut self, id: u64, channel: Channel, total: u64) -> Result<(), Lost> {
        let Some(slot) = self.calls.slot_of(id) else { return Ok(()) };
        let Some(call) = self.calls.get(slot) else { return Ok(()) };
        if !call.attached {
            return Ok(());
        }
        let Some(side) = call.channels.out(channel) else { return Err(Lost) };
        side.buffer.consumed(total).map_err(|_| Lost)?;
        self.give_send(slot);
        self.give_turn(slot);
        Ok(())
    }

    /// The host has the reply. What the call left running stays, without an id.
    fn acknowledge(&mut self, id: u64) {
        let Some(slot) = self.calls.slot_of(id) else { return };
        let Some(call) = self.calls.get(slot) else { return };
        if call.is_running() {
            return;
        }
        call.acknowledged = true;
        let over = call.is_over();
        self.calls.release_id(id);
        if over {
            self.forget(slot);
        }
    }
}

fn refuse(out: &mut Outgoing, call: u64, refusal: Refusal) {
    out.push_reply(call, &Reply::Refused(refusal));
}
