//! Acts as the filter's notifications tell them.
//!
//! Each reported call waits until it is answered, so answering is quick and
//! always "go on". Who did it is found by climbing from the process to its
//! monitor, a child of the guest that bears the call's name.

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
    init: u32,
    known: HashMap<u32, (Instant, Option<CallId>)>,
}

impl Notified {
    /// Those of the sandbox whose first process is `init`.
    pub(super) fn new(listener: OwnedFd, init: u32) -> Self {
        sys::notify_synchronously(listener.as_fd());
        Self { listener, init, known: HashMap::new() }
    }

    /// Whose call a process belongs to: the one its ancestor among the guest's
    /// children is named after.
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
        let mut call = None;
        let mut at = pid;
        for _ in 0..GENERATIONS {
            if at == self.init {
                break; // the guest itself
            }
            let stat = Stat::read(at)?;
            if stat.parent == self.init {
                call = call_named(&stat.name);
                break;
            }
            at = stat.parent;
        }
        self.known.insert(pid, (now, call));
        call
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
