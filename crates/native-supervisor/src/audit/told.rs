//! Acts as gVisor's kernel, the Sentry, tells them: in its log, a line at the beginning and at
//! the end of each call of those that are asked for.
//!
//! The log is a pipe whose other end the Sentry has and nobody inside can reach. A call is
//! told before it is done, and whoever does it waits as long as the pipe is full.

mod acts;
mod arguments;
mod kin;
mod messages;
mod report;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use self::kin::Kin;
use self::messages::Messages;
use super::trail::Trail;
use super::{Source, now_us};
use crate::failure::ignore;

/// So much is read at a time, and so often at once: what the pipe holds.
const PIECE: usize = 16 << 10;
const PIECES: usize = 16;

/// Who waits at a pipe is woken by every line. So little is done about most that this would
/// be most of the work, and what is told is no worse for being read a little later.
const PAUSE: Duration = Duration::from_millis(2);

/// The most characters of a reason to end.
const MOST_TOLD: usize = 300;

/// The calls to be told of: those that are written down, and by which it is known who does
/// them and where. A kernel that does not know one of the names does not start; the filter
/// inside refuses those that do the same and are not here.
#[rustfmt::skip]
pub(crate) const CALLS: &[&str] = &[
    "execve", "execveat", "openat", "truncate", "mkdirat", "mknodat", "linkat", "symlinkat",
    "renameat", "renameat2", "unlinkat", "connect", "clone", "chdir", "fchdir", "exit_group",
    #[cfg(target_arch = "x86_64")] "open",
    #[cfg(target_arch = "x86_64")] "creat",
    #[cfg(target_arch = "x86_64")] "mkdir",
    #[cfg(target_arch = "x86_64")] "mknod",
    #[cfg(target_arch = "x86_64")] "link",
    #[cfg(target_arch = "x86_64")] "symlink",
    #[cfg(target_arch = "x86_64")] "rename",
    #[cfg(target_arch = "x86_64")] "unlink",
    #[cfg(target_arch = "x86_64")] "rmdir",
    #[cfg(target_arch = "x86_64")] "fork",
    #[cfg(target_arch = "x86_64")] "vfork",
];

/// What the Sentry of one sandbox tells.
#[derive(Debug)]
pub(super) struct Told {
    /// Until it tells no more.
    log: Option<OwnedFd>,
    messages: Messages,
    kin: Kin,
    /// Why it ends, where it says so.
    complaint: String,
}

impl Told {
    /// The pipe is read without waiting for it.
    pub(super) fn new(log: OwnedFd) -> Self {
        // One that holds less will do.
        ignore(rustix::pipe::fcntl_setpipe_size(&log, PIECE * PIECES));
        Self {
            log: Some(log),
            messages: Messages::default(),
            kin: Kin::default(),
            complaint: String::new(),
        }
    }
}

impl Source for Told {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.log.as_ref().map(AsFd::as_fd)
    }

    fn attend(&mut self, trail: &mut Trail) {
        let mut piece = [0; PIECE];
        for _ in 0..PIECES {
            let Some(log) = &self.log else { return };
            match rustix::io::read(log, &mut piece) {
                Ok(0) => self.log = None,
                Ok(read) => self.hear(piece.get(..read).unwrap_or_default(), trail),
                Err(_) => return, // nothing more is there
            }
        }
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    fn complaint(&self) -> &str {
        &self.complaint
    }
}

impl Told {
    fn hear(&mut self, bytes: &[u8], trail: &mut Trail) {
        if trail.is_full() {
            return; // whoever waits to be heard may go on
        }
        for byte in bytes {
            if let Some(message) = self.messages.take(*byte) {
                if let Some((_, reason)) = message.text.split_once("] FATAL ERROR: ")
                    && !message.text.starts_with("strace.go:")
                {
                    self.complaint = reason.chars().take(MOST_TOLD).collect();
                }
                self.kin.hear(now_us(), message, &mut |record| trail.write(&record));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::path::PathBuf;
    use std::time::Instant;

    use cofferdam_types::{AuditAct, AuditRecord};
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::super::Auditor;
    use super::PAUSE;

    fn told(path: PathBuf) -> (Auditor, File) {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (log, tell) = pipe_with(flags).unwrap();
        (Auditor::of_sentry(log, path), tell.into())
    }

    fn line(text: &str) -> String {
        format!("{{\"msg\":\"{text}\",\"level\":\"info\",\"time\":\"now\"}}\n")
    }

    #[test]
    fn what_is_told_is_written_down_until_nobody_tells() {
        let place = tempfile::tempdir().unwrap();
        let (mut auditor, mut tell) = told(place.path().join("trail"));
        assert!(!auditor.begin_anew(), "nothing was told");
        tell.write_all(line("main.go:1] FATAL ERROR: no loader").as_bytes()).unwrap();
        let act = line("strace.go:561] [   1:   1] x E unlink(0x7f1000 a)");
        // The end of a line is not waited for.
        tell.write_all(act.trim_end().as_bytes()).unwrap();
        auditor.catch_up();
        let (filed, held) = auditor.trail();
        let mut decoder = cofferdam_guest_protocol::RecordDecoder::default();
        decoder.push(held);
        let record = decoder.next_record::<AuditRecord>().unwrap().unwrap();
        assert_eq!((filed, record.act), (0, AuditAct::Deleted { path: "/a".to_owned() }));
        assert_eq!(auditor.complaint(), "no loader");
        assert!(auditor.begin_anew() && auditor.trail() == (0, &[]));
        drop(tell);
        auditor.catch_up();
        assert!(auditor.source.descriptor().is_none(), "nobody is watched who is gone");
    }

    #[test]
    fn whoever_tells_goes_on_once_the_trail_is_full() {
        // It cannot be kept there, so it is full soon.
        let (mut auditor, mut tell) = told("/proc/none/trail".into());
        let name = "x".repeat(1000);
        let act = line(&format!("strace.go:561] [   1:   1] x E unlink(0x7f1000 /{name})"));
        let mut held = 0;
        for _ in 0..500 {
            tell.write_all(act.as_bytes()).unwrap();
            auditor.catch_up();
            held = held.max(auditor.trail().1.len());
        }
        assert!(held < 64 << 10, "{held}");
        assert!(auditor.source.descriptor().is_some());
        // Nobody waits at it at once, but soon.
        assert!(auditor.look_again().is_none_or(|at| at <= Instant::now() + PAUSE));
    }
}
