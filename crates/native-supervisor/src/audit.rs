//! The audit trail: the calls that the filter reports, written down.
//!
//! Each reported call waits until it is answered, so answering is quick and
//! always "go on". Who did it is found by climbing from the process to its
//! monitor, a child of the guest that bears the call's name.
//!
//! The latest records are held here, those before them are in a file: most
//! sandboxes never do enough for one.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cofferdam_guest_protocol::encode_record;
use cofferdam_types::{AuditAct, AuditRecord, CallId};

use crate::failure::ignore;
use crate::processes::Stat;
use crate::sys::{self, Notification};

/// The trail is cut at this size.
const MAX_TRAIL: u64 = 64 << 20;

/// Records go to the file together, once there is this much of them.
const BATCH: usize = 32 << 10;

/// No record is longer: two names with their directories, all of it bytes that have to be
/// replaced. What is held, one of these at most or a batch, fits into a message of the
/// supervisor's.
const LONGEST: usize = 56 << 10;

/// How long it is remembered whose a process is. Process numbers come round
/// again, but not this soon.
const MEMORY: Duration = Duration::from_secs(1);

/// The directory argument that means the working directory.
const HERE: u64 = libc::AT_FDCWD as i64 as u64;

/// How many generations of processes are climbed at most.
const GENERATIONS: usize = 64;

/// Writes down what a sandbox does.
#[derive(Debug)]
pub struct Auditor {
    listener: OwnedFd,
    init: u32,
    path: PathBuf,
    trail: Option<File>,
    /// Bytes in the file.
    filed: u64,
    /// What comes after those.
    held: Vec<u8>,
    /// No more is written down.
    full: bool,
    known: HashMap<u32, (Instant, Option<CallId>)>,
}

impl Auditor {
    /// Begins a trail, of the sandbox whose first process is `init`. The file at
    /// `path` is made when there is more than can be held.
    #[must_use]
    pub fn new(listener: OwnedFd, init: u32, path: PathBuf) -> Self {
        sys::notify_synchronously(listener.as_fd());
        Self {
            listener,
            init,
            path,
            trail: None,
            filed: 0,
            held: Vec::new(),
            full: false,
            known: HashMap::new(),
        }
    }

    /// Where reported calls arrive.
    #[must_use]
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Writes down one reported call and lets it go on.
    pub fn attend(&mut self) {
        // A process that is killed while it waits takes its report with it.
        let Ok(notification) = sys::next_notification(self.listener.as_fd()) else { return };
        // All questions before the answer: afterwards the process may be gone.
        let act = act_of(&notification).map(|act| (act, self.origin(notification.pid)));
        ignore(sys::let_go_on(self.listener.as_fd(), notification.id));
        if let Some((act, call)) = act {
            self.write(&AuditRecord { at_us: now_us(), call, pid: notification.pid, act });
        }
    }

    /// The trail so far: so many bytes of the file, and then these.
    #[must_use]
    pub fn trail(&self) -> (u64, &[u8]) {
        (self.filed, &self.held)
    }

    fn write(&mut self, record: &AuditRecord) {
        let mut bytes = Vec::new();
        if self.full || encode_record(record, &mut bytes).is_err() {
            return;
        }
        let too_much = self.filed + (self.held.len() + bytes.len()) as u64 >= MAX_TRAIL;
        // A trail that cannot be kept is not worth ending the work it describes; but
        // the reader sees that it stops.
        let fits = self.held.len() + bytes.len() <= BATCH || self.file_held().is_ok();
        if too_much || !fits || bytes.len() > LONGEST {
            bytes.clear();
            let end = AuditRecord { act: AuditAct::Truncated, ..record.clone() };
            ignore(encode_record(&end, &mut bytes));
            self.full = true;
        }
        self.held.extend_from_slice(&bytes);
    }

    fn file_held(&mut self) -> io::Result<()> {
        let trail = match &mut self.trail {
            Some(trail) => trail,
            none => none.insert(File::create(&self.path)?),
        };
        trail.write_all_at(&self.held, self.filed)?;
        self.filed += self.held.len() as u64;
        self.held.clear();
        Ok(())
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
                call = stat.name.strip_prefix('c').and_then(call_of_name);
                break;
            }
            at = stat.parent;
        }
        self.known.insert(pid, (now, call));
        call
    }
}

fn call_of_name(name: &str) -> Option<CallId> {
    u64::from_str_radix(name, 36).ok().map(CallId)
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

/// Microseconds since 1970.
#[must_use]
pub fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_named_after_its_call() {
        assert_eq!(call_of_name("1z"), Some(CallId(71)));
        assert_eq!(call_of_name("at"), Some(CallId(389)));
        assert_eq!(call_of_name("no name"), None);
    }

    fn auditor(path: PathBuf) -> Auditor {
        Auditor::new(File::open("/dev/null").unwrap().into(), 1, path)
    }

    fn executed(name: &str) -> AuditRecord {
        let act = AuditAct::Executed { path: name.to_owned() };
        AuditRecord { at_us: 0, call: None, pid: 1, act }
    }

    fn acts(filed: &[u8], held: &[u8]) -> Vec<AuditAct> {
        let mut decoder = cofferdam_guest_protocol::RecordDecoder::default();
        decoder.push(filed);
        decoder.push(held);
        std::iter::from_fn(|| decoder.next_record::<AuditRecord>().unwrap())
            .map(|record| record.act)
            .collect()
    }

    #[test]
    fn a_short_trail_is_held_and_of_a_long_one_the_end() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("trail");
        let mut auditor = auditor(path.clone());
        auditor.write(&executed("first"));
        assert!(auditor.trail().0 == 0 && !path.exists());
        let count = 2 * BATCH / 16;
        (1..count).for_each(|number| auditor.write(&executed(&format!("program {number}"))));
        let (filed, held) = auditor.trail();
        let file = fs::read(&path).unwrap();
        assert_eq!(file.len() as u64, filed);
        assert!(held.len() < BATCH + 100);
        let acts = acts(&file, held);
        assert_eq!((acts.len(), &acts[0]), (count, &executed("first").act));
    }

    #[test]
    fn a_trail_that_cannot_be_kept_says_that_it_stops() {
        let mut auditor = auditor("/proc/none/trail".into());
        let count = 2 * BATCH / 16;
        (0..count).for_each(|number| auditor.write(&executed(&format!("program {number}"))));
        let (filed, held) = auditor.trail();
        let mut acts = acts(&[], held);
        assert_eq!((filed, acts.pop()), (0, Some(AuditAct::Truncated)));
        // Nothing that somebody may have read already is taken back.
        assert_eq!(acts[0], executed("program 0").act);
        assert!(acts.len() > 100 && held.len() <= BATCH + 100);
    }

    #[test]
    fn however_long_records_are_what_is_held_fits_into_a_message() {
        let place = tempfile::tempdir().unwrap();
        let mut auditor = auditor(place.path().join("trail"));
        let long = "x".repeat(49 << 10);
        for round in 0..5_000 {
            let name = if round % 3 == 0 { long.as_str() } else { "short" };
            auditor.write(&executed(name));
            assert!(auditor.trail().1.len() < 60 << 10);
        }
        assert!(auditor.full, "the trail has an end");
        let (filed, held) = auditor.trail();
        assert_eq!(acts(&[], held).pop(), Some(AuditAct::Truncated));
        assert!(filed + held.len() as u64 <= MAX_TRAIL);
        auditor.write(&executed(&"y".repeat(100 << 10)));
        assert_eq!(auditor.trail().0, filed);
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
