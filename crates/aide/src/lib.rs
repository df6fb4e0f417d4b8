//! The program inside a sandbox that runs code cells and serves the desktop.
//!
//! It is started as any other command of the guest, once for each use, and is as
//! little trusted. What it gives goes to its standard output as records
//! (`cofferdam-aide-protocol`); only what makes no sense to it goes to standard error.

mod cells;
mod desk;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

const HELP: &str = "\
usage: cofferdam-aide kernel [--spec NAME] [--name NAME] [--idle SECONDS] [--start SECONDS]
       cofferdam-aide cell [--name NAME] [--seconds N] [--grace SECONDS] [--limit BYTES] < CODE
       cofferdam-aide kernels
       cofferdam-aide desk start [--name NAME] [--width W] [--height H] [--idle SECONDS]
       cofferdam-aide desk find [--name NAME]
       cofferdam-aide desk release [--name NAME]
       cofferdam-aide desk stop [--name NAME]
       cofferdam-aide desk act [--name NAME] [--longest PIXELS] [--pixels PIXELS]
                               [--look MILLISECONDS] < ACTION
";

/// Runs the aide with these arguments, without the program's name.
#[must_use]
pub fn run(args: &[OsString]) -> ExitCode {
    let Some((command, rest)) = args.split_first() else { return usage("no command") };
    match command.to_str() {
        Some("kernel") => cells::kernel(rest),
        Some("cell") => cells::cell(rest),
        Some("kernels") => cells::kernels(rest),
        Some("desk") => desk::main(rest),
        _ => usage(&format!("unknown command {command:?}")),
    }
}

/// Says why nothing was done.
fn usage(why: &str) -> ExitCode {
    let mut out = std::io::stderr().lock();
    // With nobody to read it, the code has to do.
    write!(out, "cofferdam-aide: {why}\n{HELP}").ok();
    ExitCode::from(2)
}
