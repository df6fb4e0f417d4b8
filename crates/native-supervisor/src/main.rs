//! The supervisor as a program: one plan on standard input's socket, one
//! sandbox. Under another name it is that sandbox's guest; told to enter, that of a
//! container.

use std::fs::File;
use std::process::ExitCode;

use cofferdam_native_supervisor::{first_process, hire, supervisor};

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if words.next().is_some_and(|word| word == hire::ENTER) {
        return first_process::enter_by_door();
    }
    if name.as_encoded_bytes() == first_process::GUEST_NAME.to_bytes() {
        return first_process::run_guest();
    }
    match File::open("/proc/self/exe") {
        Ok(own_program) => supervisor::main(own_program.into()),
        Err(_) => ExitCode::FAILURE,
    }
}
