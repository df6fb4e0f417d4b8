//! The system calls that no safe wrapper exists for, each behind a safe one.
//! All of the crate's unsafe code is here.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::filter::Instruction;

/// Where this process finds itself after [`clone_process`].
pub enum Cloned {
    /// In the new process.
    Child,
    /// In the old one, with the new one's number and a descriptor of it.
    Parent(u32, OwnedFd),
}

/// Makes a process with namespaces of its own.
///
/// The caller has one thread, so the child may do whatever the parent may.
///
/// # Errors
/// Those of `clone3`.
pub fn clone_process(flags: u64, birthplace: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    let mut pidfd: RawFd = -1;
    let mut arguments = libc::clone_args {
        flags: flags | libc::CLONE_PIDFD as u64,
        pidfd: ptr::addr_of_mut!(pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    if let Some(group) = birthplace {
        const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000; // libc's is too narrow
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = group.as_raw_fd() as u64;
    }
    // SAFETY: the arguments are complete and live across the call; without
    // CLONE_VM the child gets a copy of this process's memory and stack.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone3, ptr::addr_of_mut!(arguments), size_of::<libc::clone_args>())
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        // SAFETY: the kernel stored a new descriptor, which nobody else owns.
        pid => Ok(Cloned::Parent(pid as u32, unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// How far a change of a mount reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This mount only.
    This,
    /// This mount and all below it.
    AllBelow,
}

/// Sets and clears attributes of a mount; maps its owners by a user namespace
/// where one is given.
///
/// # Errors
/// Those of `mount_setattr`.
pub fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    reach: Reach,
    set: u64,
    clear: u64,
    owners: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut attributes =
        libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    if let Some(namespace) = owners {
        attributes.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attributes.userns_fd = namespace.as_raw_fd() as u64;
    }
    let flags = match reach {
        Reach::This => libc::AT_EMPTY_PATH,
        Reach::AllBelow => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    // SAFETY: the path is a constant C string and the structure lives across the
    // call with its true size.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags as libc::c_uint,
            ptr::addr_of_mut!(attributes),
            size_of::<libc::mount_attr>(),
        )
    })
    .map(|_| ())
}

/// From now on this process is not ended by `SIGTERM`; a descriptor becomes readable instead.
/// Programs that it starts inherit the former.
///
/// # Errors
/// Those of `signalfd`; nothing has changed then.
pub fn terminations() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised before it is used, and -1 asks for a new descriptor.
    let descriptor = check(libc::c_long::from(unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    }))?;
    // SAFETY: the kernel returned a new descriptor, which nobody else owns.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) };
    // SAFETY: the set is initialised; the old mask is not asked for.
    check(libc::c_long::from(unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut())
    }))?;
    Ok(descriptor)
}

/// Installs a system-call filter for ever; with `notify`, returns the descriptor
/// on which the calls it reports arrive.
///
/// # Errors
/// Those of `seccomp`.
pub fn install_filter(program: &[Instruction], notify: bool) -> io::Result<Option<OwnedFd>> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    let install = |flags: libc::c_ulong| {
        // SAFETY: the program outlives the call and its length is true; the
        // kernel only reads it.
        check(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                ptr::addr_of!(program),
            )
        })
    };
    if !notify {
        return install(0).map(|_| None);
    }
    // A reported call should not be interrupted by ordinary signals while the
    // supervisor looks at it; kernels before 5.19 cannot promise that.
    const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let descriptor = match install(listener | WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(listener)?,
        other => other?,
    };
    // SAFETY: the kernel returned a new descriptor, which nobody else owns.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) }))
}

/// A reported system call.
pub type Notification = libc::seccomp_notif;

/// Asks for quick hand-over between a reporting process and the supervisor.
pub fn notify_synchronously(listener: BorrowedFd<'_>) {
    const SECCOMP_IOCTL_NOTIF_SET_FLAGS: libc::c_ulong = 0x4008_2104;
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: this request takes its argument by value. Kernels before 6.6 do not
    // know it and refuse; nothing depends on it but speed.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
    }
}

/// Takes the next reported call.
///
/// # Errors
/// `ENOENT` when the process has gone meanwhile.
pub fn next_notification(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    const SECCOMP_IOCTL_NOTIF_RECV: libc::c_ulong = 0xc050_2100;
    // SAFETY: all-zero is a valid value, and the one the kernel demands.
    let mut notification: Notification = unsafe { std::mem::zeroed() };
    // SAFETY: the structure has the size the request's number says and lives
    // across the call.
    check(unsafe {
        libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_RECV, ptr::addr_of_mut!(notification))
    } as libc::c_long)?;
    Ok(notification)
}

/// Lets a reported call go on.
///
/// # Errors
/// `ENOENT` when the process has gone meanwhile.
pub fn let_go_on(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    const SECCOMP_IOCTL_NOTIF_SEND: libc::c_ulong = 0xc018_2101;
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    // SAFETY: the structure has the size the request's number says and lives
    // across the call.
    check(unsafe {
        libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SEND, ptr::addr_of_mut!(response))
    } as libc::c_long)
    .map(|_| ())
}

/// Reads another process's memory into `buffer`, a page at a time; returns how
/// much there was before the first page that is not there.
///
/// # Errors
/// When nothing could be read.
pub fn read_memory(pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    const PAGE: usize = 4096;
    let mut done = 0;
    while done < buffer.len() {
        let at = address.wrapping_add(done as u64);
        let wanted = (PAGE - (at as usize % PAGE)).min(buffer.len() - done);
        let rest = buffer.get_mut(done..done + wanted).unwrap_or_default();
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: rest.len() };
        // SAFETY: `local` is a live, writable buffer of that length; `remote` is
        // checked by the kernel.
        let read = unsafe {
            libc::process_vm_readv(pid as i32, &raw const local, 1, &raw const remote, 1, 0)
        };
        match usize::try_from(read) {
            Ok(read) if read > 0 => done += read,
            _ if done > 0 => break,
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(done)
}

/// Becomes a program given by descriptor, with these words and no environment.
/// Returns only on failure.
pub fn execute(program: BorrowedFd<'_>, words: &[&CStr]) -> io::Error {
    let mut words: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    words.push(ptr::null());
    let environment: [*const libc::c_char; 1] = [ptr::null()];
    // SAFETY: both lists are of live C strings and end with a null pointer.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            words.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Brings the loopback interface of this network namespace up.
///
/// # Errors
/// When the interface cannot be configured.
pub fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all-zero is a valid value of this structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = *byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the structure is complete and lives across the call.
    check(unsafe {
        libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, ptr::addr_of!(request))
    } as libc::c_long)
    .map(|_| ())
}

/// Makes the control groups this process is in the topmost it can see.
///
/// # Errors
/// When the kernel refuses.
pub fn hide_groups() -> io::Result<()> {
    // SAFETY: only the view of the control groups changes; descriptors, memory
    // and threads are not touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWCGROUP) }
        .map_err(io::Error::from)
}

/// Puts this process into a user namespace of its own, with every right in it and none
/// outside.
///
/// # Errors
/// When the kernel refuses.
pub fn own_users() -> io::Result<()> {
    // SAFETY: only who this process is changes; descriptors, memory and threads are not
    // touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) }
        .map_err(io::Error::from)
}

/// Gives this process a network for itself, with nothing on it.
///
/// # Errors
/// When the kernel refuses.
pub fn own_network() -> io::Result<()> {
    // SAFETY: only the view of the network changes; descriptors, memory and threads are not
    // touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
        .map_err(io::Error::from)
}

/// Gives this process a copy of the mounts it sees, for itself.
///
/// # Errors
/// When the kernel refuses.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: only the view of the mounts changes; descriptors, memory and
    // threads are not touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }
        .map_err(io::Error::from)
}

/// The version of Landlock, 0 without.
#[must_use]
pub fn landlock_version() -> u32 {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no structure and only answers.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<libc::c_void>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Makes a file a block device for as long as something is mounted from it.
///
/// # Errors
/// When the machine has no loop devices to give.
pub fn attach_loop(file: BorrowedFd<'_>) -> io::Result<(OwnedFd, String)> {
    const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
    const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
    const AUTOCLEAR: u32 = 4;
    /// `struct loop_config`: a descriptor, a block size, the 232 bytes of a
    /// `struct loop_info64` whose flags are at 52, and 64 reserved.
    #[repr(C)]
    struct Configuration {
        file: u32,
        block_size: u32,
        before_flags: [u8; 52],
        flags: u32,
        after_flags: [u8; 176],
        reserved: [u64; 8],
    }
    let open = |path: &str| {
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::open(path, flags, rustix::fs::Mode::empty())
    };
    let control = open("/dev/loop-control")?;
    for _ in 0..64 {
        // SAFETY: this request takes no argument.
        let number = check(libc::c_long::from(unsafe {
            libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE)
        }))?;
        let path = format!("/dev/loop{number}");
        let device = open(&path)?;
        let configuration = Configuration {
            file: file.as_raw_fd() as u32,
            block_size: 0,
            before_flags: [0; 52],
            flags: AUTOCLEAR,
            after_flags: [0; 176],
            reserved: [0; 8],
        };
        // SAFETY: the structure is complete, has the layout and size of the
        // kernel's, and lives across the call, which only reads it.
        let configured = check(libc::c_long::from(unsafe {
            libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, ptr::addr_of!(configuration))
        }));
        match configured {
            Ok(_) => return Ok((device, path)),
            // Somebody else was quicker.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Lets go of this program's own code in memory. What is still needed comes back
/// from the file, page by page; what only the start needed does not.
pub fn give_back_code() {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        _data: *mut libc::c_void,
    ) -> libc::c_int {
        const PAGE: u64 = 4096;
        // SAFETY: the caller, `dl_iterate_phdr`, passes a valid description of a
        // loaded object and its table of segments.
        let (base, segments) = unsafe {
            let info = &*info;
            (
                info.dlpi_addr,
                std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)),
            )
        };
        for segment in segments {
            if segment.p_type != libc::PT_LOAD || segment.p_flags & libc::PF_W != 0 {
                continue;
            }
            // Of an object that was linked for a high address the base is negative.
            let first = base.wrapping_add(segment.p_vaddr);
            let start = first & !(PAGE - 1);
            let end = first + segment.p_memsz;
            // SAFETY: the segment is mapped from a file and never written to, so
            // its pages can be had again; a kernel that refuses changes nothing.
            unsafe {
                libc::madvise(
                    start as *mut libc::c_void,
                    (end - start) as usize,
                    libc::MADV_DONTNEED,
                );
            }
        }
        0
    }
    // SAFETY: the callback has the type asked for and keeps nothing it is given.
    unsafe {
        libc::dl_iterate_phdr(Some(visit), ptr::null_mut());
    }
}

/// Wipes the environment and the arguments that this process was started with,
/// wherever they can be seen: in its memory and in `/proc`. It is then called
/// `title` there, as far as there is room for that.
///
/// # Errors
/// When `/proc` does not say where they are.
pub fn forget_origin(title: &CStr) -> io::Result<()> {
    let stat = crate::procfs::read("/proc/self/stat")?;
    // From the third field on; the second may hold anything but a bracket after
    // its own.
    let (_, fields) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
    let field = |number: usize| {
        let text = fields.split_ascii_whitespace().nth(number - 3);
        text.and_then(|text| text.parse::<usize>().ok()).filter(|address| *address != 0)
    };
    // SAFETY: the process has one thread, and from here on nobody looks for
    // variables or their names.
    if unsafe { libc::clearenv() } != 0 {
        return Err(io::Error::last_os_error());
    }
    for (start, end, text) in [(48, 49, title.to_bytes()), (50, 51, b"".as_slice())] {
        let (Some(start), Some(end)) = (field(start), field(end)) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let length = end.saturating_sub(start);
        // SAFETY: the kernel put the strings of this range on the stack before the
        // program began, and nobody holds a reference to one: the standard library
        // reads arguments anew each time and finds empty ones from now on.
        let area = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) };
        area.fill(0);
        // The last byte stays zero: it ends the last argument.
        for (place, byte) in area.iter_mut().take(length.saturating_sub(1)).zip(text) {
            *place = *byte;
        }
    }
    Ok(())
}

/// Has the kernel kill this process when its parent dies.
///
/// # Errors
/// Never, in practice.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: this request takes numbers only.
    check(libc::c_long::from(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }))
        .map(|_| ())
}

/// In a process that only has to be there: waits until nobody holds the other end of a pipe any
/// more. Until then it holds nothing else, no lock and no socket of whoever made it.
pub fn live_as_long_as(life: BorrowedFd<'_>) -> ! {
    let kept = life.as_raw_fd() as u32;
    let others = [(kept > 0).then(|| (0, kept - 1)), Some((kept + 1, LAST))];
    for (first, last) in others.into_iter().flatten() {
        // One that stays open is let go of with the process.
        drop(close_range(first, last));
    }
    while matches!(rustix::io::read(life, &mut [0]), Err(rustix::io::Errno::INTR)) {}
    // SAFETY: `_exit` has no preconditions; no destructor is to run in a copy of the process.
    unsafe { libc::_exit(0) }
}

/// Duplicates a descriptor to a number of the caller's choice and lets it
/// survive the next program. Whatever had that number is closed.
///
/// # Errors
/// When there is no such descriptor.
pub fn place_descriptor(descriptor: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if descriptor.as_raw_fd() == number {
        // SAFETY: this request takes numbers only.
        return check(libc::c_long::from(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }))
            .map(|_| ());
    }
    // SAFETY: the process has one thread and the caller says that nobody owns
    // the number any more.
    check(libc::c_long::from(unsafe { libc::dup2(descriptor.as_raw_fd(), number) })).map(|_| ())
}

/// No descriptor has a greater number. What comes after is a negative one to gVisor's kernel.
const LAST: u32 = i32::MAX as u32;

/// Marks every descriptor from `first` on to be closed by the next program.
///
/// # Errors
/// Those of `close_range`.
pub fn close_on_execute_from(first: RawFd) -> io::Result<()> {
    let mark = libc::CLOSE_RANGE_CLOEXEC as i32;
    // SAFETY: descriptors are only marked, none is closed.
    check(libc::c_long::from(unsafe { libc::close_range(first as u32, LAST, mark) })).map(|_| ())
}

/// Closes every descriptor from `first` on. Whoever owned one must not use or
/// close it any more.
///
/// # Errors
/// Those of `close_range`.
pub fn close_from(first: RawFd) -> io::Result<()> {
    close_range(first as u32, LAST)
}

/// As [`close_from`], but for one that stays.
///
/// # Errors
/// Those of `close_range`.
pub fn close_from_but(first: RawFd, kept: BorrowedFd<'_>) -> io::Result<()> {
    let (first, kept) = (first as u32, kept.as_raw_fd() as u32);
    if kept > first {
        close_range(first, kept - 1)?;
    }
    close_range(kept + 1, LAST)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the caller gives up all of them.
    check(libc::c_long::from(unsafe { libc::close_range(first, last, 0) })).map(|_| ())
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
