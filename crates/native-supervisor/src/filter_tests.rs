//! The filter answers as the list says, tried by running it.

use super::*;

/// Runs a filter as the kernel would.
fn run(program: &[Instruction], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let word = |offset: u32| match offset {
        OFFSET_NUMBER => number,
        OFFSET_ARCHITECTURE => architecture,
        other => {
            let argument = arguments[(other as usize - 16) / 8];
            if (other - 16).is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
        }
    };
    let mut accumulator = 0;
    let mut at = 0;
    for _ in 0..program.len() {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let jump = |taken: bool| at + usize::from(if taken { jt } else { jf });
        match u32::from(code) {
            code if code == BPF_LD | BPF_W | BPF_ABS => accumulator = word(k),
            code if code == BPF_JMP | BPF_JEQ | BPF_K => at = jump(accumulator == k),
            code if code == BPF_JMP | BPF_JGE | BPF_K => at = jump(accumulator >= k),
            code if code == BPF_JMP | BPF_JSET | BPF_K => at = jump(accumulator & k != 0),
            code if code == BPF_JMP | BPF_JA => at += k as usize,
            code if code == libc::BPF_ALU | libc::BPF_AND | BPF_K => accumulator &= k,
            code if code == BPF_RET | BPF_K => return k,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
    panic!("the filter does not end");
}

const AUDITED: Options = Options { audit: true, served: false, pin_cpus: false };
const PLAIN: Options = Options { audit: false, served: false, pin_cpus: true };

fn ask(options: Options, call: libc::c_long, arguments: [u64; 6]) -> u32 {
    run(&program(options), ARCHITECTURE, call as u32, arguments)
}

#[test]
fn every_listed_call_gets_the_answer_of_its_list() {
    for call in ALLOWED {
        assert_eq!(ask(AUDITED, *call, [0; 6]), ALLOW, "{call}");
    }
    for call in RECORDED {
        assert_eq!(ask(AUDITED, *call, [0; 6]), NOTIFY, "{call}");
        assert_eq!(ask(PLAIN, *call, [0; 6]), ALLOW, "{call}");
    }
}

#[test]
fn what_is_not_listed_is_refused() {
    for call in [
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_ptrace,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_process_vm_readv,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_pivot_root,
        libc::SYS_open_tree,
    ] {
        assert_eq!(ask(AUDITED, call, [0; 6]), refuse(libc::EPERM), "{call}");
    }
    for call in UNFIT {
        assert_eq!(ask(AUDITED, *call, [0; 6]), refuse(libc::EINVAL), "{call}");
        assert!(!ALLOWED.contains(call) && !RECORDED.contains(call), "{call}");
    }
    assert_eq!(ask(AUDITED, libc::SYS_clone3, [0; 6]), refuse(libc::ENOSYS));
    assert_eq!(ask(AUDITED, libc::SYS_io_setup, [1; 6]), refuse(libc::ENOSYS));
    // What gVisor's kernel may have and not tell of.
    let served = Options { served: true, ..PLAIN };
    assert_eq!(ask(served, libc::SYS_openat2, [0; 6]), refuse(libc::ENOSYS));
}

#[test]
fn unknown_numbers_and_other_architectures_look_like_an_older_kernel() {
    for number in [HIGHEST + 1, 1000, 0x4000_0000, 0x4000_0000 + 59, u32::MAX] {
        assert_eq!(
            run(&program(AUDITED), ARCHITECTURE, number, [0; 6]),
            refuse(libc::ENOSYS),
            "{number}"
        );
    }
    const I386: u32 = 0x4000_0003;
    assert_eq!(run(&program(AUDITED), I386, 11, [0; 6]), refuse(libc::ENOSYS));
}

#[test]
fn a_process_may_be_cloned_but_no_namespace() {
    let clone = |flags: i32| ask(AUDITED, libc::SYS_clone, [flags as u32 as u64, 0, 0, 0, 0, 0]);
    assert_eq!(clone(libc::SIGCHLD), ALLOW);
    assert_eq!(clone(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD), ALLOW);
    assert_eq!(clone(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SETTLS), ALLOW);
    for flag in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ] {
        assert_eq!(clone(flag | libc::SIGCHLD), refuse(libc::EPERM), "{flag:#x}");
    }
}

#[test]
fn only_families_that_a_network_namespace_confines_have_sockets() {
    let socket = |family: i32, kind: i32, protocol: i32| {
        ask(AUDITED, libc::SYS_socket, [family as u64, kind as u64, protocol as u64, 0, 0, 0])
    };
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        assert_eq!(socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0), ALLOW);
        assert_eq!(socket(family, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0), ALLOW);
    }
    assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE), ALLOW);
    for protocol in [libc::NETLINK_AUDIT, libc::NETLINK_NETFILTER, libc::NETLINK_KOBJECT_UEVENT] {
        assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol), refuse(libc::EAFNOSUPPORT));
    }
    for family in [
        libc::AF_PACKET,
        libc::AF_VSOCK,
        libc::AF_ALG,
        libc::AF_KEY,
        libc::AF_XDP,
        libc::AF_CAN,
        99,
    ] {
        assert_eq!(socket(family, libc::SOCK_STREAM, 0), refuse(libc::EAFNOSUPPORT), "{family}");
    }
    assert_eq!(socket(libc::AF_INET, libc::SOCK_RAW, 1), refuse(libc::EPERM));
    assert_eq!(
        socket(libc::AF_INET6, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 58),
        refuse(libc::EPERM)
    );
    let pair = |family: i32| ask(AUDITED, libc::SYS_socketpair, [family as u64, 1, 0, 0, 0, 0]);
    assert_eq!(pair(libc::AF_UNIX), ALLOW);
    assert_eq!(pair(libc::AF_TIPC), refuse(libc::EAFNOSUPPORT));
}

#[test]
fn nothing_is_pushed_into_a_terminal_whatever_the_upper_half_says() {
    let ioctl = |request: u64| ask(AUDITED, libc::SYS_ioctl, [0, request, 0, 0, 0, 0]);
    for upper in [0, 1 << 32, u64::from(u32::MAX) << 32] {
        assert_eq!(ioctl(libc::TIOCSTI | upper), refuse(libc::EPERM));
        assert_eq!(ioctl(libc::TIOCLINUX | upper), refuse(libc::EPERM));
        assert_eq!(ioctl(libc::TIOCGWINSZ | upper), ALLOW);
    }
}

#[test]
fn only_harmless_personalities_can_be_put_on() {
    const READ_IMPLIES_EXEC: u64 = 0x0040_0000;
    let personality = |value: u64| ask(AUDITED, libc::SYS_personality, [value, 0, 0, 0, 0, 0]);
    assert_eq!(personality(0), ALLOW);
    assert_eq!(personality(0xffff_ffff), ALLOW);
    assert_eq!(personality(READ_IMPLIES_EXEC), refuse(libc::EPERM));
}

#[test]
fn opening_for_writing_is_recorded_and_reading_is_not() {
    let openat = |flags: i32| ask(AUDITED, libc::SYS_openat, [0, 0, flags as u64, 0, 0, 0]);
    assert_eq!(openat(libc::O_RDONLY | libc::O_CLOEXEC), ALLOW);
    assert_eq!(openat(libc::O_WRONLY), NOTIFY);
    assert_eq!(openat(libc::O_RDWR), NOTIFY);
    assert_eq!(openat(libc::O_RDONLY | libc::O_CREAT), NOTIFY);
    assert_eq!(ask(PLAIN, libc::SYS_openat, [0, 0, libc::O_WRONLY as u64, 0, 0, 0]), ALLOW);
}

#[test]
fn affinity_cannot_be_changed_where_it_is_the_limit() {
    assert_eq!(ask(PLAIN, libc::SYS_sched_setaffinity, [0; 6]), refuse(libc::EPERM));
    assert_eq!(ask(AUDITED, libc::SYS_sched_setaffinity, [0; 6]), ALLOW);
}

#[test]
fn no_answer_is_far_away() {
    let program = program(AUDITED);
    assert!(program.len() < 600, "{} instructions", program.len());
}

#[test]
fn nobody_lowers_the_first_process() {
    let unless_pinned = Options { pin_cpus: false, ..PLAIN };
    let ask = |call, arguments: [u64; 3]| {
        let [first, second, third] = arguments;
        ask(unless_pinned, call, [first, second, third, 0, 0, 0])
    };
    for (call, otherwise) in [
        (libc::SYS_prlimit64, ALLOW),
        (libc::SYS_sched_setaffinity, ALLOW),
        (libc::SYS_sched_setattr, PRETEND),
        (libc::SYS_sched_setparam, PRETEND),
        (libc::SYS_sched_setscheduler, PRETEND),
    ] {
        assert_eq!(ask(call, [1, 7, 0x7fff_0000]), refuse(libc::EPERM), "{call}");
        // Only the low half is a number of a process.
        assert_eq!(ask(call, [0xffff_ffff_0000_0001, 7, 0]), refuse(libc::EPERM), "{call}");
        for other in [0, 2, 4711] {
            assert_eq!(ask(call, [other, 7, 0x7fff_0000]), otherwise, "{call} {other}");
        }
    }
    let kinds =
        [(libc::SYS_setpriority, [0, 1, 2], PRETEND), (libc::SYS_ioprio_set, [1, 2, 3], ALLOW)];
    for (call, [process, group, user], otherwise) in kinds {
        for kind in [process, group] {
            assert_eq!(ask(call, [kind, 1, 19]), refuse(libc::EPERM), "{call} {kind}");
            assert_eq!(ask(call, [kind, 0, 19]), otherwise, "{call} {kind}");
            assert_eq!(ask(call, [kind, 4711, 19]), otherwise, "{call} {kind}");
        }
        for who in [0, 1000] {
            assert_eq!(ask(call, [user, who, 19]), refuse(libc::EPERM), "{call} {who}");
        }
    }
}
