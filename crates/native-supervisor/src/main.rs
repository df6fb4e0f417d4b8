//! The supervisor as a program: one plan on standard input's socket, one
//! sandbox. Under another name it is that sandbox's guest.

use std::process::ExitCode;

use cofferdam_native_supervisor::{start, supervisor};

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    if name.as_encoded_bytes() == start::GUEST_NAME.to_bytes() {
        return start::run_guest();
    }
    supervisor::main()
}
