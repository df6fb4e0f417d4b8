//! The system calls no safe crate wraps: fork, spawn, signal masks, bare descriptors.
//!
//! The guest has one thread. That is what makes [`fork`] sound here: the child
//! may allocate and run any code, for no other thread held a lock.

#![expect(unsafe_code, reason = "system calls the first process needs and no safe crate wraps")]

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

use bytes::{BufMut, BytesMut};
use rustix::io::{Errno, Result};
use rustix::process::{Pid, RawPid};

/// Which side of a fork this is.
pub(crate) enum Forked {
    /// The parent, with the child's id.
    Parent(Pid),
    /// The child.
    Child,
}

/// Makes a copy of this process.
pub(crate) fn fork() -> Result<Forked> {
    // SAFETY: the process has one thread, so the child finds every lock free and
    // all memory consistent.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        id => Pid::from_raw(id).filter(|_| id > 0).map(Forked::Parent).ok_or_else(last_error),
    }
}

/// Ends this process at once: no destructor runs and nothing is flushed.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Blocks every signal that can be blocked.
pub(crate) fn block_signals() -> Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set before it is used; the old mask is
    // not asked for.
    check(unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut())
    })
}

/// Has the kernel tell of children that end, and keep them until they are waited for. Whoever
/// started this program may have ignored them, and a program inherits that.
///
/// # Errors
/// Never, in practice.
pub fn heed_children() -> Result<()> {
    // SAFETY: all-zero is a valid value of this structure: the default action, and no flags.
    let usual: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives across the call, which only reads it; the default action runs
    // no code of this process.
    check(unsafe { libc::sigaction(libc::SIGCHLD, &raw const usual, ptr::null_mut()) })
}

/// A descriptor that is readable when a child has changed its state.
pub(crate) fn child_signals() -> Result<OwnedFd> {
    let mut children = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised before it is used, and -1 asks for a new
    // descriptor.
    let fd = unsafe {
        libc::sigemptyset(children.as_mut_ptr());
        libc::sigaddset(children.as_mut_ptr(), libc::SIGCHLD);
        libc::signalfd(-1, children.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    check(fd)?;
    // SAFETY: the descriptor was just made and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends any signal, also one without a name.
pub(crate) fn kill(pid: Pid, signal: i32) -> Result<()> {
    // SAFETY: `kill` reads no memory; the id is positive, so it names one process.
    check(unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) })
}

/// CPU time in microseconds, and the largest resident set in bytes, of the
/// children that were waited for and theirs.
pub(crate) fn usage_of_children() -> (u64, u64) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes; zeroes are a valid value if it fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let microseconds = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds.saturating_mul(1_000_000) + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    let memory = u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024);
    (microseconds(usage.ru_utime).saturating_add(microseconds(usage.ru_stime)), memory)
}

/// Closes every descriptor from this one on. Only for a child that takes nothing
/// else along: values that own descriptors must not be dropped afterwards.
pub(crate) fn close_from(first: RawFd) {
    let first = u32::try_from(first).unwrap_or(3);
    // A greater number is a negative one to gVisor's kernel.
    let last = i32::MAX as u32;
    // SAFETY: closing reads no memory; the caller ends without dropping owners.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed != 0 {
        for fd in first..65_536 {
            // SAFETY: as above.
            unsafe { libc::close(fd as RawFd) };
        }
    }
}

/// Makes `target` another name of `fd`, kept over an exec.
pub(crate) fn duplicate_to(fd: BorrowedFd<'_>, target: RawFd) -> Result<()> {
    // SAFETY: both are plain numbers; whatever `target` was is closed, and callers
    // only name descriptors of the first few, which nothing owns.
    check(unsafe { libc::dup2(fd.as_raw_fd(), target) })
}

/// Takes a descriptor that the starter of this process left open, if it is one.
pub(crate) fn inherited(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: asking for the flags of any number is harmless.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and at the start of the program nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One of the first descriptors, which stay open for the life of the process.
pub(crate) fn standard(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: `start` opens 0 to 3 before anything else and nothing closes them.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Reads at most `most` bytes onto the end of a buffer.
pub(crate) fn read_into(fd: BorrowedFd<'_>, buffer: &mut BytesMut, most: usize) -> Result<usize> {
    buffer.reserve(most);
    let spare = buffer.spare_capacity_mut();
    let room = spare.len().min(most);
    let Some(spare) = spare.get_mut(..room) else { return Ok(0) };
    let (read, _) = rustix::io::read(fd, spare)?;
    let length = read.len();
    // SAFETY: the kernel has just written that many bytes into the spare room.
    unsafe { buffer.advance_mut(length) };
    Ok(length)
}

/// A program to start.
pub(crate) struct Program<'a> {
    pub(crate) path: &'a CStr,
    pub(crate) arguments: &'a [CString],
    pub(crate) environment: &'a [CString],
    /// The terminal that becomes its stdin, stdout and stderr, and controls it.
    pub(crate) terminal: Option<&'a CStr>,
}

/// Starts a program in a session of its own, with the signals as a fresh process
/// has them. Without a terminal it has this process's descriptors 0 to 2.
pub(crate) fn spawn(program: &Program<'_>) -> Result<Pid> {
    let pointers = |texts: &[CString]| -> Vec<*mut libc::c_char> {
        let all = texts.iter().map(|text| text.as_ptr().cast_mut());
        all.chain([ptr::null_mut()]).collect()
    };
    let arguments = pointers(program.arguments);
    let environment = pointers(program.environment);
    let mut actions = MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
    let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    let flags = libc::POSIX_SPAWN_SETSID as i32
        | libc::POSIX_SPAWN_SETSIGDEF
        | libc::POSIX_SPAWN_SETSIGMASK;
    let mut pid: RawPid = 0;
    // SAFETY: each object is initialised by its init function before it is used
    // and destroyed afterwards; the arrays end with a null pointer and, like the
    // texts they point to, live until the call returns. In the child the session
    // is made before the file actions, so the terminal becomes the controlling one.
    let error = unsafe {
        libc::posix_spawn_file_actions_init(actions.as_mut_ptr());
        libc::posix_spawnattr_init(attributes.as_mut_ptr());
        libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), flags as libc::c_short);
        libc::sigfillset(signals.as_mut_ptr());
        libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), signals.as_ptr());
        libc::sigemptyset(signals.as_mut_ptr());
        libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), signals.as_ptr());
        let mut error = 0;
        if let Some(path) = program.terminal {
            let actions = actions.as_mut_ptr();
            let open = libc::posix_spawn_file_actions_addopen;
            error = open(actions, 0, path.as_ptr(), libc::O_RDWR, 0);
            for target in [1, 2] {
                if error == 0 {
                    error = libc::posix_spawn_file_actions_adddup2(actions, 0, target);
                }
            }
        }
        if error == 0 {
            error = libc::posix_spawn(
                &raw mut pid,
                program.path.as_ptr(),
                actions.as_ptr(),
                attributes.as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
            );
        }
        libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        error
    };
    if error != 0 {
        return Err(Errno::from_raw_os_error(error));
    }
    Pid::from_raw(pid).ok_or(Errno::IO)
}

/// Memory of its own, zero at first. A forked child does not get it: a command's
/// monitor would otherwise hold other calls' output for as long as it lives.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    pub(crate) fn new(length: usize) -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing
        // that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        // SAFETY: it is the mapping just made. Where it fails, children get more
        // than they need.
        unsafe { libc::madvise(start, length, libc::MADV_DONTFORK) };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, length })
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is initialised by the kernel, and
        // lives as long as `self`, who owns it. Children, who do not have it, never
        // use what their parent owned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing borrows a mapping that is dropped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Gives memory back that an idle process does not need: free heap, and the pages
/// of the program that were only needed to get here.
pub(crate) fn trim_memory() {
    let mut segments = Segments::default();
    // SAFETY: giving free heap back changes nothing that is in use; the function
    // passed reads what it is given and writes to `segments`, which outlives it.
    unsafe {
        #[cfg(target_env = "gnu")]
        libc::malloc_trim(0);
        libc::dl_iterate_phdr(Some(unwritten_segments), (&raw mut segments).cast());
    }
    // All of them were found before the first is dropped, so that nothing has to
    // be brought back for the search.
    for (start, length) in segments.found {
        if length > 0 {
            // SAFETY: the segment is mapped from the program's file and is never
            // written, so the kernel brings the same bytes back when they are used.
            unsafe {
                let place = ptr::with_exposed_provenance_mut(start);
                libc::madvise(place, length, libc::MADV_DONTNEED);
            }
        }
    }
}

/// Where the parts of the program are that are only read.
#[derive(Default)]
struct Segments {
    found: [(usize, usize); 4],
    count: usize,
}

unsafe extern "C" fn unwritten_segments(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    data: *mut libc::c_void,
) -> libc::c_int {
    const PAGE: usize = 4096;
    // SAFETY: the C library passes a valid record with its headers, and the
    // pointer that `trim_memory` gave.
    let (info, segments) = unsafe { (&*info, &mut *data.cast::<Segments>()) };
    // SAFETY: as above.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    for header in headers {
        if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0 {
            let first = (info.dlpi_addr + header.p_vaddr) as usize;
            let end = (first + header.p_memsz as usize).next_multiple_of(PAGE);
            let start = first & !(PAGE - 1);
            if let Some(place) = segments.found.get_mut(segments.count) {
                *place = (start, end - start);
                segments.count += 1;
            }
        }
    }
    // The first record is the program itself; nothing after it is of interest.
    1
}

fn check(result: libc::c_int) -> Result<()> {
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
