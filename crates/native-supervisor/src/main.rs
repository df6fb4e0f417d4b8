//! The supervisor as a program: one plan on standard input's socket, one
//! sandbox.

use std::process::ExitCode;

fn main() -> ExitCode {
    cofferdam_native_supervisor::supervisor::main()
}
