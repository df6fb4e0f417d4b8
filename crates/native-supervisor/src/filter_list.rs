//! The list itself, by name: what is allowed, what is allowed and recorded, and what
//! depends on its arguments. Left out on purpose: ptrace and process_vm_* (one
//! process of a sandbox has no business in another's memory), name_to_handle_at,
//! modify_ldt, userfaultfd, io_uring_*, bpf, perf_event_open, keyctl and its kin,
//! everything about mounts, modules, namespaces, clocks and the machine.

use super::{ALLOW, Check, PRETEND};

/// What names all processes of a user, in `ioprio_set` and in `setpriority`.
const IOPRIO_WHO_USER: u32 = 3;
const PRIO_USER: u32 = 2;

#[rustfmt::skip]
pub(super) const ALLOWED: &[libc::c_long] = &[
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_brk, libc::SYS_capget,
    libc::SYS_capset, libc::SYS_chdir, libc::SYS_clock_getres, libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep, libc::SYS_close, libc::SYS_close_range, libc::SYS_copy_file_range,
    libc::SYS_dup, libc::SYS_dup3, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_exit,
    libc::SYS_exit_group, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64,
    libc::SYS_fallocate, libc::SYS_fchdir, libc::SYS_fchmod, libc::SYS_fchmodat,
    libc::SYS_fchmodat2, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fcntl,
    libc::SYS_fdatasync, libc::SYS_fgetxattr, libc::SYS_flistxattr, libc::SYS_flock,
    libc::SYS_fremovexattr, libc::SYS_fsetxattr, libc::SYS_fstat, libc::SYS_fstatfs,
    libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_futex, libc::SYS_futex_waitv,
    libc::SYS_get_mempolicy, libc::SYS_get_robust_list, libc::SYS_getcpu, libc::SYS_getcwd,
    libc::SYS_getdents64, libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getgroups, libc::SYS_getitimer, libc::SYS_getpeername, libc::SYS_getpgid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpriority, libc::SYS_getrandom,
    libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrlimit, libc::SYS_getrusage,
    libc::SYS_getsid, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_gettid,
    libc::SYS_gettimeofday, libc::SYS_getuid, libc::SYS_getxattr, libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch,
    libc::SYS_ioprio_get, libc::SYS_kill, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self, libc::SYS_lgetxattr,
    libc::SYS_listen, libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_lremovexattr,
    libc::SYS_lseek, libc::SYS_lsetxattr, libc::SYS_madvise, libc::SYS_membarrier,
    libc::SYS_memfd_create, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mlock2,
    libc::SYS_mlockall, libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mq_getsetattr,
    libc::SYS_mq_notify, libc::SYS_mq_open, libc::SYS_mq_timedreceive, libc::SYS_mq_timedsend,
    libc::SYS_mq_unlink, libc::SYS_mremap, libc::SYS_mseal, libc::SYS_msgctl, libc::SYS_msgget,
    libc::SYS_msgrcv, libc::SYS_msgsnd, libc::SYS_msync, libc::SYS_munlock, libc::SYS_munlockall,
    libc::SYS_munmap, libc::SYS_nanosleep, libc::SYS_newfstatat, libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal, libc::SYS_pipe2, libc::SYS_pkey_alloc, libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect, libc::SYS_ppoll, libc::SYS_prctl, libc::SYS_pread64,
    libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_process_madvise,
    libc::SYS_process_mrelease, libc::SYS_pselect6, libc::SYS_pwrite64, libc::SYS_pwritev,
    libc::SYS_pwritev2, libc::SYS_read, libc::SYS_readahead, libc::SYS_readlinkat,
    libc::SYS_readv, libc::SYS_recvfrom, libc::SYS_recvmmsg, libc::SYS_recvmsg,
    libc::SYS_remap_file_pages, libc::SYS_removexattr, libc::SYS_restart_syscall, libc::SYS_rseq,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigqueueinfo, libc::SYS_rt_sigreturn, libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait, libc::SYS_rt_tgsigqueueinfo, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity, libc::SYS_sched_getattr,
    libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_sched_rr_get_interval,
    libc::SYS_sched_yield, libc::SYS_seccomp, libc::SYS_semctl,
    libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop,
    libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_set_robust_list,
    libc::SYS_set_tid_address, libc::SYS_setfsgid, libc::SYS_setfsuid, libc::SYS_setgid,
    libc::SYS_setgroups, libc::SYS_setitimer, libc::SYS_setpgid,
    libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setresuid, libc::SYS_setreuid,
    libc::SYS_setrlimit, libc::SYS_setsid, libc::SYS_setsockopt, libc::SYS_setuid,
    libc::SYS_setxattr, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_shmdt, libc::SYS_shmget,
    libc::SYS_shutdown, libc::SYS_sigaltstack, libc::SYS_signalfd4,
    libc::SYS_statfs, libc::SYS_statx, libc::SYS_sync, libc::SYS_sync_file_range,
    libc::SYS_syncfs, libc::SYS_sysinfo, libc::SYS_tee, libc::SYS_tgkill, libc::SYS_timer_create,
    libc::SYS_timer_delete, libc::SYS_timer_getoverrun, libc::SYS_timer_gettime,
    libc::SYS_timer_settime, libc::SYS_timerfd_create, libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime, libc::SYS_times, libc::SYS_tkill, libc::SYS_umask, libc::SYS_uname,
    libc::SYS_utimensat, libc::SYS_vmsplice, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
    #[cfg(target_arch = "x86_64")] libc::SYS_alarm,
    #[cfg(target_arch = "x86_64")] libc::SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")] libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")] libc::SYS_chown,
    #[cfg(target_arch = "x86_64")] libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")] libc::SYS_epoll_create,
    #[cfg(target_arch = "x86_64")] libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")] libc::SYS_eventfd,
    #[cfg(target_arch = "x86_64")] libc::SYS_fork,
    #[cfg(target_arch = "x86_64")] libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")] libc::SYS_get_thread_area,
    #[cfg(target_arch = "x86_64")] libc::SYS_getdents,
    #[cfg(target_arch = "x86_64")] libc::SYS_getpgrp,
    #[cfg(target_arch = "x86_64")] libc::SYS_inotify_init,
    #[cfg(target_arch = "x86_64")] libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")] libc::SYS_pause,
    #[cfg(target_arch = "x86_64")] libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")] libc::SYS_poll,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_select,
    #[cfg(target_arch = "x86_64")] libc::SYS_set_thread_area,
    #[cfg(target_arch = "x86_64")] libc::SYS_signalfd,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_time,
    #[cfg(target_arch = "x86_64")] libc::SYS_utime,
    #[cfg(target_arch = "x86_64")] libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")] libc::SYS_vfork,
];

#[rustfmt::skip]
pub(super) const RECORDED: &[libc::c_long] = &[
    libc::SYS_connect, libc::SYS_execve, libc::SYS_execveat, libc::SYS_linkat, libc::SYS_mkdirat,
    libc::SYS_mknodat, libc::SYS_openat2, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_symlinkat, libc::SYS_truncate, libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")] libc::SYS_creat,
    #[cfg(target_arch = "x86_64")] libc::SYS_link,
    #[cfg(target_arch = "x86_64")] libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")] libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")] libc::SYS_rename,
    #[cfg(target_arch = "x86_64")] libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")] libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_unlink,
];

/// Calls that this kernel has, to be done without as on one that lacks them. Of `clone3` a filter
/// cannot see the flags. Requests of `io_setup` are counted for the whole machine: who asks for
/// many has all of them.
#[rustfmt::skip]
pub(super) const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3, libc::SYS_io_cancel, libc::SYS_io_destroy, libc::SYS_io_getevents,
    libc::SYS_io_setup, libc::SYS_io_submit,
];

/// Calls that move bytes into a pipe and hold its lock while they wait for them: for ever, if
/// they are to come from a socket or a terminal that nobody writes to. Whoever reads that pipe
/// meanwhile, and be it without waiting, cannot even be killed; and those who read what commands
/// write are the guest and the host. Programs take `EINVAL` for "not with these files" and read
/// and write instead.
pub(super) const UNFIT: &[libc::c_long] = &[libc::SYS_sendfile, libc::SYS_splice];

pub(super) const CHECKED: &[(libc::c_long, Check)] = &[
    // What a process may do to any other of its user: take its descriptors away, and its turns at
    // the processor. The first process is of the same user, and has to be able to end all others.
    (libc::SYS_ioprio_set, Check::Priority(IOPRIO_WHO_USER, ALLOW)),
    (libc::SYS_prlimit64, Check::NotFirst(ALLOW)),
    (libc::SYS_sched_setaffinity, Check::NotFirst(ALLOW)),
    // One that has next to no turns of its own while it holds a lock of the kernel's keeps from
    // theirs all who wait for that: of a pipe, the guest.
    (libc::SYS_sched_setattr, Check::NotFirst(PRETEND)),
    (libc::SYS_sched_setparam, Check::NotFirst(PRETEND)),
    (libc::SYS_sched_setscheduler, Check::NotFirst(PRETEND)),
    (libc::SYS_setpriority, Check::Priority(PRIO_USER, PRETEND)),
    // And what reaches out of the sandbox, or is recorded.
    (libc::SYS_clone, Check::Clone),
    (libc::SYS_socket, Check::Socket),
    (libc::SYS_socketpair, Check::SocketPair),
    (libc::SYS_ioctl, Check::Ioctl),
    (libc::SYS_personality, Check::Personality),
    (libc::SYS_openat, Check::Open(2)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Check::Open(1)),
];
