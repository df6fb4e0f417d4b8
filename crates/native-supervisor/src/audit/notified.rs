//! Acts as the filter's notifications tell them.
//!
//! Each reported call waits until it is answered, so answering is quick and
//! always "go on". Who did it is found by climbing from the process to its
//! monitor, a child of the guest that bears the call's name.
//!
//! A process whose monitor was killed is a child of the guest as well, and may
//! call itself anything. But monitors are in the guest's session, and every
//! command begins one of its own, from which nobody gets back.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use cofferdam_types::{AuditAct, AuditRecord, CallId};

use super::trail::Trail;
use super::{Source, call_named, now_us};
use crate::failure::ignore;
use crate::processes::Stat;
use crate::sys::{self, Notification};

/// How long it is remembered whose a process is. Process numbers come round
/// again, but not this soon.
const MEMORY: Duration = Duration::from_secs(1);

/// The directory argument that means the working directory.
const HERE: u64 = libc::AT_FDCWD as i64 as u64;

/// How many generations of processes are climbed at most.
const GENERATIONS: usize = 64;

/// The calls of one sandbox that the filter reports.
#[derive(Debug)]
pub(super) struct Notified {
    listener: OwnedFd,
    guest: Guest,
    known: HashMap<u32, (Instant, Option<CallId>)>,
}

impl Notified {
    /// Those of the sandbox whose first process is `init`.
    pub(super) fn new(listener: OwnedFd, init: u32) -> Self {
        sys::notify_synchronously(listener.as_fd());
        let session = Stat::read(init).map(|stat| stat.session);
        Self { listener, guest: Guest { init, session }, known: HashMap::new() }
    }

    /// Whose call a process belongs to.
    fn origin(&mut self, pid: u32) -> Option<CallId> {
        let now = Instant::now();
        if let Some((at, call)) = self.known.get(&pid)
            && now.duration_since(*at) < MEMORY
        {
            return *call;
        }
        if self.known.len() > 4096 {
            self.known.retain(|_, (at, _)| now.duration_since(*at) < MEMORY);
        }
        let call = self.guest.call_of(pid, Stat::read)?;
        self.known.insert(pid, (now, call));
        call
    }
}

/// The first process and its session, as this `/proc` numbers them.
#[derive(Debug)]
struct Guest {
    init: u32,
    session: Option<i32>,
}

impl Guest {
    /// The call that a process belongs to: the one that its ancestor among the monitors is
    /// named after. `None` when that cannot be seen any more.
    fn call_of(&self, pid: u32, look_at: impl Fn(u32) -> Option<Stat>) -> Option<Option<CallId>> {
        let mut at = pid;
        for _ in 0..GENERATIONS {
            if at == self.init {
                break; // the guest itself
            }
            let stat = look_at(at)?;
            if stat.parent == self.init {
                let is_monitor = self.session == Some(stat.session);
                return Some(call_named(&stat.name).filter(|_| is_monitor));
            }
            at = stat.parent;
        }
        Some(None)
    }
}

impl Source for Notified {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.listener.as_fd())
    }

    /// Writes down one reported call and lets it go on.
    fn attend(&mut self, trail: &mut Trail) {
        // A process that is killed while it waits takes its report with it.
        let Ok(notification) = sys::next_notification(self.listener.as_fd()) else { return };
        // All questions before the answer: afterwards the process may be gone.
        let act = act_of(&notification).map(|act| (act, self.origin(notification.pid)));
        ignore(sys::let_go_on(self.listener.as_fd(), notification.id));
        if let Some((act, call)) = act {
            trail.write(&AuditRecord { at_us: now_us(), call, pid: notification.pid, act });
        }
    }
}

/// What a reported call does, as far as the process's memory tells.
fn act_of(notification: &Notification) -> Option<AuditAct> {
    #[cfg(target_arch = "x86_64")]
    if let Some(act) = older_act_of(notification) {
        return Some(act);
    }
    let [a0, a1, a2, a3, ..] = notification.data.args;
    let pid = notification.pid;
    let path = |directory: u64, name: u64| path_of(pid, directory, name);
    Some(match libc::c_long::from(notification.data.nr) {
        libc::SYS_execve => AuditAct::Executed { path: path(HERE, a0) },
        libc::SYS_execveat => AuditAct::Executed { path: path(a0, a1) },
        libc::SYS_openat => AuditAct::OpenedForWriting { path: path(a0, a1) },
        libc::SYS_openat2 => {
            let mut flags = [0; 8];
            sys::read_memory(pid, a2, &mut flags).ok()?;
            let writes = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;
            if u64::from_ne_bytes(flags) & writes == 0 {
                return None;
            }
            AuditAct::OpenedForWriting { path: path(a0, a1) }
        }
        libc::SYS_truncate => AuditAct::OpenedForWriting { path: path(HERE, a0) },
        libc::SYS_mkdirat | libc::SYS_mknodat => AuditAct::Created { path: path(a0, a1) },
        libc::SYS_linkat => AuditAct::Created { path: path(a2, a3) },
        libc::SYS_symlinkat => AuditAct::Created { path: path(a1, a2) },
        libc::SYS_renameat | libc::SYS_renameat2 => {
            AuditAct::Renamed { from: path(a0, a1), to: path(a2, a3) }
        }
        libc::SYS_unlinkat => AuditAct::Deleted { path: path(a0, a1) },
        libc::SYS_connect => {
            let mut address = [0; 128];
            let length = usize::try_from(a2).unwrap_or(usize::MAX).min(address.len());
            let read = sys::read_memory(pid, a1, address.get_mut(..length).unwrap_or_default());
            AuditAct::Connected { address: address_of(address.get(..read.ok()?)?)? }
        }
        _ => return None,
    })
}

/// The calls of old that only this architecture still has.
#[cfg(target_arch = "x86_64")]
fn older_act_of(notification: &Notification) -> Option<AuditAct> {
    let [a0, a1, ..] = notification.data.args;
    let path = |name: u64| path_of(notification.pid, HERE, name);
    match libc::c_long::from(notification.data.nr) {
        libc::SYS_open | libc::SYS_creat => Some(AuditAct::OpenedForWriting { path: path(a0) }),
        libc::SYS_mkdir | libc::SYS_mknod => Some(AuditAct::Created { path: path(a0) }),
        libc::SYS_link | libc::SYS_symlink => Some(AuditAct::Created { path: path(a1) }),
        libc::SYS_rename => Some(AuditAct::Renamed { from: path(a0), to: path(a1) }),
        libc::SYS_unlink | libc::SYS_rmdir => Some(AuditAct::Deleted { path: path(a0) }),
        _ => None,
    }
}

fn path_of(pid: u32, directory: u64, name: u64) -> String {
    let mut buffer = [0; 4096];
    let length = sys::read_memory(pid, name, &mut buffer).unwrap_or(0);
    let bytes = buffer.get(..length).unwrap_or_default();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    if name.starts_with('/') {
        return name.into_owned();
    }
    let link = match directory as i32 {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        descriptor => format!("/proc/{pid}/fd/{descriptor}"),
    };
    let base = fs::read_link(link).unwrap_or_default();
    if name.is_empty() {
        return base.to_string_lossy().into_owned();
    }
    base.join(name.as_ref()).to_string_lossy().into_owned()
}

/// The text of a socket address; nothing for one that leads nowhere.
fn address_of(bytes: &[u8]) -> Option<String> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let (address, _) = rest.split_first_chunk::<4>()?;
            Some(format!("{}:{}", Ipv4Addr::from(*address), u16::from_be_bytes(*port)))
        }
        libc::AF_INET6 => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let (_flow, rest) = rest.split_first_chunk::<4>()?;
            let (address, _) = rest.split_first_chunk::<16>()?;
            Some(format!("[{}]:{}", Ipv6Addr::from(*address), u16::from_be_bytes(*port)))
        }
        libc::AF_UNIX => match rest.split_first()? {
            (0, name) => Some(format!("unix:@{}", String::from_utf8_lossy(name))),
            _ => {
                let name = rest.split(|byte| *byte == 0).next()?;
                Some(format!("unix:{}", String::from_utf8_lossy(name)))
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_the_guests_own_session_is_believed_its_name() {
        let lines = [
            "100 (cofferdam) S 90 100 100 0 -1",
            "101 (c1z) S 100 100 100 0 -1",
            "102 (sh) S 101 102 102 0 -1",
            "103 (c2) S 102 102 102 0 -1",
            // Their monitor is dead.
            "104 (c3) S 100 104 104 0 -1",
            "105 (rm) S 104 104 104 0 -1",
            // A monitor that waits for its command.
            "106 (cofferdam) S 100 100 100 0 -1",
        ];
        let look_at = |from: &[String], pid: u32| {
            let line = from.iter().find(|line| line.starts_with(&format!("{pid} ")))?;
            Stat::parse(line)
        };
        let here = lines.map(str::to_owned);
        // A session that began where this `/proc` does not reach has no number in it, while
        // that of a command always has one.
        let outside = lines.map(|line| line.replace(" 100 100 0", " 0 0 0"));
        for (lines, session) in [(&here, 100), (&outside, 0)] {
            let guest = Guest { init: 100, session: Some(session) };
            let call_of = |pid| guest.call_of(pid, |pid| look_at(lines, pid));
            for pid in [101, 102, 103] {
                assert_eq!(call_of(pid), Some(Some(CallId(71))), "{pid}");
            }
            for pid in [100, 104, 105, 106] {
                assert_eq!(call_of(pid), Some(None), "{pid}");
            }
            assert_eq!(call_of(107), None, "gone before it could be seen");
        }
    }

    #[test]
    fn addresses_are_written_as_people_read_them() {
        let family = |family: i32| (family as u16).to_ne_bytes();
        let mut four = family(libc::AF_INET).to_vec();
        four.extend([0x1f, 0x90, 10, 0, 0, 7]);
        assert_eq!(address_of(&four).as_deref(), Some("10.0.0.7:8080"));
        let mut six = family(libc::AF_INET6).to_vec();
        six.extend([0, 80, 0, 0, 0, 0]);
        six.extend(Ipv6Addr::LOCALHOST.octets());
        assert_eq!(address_of(&six).as_deref(), Some("[::1]:80"));
        let mut unix = family(libc::AF_UNIX).to_vec();
        unix.extend(b"/run/x.sock\0rest");
        assert_eq!(address_of(&unix).as_deref(), Some("unix:/run/x.sock"));
        assert_eq!(address_of(&[]), None);
        assert_eq!(address_of(&family(libc::AF_UNSPEC)), None);
    }
}
