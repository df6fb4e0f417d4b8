//! The keeper: starts a kernel, says when it is ready, and stays with it until it ends,
//! is idle for too long, or somebody asks.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use cofferdam_aide_protocol::{KernelFacts, KernelPiece};
use jupyter_protocol::ConnectionInfo;
use serde_json::Value;
use tokio::time::{Instant, interval, sleep, timeout_at};

use super::fence;
use super::launch::{Process, in_words, new_connection};
use super::say;
use super::signals::Stop;
use super::specs::{Places, Spec};
use super::state::{Dialect, Interrupt, Ready, State};
use super::wire::{Incoming, Run, Wire, WireError};

/// A port that was free may be taken when the kernel binds it.
const ATTEMPTS: u32 = 3;

/// How long a keeper of the same name may take to go.
const HANDOVER: Duration = Duration::from_secs(3);

/// How often it is looked whether a cell was run.
const LOOK: Duration = Duration::from_millis(500);

/// How long the prelude may take.
const PRELUDE: Duration = Duration::from_secs(10);

/// Which kernel to keep, and how.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) spec: String,
    pub(super) name: String,
    /// End it when no cell was run for so long; zero is never.
    pub(super) idle: Duration,
    /// How long its start may take.
    pub(super) start: Duration,
}

/// Keeps a kernel until it has ended.
pub(super) async fn run(keep: &Keep) -> Result<ExitCode, String> {
    let state = State::of(&keep.name)?;
    let mut stop = Stop::new()?;
    let Some(_lock) = lock(&state).await? else {
        let why = format!("a kernel named {:?} is running already", keep.name);
        say(&KernelPiece::Failed { why })?;
        return Ok(ExitCode::FAILURE);
    };
    state.clear_leftovers();
    let started = tokio::select! {
        started = start(keep, &state) => started,
        () = stop.asked() => Err("it was ended while it started".to_owned()),
    };
    let (mut process, facts) = match started {
        Ok(started) => started,
        Err(why) => {
            note_end(&state, &format!("it did not start: {why}"));
            say(&KernelPiece::Failed { why })?;
            return Ok(ExitCode::FAILURE);
        }
    };
    // When nobody listens any more, the kernel is kept all the same.
    say(&KernelPiece::Ready(facts)).ok();
    let how = tokio::select! {
        ended = process.ended() => ended.map(in_words),
        how = leave(keep, &state, &mut stop) => process.stop().await.map(|_| how),
    };
    let how = how.unwrap_or_else(|error| format!("it cannot be watched any more: {error}"));
    note_end(&state, &how);
    say(&KernelPiece::Ended { how }).ok();
    Ok(ExitCode::SUCCESS)
}

/// Locks the name. A keeper whose kernel has ended needs a moment to go.
async fn lock(state: &State) -> Result<Option<File>, String> {
    let until = Instant::now() + HANDOVER;
    loop {
        let locked = state.try_lock_keeper();
        let locked = locked.map_err(|error| format!("cannot lock the kernel's name: {error}"))?;
        if locked.is_some() || state.ready().is_some() || Instant::now() > until {
            return Ok(locked);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn note_end(state: &State, how: &str) {
    // Without it cells say less about why there is no kernel; nothing else depends on it.
    state.write_end(how).ok();
}

async fn start(keep: &Keep, state: &State) -> Result<(Process, KernelFacts), String> {
    let spec = Places::from_env().find(&keep.spec)?;
    let until = Instant::now() + keep.start;
    let mut attempt = 1;
    loop {
        match start_once(&spec, state, until).await {
            Ok(process) => return Ok((process, spec.facts)),
            Err(_) if attempt < ATTEMPTS && Instant::now() < until => attempt += 1,
            Err(why) => return Err(format!("the kernel {:?} did not start: {why}", keep.spec)),
        }
    }
}

async fn start_once(spec: &Spec, state: &State, until: Instant) -> Result<Process, String> {
    let (connection, listeners) = new_connection(spec)?;
    let written = state.write_connection(&connection);
    written.map_err(|error| format!("cannot write the connection file: {error}"))?;
    drop(listeners);
    let started = Process::start(spec, state);
    let mut process =
        started.map_err(|error| format!("cannot run {:?}: {error}", spec.argv.first()))?;
    let joined = tokio::select! {
        joined = join(&connection, until) => joined.map_err(|error| error.to_string()),
        ended = process.ended() => Err(match ended {
            Ok(status) => in_words(status),
            Err(error) => format!("it cannot be watched: {error}"),
        }),
    };
    let (mut wire, facts) = match joined {
        Ok(joined) => joined,
        Err(why) => {
            process.hear_last_words().await;
            let said = process.said();
            return Err(if said.is_empty() { why } else { format!("{why}; it said: {said}") });
        }
    };
    let dialect = dialect(&facts);
    prepare(&mut wire, dialect, until).await;
    let ready = Ready {
        connection,
        dialect,
        interrupt: if dialect == Dialect::Other { spec.interrupt } else { Interrupt::Message },
        keeper: std::process::id().try_into().unwrap_or(0),
        kernel: process.pid(),
    };
    let written = state.write_ready(&ready);
    written.map_err(|error| format!("cannot say that it is ready: {error}"))?;
    Ok(process)
}

async fn join(connection: &ConnectionInfo, until: Instant) -> Result<(Wire, Value), WireError> {
    let mut wire = Wire::connect(connection, until).await?;
    let facts = wire.join(until).await?;
    Ok((wire, facts))
}

fn dialect(facts: &Value) -> Dialect {
    let said = facts.get("implementation").and_then(Value::as_str).unwrap_or_default();
    match said {
        "ipython" => Dialect::Python,
        said if said.starts_with("Deno") => Dialect::Deno,
        _ => Dialect::Other,
    }
}

/// Runs the prelude. A kernel that cannot run it is fit for cells all the same.
async fn prepare(wire: &mut Wire, dialect: Dialect, until: Instant) {
    let Some(code) = fence::prelude(dialect) else { return };
    let Ok(asked) = wire.execute(code, Run::Hidden).await else { return };
    let done = async {
        loop {
            if let Incoming::Answered(answer) = wire.next().await
                && answer.parent == asked
            {
                return;
            }
        }
    };
    timeout_at(until.min(Instant::now() + PRELUDE), done).await.ok();
}

/// Waits until the kernel is to be ended, and says why.
async fn leave(keep: &Keep, state: &State, stop: &mut Stop) -> String {
    let idle = async {
        if keep.idle.is_zero() {
            return std::future::pending().await;
        }
        let mut looks = interval(LOOK.min(keep.idle));
        let mut used = (state.last_use(), Instant::now());
        loop {
            looks.tick().await;
            // With this lock no cell runs, and none begins while it is held.
            let Ok(Some(lock)) = state.try_lock_cell() else {
                used.1 = Instant::now();
                continue;
            };
            let last = state.last_use();
            if last != used.0 {
                used = (last, Instant::now());
            } else if used.1.elapsed() >= keep.idle {
                let how = format!("no cell was run for {} s", keep.idle.as_secs());
                note_end(state, &how);
                drop(lock);
                return how;
            }
        }
    };
    tokio::select! {
        how = idle => how,
        () = stop.asked() => "it was asked to end".to_owned(),
    }
}
