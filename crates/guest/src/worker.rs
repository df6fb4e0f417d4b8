//! A worker: the process that carries out one file request.
//!
//! It works in a copy of the guest, so that a slow disk, a huge file or a hostile
//! tree holds up nobody else, and killing it is enough to end the request. Its
//! input and output are pipes like those of a command; its answer comes over a
//! third.

use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest_protocol::{
    Control, FileError, FileReply, FileRequest, MAX_PAYLOAD, OutputMode,
};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitStatus};

use crate::call::Channels;
use crate::channel::{InChannel, Kind, OutChannel, Watched, Writers};
use crate::command::set_nonblocking;
use crate::sys::{self, Forked};
use crate::{files, monitor, tree};

/// The descriptor that the answer goes to, in the worker.
const REPLY: i32 = 3;

/// An answer.
type Answer = Result<FileReply, FileError>;

/// A worker.
pub(crate) struct Worker {
    child: Option<Pid>,
    reply: Option<Watched>,
    bytes: Vec<u8>,
    killed: bool,
    /// The signal that ended it, if it was one.
    signal: Option<i32>,
    over: bool,
}

/// Starts a worker.
///
/// # Errors
/// When there are no descriptors or processes to be had.
pub(crate) fn start(
    call: u64,
    request: &FileRequest,
    workspace: &[u8],
) -> Result<(Worker, Channels), Errno> {
    let (stdin, input) = pipe_with(PipeFlags::CLOEXEC)?;
    let (output, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (reply, answer) = pipe_with(PipeFlags::CLOEXEC)?;
    for fd in [&input, &output, &reply] {
        set_nonblocking(fd)?;
    }
    let child = match sys::fork()? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            let wired = sys::duplicate_to(stdin.as_fd(), 0)
                .and_then(|()| sys::duplicate_to(stdout.as_fd(), 1))
                .and_then(|()| sys::duplicate_to(answer.as_fd(), REPLY));
            monitor::settle(REPLY + 1);
            monitor::work_for(call);
            if wired.is_ok() {
                serve(request, workspace);
            }
            sys::exit(0)
        }
    };
    let channels = Channels {
        output: OutChannel::new(Some(output), Kind::Pipe, OutputMode::Stream),
        error: OutChannel::absent(),
        input: InChannel::new(Some(input), Kind::Pipe),
    };
    Ok((Worker::new(child, reply), channels))
}

fn serve(request: &FileRequest, workspace: &[u8]) {
    let answer = files::serve(request, workspace, sys::standard(0), sys::standard(1));
    let bytes = postcard::to_stdvec(&answer).unwrap_or_default();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        match rustix::io::write(sys::standard(REPLY), rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

impl Worker {
    fn new(child: Pid, reply: OwnedFd) -> Self {
        Self {
            child: Some(child),
            reply: Some(Watched::new(reply)),
            bytes: Vec::new(),
            killed: false,
            signal: None,
            over: false,
        }
    }

    pub(crate) fn child(&self) -> Option<Pid> {
        self.child
    }

    pub(crate) fn reply(&mut self) -> Option<&mut Watched> {
        self.reply.as_mut()
    }

    pub(crate) fn child_ended(&mut self, status: WaitStatus) {
        self.child = None;
        self.signal = status.terminating_signal();
        if let Some(reply) = &mut self.reply {
            reply.ready = true;
        }
    }

    pub(crate) fn control(&mut self, control: Control) {
        if let (Control::Kill, Some(child)) = (control, self.child) {
            self.killed = true;
            tree::send(child, libc::SIGKILL);
        }
    }

    /// Takes in what there is of the answer.
    pub(crate) fn read_reply(&mut self) {
        while let Some(reply) = &mut self.reply
            && reply.ready
        {
            let mut bytes = [0; 4096];
            match rustix::io::read(&reply.fd, &mut bytes) {
                Ok(count) if count > 0 && self.bytes.len() <= MAX_PAYLOAD => {
                    self.bytes.extend(bytes.iter().take(count));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => reply.ready = false,
                Ok(_) | Err(_) => self.reply = None,
            }
        }
    }

    /// The answer, when it and all output are there.
    pub(crate) fn advance(&mut self, channels: &mut Channels) -> Option<Answer> {
        if self.over || self.reply.is_some() || !channels.output.is_taken() {
            return None;
        }
        let answer = match postcard::from_bytes(&self.bytes) {
            Ok(answer) => answer,
            // How it ended says why there is no answer.
            Err(_) if self.child.is_some() => return None,
            Err(_) if self.killed || self.signal == Some(libc::SIGKILL) => Err(FileError::Killed),
            Err(_) => Err(FileError::Io {
                errno: Errno::IO.raw_os_error(),
                message: match self.signal {
                    // Nobody wanted that: it is a defect.
                    Some(signal) => format!("the file operation failed with signal {signal}"),
                    None => "the file operation ended without an answer".to_owned(),
                },
            }),
        };
        self.over = true;
        self.bytes = Vec::new();
        channels.output.finish(Writers::Gone);
        channels.input.close();
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(killed: bool, signal: Option<i32>) -> Answer {
        let (reply, _) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut worker = Worker::new(rustix::process::getpid(), reply);
        (worker.child, worker.killed, worker.signal) = (None, killed, signal);
        worker.read_reply();
        let mut channels = Channels {
            output: OutChannel::absent(),
            error: OutChannel::absent(),
            input: InChannel::new(None, Kind::Pipe),
        };
        worker.advance(&mut channels).unwrap()
    }

    #[test]
    fn only_a_worker_that_was_killed_is_said_to_be() {
        assert_eq!(answer(true, Some(libc::SIGKILL)), Err(FileError::Killed));
        assert_eq!(answer(false, Some(libc::SIGKILL)), Err(FileError::Killed));
        let text = |answer: Answer| answer.unwrap_err().to_string();
        assert_eq!(
            text(answer(false, Some(libc::SIGABRT))),
            "the file operation failed with signal 6"
        );
        assert_eq!(text(answer(false, None)), "the file operation ended without an answer");
    }
}
