//! The supervisor as a program: one plan on standard input's socket, one
//! sandbox. Under another name it is that sandbox's guest; told to enter, that of a
//! container.

use std::fs::File;
use std::process::ExitCode;

use cofferdam_native_supervisor::{first_process, hire, sentry, supervisor};

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    match words.next() {
        Some(word) if word == hire::ENTER => return first_process::enter_by_door(),
        Some(word) if word == sentry::ENTER => return first_process::enter_by_stdin(),
        _ => {}
    }
    if name.as_encoded_bytes() == first_process::GUEST_NAME.to_bytes() {
        return first_process::run_guest();
    }
    match File::open("/proc/self/exe") {
        Ok(own_program) => supervisor::main(own_program.into()),
        Err(_) => ExitCode::FAILURE,
    }
}
