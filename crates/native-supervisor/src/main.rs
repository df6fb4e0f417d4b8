//! The supervisor as a program: one plan on standard input's socket, one
//! sandbox. Under another name it is that sandbox's guest.

use std::fs::File;
use std::process::ExitCode;

use cofferdam_native_supervisor::{first_process, supervisor};

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    if name.as_encoded_bytes() == first_process::GUEST_NAME.to_bytes() {
        return first_process::run_guest();
    }
    match File::open("/proc/self/exe") {
        Ok(own_program) => supervisor::main(own_program.into()),
        Err(_) => ExitCode::FAILURE,
    }
}
