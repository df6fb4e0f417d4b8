//! The guest's program: serves the listening socket at descriptor 3, or with
//! `--stdio` the one host at stdin and stdout.

use std::process::ExitCode;

use cofferdam_guest::{Serve, run};

fn main() -> ExitCode {
    let stdio = std::env::args_os().skip(1).any(|argument| argument == "--stdio");
    run(if stdio { Serve::Stdio } else { Serve::Listener })
}
