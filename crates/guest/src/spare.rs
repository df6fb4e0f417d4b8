//! A monitor that waits for its command.
//!
//! To fork the guest and to settle down takes a monitor a quarter of a millisecond. A
//! guest that has run commands will run more: while one runs, the monitor of the next
//! is made. Commands that are told in few words, read nothing and have no terminal
//! find it ready; all others, and the first, fork their own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cofferdam_guest_protocol::{Exec, Leftovers, OutputMode, Program, Stdin};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Rlimit};

use crate::command::set_nonblocking;
use crate::monitor::{self, Descriptors};
use crate::sys::{self, Forked};
use crate::tree;

/// No order is longer, so that an empty pipe takes one whole.
const MAX_ORDER: usize = 16 << 10;

/// The bytes before an order that tell its length.
const LENGTH: usize = size_of::<u32>();

/// What a spare monitor is told.
pub(crate) struct Order(Vec<u8>);

impl Order {
    /// The order to run a command, if a spare monitor can.
    pub(crate) fn to_run(call: u64, exec: &Exec) -> Option<Self> {
        if exec.pty.is_some() || exec.stdin != Stdin::Null {
            return None;
        }
        let text = postcard::to_stdvec(&(call, exec)).ok()?;
        let length = u32::try_from(text.len()).ok()?;
        let bytes = [&length.to_le_bytes(), text.as_slice()].concat();
        (bytes.len() <= MAX_ORDER).then_some(Self(bytes))
    }

    /// Touches the memory that reading an order will touch: a page of the guest's that is
    /// written to is copied first, and now nobody waits for that.
    pub(crate) fn rehearse() {
        let exec = Exec {
            program: Program::Shell(vec![0; MAX_ORDER / 4]),
            cwd: Vec::new(),
            env: vec![(vec![0; 16], vec![0; 64]); 16],
            stdin: Stdin::Null,
            pty: None,
            timeout_ms: None,
            grace_ms: 0,
            output: OutputMode::Stream,
            leftovers: Leftovers::Kill,
        };
        let order = postcard::to_stdvec(&(0_u64, exec)).unwrap_or_default();
        drop(postcard::from_bytes::<(u64, Exec)>(&order));
    }

    /// Waits for an order; `None` when none will come.
    pub(crate) fn read(from: BorrowedFd<'_>) -> Option<(u64, Exec)> {
        let mut bytes = Vec::with_capacity(MAX_ORDER);
        loop {
            if let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() {
                let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
                if let Some(text) = rest.get(..length) {
                    return postcard::from_bytes(text).ok();
                }
            }
            let mut piece = [0; 4096];
            match rustix::io::read(from, &mut piece) {
                Ok(0) => return None,
                Ok(count) => bytes.extend(piece.iter().take(count)),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

/// A monitor without a command.
pub(crate) struct Spare {
    monitor: Pid,
    orders: OwnedFd,
    ends: Ends,
}

/// The guest's ends of a monitor's pipes.
pub(crate) struct Ends {
    pub(crate) report: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) error: OwnedFd,
}

impl Spare {
    /// Makes one.
    ///
    /// # Errors
    /// When there are no descriptors or processes to be had.
    pub(crate) fn make(limit: &Rlimit) -> Result<Self, Errno> {
        let (told, orders) = pipe_with(PipeFlags::CLOEXEC)?;
        let (report, report_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (output, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (error, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        for fd in [&orders, &report, &output, &error] {
            set_nonblocking(fd)?;
        }
        let descriptors = Descriptors {
            standard: [&told, &stdout, &stderr].map(|fd| Some(fd.as_fd())),
            terminal: None,
            report: report_end.as_fd(),
        };
        match sys::fork()? {
            Forked::Child => monitor::wait(&descriptors, limit),
            Forked::Parent(monitor) => {
                Ok(Self { monitor, orders, ends: Ends { report, output, error } })
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.monitor
    }

    /// Gives it its command; `None` when it does not take the order, for it was killed.
    pub(crate) fn employ(self, order: &Order) -> Option<(Pid, Ends)> {
        match rustix::io::write(&self.orders, &order.0) {
            Ok(count) if count == order.0.len() => Some((self.monitor, self.ends)),
            _ => {
                tree::send(self.monitor, libc::SIGKILL);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_guest_protocol::PtySize;

    use super::*;

    fn exec() -> Exec {
        Exec {
            program: Program::Argv(vec![b"true".to_vec()]),
            cwd: b"/".to_vec(),
            env: vec![(b"A".to_vec(), b"b".to_vec())],
            stdin: Stdin::Null,
            pty: None,
            timeout_ms: None,
            grace_ms: 1,
            output: OutputMode::Stream,
            leftovers: Leftovers::Kill,
        }
    }

    #[test]
    fn an_order_arrives_whatever_the_pieces() {
        let Order(bytes) = Order::to_run(7, &exec()).unwrap();
        for piece in [1, 3, bytes.len()] {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            let bytes = bytes.clone();
            let sender = std::thread::spawn(move || {
                for piece in bytes.chunks(piece) {
                    rustix::io::write(&writer, piece).unwrap();
                }
            });
            assert_eq!(Order::read(reader.as_fd()), Some((7, exec())));
            sender.join().unwrap();
        }
    }

    #[test]
    fn no_order_is_read_from_the_end_of_one() {
        let Order(bytes) = Order::to_run(7, &exec()).unwrap();
        for length in [0, 1, LENGTH, bytes.len() - 1] {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            rustix::io::write(&writer, bytes.get(..length).unwrap()).unwrap();
            drop(writer);
            assert_eq!(Order::read(reader.as_fd()), None, "{length} bytes");
        }
    }

    #[test]
    fn what_does_not_fit_is_no_order() {
        let size = PtySize { rows: 24, cols: 80 };
        assert!(Order::to_run(1, &Exec { pty: Some(size), ..exec() }).is_none());
        assert!(Order::to_run(1, &Exec { stdin: Stdin::Piped, ..exec() }).is_none());
        let long = Program::Shell(vec![b' '; MAX_ORDER]);
        assert!(Order::to_run(1, &Exec { program: long, ..exec() }).is_none());
    }
}
