//! A terminal that a person sits at, played by the test.
#![expect(unsafe_code, reason = "a terminal becomes the program's own between fork and exec")]

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::{eventually, invocation};

/// A terminal with a program on it.
pub(crate) struct Terminal {
    keyboard: Option<OwnedFd>,
    line: OwnedFd,
    screen: Arc<Mutex<Vec<u8>>>,
    child: Child,
    before: Termios,
}

impl Terminal {
    /// Starts a program with a terminal of its own as all three streams.
    pub(crate) fn start(command: &mut Command) -> Self {
        let terminal = Self::start_unread(command);
        let source = terminal.keyboard.as_ref().unwrap().try_clone().unwrap();
        let shown = Arc::clone(&terminal.screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = rustix::io::read(&source, &mut buffer) {
                let piece = buffer.get(..read).unwrap_or_default();
                shown.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(piece);
            }
        });
        terminal
    }

    /// The same, with nobody who takes what is shown.
    pub(crate) fn start_unread(command: &mut Command) -> Self {
        let keyboard =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        set_size(&line, 30, 100);
        let before = tcgetattr(&line).unwrap();
        for stream in [Command::stdin, Command::stdout, Command::stderr] {
            stream(command, Stdio::from(line.try_clone().unwrap()));
        }
        // SAFETY: only system calls are made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Self { keyboard: Some(keyboard), line, screen: Arc::default(), child, before }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Presses keys.
    pub(crate) fn press(&self, keys: &str) {
        let keyboard = self.keyboard.as_ref().unwrap();
        let mut rest = keys.as_bytes();
        while !rest.is_empty() {
            let written = rustix::io::write(keyboard, rest).unwrap();
            rest = rest.get(written..).unwrap_or_default();
        }
    }

    /// Everything shown so far.
    pub(crate) fn shown(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&screen).into_owned()
    }

    /// Waits until this is shown.
    pub(crate) fn until_it_shows(&self, text: &str) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !self.shown().contains(text) {
            assert!(std::time::Instant::now() < deadline, "no {text:?} in {:?}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Waits until nothing more can be shown, for nobody takes it.
    pub(crate) fn until_it_is_full(&self) {
        let takes = || {
            let mut line = [PollFd::new(&self.line, PollFlags::OUT)];
            rustix::event::poll(&mut line, Some(&Timespec::default())).unwrap() > 0
        };
        eventually("the terminal is full", || !takes());
    }

    /// Pulls the window to another size; the kernel tells the program.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        set_size(self.keyboard.as_ref().unwrap(), rows, columns);
    }

    /// Closes the window.
    pub(crate) fn hang_up(&mut self) {
        self.keyboard = None;
        // The reading thread has the other end; a signal is what it leads to.
        invocation::kill(self.pid(), Signal::HUP);
    }

    /// Waits for the program's end; the terminal must be as it was before.
    pub(crate) fn end(mut self) -> (i32, String) {
        let code = invocation::wait(&mut self.child);
        let after = tcgetattr(&self.line).unwrap();
        assert_eq!(settings(&after), settings(&self.before), "the terminal is left in disorder");
        let last = Arc::clone(&self.screen);
        let mut before = usize::MAX;
        // The last output is in the kernel's buffer, or shown already.
        eventually("the screen to settle", || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = last.lock().unwrap_or_else(PoisonError::into_inner).len();
            std::mem::replace(&mut before, now) == now
        });
        (code, self.shown())
    }
}

fn settings(termios: &Termios) -> [u32; 4] {
    [
        termios.input_modes.bits(),
        termios.output_modes.bits(),
        termios.control_modes.bits(),
        termios.local_modes.bits(),
    ]
}

fn set_size(terminal: impl AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}
