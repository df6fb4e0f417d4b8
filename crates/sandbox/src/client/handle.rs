//! A call in the hands of the one who made it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use cofferdam_guest_protocol::{CHUNK, Channel, Control, Frame, Reply};

use super::call::{Call, End, Listener, Received};
use super::connection::Connection;
use super::inbox::Taken;
use super::outgoing::Urgency;
use crate::error::CallError;

/// A call. Dropping it ends the call, unless it was settled before.
pub(crate) struct CallHandle {
    connection: Arc<Connection>,
    call: Arc<Call>,
    settled: bool,
}

impl CallHandle {
    pub(super) fn new(connection: Arc<Connection>, call: Arc<Call>) -> Self {
        Self { connection, call, settled: false }
    }

    pub(crate) fn id(&self) -> u64 {
        self.call.id
    }

    /// The sending half.
    pub(crate) fn input(&self) -> Input {
        Input {
            connection: Arc::clone(&self.connection),
            call: Arc::clone(&self.call),
            closed: false,
        }
    }

    /// The next piece of either channel; `None` when the call is over. Whoever comes for it
    /// has those before it in safe hands: only now may the guest forget them.
    pub(crate) async fn next_any(&self) -> Option<(Channel, Taken)> {
        for grant in self.call.due() {
            self.connection.grant(self.call.id, grant);
        }
        poll_fn(|context| self.call.poll_any(context)).await
    }

    /// The next piece of output; `None` when no more will come.
    pub(crate) fn poll_output(&self, context: &Context<'_>) -> Poll<Option<Taken>> {
        let received = ready!(self.call.poll_output(context));
        Poll::Ready(self.credit(received).map(|(_, taken)| taken))
    }

    fn credit(&self, received: Option<Received>) -> Option<(Channel, Taken)> {
        let (channel, taken, grant) = received?;
        if let Some(grant) = grant {
            self.connection.grant(self.call.id, grant);
        }
        Some((channel, taken))
    }

    pub(crate) async fn started(&self) -> Option<u32> {
        poll_fn(|context| self.call.poll_started(context)).await
    }

    /// The guest's answer. What of the output was not taken stays to be taken.
    pub(crate) async fn reply(&self) -> Result<Reply, CallError> {
        poll_fn(|context| self.poll_reply(context)).await
    }

    pub(crate) fn poll_reply(&self, context: &Context<'_>) -> Poll<Result<Reply, CallError>> {
        Poll::Ready(match ready!(self.call.poll_end(context)) {
            End::Replied(Reply::Refused(refusal)) => Err(refusal.into()),
            End::Replied(reply) => Ok(reply),
            End::Lost(reason) => Err(CallError::ConnectionLost { reason }),
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.call.has_ended()
    }

    /// Bytes taken of output and error, from the beginning of the call.
    pub(crate) fn taken(&self) -> (u64, u64) {
        self.call.taken()
    }

    /// Sends a signal, a size or a kill, and does not wait for room.
    pub(crate) fn control(&self, control: Control) {
        self.connection.control(&self.call, control);
    }

    /// The call has ended and its reply is in safe hands: the guest may forget it.
    pub(crate) fn acknowledge(&mut self) {
        if !self.settled {
            self.settled = true;
            self.connection.settle(&self.call);
        }
    }

    /// The call has ended; the guest keeps it until it is acknowledged by its id.
    pub(crate) fn keep(&mut self) {
        self.settled = true;
    }

    /// Leaves the call running; what comes of it is for nobody.
    pub(crate) fn release(mut self) {
        self.settled = true;
        self.connection.release(&self.call);
    }

    /// Leaves the call running, to be taken up later.
    pub(crate) fn detach(mut self) {
        self.settled = true;
        self.call.set_listener(Listener::Detached);
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        if !self.settled {
            self.connection.abandon(&self.call);
        }
    }
}

/// The sending half of a call. Dropping it says nothing to the guest: input that
/// was cut short must not pass for complete.
pub(crate) struct Input {
    connection: Arc<Connection>,
    call: Arc<Call>,
    closed: bool,
}

impl Input {
    /// Sends as much as may be sent now of what there is, and says how much that
    /// was.
    fn poll_send(
        &self,
        context: &Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<Result<usize, CallError>> {
        let length = ready!(self.poll_length(context, bytes.len()))?;
        let piece = bytes.split_to(length);
        Poll::Ready(self.push(piece))
    }

    /// The same for bytes that belong to somebody else.
    pub(crate) fn poll_send_copied(
        &self,
        context: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, CallError>> {
        let length = ready!(self.poll_length(context, bytes.len()))?;
        Poll::Ready(self.push(Bytes::copy_from_slice(bytes.get(..length).unwrap_or(bytes))))
    }

    /// How much of this many bytes may be sent now.
    fn poll_length(&self, context: &Context<'_>, length: usize) -> Poll<Result<usize, CallError>> {
        if self.closed {
            return Poll::Ready(Err(CallError::InputClosed));
        }
        let credit = ready!(self.call.poll_credit(context))?;
        ready!(self.connection.poll_room(context));
        Poll::Ready(Ok(length.min(CHUNK).min(usize::try_from(credit).unwrap_or(CHUNK))))
    }

    fn push(&self, bytes: Bytes) -> Result<usize, CallError> {
        let length = bytes.len();
        self.call.count_input(length as u64);
        self.connection.outgoing.push_data(self.call.id, bytes)?;
        Ok(length)
    }

    pub(crate) async fn send(&self, mut bytes: Bytes) -> Result<(), CallError> {
        while !bytes.is_empty() {
            poll_fn(|context| self.poll_send(context, &mut bytes)).await?;
        }
        Ok(())
    }

    /// Says that no more follows.
    pub(crate) fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        if !self.call.has_ended() {
            let frame = Frame::End { call: self.call.id, channel: Channel::Input };
            self.connection.outgoing.push_small(&frame, Urgency::Now);
        }
    }
}
