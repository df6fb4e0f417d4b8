//! One call: what came for it, what may be sent on it, and who waits for what.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use cofferdam_guest_protocol::{Channel, Control, Reply, WINDOW};

use super::inbox::{Broken, Inbox, Taken};
use crate::error::{CallError, ProtocolError};

/// Signals and sizes for one call that may be queued while there is no room. More than
/// anybody sends by hand, and little to hold.
const MOST_CONTROLS: u32 = 256;

/// A call, shared by the connection that feeds it and the one who made it.
pub(crate) struct Call {
    pub(crate) id: u64,
    state: Mutex<State>,
}

struct State {
    output: Inbox,
    error: Inbox,
    /// Counts what came, so that both channels can be taken in that order.
    sequence: u64,
    started: Option<u32>,
    end: Option<End>,
    listener: Listener,
    input_sent: u64,
    input_consumed: u64,
    /// Controls that were sent since there was room.
    controls: u32,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The guest answered.
    Replied(Reply),
    /// The connection ended first.
    Lost(String),
}

/// Who will have what comes for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// The one who made it.
    Attached,
    /// Nobody now, but somebody may later: it is kept, and no credit granted.
    Detached,
    /// Nobody ever: it is thrown away as it comes.
    Gone,
}

/// Credit that the guest is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) channel: Channel,
    pub(crate) total: u64,
}

impl Grant {
    fn of(inbox: &mut Inbox, channel: Channel) -> Option<Self> {
        let total = inbox.grant()?;
        Some(Self { channel, total })
    }
}

/// Something taken of a call, and the credit that this sets free.
pub(crate) type Received = (Channel, Taken, Option<Grant>);

impl Call {
    pub(crate) fn new(id: u64, output: u64, error: u64) -> Self {
        Self {
            id,
            state: Mutex::new(State {
                output: Inbox::from_offset(output),
                error: Inbox::from_offset(error),
                sequence: 0,
                started: None,
                end: None,
                listener: Listener::Attached,
                input_sent: 0,
                input_consumed: 0,
                controls: 0,
                receiver: None,
                sender: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // What the connection tells the call.

    pub(crate) fn on_data(
        &self,
        channel: Channel,
        bytes: Bytes,
    ) -> Result<Option<Grant>, ProtocolError> {
        let mut state = self.lock();
        let listener = state.listener;
        let sequence = state.next_sequence();
        let inbox = state.inbox(channel)?;
        inbox.receive(bytes.len() as u64).map_err(|broken| self.broke(channel, broken))?;
        if listener == Listener::Gone {
            inbox.discard();
            return Ok(Grant::of(inbox, channel));
        }
        inbox.push(sequence, bytes);
        state.wake_receiver();
        Ok(None)
    }

    pub(crate) fn on_gap(&self, channel: Channel, dropped: u64) -> Result<(), ProtocolError> {
        let mut state = self.lock();
        if state.listener == Listener::Gone {
            return Ok(());
        }
        let sequence = state.next_sequence();
        let inbox = state.inbox(channel)?;
        inbox.push_gap(sequence, dropped).map_err(|broken| self.broke(channel, broken))?;
        state.wake_receiver();
        Ok(())
    }

    pub(crate) fn on_end(&self, channel: Channel) -> Result<(), ProtocolError> {
        let mut state = self.lock();
        state.inbox(channel)?.end();
        state.wake_receiver();
        Ok(())
    }

    pub(crate) fn on_started(&self, pid: u32) {
        let mut state = self.lock();
        state.started = Some(pid);
        state.wake_receiver();
    }

    pub(crate) fn on_consumed(&self, total: u64) -> Result<(), ProtocolError> {
        let mut state = self.lock();
        if total > state.input_sent {
            return Err(ProtocolError::Overconsumed(self.id));
        }
        state.input_consumed = state.input_consumed.max(total);
        if let Some(waker) = state.sender.take() {
            waker.wake();
        }
        Ok(())
    }

    /// Ends the call and says who was listening.
    pub(crate) fn on_finish(&self, end: End) -> Listener {
        let mut state = self.lock();
        if state.end.is_none() {
            state.end = Some(end);
        }
        state.wake_receiver();
        if let Some(waker) = state.sender.take() {
            waker.wake();
        }
        state.listener
    }

    fn broke(&self, channel: Channel, broken: Broken) -> ProtocolError {
        match broken {
            Broken::Overrun => ProtocolError::Overrun(self.id, channel),
            Broken::AfterEnd => ProtocolError::AfterEnd(self.id, channel),
            Broken::Gaps => ProtocolError::Gaps(self.id),
        }
    }

    // What the maker of the call asks it.

    /// The credit for what was taken so far. A call that has its reply needs no more.
    pub(crate) fn due(&self) -> Vec<Grant> {
        let mut state = self.lock();
        if state.end.is_some() {
            return Vec::new();
        }
        let State { output, error, .. } = &mut *state;
        let grants = [Grant::of(output, Channel::Output), Grant::of(error, Channel::Error)];
        grants.into_iter().flatten().collect()
    }

    /// The next piece of either channel, in the order they came; `None` when the
    /// call is over. The credit for it is [`Call::due`].
    pub(crate) fn poll_any(&self, context: &Context<'_>) -> Poll<Option<(Channel, Taken)>> {
        let mut state = self.lock();
        let output = state.output.first_sequence();
        let error = state.error.first_sequence();
        let channel = match (output, error) {
            (Some(output), Some(error)) if error < output => Channel::Error,
            (Some(_), _) => Channel::Output,
            (None, Some(_)) => Channel::Error,
            (None, None) if state.end.is_some() => return Poll::Ready(None),
            (None, None) => {
                state.wait_to_receive(context);
                return Poll::Pending;
            }
        };
        let taken = state.inbox(channel).ok().and_then(Inbox::take);
        Poll::Ready(taken.map(|taken| (channel, taken)))
    }

    /// The next piece of [`Channel::Output`]; `None` when no more will come.
    pub(crate) fn poll_output(&self, context: &Context<'_>) -> Poll<Option<Received>> {
        let mut state = self.lock();
        if let Some(taken) = state.take(Channel::Output) {
            return Poll::Ready(Some(taken));
        }
        if state.output.ended() || state.end.is_some() {
            return Poll::Ready(None);
        }
        state.wait_to_receive(context);
        Poll::Pending
    }

    /// The process id, once it is known; `None` when the call ended without one.
    pub(crate) fn poll_started(&self, context: &Context<'_>) -> Poll<Option<u32>> {
        let mut state = self.lock();
        if state.started.is_some() || state.end.is_some() {
            return Poll::Ready(state.started);
        }
        state.wait_to_receive(context);
        Poll::Pending
    }

    /// How the call ended.
    pub(crate) fn poll_end(&self, context: &Context<'_>) -> Poll<End> {
        let mut state = self.lock();
        if let Some(end) = &state.end {
            return Poll::Ready(end.clone());
        }
        state.wait_to_receive(context);
        Poll::Pending
    }

    /// How many bytes of input may be sent now, at least one.
    pub(crate) fn poll_credit(&self, context: &Context<'_>) -> Poll<Result<u64, CallError>> {
        let mut state = self.lock();
        match &state.end {
            Some(End::Lost(reason)) => {
                return Poll::Ready(Err(CallError::ConnectionLost { reason: reason.clone() }));
            }
            Some(End::Replied(_)) => return Poll::Ready(Err(CallError::InputClosed)),
            None => {}
        }
        let credit = WINDOW - (state.input_sent - state.input_consumed);
        if credit > 0 {
            return Poll::Ready(Ok(credit));
        }
        if !state.sender.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            state.sender = Some(context.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) fn count_input(&self, length: u64) {
        self.lock().input_sent += length;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Whether a control may be sent. Beyond the most of them there is a place for a kill,
    /// after which nothing matters.
    pub(crate) fn may_control(&self, control: Control, room: bool) -> bool {
        let mut state = self.lock();
        if room {
            state.controls = 0;
        }
        let most = if control == Control::Kill { MOST_CONTROLS + 1 } else { MOST_CONTROLS };
        let may = state.end.is_none() && state.controls < most;
        if may {
            state.controls += 1;
        }
        may
    }

    /// Whether somebody waits for the guest to go on with it, or may at any time.
    pub(crate) fn is_awaited(&self) -> bool {
        let state = self.lock();
        let waits = state.receiver.is_some() || state.sender.is_some();
        state.end.is_none() && (waits || state.listener == Listener::Attached)
    }

    /// Whether the guest keeps a result of this call. It keeps none of a call
    /// that it refused; the id may then be that of another, which it does keep.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(&self.lock().end, Some(End::Replied(reply)) if !matches!(reply, Reply::Refused(_)))
    }

    /// Bytes taken of output and error.
    pub(crate) fn taken(&self) -> (u64, u64) {
        let state = self.lock();
        (state.output.taken(), state.error.taken())
    }

    /// Stops listening. Says whether the call had already ended, and what credit
    /// throwing the rest away sets free.
    pub(crate) fn set_listener(&self, listener: Listener) -> (bool, Vec<Grant>) {
        let mut state = self.lock();
        state.listener = listener;
        state.receiver = None;
        let mut grants = Vec::new();
        if listener == Listener::Gone {
            for channel in [Channel::Output, Channel::Error] {
                if let Ok(inbox) = state.inbox(channel) {
                    inbox.discard();
                    grants.extend(Grant::of(inbox, channel));
                }
            }
        }
        (state.end.is_some(), grants)
    }

    pub(crate) fn listener(&self) -> Listener {
        self.lock().listener
    }
}

impl State {
    fn inbox(&mut self, channel: Channel) -> Result<&mut Inbox, ProtocolError> {
        match channel {
            Channel::Output => Ok(&mut self.output),
            Channel::Error => Ok(&mut self.error),
            Channel::Input => Err(ProtocolError::HostFrame),
        }
    }

    fn take(&mut self, channel: Channel) -> Option<Received> {
        // A call that has its reply needs no more credit.
        let over = self.end.is_some();
        let inbox = self.inbox(channel).ok()?;
        let taken = inbox.take()?;
        let grant = if over { None } else { Grant::of(inbox, channel) };
        Some((channel, taken, grant))
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn wait_to_receive(&mut self, context: &Context<'_>) {
        if !self.receiver.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.receiver = Some(context.waker().clone());
        }
    }

    fn wake_receiver(&mut self) {
        if let Some(waker) = self.receiver.take() {
            waker.wake();
        }
    }
}
