//! A cell: runs code on a kernel, passes on what it gives while it runs, and ends it
//! when its time is up.
//!
//! Whatever happens, the last piece says how the cell ended. When its time is up or
//! somebody asks, the kernel is interrupted; if the code does not heed that within the
//! grace, the kernel is killed.

use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::Duration;

use cofferdam_aide_protocol::{Because, CellEnd, Stream};
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::{Instant, Interval, interval, sleep, sleep_until, timeout_at};

use super::bundle;
use super::fence::{self, MARK_MIME, Sieve};
use super::outbox::Outbox;
use super::signals::Stop;
use super::state::{Dialect, Interrupt, Ready, State, kill_group, signal_group};
use super::wire::{Incoming, Message, Run, Wire, random_hex};

/// No code is longer.
const MAX_CODE: u64 = 16 << 20;

/// How often it is looked whether the kernel is there.
const LOOK: Duration = Duration::from_millis(50);

/// How long the keeper may take to notice that its kernel is gone.
const NOTICE: Duration = Duration::from_secs(5);

/// How long the fence may take when the kernel has nothing else to do, and in all.
const FENCE_SILENCE: Duration = Duration::from_secs(1);
const FENCE: Duration = Duration::from_secs(5);

/// How often code of the fence is tried.
const FENCE_ATTEMPTS: u32 = 3;

/// How often a cell that was cut off is waited for, and how long between.
const CLEAR_ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// How long a kernel of which nothing is known has to be silent.
const SILENCE: Duration = Duration::from_millis(150);

/// How long code that was cut off may at least take to heed an interrupt.
const TAKE_OVER: Duration = Duration::from_secs(5);

/// How a cell is to be run.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) name: String,
    /// How long it may take, with all waiting.
    pub(super) time: Duration,
    /// How long the code may take to heed an interrupt.
    pub(super) grace: Duration,
    /// How many bytes of output are passed on.
    pub(super) limit: usize,
}

/// Runs the code on standard input.
pub(super) async fn run(settings: &Settings) -> Result<ExitCode, String> {
    let state = State::of(&settings.name)?;
    let code = read_code()?;
    let outbox = Outbox::new(io::stdout(), settings.limit);
    let mut outbox = outbox.map_err(|error| format!("cannot start a thread: {error}"))?;
    let end = match Cell::begin(settings, &state, &mut outbox).await {
        Ok((cell, lock)) => {
            let end = cell.run(code).await;
            drop(lock);
            end
        }
        Err(end) => end,
    };
    outbox.end(end);
    Ok(ExitCode::SUCCESS)
}

fn read_code() -> Result<String, String> {
    let mut code = String::new();
    let read = io::stdin().lock().take(MAX_CODE + 1).read_to_string(&mut code);
    read.map_err(|error| format!("cannot read the code from standard input: {error}"))?;
    if code.len() as u64 > MAX_CODE {
        return Err(format!("the code is longer than {} MiB", MAX_CODE >> 20));
    }
    Ok(code)
}

/// A cell that is connected to its kernel.
struct Cell<'a> {
    settings: &'a Settings,
    state: &'a State,
    ready: Ready,
    wire: Wire,
    events: Events,
    deadline: Instant,
    out: Output<'a>,
}

/// Where output goes, and what is watched for in it.
struct Output<'a> {
    outbox: &'a mut Outbox,
    /// Values shown so far.
    values: u32,
    mark: String,
    printed: [Sieve; 2],
    /// Whether the mark came as a value.
    shown: bool,
    /// What comes is of an earlier cell: it is left out.
    muted: bool,
}

/// What may happen beside messages.
struct Events {
    stop: Stop,
    looks: Interval,
}

/// What the code's end looked like.
struct Done {
    failed: bool,
    count: u32,
}

/// Why a cell does not go on.
enum Halt {
    Gone,
    Time,
    Asked,
}

impl<'a> Cell<'a> {
    /// Finds the kernel and connects to it.
    async fn begin(
        settings: &'a Settings,
        state: &'a State,
        outbox: &'a mut Outbox,
    ) -> Result<(Self, File), CellEnd> {
        let broken = |why: String| CellEnd::Broken { why };
        let deadline = Instant::now() + settings.time;
        let mut events = Events { stop: Stop::new().map_err(broken)?, looks: interval(LOOK) };
        let found = async {
            let lock = lock(state).await.map_err(broken)?;
            let ready = find(state).await?;
            let wire = Wire::connect(&ready.connection, deadline).await;
            let mut wire = wire.map_err(|error| broken(error.to_string()))?;
            if state.is_cut_off() {
                take_over(&ready, &mut wire, settings.grace.max(TAKE_OVER)).await?;
            }
            wire.join(deadline).await.map_err(|error| broken(error.to_string()))?;
            Ok((lock, ready, wire))
        };
        let mark = random_hex::<16>().map_err(broken)?;
        let (lock, ready, wire) = tokio::select! {
            found = found => found?,
            () = events.stop.asked() => return Err(CellEnd::Interrupted(Because::Asked)),
            () = sleep_until(deadline) => return Err(broken(format!(
                "the kernel {:?} was busy with another cell, or did not answer, for {} s; \
                 the code was not run", state.name(), settings.time.as_secs()
            ))),
        };
        let out = Output {
            outbox,
            values: 0,
            mark: format!("::cofferdam-{mark}::"),
            printed: <[Sieve; 2]>::default(),
            shown: false,
            muted: false,
        };
        Ok((Self { settings, state, ready, wire, events, deadline, out }, lock))
    }

    async fn run(mut self, code: String) -> CellEnd {
        match self.try_run(code).await {
            Ok(end) => end,
            Err(error) => match self.state.ready() {
                Some(ready) if ready == self.ready => CellEnd::Broken { why: error },
                _ => self.died().await,
            },
        }
    }

    async fn try_run(&mut self, code: String) -> Result<CellEnd, String> {
        if self.state.is_cut_off() && !self.clear().await {
            // Its next cell would be told what an earlier one gave.
            self.kill().await;
            let why =
                "the output of an earlier cell had no end, and its kernel was ended".to_owned();
            return Ok(CellEnd::NoKernel { why });
        }
        let noted = self.state.begin_cell();
        noted.map_err(|error| format!("cannot write to the state directory: {error}"))?;
        let asked = self.wire.execute(code, Run::Cell).await.map_err(|error| error.to_string())?;
        let (because, until) = match self.follow(&asked, self.deadline).await {
            Ok(done) => return Ok(self.finish(done, None).await),
            Err(Halt::Gone) => return Ok(self.died().await),
            Err(Halt::Time) => (Because::TimeUp, self.settings.grace),
            Err(Halt::Asked) => (Because::Asked, self.settings.grace),
        };
        let until = Instant::now() + until;
        interrupt(&self.ready, &mut self.wire).await?;
        loop {
            match self.follow(&asked, until).await {
                Ok(done) => return Ok(self.finish(done, Some(because)).await),
                Err(Halt::Gone) => return Ok(self.died().await),
                Err(Halt::Time) => break,
                // It is being interrupted already.
                Err(Halt::Asked) => {}
            }
        }
        self.kill().await;
        Ok(CellEnd::Killed(because))
    }

    /// Passes on output until the kernel has answered the request.
    async fn follow(&mut self, asked: &str, until: Instant) -> Result<Done, Halt> {
        loop {
            let incoming = tokio::select! {
                incoming = self.wire.next() => incoming,
                () = gone(&mut self.events.looks, self.state, &self.ready) => {
                    return Err(Halt::Gone);
                }
                () = self.events.stop.asked() => return Err(Halt::Asked),
                () = sleep_until(until) => return Err(Halt::Time),
            };
            match incoming {
                Incoming::Published(message) => self.out.take(&message),
                Incoming::Answered(answer) if answer.parent == asked => {
                    return Ok(Done::of(&answer));
                }
                Incoming::Answered(_) => {}
            }
        }
    }

    /// Takes what is still to come, and says how the cell ended.
    async fn finish(&mut self, done: Done, stopped: Option<Because>) -> CellEnd {
        if self.fence().await {
            // The next cell only looks more closely if this fails.
            self.state.end_cell().ok();
        }
        match (done, stopped) {
            // Also where it has caught the interrupt and gone on to its end.
            (_, Some(because)) => CellEnd::Interrupted(because),
            (Done { failed: true, count }, None) => CellEnd::Failed { count },
            (Done { failed: false, count }, None) => CellEnd::Finished { count },
        }
    }

    /// Takes output until there is certainly no more of what was run. Says whether it
    /// is certain.
    async fn fence(&mut self) -> bool {
        let until = Instant::now() + FENCE;
        for _ in 0..FENCE_ATTEMPTS {
            let asked = match fence::code(self.ready.dialect, &self.out.mark) {
                Some(code) => self.wire.execute(code, Run::Hidden).await,
                None => self.wire.ping().await,
            };
            let Ok(asked) = asked else { return false };
            match self.fenced(&asked, until).await {
                Some(true) => {
                    self.out.finish_printed();
                    return true;
                }
                Some(false) => {}
                None => break,
            }
        }
        self.out.finish_printed();
        false
    }

    /// Waits for the marks. `Some(false)` if the kernel would not run the fence's code,
    /// `None` if they did not come.
    async fn fenced(&mut self, asked: &str, until: Instant) -> Option<bool> {
        let known = self.ready.dialect != Dialect::Other;
        let (mut answered, mut idle) = (false, false);
        loop {
            let pause = if answered && idle && !known { SILENCE } else { FENCE_SILENCE };
            let next = timeout_at(until.min(Instant::now() + pause), self.wire.next());
            let incoming = tokio::select! {
                incoming = next => incoming,
                () = gone(&mut self.events.looks, self.state, &self.ready) => return None,
            };
            match incoming {
                Ok(Incoming::Published(message)) => {
                    idle |= message.parent == asked && message.is_idle();
                    self.out.take(&message);
                }
                Ok(Incoming::Answered(answer)) if answer.parent == asked => {
                    if known && answer.text("status") != "ok" {
                        return Some(false);
                    }
                    answered = true;
                }
                Ok(Incoming::Answered(_)) => {}
                Err(_) => return (answered && idle && !known).then_some(true),
            }
            if known && answered && self.out.is_marked(self.ready.dialect) {
                return Some(true);
            }
        }
    }

    /// Takes away what a cell before this one still gave: it would seem to be this one's.
    /// Says whether that is certain.
    async fn clear(&mut self) -> bool {
        self.out.muted = true;
        for _ in 0..CLEAR_ATTEMPTS {
            if self.fence().await {
                self.out.begin_again();
                return true;
            }
            sleep(PAUSE).await;
        }
        false
    }

    /// Ends the kernel, and returns when its keeper has noticed.
    async fn kill(&mut self) {
        kill_group(self.ready.kernel);
        let until = Instant::now() + NOTICE;
        timeout_at(until, gone(&mut self.events.looks, self.state, &self.ready)).await.ok();
        // Only for the words in which a cell without a kernel is told.
        self.state.explain_end("its code did not heed an interrupt, so it was ended").ok();
    }

    /// Takes what the kernel still sent, and says how it ended.
    async fn died(&mut self) -> CellEnd {
        let until = Instant::now() + SILENCE;
        while let Ok(incoming) = timeout_at(until, self.wire.next()).await {
            if let Incoming::Published(message) = incoming {
                self.out.take(&message);
            }
        }
        self.out.finish_printed();
        if let Some(how) = self.state.end() {
            return CellEnd::Died { how };
        }
        // Without its keeper nobody else would end it.
        kill_group(self.ready.kernel);
        CellEnd::Died { how: "the process that kept it was ended".to_owned() }
    }
}

impl Output<'_> {
    /// Passes on what a message shows, without marks.
    fn take(&mut self, message: &Message) {
        if !message.is_ours {
            return;
        }
        if let Some(stream) = bundle::stream(message) {
            match &message.content {
                Ok(_) => {
                    let sieve = &mut self.printed[stream as usize];
                    let text = sieve.push(message.text("text"), &self.mark);
                    self.print(stream, &text);
                }
                Err(bytes) => self.outbox.drop_bytes(*bytes),
            }
        } else if is_mark(message) {
            self.shown = true;
        } else if !self.muted {
            bundle::show(message, &mut self.values, self.outbox);
        }
    }

    /// Whether all marks have come.
    fn is_marked(&self, dialect: Dialect) -> bool {
        self.printed.iter().all(Sieve::seen) && (self.shown || dialect != Dialect::Deno)
    }

    /// Passes on what looked like the beginning of a mark.
    fn finish_printed(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let text = self.printed[stream as usize].finish();
            self.print(stream, &text);
        }
    }

    fn print(&mut self, stream: Stream, text: &str) {
        if self.muted {
            self.outbox.drop_bytes(text.len());
        } else {
            bundle::print(stream, text, self.outbox);
        }
    }

    /// Waits for other marks from here on.
    fn begin_again(&mut self) {
        self.mark.push('+');
        self.printed = <[Sieve; 2]>::default();
        (self.shown, self.muted) = (false, false);
    }
}

fn is_mark(message: &Message) -> bool {
    let data = message.content.as_ref().ok().and_then(|content| content.get("data"));
    data.is_some_and(|data| data.get(MARK_MIME).is_some())
}

impl Done {
    fn of(answer: &Message) -> Self {
        let content = answer.content.as_ref().ok();
        let count = content.and_then(|content| content.get("execution_count"));
        let count = count.and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        Self { failed: answer.text("status") != "ok", count: count.unwrap_or(0) }
    }
}

/// Waits until the kernel is no longer there.
async fn gone(looks: &mut Interval, state: &State, ready: &Ready) {
    loop {
        looks.tick().await;
        if state.ready().as_ref() != Some(ready) {
            return;
        }
    }
}

/// Ends what a cell before this one left running: its own process was cut off.
async fn take_over(ready: &Ready, wire: &mut Wire, grace: Duration) -> Result<(), CellEnd> {
    interrupt(ready, wire).await.map_err(|why| CellEnd::Broken { why })?;
    if wire.join(Instant::now() + grace).await.is_err() {
        kill_group(ready.kernel);
        let why = "code of an earlier cell still ran and did not heed an interrupt, so the \
                   kernel was ended; the code was not run";
        return Err(CellEnd::NoKernel { why: why.to_owned() });
    }
    Ok(())
}

async fn interrupt(ready: &Ready, wire: &mut Wire) -> Result<(), String> {
    match ready.interrupt {
        Interrupt::Message => wire.interrupt().await.map_err(|error| error.to_string()),
        Interrupt::Signal => {
            signal_group(ready.kernel, Signal::INT);
            Ok(())
        }
    }
}

/// Locks the kernel for this cell, as soon as no other has it.
async fn lock(state: &State) -> Result<File, String> {
    loop {
        match state.try_lock_cell() {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => sleep(LOOK).await,
            Err(error) => return Err(format!("cannot lock the kernel: {error}")),
        }
    }
}

/// Finds the kernel, waiting for one that is just starting.
async fn find(state: &State) -> Result<Ready, CellEnd> {
    loop {
        if let Some(ready) = state.ready() {
            return Ok(ready);
        }
        let name = state.name();
        match state.try_lock_keeper() {
            // A keeper that is at it will have it ready, or go.
            Ok(None) => sleep(LOOK).await,
            Ok(Some(_)) => {
                // It may have gone between the two looks.
                let why = match state.end() {
                    Some(how) => format!("the kernel {name:?} has ended: {how}"),
                    None => format!("no kernel {name:?} was started"),
                };
                return Err(CellEnd::NoKernel { why });
            }
            Err(error) => {
                let why = format!("cannot look for the kernel {name:?}: {error}");
                return Err(CellEnd::Broken { why });
            }
        }
    }
}
