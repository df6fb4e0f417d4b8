//! A sandbox: the place that a back end made, and the guest inside it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cofferdam_guest_protocol::{CallState, ExecEnd, ExecReport, Program, TunnelTarget};
use cofferdam_types::{AuditRecord, CallId, Limits, Outcome, SandboxId};

use crate::backend::{Backend, Isolation, Room, RoomError, Snapshot, Spec, TrailMark};
use crate::client::GuestClient;
use crate::collector::Collector;
use crate::command::Command;
use crate::error::{CallError, SandboxError};
use crate::files::Files;
use crate::process::{Offsets, OutputChunk, Process};
use crate::result::ExecResult;
use crate::tunnel::Tunnel;

/// How long the end of a command waits for what does not change it.
const IN_PASSING: Duration = Duration::from_secs(1);

/// Seconds beyond a command's own time until a guest is no longer believed to tell its end:
/// more than the two minutes that a snapshot may stop it for.
const OVERDUE: u32 = 150;

/// A sandbox with a connection to its guest.
pub struct Sandbox {
    // Declared before the room: the connection ends before the sandbox does.
    guest: Mutex<Arc<GuestClient>>,
    room: Box<dyn Room>,
    limits: Limits,
    /// Variables of every command here, besides those that the room needs.
    variables: Vec<(Vec<u8>, Vec<u8>)>,
    next_call: AtomicU64,
    /// How many processes the kernel had killed for lack of memory, when last
    /// asked.
    memory_kills: AtomicU64,
}

impl Sandbox {
    /// Makes a sandbox and connects to its guest.
    ///
    /// # Errors
    /// When it cannot be made or its guest does not answer; nothing is then left
    /// of it.
    pub async fn open(backend: &dyn Backend, spec: Spec) -> Result<Self, SandboxError> {
        let limits = spec.limits.clone();
        let room = backend.open(spec).await?;
        let guest = match Self::dial(room.as_ref()).await {
            Ok(guest) => guest,
            Err(error) => {
                // The first error says why; what closing says beyond it is moot.
                drop(room.close().await);
                return Err(error);
            }
        };
        Ok(Self::new(room, guest, limits, 1, 0))
    }

    /// Takes up a sandbox that outlived the process that made it. The limits are
    /// those it was made with.
    ///
    /// # Errors
    /// When it is gone or its guest does not answer.
    pub async fn reattach(
        backend: &dyn Backend,
        id: SandboxId,
        limits: Limits,
    ) -> Result<Self, SandboxError> {
        let room = backend.reattach(id).await?;
        let memory_kills = room.oom_kills().await?;
        let guest = Self::dial(room.as_ref()).await?;
        // Far from the ids that were given out before, also from those that a
        // caller makes of small numbers and one high bit, and small enough to be a
        // number in anybody's JSON.
        let somewhere = RandomState::new().build_hasher().finish();
        let first = (16 + somewhere % (1 << 20)) << 32;
        Ok(Self::new(room, guest, limits, first, memory_kills))
    }

    fn new(
        room: Box<dyn Room>,
        guest: GuestClient,
        limits: Limits,
        first_call: u64,
        memory_kills: u64,
    ) -> Self {
        Self {
            guest: Mutex::new(Arc::new(guest)),
            room,
            limits,
            variables: Vec::new(),
            next_call: AtomicU64::new(first_call),
            memory_kills: AtomicU64::new(memory_kills),
        }
    }

    /// The same with variables for every command here.
    #[must_use]
    pub fn with_variables<Name, Value>(
        mut self,
        variables: impl IntoIterator<Item = (Name, Value)>,
    ) -> Self
    where
        Name: Into<Vec<u8>>,
        Value: Into<Vec<u8>>,
    {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.variables.extend(variables);
        self
    }

    async fn dial(room: &dyn Room) -> Result<GuestClient, SandboxError> {
        Ok(GuestClient::connect(room.dial().await?).await?)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> SandboxId {
        self.room.id()
    }

    /// What it really got.
    #[must_use]
    pub fn isolation(&self) -> &Isolation {
        self.room.isolation()
    }

    /// What it may use.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The connection to its guest.
    #[must_use]
    pub fn guest(&self) -> Arc<GuestClient> {
        Arc::clone(&self.guest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An id that no call of this sandbox has. Callers that number their calls
    /// themselves have no use for it.
    #[must_use]
    pub fn next_call_id(&self) -> CallId {
        CallId(self.next_call.fetch_add(1, Ordering::Relaxed))
    }

    /// A command with this sandbox's limits, and the variables that commands
    /// here need.
    #[must_use]
    pub fn command(&self, program: Program) -> Command {
        let command = Command::new(program, &self.limits);
        let usual = self.room.defaults();
        let command =
            usual.into_iter().fold(command, |command, (name, value)| command.env(name, value));
        let own = self.variables.iter().cloned();
        let command = own.fold(command, |command, (name, value)| command.env(name, value));
        let needed = self.room.environment();
        needed.into_iter().fold(command, |command, (name, value)| command.env(name, value))
    }

    /// The same for a script for `/bin/sh`.
    #[must_use]
    pub fn shell(&self, script: impl Into<Vec<u8>>) -> Command {
        self.command(Program::Shell(script.into()))
    }

    /// The same for a program and its arguments.
    #[must_use]
    pub fn argv<Words>(&self, words: Words) -> Command
    where
        Words: IntoIterator,
        Words::Item: Into<Vec<u8>>,
    {
        self.command(Program::Argv(words.into_iter().map(Into::into).collect()))
    }

    /// Starts a command. Its [`Command::input`] and [`Command::keep`] are for
    /// [`Sandbox::run`] and have no effect here.
    ///
    /// # Errors
    /// When the connection is lost.
    pub async fn start(&self, call: CallId, command: Command) -> Result<Process, CallError> {
        let before = self.memory_kills.load(Ordering::Relaxed);
        let mut process = self.guest().exec(call, command.exec).await?;
        process.memory_kills_before = before;
        Ok(process)
    }

    /// Runs a command to its end and lets the guest forget it. A command whose
    /// end is not known, because the connection was lost or the guest did not end
    /// it in its time, is [`Outcome::Lost`] with the output that had come.
    ///
    /// # Errors
    /// [`CallError::NotStarted`] when there was nothing to run, or when the guest
    /// refused it.
    pub async fn run(&self, call: CallId, command: Command) -> Result<ExecResult, CallError> {
        let keep = command.keep;
        let input = command.input.clone();
        let allowed = command.longest();
        let mut process = match self.start(call, command).await {
            Ok(process) => process,
            Err(CallError::ConnectionLost { reason }) => return Ok(ExecResult::lost(reason)),
            Err(error) => return Err(error),
        };
        let stdin = process.take_stdin();
        let mut stdout = Collector::new(keep);
        let mut stderr = Collector::new(keep);
        let write = async {
            let Some(mut stdin) = stdin else { return };
            // A command that ends without reading its input is no error.
            if stdin.write(input).await.is_ok() {
                stdin.close();
            }
        };
        let to_the_end = async {
            let read = async {
                while let Some(chunk) = process.next_output().await {
                    match chunk {
                        OutputChunk::Stdout(bytes) => stdout.push(bytes),
                        OutputChunk::Stderr(bytes) => stderr.push(bytes),
                        OutputChunk::StdoutGap(dropped) => stdout.push_gap(dropped),
                        OutputChunk::StderrGap(dropped) => stderr.push_gap(dropped),
                    }
                }
            };
            tokio::join!(write, read);
            process.wait().await
        };
        let report = tokio::select! {
            report = to_the_end => report,
            () = overdue(allowed) => {
                let reason = "the guest did not end the command in its time".to_owned();
                Err(CallError::ConnectionLost { reason })
            }
        };
        let (stdout, stdout_gap) = stdout.finish();
        let (stderr, stderr_gap) = stderr.finish();
        let mut result = match report {
            Ok(report) => {
                let outcome = self.outcome(&process, &report).await?;
                ExecResult::of(outcome, &report)
            }
            Err(CallError::ConnectionLost { reason }) => ExecResult::lost(reason),
            Err(error) => return Err(error),
        };
        result.truncated = stdout_gap.is_some() || stderr_gap.is_some();
        Ok(ExecResult { stdout, stderr, stdout_gap, stderr_gap, ..result })
    }

    /// What the end of a command means. A kill counts as lack of memory when the
    /// kernel has killed for lack of memory since the command began. The back end is asked
    /// only about commands that failed, for to ask takes a tenth of the time of a short one:
    /// what was killed in one that went well counts for the next.
    ///
    /// # Errors
    /// [`CallError::NotStarted`] when there was nothing to run.
    pub async fn outcome(
        &self,
        process: &Process,
        report: &ExecReport,
    ) -> Result<Outcome, CallError> {
        let outcome = match &report.end {
            ExecEnd::Exited(0) => return Ok(Outcome::Exited { exit_code: 0 }),
            ExecEnd::Exited(exit_code) => Outcome::Exited { exit_code: *exit_code },
            ExecEnd::Signaled(signal) => Outcome::Signaled { signal: *signal },
            ExecEnd::TimedOut => Outcome::TimedOut,
            ExecEnd::NotStarted(errno, what) => {
                return Err(CallError::NotStarted { errno: *errno, what: what.clone() });
            }
            ExecEnd::Lost => Outcome::Lost {
                reason: "the process that watched the command was killed".to_owned(),
            },
        };
        let killed = matches!(
            outcome,
            Outcome::Signaled { signal: SIGKILL }
                | Outcome::Lost { .. }
                | Outcome::Exited { exit_code: 137 }
        );
        // Where the count matters only to what comes next, nobody waits long for it.
        let patience = if killed { Duration::MAX } else { IN_PASSING };
        let grown = match tokio::time::timeout(patience, self.room.oom_kills()).await {
            Ok(Ok(kills)) => {
                self.memory_kills.fetch_max(kills, Ordering::Relaxed);
                kills > process.memory_kills_before
            }
            // Without the count the kill is what it looks like.
            Ok(Err(_)) | Err(_) => false,
        };
        Ok(if grown && killed { Outcome::OutOfMemory } else { outcome })
    }

    /// The files of the workspace.
    #[must_use]
    pub fn files(&self) -> Files {
        self.guest().files()
    }

    /// Connects to something that listens inside.
    ///
    /// # Errors
    /// When nothing listens there, or the connection to the guest is lost.
    pub async fn tunnel(&self, call: CallId, target: TunnelTarget) -> Result<Tunnel, CallError> {
        self.guest().tunnel(call, target).await
    }

    /// The calls that run, or whose results are kept until acknowledged.
    ///
    /// # Errors
    /// When the connection is lost.
    pub async fn calls(&self) -> Result<Vec<CallState>, CallError> {
        self.guest().calls().await
    }

    /// Takes up a command by the id of its call: one that was begun over an
    /// earlier connection, or that was detached. `offsets` says what of its
    /// output is in safe hands already; a gap right there is reported again.
    ///
    /// # Errors
    /// When the connection is lost. A call that the guest does not know ends with
    /// [`CallError::Refused`].
    pub async fn collect(&self, call: CallId, offsets: Offsets) -> Result<Process, CallError> {
        // When it began is not known here, so any kill for lack of memory may
        // have been its own.
        self.guest().resume(call, offsets).await
    }

    /// Lets the guest forget a call whose result is in safe hands. A command that a
    /// [`Process`] of this sandbox still follows has none yet, and is not forgotten.
    pub fn acknowledge(&self, call: CallId) {
        self.guest().acknowledge(call);
    }

    /// Lets the guest forget those calls that have ended and that nobody will ask about:
    /// for whoever has just taken the sandbox up.
    ///
    /// # Errors
    /// When the connection is lost.
    pub async fn forget_ended(&self, nobodys: impl Fn(CallId) -> bool) -> Result<(), CallError> {
        for CallState { call, running } in self.calls().await? {
            let call = CallId(call);
            if !running && nobodys(call) {
                self.acknowledge(call);
            }
        }
        Ok(())
    }

    /// Connects to the guest anew. Calls over the connection before end here; in
    /// the sandbox they go on, and can be collected.
    ///
    /// # Errors
    /// When the sandbox is gone or its guest does not answer.
    pub async fn reconnect(&self) -> Result<(), SandboxError> {
        let guest = Arc::new(Self::dial(self.room.as_ref()).await?);
        let before = {
            let mut place = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, guest)
        };
        before.end("replaced by a new connection");
        Ok(())
    }

    /// Lets a sandbox that is to linger outlive this process from here on.
    ///
    /// # Errors
    /// When it is gone.
    pub async fn keep(&self) -> Result<(), RoomError> {
        self.room.keep().await
    }

    /// Leaves a sandbox that lingers to whoever takes it up next: the connection
    /// ends, and what runs in the sandbox runs on.
    pub fn leave(&self) {
        self.guest().end("the sandbox was left to another process");
    }

    /// Freezes the workspace as it is now, for others to begin from.
    ///
    /// # Errors
    /// When the back end cannot.
    pub async fn snapshot(&self) -> Result<Snapshot, RoomError> {
        self.room.snapshot().await
    }

    /// What was done in the sandbox so far.
    ///
    /// # Errors
    /// When the back end cannot say.
    pub async fn audit(&self) -> Result<Vec<AuditRecord>, RoomError> {
        Ok(self.audit_since(TrailMark::default()).await?.0)
    }

    /// What was done in the sandbox since a place in its trail, and where the trail ends
    /// now.
    ///
    /// # Errors
    /// When the back end cannot say.
    pub async fn audit_since(
        &self,
        since: TrailMark,
    ) -> Result<(Vec<AuditRecord>, TrailMark), RoomError> {
        self.room.audit(since).await
    }

    /// Ends what goes out of the sandbox, for good, and waits, but not for ever, until
    /// the trail has all of it: for whoever reads the trail before closing.
    pub async fn end_egress(&self) {
        self.room.end_egress().await;
    }

    /// Ends the sandbox. Returns when nothing of it is left but what belongs in
    /// the workspace's directory.
    ///
    /// # Errors
    /// When the back end could not do all of that.
    pub async fn close(self) -> Result<(), RoomError> {
        self.guest().end("the sandbox was closed");
        self.room.close().await
    }
}

/// Waits until the end of a command that may take so long should long have been told.
async fn overdue(allowed: Option<Duration>) {
    let Some(allowed) = allowed else { return std::future::pending().await };
    tokio::time::sleep(allowed).await;
    // One by one: however long this process itself is stopped, that is one of them.
    for _ in 0..OVERDUE {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The signal that the kernel kills with.
const SIGKILL: i32 = 9;
