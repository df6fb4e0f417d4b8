//! The monitor: the process between the guest and a command.
//!
//! It adopts every descendant of its command, also those that fork twice and
//! make a session of their own, so that all of them are found beneath it. It
//! starts the command, reports how it went, and stays until the last descendant
//! has ended. Hostile code of the same user can kill or stop it; so it decides
//! nothing, and the guest takes its silence for an answer.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use cofferdam_guest_protocol::{Exec, Program};
use rustix::fs::{Access, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Rlimit, Signal, WaitOptions, WaitStatus};

use crate::report::{Ended, Report, Step};
use crate::spare::Order;
use crate::sys;

/// Where programs are looked for when the command's environment does not say.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Which descriptors a monitor and its command have.
pub(crate) struct Descriptors<'a> {
    /// stdin, stdout and stderr of the command; with a terminal it has that.
    pub(crate) standard: [Option<BorrowedFd<'a>>; 3],
    /// The terminal's path.
    pub(crate) terminal: Option<&'a CStr>,
    /// Where the monitor reports.
    pub(crate) report: BorrowedFd<'a>,
}

/// The descriptor that reports go to, in the monitor.
const REPORT: i32 = 3;

/// A process's name while it works for a call: `c` and the call's id to base 36.
pub(crate) fn name_of(call: u64) -> CString {
    let mut digits = Vec::new();
    let mut rest = call;
    loop {
        let digit = char::from_digit((rest % 36) as u32, 36).unwrap_or('0');
        digits.push(digit as u8);
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    digits.push(b'c');
    digits.reverse();
    CString::new(digits).unwrap_or_default()
}

/// Makes a freshly forked child one that ends with the guest. Descriptors from
/// `first` on are closed.
pub(crate) fn settle(first: i32) {
    // Each of these only fails on a kernel that lacks it, and nothing that is
    // promised depends on it alone.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    sys::close_from(first);
}

/// Tells everybody whom this process works for. As in [`settle`], nothing depends on it.
pub(crate) fn work_for(call: u64) {
    rustix::thread::set_name(&name_of(call)).ok();
}

/// Runs as the monitor of a command, in a fresh child, until nothing is left.
pub(crate) fn run(call: u64, exec: &Exec, files: &Descriptors<'_>, limit: &Rlimit) -> ! {
    prepare(files, limit).unwrap_or_else(|errno| fail(errno, Step::Prepare));
    look_after(call, exec, files.terminal)
}

/// Runs as a monitor whose command is still to come. Its orders come where the command
/// has its stdin, which is nothing.
pub(crate) fn wait(files: &Descriptors<'_>, limit: &Rlimit) -> ! {
    let orders = prepare(files, limit)
        .and_then(|()| take_orders())
        .unwrap_or_else(|errno| fail(errno, Step::Prepare));
    Order::rehearse();
    find(c"sh", DEFAULT_PATH).ok();
    let Some((call, exec)) = Order::read(orders.as_fd()) else { sys::exit(0) };
    look_after(call, &exec, None)
}

/// Moves the orders out of the command's way, and puts nothing there.
fn take_orders() -> Result<OwnedFd, Errno> {
    let orders = rustix::io::fcntl_dupfd_cloexec(sys::standard(0), REPORT + 1)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let nothing = rustix::fs::openat(CWD, "/dev/null", flags, Mode::empty())?;
    sys::duplicate_to(nothing.as_fd(), 0)?;
    Ok(orders)
}

fn fail(errno: Errno, step: Step) -> ! {
    report(Report::Failed { errno: errno.raw_os_error(), step });
    sys::exit(1)
}

fn look_after(call: u64, exec: &Exec, terminal: Option<&CStr>) -> ! {
    work_for(call);
    let main = start(exec, terminal).unwrap_or_else(|(errno, step)| fail(errno, step));
    // Holding them open would keep the guest from seeing their end.
    for target in 0..3 {
        sys::duplicate_to(sys::standard(REPORT), target).ok();
    }
    report(Report::Started { pid: main.as_raw_nonzero().get().cast_unsigned() });
    watch(main);
    sys::exit(0)
}

fn prepare(files: &Descriptors<'_>, limit: &Rlimit) -> Result<(), Errno> {
    for (target, fd) in (0..).zip(files.standard) {
        if let Some(fd) = fd {
            sys::duplicate_to(fd, target)?;
        }
    }
    sys::duplicate_to(files.report, REPORT)?;
    rustix::io::fcntl_setfd(sys::standard(REPORT), rustix::io::FdFlags::CLOEXEC)?;
    settle(REPORT + 1);
    // Any number but none sets it.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The guest raised its own limit; a command has the one the sandbox gave.
    rustix::process::setrlimit(rustix::process::Resource::Nofile, *limit)
}

fn start(exec: &Exec, terminal: Option<&CStr>) -> Result<Pid, (Errno, Step)> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::INVAL);
    let in_program = |errno| (errno, Step::Program);
    rustix::process::chdir(exec.cwd.as_slice()).map_err(|errno| (errno, Step::Directory))?;
    let (path, arguments) = match &exec.program {
        Program::Shell(script) => {
            let script = text(script).map_err(in_program)?;
            (c"/bin/sh".to_owned(), vec![c"sh".to_owned(), c"-c".to_owned(), script])
        }
        Program::Argv(argv) => {
            let all: Result<Vec<CString>, Errno> = argv.iter().map(|bytes| text(bytes)).collect();
            let all = all.map_err(in_program)?;
            let name = all.first().ok_or(in_program(Errno::INVAL))?;
            (find(name, search_path(exec)).map_err(in_program)?, all)
        }
    };
    let mut environment = Vec::with_capacity(exec.env.len());
    for (key, value) in &exec.env {
        environment.push(text(&[key, b"=".as_slice(), value].concat()).map_err(in_program)?);
    }
    let program =
        sys::Program { path: &path, arguments: &arguments, environment: &environment, terminal };
    sys::spawn(&program).map_err(in_program)
}

fn search_path(exec: &Exec) -> &[u8] {
    let own = exec.env.iter().rev().find(|(key, _)| key == b"PATH");
    own.map_or(DEFAULT_PATH, |(_, value)| value.as_slice())
}

/// Finds a program as `execvp` does.
fn find(name: &CStr, search_path: &[u8]) -> Result<CString, Errno> {
    let bytes = name.to_bytes();
    if bytes.is_empty() {
        return Err(Errno::NOENT);
    }
    if bytes.contains(&b'/') {
        return Ok(name.to_owned());
    }
    let mut failure = Errno::NOENT;
    for directory in search_path.split(|byte| *byte == b':') {
        // An empty entry is the working directory.
        let directory = if directory.is_empty() { b".".as_slice() } else { directory };
        let Ok(path) = CString::new([directory, b"/", bytes].concat()) else { continue };
        let file = std::path::Path::new(OsStr::from_bytes(path.as_bytes()));
        match rustix::fs::accessat(CWD, &path, Access::EXEC_OK, rustix::fs::AtFlags::empty()) {
            Ok(()) if file.is_file() => return Ok(path),
            Err(Errno::ACCESS) | Ok(()) => failure = Errno::ACCESS,
            Err(_) => {}
        }
    }
    Err(failure)
}

/// Reaps until there is nothing left to reap.
fn watch(main: Pid) {
    while let Some((pid, status)) = reap(WaitOptions::empty()) {
        if pid != main {
            continue;
        }
        // What ended together with it is no leftover.
        let mut children = true;
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => {
                    children = false;
                    break;
                }
            }
        }
        let (cpu_us, peak_memory) = sys::usage_of_children();
        let status = status.as_raw();
        report(Report::Ended(Ended { status, children, cpu_us, peak_memory }));
        if !children {
            // Whoever waits for this report may have to wait for this processor, too, and the
            // end of a process takes its time.
            rustix::thread::sched_yield();
            return;
        }
    }
}

fn reap(options: WaitOptions) -> Option<(Pid, WaitStatus)> {
    loop {
        match rustix::process::wait(options) {
            Err(Errno::INTR) => {}
            Ok(ended) => return ended,
            Err(_) => return None,
        }
    }
}

fn report(report: Report) {
    // When nobody listens any more, there is nobody to tell.
    rustix::io::write(sys::standard(REPORT), &report.to_bytes()).ok();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_name_fits_and_tells_the_call() {
        assert_eq!(name_of(0).as_c_str(), c"c0");
        assert_eq!(name_of(35).as_c_str(), c"cz");
        assert_eq!(name_of(36 * 36).as_c_str(), c"c100");
        let longest = name_of(u64::MAX);
        assert!(longest.as_bytes().len() <= 15, "{longest:?}");
        let digits = longest.to_str().unwrap().strip_prefix('c').unwrap();
        assert_eq!(u64::from_str_radix(digits, 36), Ok(u64::MAX));
    }

    #[test]
    fn programs_are_found_as_execvp_finds_them() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str, mode| {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        make("good", 0o755);
        make("plain", 0o644);
        std::fs::create_dir(directory.path().join("directory")).unwrap();
        let search = format!("/nonexistent:{}", directory.path().display());
        let find = |name: &CStr| find(name, search.as_bytes());

        assert!(find(c"good").unwrap().to_bytes().ends_with(b"/good"));
        assert_eq!(find(c"plain"), Err(Errno::ACCESS));
        assert_eq!(find(c"directory"), Err(Errno::ACCESS));
        assert_eq!(find(c"none"), Err(Errno::NOENT));
        assert_eq!(find(c""), Err(Errno::NOENT));
        assert_eq!(find(c"./none").unwrap().as_c_str(), c"./none");
    }
}
