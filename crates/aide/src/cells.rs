//! Code cells: kernels that keep state, and the cells that run on them.
//!
//! `kernel` starts a kernel and stays with it (its *keeper*); each `cell` is a process
//! of its own that finds the kernel by its name in the state directory. `kernels` says
//! which kernels could be started.

mod signals;
mod specs;
mod state;

mod fence;
mod wire;

mod bundle;
mod outbox;

mod cell;
mod keeper;
mod launch;
mod options;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use cofferdam_aide_protocol::KernelPiece;
use cofferdam_guest_protocol::encode_record;

use self::options::Options;
use self::specs::Places;

/// Runs `kernel`.
pub(crate) fn kernel(args: &[OsString]) -> ExitCode {
    with_options(args, &["spec", "name", "idle", "start"], |options| {
        let keep = keeper::Keep {
            spec: options.text("spec", "python3"),
            name: options.text("name", "main"),
            idle: options.seconds("idle", 0)?,
            start: options.seconds("start", 60)?,
        };
        run_async(keeper::run(&keep))
    })
}

/// Runs `cell`.
pub(crate) fn cell(args: &[OsString]) -> ExitCode {
    with_options(args, &["name", "seconds", "grace", "limit"], |options| {
        let settings = cell::Settings {
            name: options.text("name", "main"),
            time: options.seconds("seconds", 60)?,
            grace: options.seconds("grace", 5)?,
            limit: options.number("limit", 64 << 20)?,
        };
        run_async(cell::run(&settings))
    })
}

/// Runs `kernels`.
pub(crate) fn kernels(args: &[OsString]) -> ExitCode {
    with_options(args, &[], |_| {
        for spec in Places::from_env().all() {
            say(&KernelPiece::Found(spec.facts))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes a record to standard output.
fn say(piece: &KernelPiece) -> Result<(), String> {
    let mut record = Vec::new();
    encode_record(piece, &mut record).map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    let written = out.write_all(&record).and_then(|()| out.flush());
    written.map_err(|error| format!("cannot write to standard output: {error}"))
}

fn with_options(
    args: &[OsString],
    known: &[&str],
    run: impl FnOnce(&Options) -> Result<ExitCode, String>,
) -> ExitCode {
    let ran = Options::parse(args, known).and_then(|options| run(&options));
    ran.unwrap_or_else(|why| crate::usage(&why))
}

fn run_async(work: impl Future<Output = Result<ExitCode, String>>) -> Result<ExitCode, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let ended = runtime.block_on(work);
    // Connections may still be in the middle of something; nobody waits for it.
    runtime.shutdown_background();
    ended
}
