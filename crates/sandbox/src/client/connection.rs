//! A connection to a guest: the calls on it, and the way each frame takes.
//!
//! It outlives its tasks: whoever still holds a call after the connection ended
//! finds the call ended too, with the reason.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use cofferdam_guest_protocol::{Channel, Control, Frame, Refusal, Reply, Request};
use tokio::io::WriteHalf;
use tokio::sync::Notify;

use super::call::{Call, End, Grant, Listener};
use super::handle::CallHandle;
use super::outgoing::{Outgoing, Urgency};
use crate::backend::GuestStream;
use crate::error::{CallError, ProtocolError};

/// Ids of calls that the client makes for itself have this bit, so that they
/// never meet one that a caller chose.
const OWN_IDS: u64 = 1 << 63;

/// A connection to a guest.
pub(crate) struct Connection {
    pub(crate) outgoing: Outgoing,
    table: Mutex<Table>,
    next_own_id: AtomicU64,
    /// Counts what was read of the guest.
    heard: AtomicU64,
    /// Somebody begins to wait for the guest.
    waiting: Notify,
}

#[derive(Default)]
struct Table {
    calls: HashMap<u64, Arc<Call>>,
    /// Somebody may wait for the guest, and it is looked after.
    watched: bool,
    /// Why the connection ended.
    lost: Option<String>,
}

impl Connection {
    pub(crate) fn new(writer: WriteHalf<GuestStream>) -> Self {
        // A guest may hold calls of an earlier connection: begin somewhere else.
        let somewhere = RandomState::new().build_hasher().finish();
        Self {
            outgoing: Outgoing::new(writer),
            table: Mutex::default(),
            next_own_id: AtomicU64::new(somewhere),
            heard: AtomicU64::new(0),
            waiting: Notify::new(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id for a call of the client's own.
    pub(crate) fn own_id(&self) -> u64 {
        self.next_own_id.fetch_add(1, Ordering::Relaxed) | OWN_IDS
    }

    /// Why the connection ended, once it has.
    pub(crate) fn lost(&self) -> Option<String> {
        self.table().lost.clone()
    }

    /// Waits until a request or data may be sent.
    pub(crate) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let room = self.outgoing.poll_room(context);
        if room.is_pending() {
            self.watch(&mut self.table());
        }
        room
    }

    /// Begins a call.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        id: u64,
        request: Request,
    ) -> Result<CallHandle, CallError> {
        poll_fn(|context| self.poll_room(context)).await;
        // From here on nothing waits: the call is in the table and on its way,
        // or neither.
        let call = self.register(Call::new(id, 0, 0))?;
        let frame = Frame::Request { call: id, request };
        if let Err(error) = self.outgoing.push(&frame, Urgency::Now) {
            self.table().calls.remove(&id);
            return Err(error.into());
        }
        Ok(CallHandle::new(Arc::clone(self), call))
    }

    /// Takes up a call that was begun before. One that this connection still
    /// holds is handed over as it is; any other is asked of the guest.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        id: u64,
        output: u64,
        error: u64,
    ) -> Result<CallHandle, CallError> {
        poll_fn(|context| self.poll_room(context)).await;
        let held = self.table().calls.get(&id).cloned();
        if let Some(call) = held {
            if call.listener() != Listener::Detached {
                return Err(Refusal::IdInUse.into());
            }
            if call.taken() != (output, error) {
                return Err(CallError::Offsets);
            }
            call.set_listener(Listener::Attached);
            self.watch(&mut self.table());
            return Ok(CallHandle::new(Arc::clone(self), call));
        }
        let call = self.register(Call::new(id, output, error))?;
        self.outgoing.push_small(&Frame::Resume { call: id, output, error }, Urgency::Now);
        Ok(CallHandle::new(Arc::clone(self), call))
    }

    fn register(&self, call: Call) -> Result<Arc<Call>, CallError> {
        let mut table = self.table();
        if let Some(reason) = &table.lost {
            return Err(CallError::ConnectionLost { reason: reason.clone() });
        }
        let call = match table.calls.entry(call.id) {
            Entry::Occupied(_) => return Err(Refusal::IdInUse.into()),
            Entry::Vacant(place) => Arc::clone(place.insert(Arc::new(call))),
        };
        self.watch(&mut table);
        Ok(call)
    }

    // Who waits for the guest, and whether it answers.

    /// Has the guest looked after, once there is somebody who waits for it.
    fn watch(&self, table: &mut Table) {
        if !table.watched {
            table.watched = true;
            self.waiting.notify_one();
        }
    }

    /// Waits until somebody waits for the guest.
    pub(super) async fn awaited(&self) {
        self.waiting.notified().await;
    }

    /// Whether somebody waits for the guest. If nobody does, whoever comes next says so.
    pub(super) fn is_awaited(&self) -> bool {
        let mut table = self.table();
        table.watched =
            table.calls.values().any(|call| call.is_awaited()) || self.outgoing.is_awaited();
        table.watched
    }

    /// Something was read of the guest.
    pub(super) fn hear(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something was read of it.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Asks the guest something, only to hear of it: the answer is nobody's, and the guest
    /// keeps none. Where there is no room for a question, there are others before it.
    pub(super) fn ask(&self) {
        if self.outgoing.has_room() {
            let frame = Frame::Request { call: self.own_id(), request: Request::Calls };
            self.outgoing.push_small(&frame, Urgency::Now);
        }
    }

    /// Forgets a call that has ended, here and in the guest.
    pub(crate) fn settle(&self, call: &Call) {
        if call.is_kept() {
            self.acknowledge(call.id);
        }
    }

    /// Forgets a call by its id. One that somebody here follows to its end has no result
    /// yet: whoever follows it acknowledges that.
    pub(crate) fn acknowledge(&self, id: u64) {
        {
            let mut table = self.table();
            let followed =
                |call: &Arc<Call>| call.listener() == Listener::Attached && !call.has_ended();
            if table.calls.get(&id).is_some_and(followed) {
                return;
            }
            table.calls.remove(&id);
        }
        self.outgoing.push_small(&Frame::Ack { call: id }, Urgency::Soon);
    }

    /// Tells the guest something about a call that has not ended, without waiting for
    /// room: whoever wants a command to end does not wait for the guest to take its input.
    pub(crate) fn control(&self, call: &Call, control: Control) {
        if call.may_control(control, self.outgoing.has_room()) {
            self.outgoing.push_small(&Frame::Control { call: call.id, control }, Urgency::Now);
        }
    }

    /// Ends a call that nobody will ask about again.
    pub(crate) fn abandon(&self, call: &Call) {
        self.let_go(call, Some(Control::Kill));
    }

    /// Forgets a call as soon as it has ended.
    pub(crate) fn release(&self, call: &Call) {
        self.let_go(call, None);
    }

    fn let_go(&self, call: &Call, control: Option<Control>) {
        let (ended, grants) = call.set_listener(Listener::Gone);
        if ended {
            return self.settle(call);
        }
        if let Some(control) = control {
            self.outgoing.push_small(&Frame::Control { call: call.id, control }, Urgency::Now);
        }
        for grant in grants {
            self.grant(call.id, grant);
        }
    }

    pub(crate) fn grant(&self, call: u64, grant: Grant) {
        let Grant { channel, total } = grant;
        self.outgoing.push_small(&Frame::Consumed { call, channel, total }, Urgency::Now);
    }

    /// Gives a frame of the guest to its call. Frames of calls that are not, or
    /// no longer, known here lead nowhere.
    pub(crate) fn dispatch(&self, frame: Frame) -> Result<(), ProtocolError> {
        match frame {
            Frame::Data { call, channel, bytes } => {
                let Some(call) = self.find(call) else { return Ok(()) };
                if let Some(grant) = call.on_data(channel, bytes)? {
                    self.grant(call.id, grant);
                }
            }
            Frame::Gap { call, channel, dropped } => {
                let Some(call) = self.find(call) else { return Ok(()) };
                call.on_gap(channel, dropped)?;
            }
            Frame::End { call, channel } => {
                let Some(call) = self.find(call) else { return Ok(()) };
                call.on_end(channel)?;
            }
            Frame::Consumed { call, channel: Channel::Input, total } => {
                let Some(call) = self.find(call) else { return Ok(()) };
                call.on_consumed(total)?;
            }
            Frame::Started { call, pid } => {
                if let Some(call) = self.find(call) {
                    call.on_started(pid);
                }
            }
            Frame::Done { call, reply } => self.done(call, reply),
            Frame::Consumed { .. }
            | Frame::Request { .. }
            | Frame::Control { .. }
            | Frame::Resume { .. }
            | Frame::Ack { .. } => return Err(ProtocolError::HostFrame),
        }
        Ok(())
    }

    fn find(&self, id: u64) -> Option<Arc<Call>> {
        self.table().calls.get(&id).cloned()
    }

    fn done(&self, id: u64, reply: Reply) {
        let Some(call) = self.find(id) else { return };
        let listener = call.on_finish(End::Replied(reply));
        if listener != Listener::Detached {
            self.table().calls.remove(&id);
        }
        if listener == Listener::Gone {
            self.settle(&call);
        }
    }

    /// Ends the connection and with it every call. The first reason stands.
    pub(crate) fn end(&self, reason: &str) {
        let calls = {
            let mut table = self.table();
            if table.lost.is_none() {
                table.lost = Some(reason.to_owned());
            }
            std::mem::take(&mut table.calls)
        };
        self.outgoing.close();
        for call in calls.into_values() {
            call.on_finish(End::Lost(reason.to_owned()));
        }
    }
}
