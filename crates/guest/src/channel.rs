//! The channels of a call: descriptors on one side, buffers with a window on the
//! other.
//!
//! Readiness is edge-triggered: a descriptor is taken for ready until it says
//! otherwise. A turn does a bounded amount of work, so that no call keeps the
//! others waiting.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use cofferdam_guest_protocol::{CHUNK, OutputMode, WINDOW};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::blocks::{Blocks, NoMemory};
use crate::output::OutputBuffer;

/// What a pipe that proves to be busy is enlarged to. Others stay as they are:
/// the kernel allows a user only so much in all.
const BUSY_PIPE: usize = 1 << 20;

/// A read of this much means that the pipe was full.
const FULL_PIPE: usize = 64 << 10;

/// How far one channel may be ahead of the connection, and all together.
const AHEAD: u64 = 512 << 10;
const AHEAD_TOGETHER: u64 = 1 << 20;

/// What a terminal still holds when its command has ended arrives within this.
const TERMINAL_SETTLES: Duration = Duration::from_millis(30);

/// The byte that ends the input of a terminal.
const TERMINAL_END: u8 = 4;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A pipe.
    Pipe,
    /// The master of a terminal.
    Terminal,
    /// A socket.
    Socket,
}

/// A descriptor that the loop watches.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) fd: OwnedFd,
    pub(crate) ready: bool,
    pub(crate) registered: bool,
}

impl Watched {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, ready: true, registered: false }
    }
}

/// Whether there is more to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Not before something happens.
    Wait,
    /// Yes.
    More,
}

/// What a turn may use.
pub(crate) struct Means<'a> {
    pub(crate) now: Instant,
    /// Bytes of all calls that wait for the connection.
    pub(crate) unsent: u64,
    /// Room for bytes that are not kept where they are read.
    pub(crate) scratch: &'a mut Vec<u8>,
}

/// A channel from the sandbox to the host.
#[derive(Debug)]
pub(crate) struct OutChannel {
    pub(crate) buffer: OutputBuffer,
    pub(crate) source: Option<Watched>,
    kind: Kind,
    enlarged: bool,
    /// Once the writer has ended: how much there still is to take.
    left: Option<u64>,
    settles_at: Option<Instant>,
    settled: bool,
    /// What comes is thrown away, so that its writer can go on.
    discards: bool,
    /// Why reading ended, when it was not the end of the data.
    pub(crate) failure: Option<Errno>,
    pub(crate) end_told: bool,
}

impl OutChannel {
    pub(crate) fn new(source: Option<OwnedFd>, kind: Kind, mode: OutputMode) -> Self {
        Self {
            buffer: OutputBuffer::new(mode),
            source: source.map(Watched::new),
            kind,
            enlarged: kind != Kind::Pipe,
            left: None,
            settles_at: None,
            settled: false,
            discards: false,
            failure: None,
            end_told: false,
        }
    }

    /// A channel that a call does not have: the host is told nothing of it.
    pub(crate) fn absent() -> Self {
        let mut channel = Self::new(None, Kind::Pipe, OutputMode::Stream);
        channel.buffer.finish();
        channel.end_told = true;
        channel
    }

    /// The source has come.
    pub(crate) fn set_source(&mut self, source: OwnedFd) {
        self.source = Some(Watched::new(source));
    }

    /// Whether everything was taken in.
    pub(crate) fn is_taken(&self) -> bool {
        self.discards || self.source.is_none()
    }

    /// The writer has ended: only what there is now is still to come, whoever
    /// else may hold the other end.
    pub(crate) fn writer_ended(&mut self, now: Instant) {
        let Some(source) = &mut self.source else { return };
        source.ready = true;
        if self.kind == Kind::Terminal {
            self.left = Some(BUSY_PIPE as u64);
            self.settles_at = Some(now + TERMINAL_SETTLES);
        } else {
            // Where it cannot be asked, everything up to the end is waited for.
            self.left = rustix::io::ioctl_fionread(&source.fd).ok();
        }
    }

    /// Takes no more in. Whoever still writes is kept from waiting, or is cut off.
    pub(crate) fn finish(&mut self, writers: Writers) {
        self.buffer.finish();
        match writers {
            Writers::Gone => self.source = None,
            Writers::GoOn => {
                self.discards = true;
                if let Some(source) = &mut self.source {
                    source.ready = true;
                }
            }
        }
    }

    /// When it has to be looked at, whatever happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.settles_at.filter(|_| !self.settled && !self.is_taken())
    }

    /// Whether a turn would do something.
    pub(crate) fn wants_turn(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.ready)
    }

    /// Takes in a piece, if there is one and there is room for it.
    pub(crate) fn turn(&mut self, attached: bool, means: &mut Means<'_>) -> Turn {
        if self.left == Some(0) && self.kind != Kind::Terminal && !self.discards {
            // Left open for the time being: see `finish`.
            self.discards = true;
            return Turn::More;
        }
        if !self.settled && self.settles_at.is_some_and(|at| means.now >= at) {
            self.settled = true;
            if let Some(source) = &mut self.source {
                source.ready = true;
            }
        }
        let Some(source) = &mut self.source else { return Turn::Wait };
        if !source.ready {
            return Turn::Wait;
        }
        let keeps = !self.discards;
        if keeps && (self.buffer.room() == 0 || is_ahead(&self.buffer, attached, means.unsent)) {
            return Turn::Wait;
        }
        let foreseen = if self.kind == Kind::Pipe { foresee(&source.fd) } else { None };
        let outcome = if let Some(outcome) = foreseen {
            outcome
        } else if keeps && self.buffer.streams() {
            let mut outcome = Err(Errno::INTR);
            let filled = self.buffer.fill(|room| {
                outcome = read_all(&source.fd, room);
                outcome.unwrap_or(0)
            });
            if filled.is_err() {
                // The writer waits until there is memory again.
                return Turn::More;
            }
            outcome
        } else {
            means.scratch.clear();
            means.scratch.reserve_exact(CHUNK);
            let outcome = rustix::io::read(&source.fd, spare_capacity(means.scratch));
            if keeps {
                self.buffer.push(means.scratch);
            }
            outcome
        };
        match outcome {
            Ok(0) => self.source = None,
            Ok(count) => {
                if !self.enlarged && count >= FULL_PIPE {
                    self.enlarged = true;
                    // A kernel that does not allow it only makes it slower.
                    rustix::pipe::fcntl_setpipe_size(&source.fd, BUSY_PIPE).ok();
                }
                if let Some(left) = &mut self.left {
                    *left = left.saturating_sub(count as u64);
                    if *left == 0 && self.kind == Kind::Terminal {
                        self.discards = true;
                    }
                }
                if keeps && attached {
                    means.unsent += count as u64;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                source.ready = false;
                // Whatever was there when the writer ended has been taken, though it may have
                // been less than was counted: others can read it too.
                let drained = self.left.is_some() && self.kind != Kind::Terminal;
                if self.settled || drained {
                    self.discards = true;
                    return Turn::More;
                }
                return Turn::Wait;
            }
            // Nobody has the terminal open: for good only when its command has
            // ended.
            Err(Errno::IO) if self.kind == Kind::Terminal => {
                source.ready = false;
                if self.settles_at.is_none() {
                    return Turn::Wait;
                }
                self.source = None;
            }
            Err(errno) => {
                self.failure = Some(errno);
                self.source = None;
            }
        }
        Turn::More
    }
}

/// What reading would come to, where no room is needed to know it: many commands end without
/// a word, and room has to be made.
fn foresee(pipe: &OwnedFd) -> Option<Result<usize, Errno>> {
    let mut asked = [PollFd::new(pipe, PollFlags::IN)];
    rustix::event::poll(&mut asked, Some(&Timespec::default())).ok()?;
    let found = asked.first()?.revents();
    match found {
        // The last bytes may have come between the kernel's looks at them and at who writes.
        PollFlags::HUP if rustix::io::ioctl_fionread(pipe) == Ok(0) => Some(Ok(0)),
        _ if found.is_empty() => Some(Err(Errno::AGAIN)),
        _ => None,
    }
}

/// Reads until there is no room, or nothing more to read now: what comes in many small pieces
/// is passed on in few large ones. An end or an error is left for the next time.
fn read_all(source: &OwnedFd, room: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = rustix::io::read(source, &mut *room)?;
    while filled >= FULL_PIPE
        && let Some(room @ [_, ..]) = room.get_mut(filled..)
        && let Ok(count @ 1..) = rustix::io::read(source, room)
    {
        filled += count;
    }
    Ok(filled)
}

/// Whether those who write to a channel may go on after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// There are none.
    Gone,
    /// They go on, and what they write is thrown away.
    GoOn,
}

/// Reading ahead of the connection is bounded, but nobody's first piece waits
/// for others.
fn is_ahead(buffer: &OutputBuffer, attached: bool, together: u64) -> bool {
    let own = buffer.unsent();
    attached && buffer.streams() && own > 0 && (own >= AHEAD || together >= AHEAD_TOGETHER)
}

/// The channel from the host to the sandbox.
#[derive(Debug)]
pub(crate) struct InChannel {
    pub(crate) sink: Option<Watched>,
    kind: Kind,
    buffer: Blocks,
    taken: u64,
    announced: u64,
    /// The host has sent something over this connection, and waits for credit.
    sender_here: bool,
    ended: bool,
    /// Whether what comes will be passed on, now or when there is a sink.
    open: bool,
}

/// A host that sends more than the window allows, or than there is memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

impl InChannel {
    pub(crate) fn new(sink: Option<OwnedFd>, kind: Kind) -> Self {
        Self {
            open: sink.is_some(),
            sink: sink.map(Watched::new),
            kind,
            buffer: Blocks::default(),
            taken: 0,
            announced: 0,
            sender_here: false,
            ended: false,
        }
    }

    /// A channel whose sink is still to come.
    pub(crate) fn awaiting(kind: Kind) -> Self {
        Self { open: true, ..Self::new(None, kind) }
    }

    /// The sink has come.
    pub(crate) fn set_sink(&mut self, sink: OwnedFd) {
        self.sink = Some(Watched::new(sink));
    }

    /// Whether nothing more is passed on.
    pub(crate) fn is_closed(&self) -> bool {
        !self.open
    }

    /// Takes in what the host sent.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Overrun> {
        // A host that dialled again may send a window beyond what is still here
        // of the time before.
        if (self.buffer.len() + bytes.len()) as u64 > 2 * WINDOW {
            return Err(Overrun);
        }
        self.sender_here = true;
        if self.open && !self.ended {
            self.buffer.append(bytes).map_err(|NoMemory| Overrun)?;
        } else {
            self.taken += bytes.len() as u64;
        }
        Ok(())
    }

    /// Nothing more will come from the host.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Nobody takes any more: what comes is thrown away.
    pub(crate) fn close(&mut self) {
        self.sink = None;
        self.open = false;
        self.taken += self.buffer.len() as u64;
        self.buffer = Blocks::default();
    }

    /// Another connection: its host has not sent anything yet.
    pub(crate) fn new_sender(&mut self) {
        self.sender_here = false;
    }

    /// The count to tell the host, when it is time to.
    pub(crate) fn announcement(&mut self) -> Option<u64> {
        let news = self.taken - self.announced;
        let due = news >= WINDOW / 4 || (news > 0 && self.buffer.is_empty());
        if !due || !self.sender_here {
            return None;
        }
        self.announced = self.taken;
        Some(self.taken)
    }

    /// Passes on what there is, as far as the other side takes it.
    pub(crate) fn turn(&mut self) -> Turn {
        let Some(sink) = &mut self.sink else { return Turn::Wait };
        if !sink.ready {
            return Turn::Wait;
        }
        if self.buffer.is_empty() {
            if self.ended {
                self.shut();
            }
            return Turn::Wait;
        }
        let run = self.buffer.run(0);
        let run = run.get(..CHUNK).unwrap_or(run);
        match write(sink.fd.as_fd(), run, self.kind) {
            Ok(count) => {
                self.taken += count as u64;
                self.buffer.release(count);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                sink.ready = false;
                return Turn::Wait;
            }
            Err(_) => self.close(),
        }
        Turn::More
    }

    fn shut(&mut self) {
        let Some(sink) = &self.sink else { return };
        match self.kind {
            // The other side has closed already when one of these fails.
            Kind::Terminal => {
                rustix::io::write(&sink.fd, &[TERMINAL_END]).ok();
            }
            Kind::Socket => {
                rustix::net::shutdown(&sink.fd, Shutdown::Write).ok();
            }
            Kind::Pipe => {}
        }
        self.sink = None;
        self.open = false;
    }
}

/// Writes without a signal when nobody reads any more.
fn write(fd: BorrowedFd<'_>, bytes: &[u8], kind: Kind) -> Result<usize, Errno> {
    match kind {
        Kind::Socket => rustix::net::send(fd, bytes, rustix::net::SendFlags::NOSIGNAL),
        Kind::Pipe | Kind::Terminal => rustix::io::write(fd, bytes),
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn what_somebody_else_read_is_not_waited_for() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        rustix::io::write(&write, b"taken away").unwrap();
        let thief = read.try_clone().unwrap();
        let mut channel = OutChannel::new(Some(read), Kind::Pipe, OutputMode::Stream);
        let (now, mut scratch) = (Instant::now(), Vec::new());
        channel.writer_ended(now);
        rustix::io::read(&thief, &mut [0_u8; 64]).unwrap();
        let mut turns = 0;
        while channel.turn(true, &mut Means { now, unsent: 0, scratch: &mut scratch }) == Turn::More
        {
            turns += 1;
            assert!(turns < 10, "it never waits");
        }
        // Somebody still holds the other end.
        drop(write);
        assert!(channel.is_taken());
    }

    #[test]
    fn what_a_pipe_without_bytes_comes_to_is_foreseen() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        assert_eq!(foresee(&read), Some(Err(Errno::AGAIN)));
        rustix::io::write(&write, b"last words").unwrap();
        assert_eq!(foresee(&read), None);
        drop(write);
        assert_eq!(foresee(&read), None);
        rustix::io::read(&read, &mut [0_u8; 64]).unwrap();
        assert_eq!(foresee(&read), Some(Ok(0)));
    }
}
