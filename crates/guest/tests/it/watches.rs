//! A kernel that has no room for what the guest waits for: what it counts for a user is used up
//! by another process of that user.

#![expect(unsafe_code, reason = "a filter of system calls is set between fork and exec")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use cofferdam_guest_protocol::{
    Exec, ExecEnd, FileReply, FileRequest, PtySize, Stdin, TunnelTarget, WriteMode,
};

use crate::client::{Client, shell};
use crate::guest::Guest;

/// More than any pipe holds.
const MUCH: usize = 3 << 20;

/// A guest for which the list of what it is told of is full, from this descriptor on.
fn guest_told_of_none_from(first: u32) -> Guest {
    Guest::start_prepared(":", |command| refuse_watches(command, first))
}

fn refuse_watches(command: &mut Command, first: u32) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // Where the number of a call is, and the low halves of its second and third argument.
    const NUMBER: u32 = 0;
    const OPERATION: u32 = 24;
    const DESCRIPTOR: u32 = 32;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let steps = [
        step(LOAD, 0, 0, NUMBER),
        step(EQUAL, 0, 5, libc::SYS_epoll_ctl as u32),
        step(LOAD, 0, 0, OPERATION),
        step(EQUAL, 0, 3, libc::EPOLL_CTL_ADD as u32),
        step(LOAD, 0, 0, DESCRIPTOR),
        step(AT_LEAST, 0, 1, first),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSPC as u32),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let set = move || {
        let mut steps = steps;
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the filter lives across the calls, which only read it.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
                    == 0
        };
        if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: only system calls are made between fork and exec.
    unsafe { command.pre_exec(set) };
}

/// Commands, files and tunnels with more than fits into what the kernel holds, and a second host.
fn serves(guest: &Guest) {
    let mut client = guest.connect();
    for _ in 0..3 {
        let exec =
            Exec { timeout_ms: Some(20_000), ..shell("head -c 3145728 /dev/zero; echo >&2") };
        let outcome = client.run(exec);
        assert_eq!(outcome.end(), &ExecEnd::Exited(0));
        assert_eq!((outcome.output.len(), outcome.error.len()), (MUCH, 1));
    }
    let call = client.exec(Exec { stdin: Stdin::Piped, timeout_ms: Some(20_000), ..shell("cat") });
    client.feed(call, &[7; MUCH]);
    client.end_input(call);
    assert_eq!(client.finish(call).output, [7; MUCH]);
    let size = PtySize { rows: 24, cols: 80 };
    let outcome = client.run(Exec { pty: Some(size), ..shell("sleep 0.1; echo seen") });
    assert_eq!(outcome.text(), "seen\r\n");

    let mut client = guest.connect();
    files(&mut client);
    let listener =
        std::os::unix::net::UnixListener::bind(guest.workspace().join("listener")).unwrap();
    guest.give_away();
    let path = guest.workspace().join("listener").into_os_string().into_encoded_bytes();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
    });
    let call = client.tunnel(TunnelTarget::Unix(path));
    client.feed(call, &[9; MUCH]);
    client.end_input(call);
    assert_eq!(client.finish(call).output, [9; MUCH]);
    echo.join().unwrap();
}

fn files(client: &mut Client) {
    let path = b"file".to_vec();
    let write =
        FileRequest::Write { path: path.clone(), mode: WriteMode::Create, permissions: 0o644 };
    let written = client.file_with(write, &[8; MUCH]).file();
    assert!(matches!(written, Ok(FileReply::Written { size, .. }) if size == MUCH as u64));
    let read = client.file(FileRequest::Read { path, offset: 0, limit: u64::MAX });
    assert!(matches!(read.file(), Ok(FileReply::Read { .. })));
    assert_eq!(read.output, [8; MUCH]);
}

#[test]
fn a_guest_that_is_told_of_nothing_serves_all_the_same() {
    serves(&guest_told_of_none_from(0));
}

#[test]
fn hosts_that_the_guest_is_not_told_of_are_served() {
    // Below are its entrance, the list itself and its children.
    serves(&guest_told_of_none_from(6));
}

#[test]
fn calls_that_the_guest_is_not_told_of_are_served() {
    // Below are its host's two as well.
    serves(&guest_told_of_none_from(8));
}
