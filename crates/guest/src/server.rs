//! The loop: waits for events, gives each call its turn, sends what is due.

mod children;
mod entrance;
mod host;
mod watches;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::process::{Rlimit, getpid};

use crate::call::{Call, Work};
use crate::calls::Calls;
use crate::channel::{Means, Turn, Watched};
use crate::command::Outlets;
use crate::connection::{Candidate, Connection};
use crate::spare::Spare;
use crate::{sys, tree};
use entrance::Entrance;
use watches::Watches;

pub use entrance::LACK_OF_MEMORY;

/// Events taken at a time.
const EVENTS: usize = 64;

/// A guest that has had nothing to do for this long gives memory back.
const IDLE: Duration = Duration::from_millis(100);

/// No wait for an event is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Subject {
    Entrance = 0,
    Children = 1,
    ConnectionInput = 2,
    ConnectionOutput = 3,
    Candidate = 4,
    CallOutput = 5,
    CallError = 6,
    CallInput = 7,
    CallReport = 8,
}

impl Subject {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Entrance,
            1 => Self::Children,
            2 => Self::ConnectionInput,
            3 => Self::ConnectionOutput,
            4 => Self::Candidate,
            5 => Self::CallOutput,
            6 => Self::CallError,
            7 => Self::CallInput,
            8 => Self::CallReport,
            _ => return None,
        })
    }

    /// What an event is about that has come.
    fn of(event: u64) -> Option<Self> {
        Self::from_bits((event & 0xff) as u8)
    }

    /// Its slot and generation, if it is about a call.
    fn call_of(event: u64) -> (usize, u32) {
        ((event >> 8 & 0xff_ffff) as usize, (event >> 32) as u32)
    }

    fn plain(self) -> u64 {
        self as u64
    }

    fn of_call(self, slot: usize, generation: u32) -> u64 {
        self as u64 | (slot as u64) << 8 | u64::from(generation) << 32
    }

    /// What makes a descriptor ready.
    fn flags(self) -> EventFlags {
        match self {
            Self::ConnectionOutput | Self::CallInput => EventFlags::OUT,
            _ => EventFlags::IN,
        }
    }
}

/// Where hosts come from.
pub(crate) enum Door {
    /// They dial this socket.
    Listener(OwnedFd),
    /// Their connections come over this socket, one beside each packet.
    Handed(OwnedFd),
    /// There is one, at these descriptors; when it leaves, all is over.
    Stream(OwnedFd, OwnedFd),
}

/// The guest.
pub(crate) struct Server {
    pub(crate) calls: Calls,
    pub(crate) workspace: Vec<u8>,
    /// Open files a command may have; the guest itself may have the most.
    pub(crate) open_files: Rlimit,
    /// Commands that were asked for.
    commands: u64,
    /// The monitor of the next command.
    pub(crate) spare: Option<Spare>,
    spare_due: bool,
    /// What the next command that streams its output writes to by itself.
    pub(crate) outlets: Option<Outlets>,
    watches: Watches,
    children: OwnedFd,
    entrance: Option<Entrance>,
    /// Kept so that a host can dial when all other descriptors are in use.
    reserved: Vec<OwnedFd>,
    candidate: Option<Candidate>,
    connection: Option<Connection>,
    turns: VecDeque<usize>,
    senders: VecDeque<usize>,
    scratch: Vec<u8>,
    sweep: Option<(u32, Instant)>,
    over: bool,
}

impl Server {
    pub(crate) fn new(door: Door, workspace: Vec<u8>, open_files: Rlimit) -> Result<Self, Errno> {
        let mut watches = Watches::new()?;
        let children = sys::child_signals()?;
        watches.add(&children, Subject::Children.plain());
        let mut server = Self {
            calls: Calls::default(),
            workspace,
            open_files,
            commands: 0,
            spare: None,
            spare_due: false,
            outlets: None,
            watches,
            children,
            entrance: None,
            reserved: Vec::new(),
            candidate: None,
            connection: None,
            turns: VecDeque::new(),
            senders: VecDeque::new(),
            scratch: Vec::new(),
            sweep: None,
            over: false,
        };
        match door {
            Door::Listener(socket) => server.open(Entrance { socket, handed: false })?,
            Door::Handed(socket) => server.open(Entrance { socket, handed: true })?,
            Door::Stream(input, output) => server.greet(input, output),
        }
        Ok(server)
    }

    /// Serves until the only stream there is has ended, or the loop cannot go on.
    pub(crate) fn run(&mut self) -> Result<(), Errno> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut trimmed = false;
        while !self.over {
            events.clear();
            let wait = self.wait();
            let idles = !trimmed && wait.is_none_or(|wait| wait > IDLE);
            let wait = if idles { Some(IDLE) } else { wait };
            let timeout = wait.and_then(|wait| Timespec::try_from(wait).ok());
            match epoll::wait(&self.watches.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            trimmed = idles && events.is_empty();
            if trimmed {
                self.trim();
                continue;
            }
            for event in &events {
                self.note(event.data.u64());
            }
            self.receive();
            let now = Instant::now();
            self.wake_due(now);
            self.take_turns(now);
            self.flush();
            self.keep_spare();
        }
        // Whoever cannot be found is ended with the sandbox.
        tree::kill(|processes| tree::descendants(processes, getpid())).ok();
        Ok(())
    }

    /// How long nothing has to be done unless something happens.
    fn wait(&self) -> Option<Duration> {
        let reads = self.connection.as_ref().is_some_and(Connection::wants_turn);
        if reads || !self.turns.is_empty() {
            return Some(Duration::ZERO);
        }
        let sweep = self.sweep.map(|(_, at)| at);
        let calls = self.calls.iter().filter_map(|(_, call)| call.deadline());
        let next = calls.chain(sweep).chain(self.watches.look_at).min()?;
        let wait = next.saturating_duration_since(Instant::now());
        // Rounded up: waking early would be waking for nothing.
        Some(wait.min(LONGEST_WAIT) + Duration::from_micros(50))
    }

    /// Gives back what an idle guest does not need.
    fn trim(&mut self) {
        self.scratch = Vec::new();
        sys::trim_memory();
    }

    fn note(&mut self, event: u64) {
        let Some(subject) = Subject::of(event) else { return };
        match subject {
            Subject::Entrance => self.accept(),
            Subject::Children => self.reap(),
            Subject::ConnectionInput => {
                if let Some(connection) = &mut self.connection {
                    connection.readable = true;
                }
            }
            Subject::ConnectionOutput => {
                if let Some(connection) = &mut self.connection {
                    connection.writable = true;
                }
            }
            Subject::Candidate => self.listen_to_candidate(),
            Subject::CallOutput | Subject::CallError | Subject::CallInput | Subject::CallReport => {
                let (slot, generation) = Subject::call_of(event);
                let Some(call) = self.calls.get_current(slot, generation) else { return };
                if let Some(watched) = watched(call, subject) {
                    watched.ready = true;
                }
                self.give_turn(slot);
            }
        }
    }

    /// Lets a call send what is due.
    pub(crate) fn give_send(&mut self, slot: usize) {
        if let Some(call) = self.calls.get(slot)
            && call.attached
            && !call.in_senders
        {
            call.in_senders = true;
            self.senders.push_back(slot);
        }
    }

    /// Lets a call have a turn.
    pub(crate) fn give_turn(&mut self, slot: usize) {
        if let Some(call) = self.calls.get(slot)
            && !call.in_turns
        {
            call.in_turns = true;
            self.turns.push_back(slot);
        }
    }

    fn wake_due(&mut self, now: Instant) {
        let due = |call: &Call| call.deadline().is_some_and(|at| now >= at);
        let slots: Vec<usize> =
            self.calls.iter().filter(|(_, call)| due(call)).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.give_turn(slot);
        }
        if self.sweep.is_some_and(|(_, at)| now >= at) {
            self.sweep_strays();
        }
        self.look(now);
    }

    fn take_turns(&mut self, now: Instant) {
        let attached = self.calls.iter().filter(|(_, call)| call.attached);
        let mut unsent = attached
            .map(|(_, call)| {
                call.channels.output.buffer.unsent() + call.channels.error.buffer.unsent()
            })
            .sum();
        for _ in 0..self.turns.len() {
            let Some(slot) = self.turns.pop_front() else { return };
            let Some(call) = self.calls.get(slot) else { continue };
            call.in_turns = false;
            let mut means = Means { now, unsent, scratch: &mut self.scratch };
            let turn = call.turn(&mut means);
            unsent = means.unsent;
            if call.is_over() {
                self.forget(slot);
                continue;
            }
            self.watch(slot);
            if turn == Turn::More {
                self.give_turn(slot);
            }
            self.give_send(slot);
        }
    }

    /// Registers descriptors that a call has got since.
    pub(crate) fn watch(&mut self, slot: usize) {
        let generation = self.calls.generation(slot);
        let Some(call) = self.calls.get(slot) else { return };
        for subject in
            [Subject::CallOutput, Subject::CallError, Subject::CallInput, Subject::CallReport]
        {
            let Some(watched) = watched(call, subject).filter(|watched| !watched.registered) else {
                continue;
            };
            watched.registered = true;
            // One that is watched says so if it is ready now.
            watched.ready = !self.watches.add(&watched.fd, subject.of_call(slot, generation));
        }
    }

    /// Drops a call that is over.
    pub(crate) fn forget(&mut self, slot: usize) {
        if let Some(mut call) = self.calls.remove(slot) {
            for subject in
                [Subject::CallOutput, Subject::CallError, Subject::CallInput, Subject::CallReport]
            {
                if let Some(watched) = watched(&mut call, subject) {
                    self.watches.remove(&watched.fd);
                }
            }
        }
    }
}

fn watched(call: &mut Call, subject: Subject) -> Option<&mut Watched> {
    match subject {
        Subject::CallOutput => call.channels.output.source.as_mut(),
        Subject::CallError => call.channels.error.source.as_mut(),
        Subject::CallInput => call.channels.input.sink.as_mut(),
        Subject::CallReport => match &mut call.work {
            Work::Command(command) => command.report(),
            Work::Worker(worker) => worker.reply(),
            Work::Tunnel(_) => None,
        },
        _ => None,
    }
}
