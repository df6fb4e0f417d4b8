//! The X server and the way for viewers to see it.
//!
//! Xvnc is both in one program. Where it is missing, Xvfb is the server and x11vnc
//! shows it. Either way viewers come by a Unix socket in the desktop's directory,
//! which only its owner can enter; so there is no password, and no port.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cofferdam_aide_protocol::Size;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep, timeout};

use super::error::DeskError;
use super::leftovers::MARK;
use super::program::{Program, command, find};
use super::state::State;

/// How long a server may take to come up, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked whether the way for viewers is there.
const LOOK: Duration = Duration::from_millis(10);

/// The server that runs, with the number of its display.
pub(super) struct Server {
    pub(super) display: u32,
    /// In the order in which they were started.
    programs: Vec<Program>,
}

impl Server {
    /// Starts a server with a screen of this size.
    pub(super) async fn start(state: &State, size: Size) -> Result<Self, DeskError> {
        let socket = state.vnc()?;
        if let Some(xvnc) = find("Xvnc") {
            let mut command = command(xvnc);
            command.arg("-geometry").arg(format!("{}x{}", size.width, size.height));
            command.args(["-depth", "24", "-desktop", "desktop"]);
            command.arg("-rfbunixpath").arg(&socket).args(["-rfbport", "-1"]);
            command.args(["-SecurityTypes", "None", "-AlwaysShared"]);
            // Whoever looks does not change the size of what the others see.
            command.args(["-AcceptSetDesktopSize=0", "-Log", "*:stderr:10"]);
            let (display, program) = serve("Xvnc", command, state).await?;
            return Ok(Self { display, programs: vec![program] });
        }
        let missing = |what| DeskError::Missing { what, package: "tigervnc-standalone-server" };
        let xvfb =
            find("Xvfb").ok_or_else(|| missing("an X server (Xvnc, or Xvfb with x11vnc)"))?;
        let x11vnc = find("x11vnc").ok_or_else(|| missing("Xvnc (or x11vnc beside Xvfb)"))?;
        let mut command = command(xvfb);
        command.args(["-screen", "0"]).arg(format!("{}x{}x24", size.width, size.height));
        let (display, server) = serve("Xvfb", command, state).await?;
        let viewer = show(x11vnc, display, &socket, state).await?;
        Ok(Self { display, programs: vec![server, viewer] })
    }

    /// Returns when one of its programs has ended, with how.
    pub(super) async fn died(&mut self) -> String {
        let [first, rest @ ..] = self.programs.as_mut_slice() else {
            return std::future::pending().await;
        };
        match rest.first_mut() {
            None => {
                first.ended().await;
                first.obituary()
            }
            Some(second) => tokio::select! {
                () = first.ended() => first.obituary(),
                () = second.ended() => second.obituary(),
            },
        }
    }

    /// Ends its programs, the last one first.
    pub(super) async fn end(self) {
        for program in self.programs.into_iter().rev() {
            program.end().await;
        }
    }
}

/// Starts an X server, and waits until it says which display it serves.
async fn serve(
    name: &'static str,
    mut command: Command,
    state: &State,
) -> Result<(u32, Program), DeskError> {
    command.args(["-nolisten", "tcp", "-noreset", "-s", "0"]);
    command.arg("-auth").arg(state.authority());
    // The server finds a free number by itself and writes it to its stdout.
    command.args(["-displayfd", "1"]).stdout(Stdio::piped());
    command.env(MARK, state.directory());
    let mut program = Program::start(name, command)?;
    let failed = |why: String| DeskError::Start { program: name, why };
    let stdout = program.take_stdout().ok_or_else(|| failed("it has no stdout".to_owned()))?;
    let mut stdout = Receiver::from_owned_fd(stdout).map_err(|error| failed(error.to_string()))?;
    let number = async {
        let mut text = Vec::new();
        while text.len() < 16 && !text.ends_with(b"\n") {
            let byte = stdout.read_u8().await.ok()?;
            text.push(byte);
        }
        std::str::from_utf8(&text).ok()?.trim().parse().ok()
    };
    match timeout(PATIENCE, number).await {
        Ok(Some(display)) => Ok((display, program)),
        Ok(None) => {
            // It has closed its stdout: it ends.
            timeout(Duration::from_secs(5), program.ended()).await.ok();
            Err(failed(program.obituary()))
        }
        Err(_) => Err(failed(format!(
            "no display after {} s; {}",
            PATIENCE.as_secs(),
            program.obituary()
        ))),
    }
}

/// Starts x11vnc, and waits until it listens.
async fn show(
    x11vnc: std::path::PathBuf,
    display: u32,
    socket: &Path,
    state: &State,
) -> Result<Program, DeskError> {
    let mut command = command(x11vnc);
    command.arg("-display").arg(format!(":{display}"));
    command.arg("-auth").arg(state.authority()).arg("-unixsock").arg(socket);
    // No port in either version of the internet protocol.
    command.args(["-rfbport", "0", "-rfbportv6", "-1", "-no6", "-noipv6"]);
    command.args(["-norc", "-forever", "-shared", "-nopw", "-repeat", "-quiet"]);
    command.stdout(Stdio::null()).env(MARK, state.directory());
    let mut program = Program::start("x11vnc", command)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if users(socket).is_some_and(|users| users.listening) {
            return Ok(program);
        }
        if program.status().is_some() || Instant::now() > deadline {
            // Its last words may still be on their way.
            sleep(LOOK).await;
            return Err(DeskError::Start { program: "x11vnc", why: program.obituary() });
        }
        sleep(LOOK).await;
    }
}

/// Who uses a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Users {
    /// Whether somebody accepts connections there.
    pub(super) listening: bool,
    /// How many connections there are.
    pub(super) connected: usize,
}

/// Who uses this socket, if the kernel says.
pub(super) fn users(socket: &Path) -> Option<Users> {
    let table = std::fs::read_to_string("/proc/self/net/unix").ok()?;
    Some(count_users(&table, socket.to_str()?))
}

/// Counts in the kernel's table: number, references, protocol, flags, type, state,
/// inode, path.
fn count_users(table: &str, socket: &str) -> Users {
    let mut users = Users { listening: false, connected: 0 };
    for line in table.lines() {
        let mut fields = line.splitn(8, ' ');
        let (flags, state) = (fields.nth(3), fields.nth(1));
        if fields.nth(1).is_none_or(|path| path.trim_start() != socket) {
            continue;
        }
        match (flags, state) {
            (Some("00010000"), _) => users.listening = true,
            (_, Some("03")) => users.connected += 1,
            _ => {}
        }
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_counted() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000058964010: 00000002 00000000 00010000 0001 01 25936727 /a b/vnc\n\
            0000000069e2c0b8: 00000003 00000000 00000000 0001 03   325 /a b/vnc\n\
            0000000069e2c0b8: 00000003 00000000 00000000 0001 03 325\n\
            0000000069e2c0b8: 00000003 00000000 00000000 0001 03 25938325 /other\n";
        assert_eq!(count_users(table, "/other"), Users { listening: false, connected: 1 });
        assert_eq!(count_users(table, "/none"), Users { listening: false, connected: 0 });
        let users = count_users(&table.replace("  325", "325"), "/a b/vnc");
        assert_eq!(users, Users { listening: true, connected: 1 });
    }
}
