//! Scripts for `xdotool`, run as they are given.

use std::fs::File;
use std::io::{Seek, Write};
use std::process::Stdio;
use std::time::Duration;

use cofferdam_aide_protocol::{DeskPiece, Desktop};
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::error::DeskError;
use super::program::{Program, command, find};

/// How long a script may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// No more of what it prints is kept.
const LONGEST_OUTPUT: usize = 64 << 10;

pub(super) async fn run(desktop: &Desktop, script: &str) -> Result<DeskPiece, DeskError> {
    let xdotool =
        find("xdotool").ok_or(DeskError::Missing { what: "xdotool", package: "xdotool" })?;
    let mut command = command(xdotool);
    command.arg("-").stdin(Stdio::from(file_of(script)?)).stdout(Stdio::piped());
    command.env("DISPLAY", &desktop.display).env("XAUTHORITY", &desktop.authority);
    let mut program = Program::start("xdotool", command)?;
    let failed = |why: String| DeskError::Start { program: "xdotool", why };
    let stdout = program.take_stdout().ok_or_else(|| failed("it has no stdout".to_owned()))?;
    let mut stdout = Receiver::from_owned_fd(stdout).map_err(|error| failed(error.to_string()))?;
    let mut output = Vec::new();
    let listening = async {
        let mut piece = [0; 4096];
        loop {
            // What it started may hold its stdout, so its own end counts.
            let length = tokio::select! {
                biased;
                read = stdout.read(&mut piece) => read.unwrap_or(0),
                () = program.ended() => 0,
            };
            if length == 0 {
                break;
            }
            let room = LONGEST_OUTPUT.saturating_sub(output.len());
            output.extend(piece.iter().take(length.min(room)));
        }
        program.ended().await;
        // What it printed right before its end may not have been seen yet.
        while let Ok(length @ 1..) = rustix::io::read(&stdout, &mut piece) {
            let room = LONGEST_OUTPUT.saturating_sub(output.len());
            if room == 0 {
                break;
            }
            output.extend(piece.iter().take(length.min(room)));
        }
    };
    if timeout(PATIENCE, listening).await.is_err() {
        let why = format!("the xdotool script took more than {} s", PATIENCE.as_secs());
        return Err(DeskError::Broken(why));
    }
    let code = program.status().and_then(|status| status.code());
    let stderr = program.last_words();
    program.leave();
    Ok(DeskPiece::Script { stdout: String::from_utf8_lossy(&output).into_owned(), stderr, code })
}

/// A file that holds the script and has no name.
fn file_of(script: &str) -> Result<File, DeskError> {
    let written = || -> std::io::Result<File> {
        let mut file = File::from(memfd_create("script", MemfdFlags::CLOEXEC)?);
        file.write_all(script.as_bytes())?;
        file.write_all(b"\n")?;
        file.rewind()?;
        Ok(file)
    };
    written().map_err(|source| DeskError::System { what: "hand the script to xdotool", source })
}
