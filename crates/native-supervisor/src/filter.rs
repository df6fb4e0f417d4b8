//! The system-call filter of a sandbox, as a program for the kernel.
//!
//! An allow-list: what is not on it fails with `EPERM`; what this build has
//! never heard of fails with `ENOSYS`, as on an older kernel, so that programs
//! fall back. The list is laid out as a binary search over ranges of numbers:
//! the kernel runs the program once for every number when it is installed (to
//! remember the plain answers), and a linear list of this length would cost a
//! millisecond there.
//!
//! Acts worth recording are answered "ask the supervisor", which records them
//! and lets them go on. It decides nothing.

#[path = "filter_list.rs"]
mod list;

use libc::{BPF_ABS, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};
use list::{ABSENT, ALLOWED, CHECKED, RECORDED, UNFIT};

/// One instruction of a filter.
pub type Instruction = libc::sock_filter;

/// What the filter depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Report acts worth recording.
    pub audit: bool,
    /// The kernel is gVisor's, which tells of acts itself.
    pub served: bool,
    /// Refuse changes of CPU affinity, because affinity is the CPU limit here.
    pub pin_cpus: bool,
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
/// Nothing is done, and the program is told that it was: it would take a refusal for a failure
/// of what it only meant as a kindness to others.
const PRETEND: u32 = refuse(0);
const fn refuse(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | (errno as u32 & 0xffff)
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// The highest number this list knows; beyond it the answer is `ENOSYS`.
const HIGHEST: u32 = 470;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
const fn offset_argument(index: u32) -> u32 {
    16 + 8 * index // the low half, on a little-endian machine
}

/// All flags of `clone` that make a namespace. `CLONE_NEWTIME` shares its bits
/// with the exit signal there and is only known to `clone3` and `unshare`.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

const OPEN_WRITES: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;

/// The answer to one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Always this.
    Plain(u32),
    /// Depends on the arguments.
    Check(Check),
}

/// What is looked at in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// No new namespace.
    Clone,
    /// Only families that a network namespace confines, and nothing raw.
    Socket,
    /// Only Unix sockets.
    SocketPair,
    /// No input pushed into a terminal.
    Ioctl,
    /// Only harmless personalities.
    Personality,
    /// Opening for writing is an act; the flags are in this argument.
    Open(u32),
    /// Not of the first process, named by the first argument; of others, this is the answer.
    NotFirst(u32),
    /// Not of the first process, nor of its group, nor of a whole user, which is this kind; of
    /// others, this is the answer.
    Priority(u32, u32),
}

/// The number of the first process, and of its group, inside.
const FIRST: u32 = 1;

/// The filter.
#[must_use]
pub fn program(options: Options) -> Vec<Instruction> {
    let answers = answers(options);
    let mut code = Assembler::default();
    code.load(OFFSET_ARCHITECTURE);
    code.skip_if(BPF_JEQ, ARCHITECTURE, 1, 0);
    code.answer(refuse(libc::ENOSYS));
    code.load(OFFSET_NUMBER);
    code.search(&ranges(&answers));
    code.checks(options);
    code.instructions
}

/// Numbers from `first` up to the next range have this answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    answer: Answer,
}

fn ranges(answers: &[(u32, Answer)]) -> Vec<Range> {
    let mut by_number = vec![Answer::Plain(refuse(libc::EPERM)); HIGHEST as usize + 1];
    for (number, answer) in answers {
        if let Some(slot) = by_number.get_mut(*number as usize) {
            *slot = *answer;
        }
    }
    let mut ranges: Vec<Range> = Vec::new();
    for (first, answer) in (0u32..).zip(by_number) {
        if ranges.last().is_none_or(|last| last.answer != answer) {
            ranges.push(Range { first, answer });
        }
    }
    ranges.push(Range { first: HIGHEST + 1, answer: Answer::Plain(refuse(libc::ENOSYS)) });
    ranges
}

#[derive(Default)]
struct Assembler {
    instructions: Vec<Instruction>,
    /// Jumps to be pointed at the block of a check once it has a place.
    pending: Vec<(usize, Check)>,
}

impl Assembler {
    fn push(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        self.instructions.push(Instruction { code: code as u16, jt, jf, k });
    }

    fn load(&mut self, offset: u32) {
        self.push(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
    }

    fn answer(&mut self, answer: u32) {
        self.push(BPF_RET | BPF_K, 0, 0, answer);
    }

    /// Skips `if_true` or `if_false` instructions.
    fn skip_if(&mut self, comparison: u32, value: u32, if_true: u8, if_false: u8) {
        self.push(BPF_JMP | comparison | BPF_K, if_true, if_false, value);
    }

    fn search(&mut self, ranges: &[Range]) {
        match ranges {
            [] => {}
            [only] => match only.answer {
                Answer::Plain(answer) => self.answer(answer),
                Answer::Check(check) => {
                    self.pending.push((self.instructions.len(), check));
                    self.push(BPF_JMP | BPF_JA, 0, 0, 0);
                }
            },
            _ => {
                let (left, right) = ranges.split_at(ranges.len() / 2);
                let pivot = right.first().map_or(0, |range| range.first);
                self.skip_if(BPF_JGE, pivot, 0, 1);
                let jump = self.instructions.len();
                self.push(BPF_JMP | BPF_JA, 0, 0, 0);
                self.search(left);
                self.land(jump);
                self.search(right);
            }
        }
    }

    /// Points the jump at `jump` at the next instruction.
    fn land(&mut self, jump: usize) {
        let distance = self.instructions.len() - jump - 1;
        if let Some(instruction) = self.instructions.get_mut(jump) {
            instruction.k = distance as u32;
        }
    }

    fn checks(&mut self, options: Options) {
        let pending = std::mem::take(&mut self.pending);
        for (jump, check) in pending {
            self.land(jump);
            self.check(check, options);
        }
    }

    fn check(&mut self, check: Check, options: Options) {
        match check {
            Check::Clone => {
                self.load(offset_argument(0));
                self.skip_if(BPF_JSET, NAMESPACES, 0, 1);
                self.answer(refuse(libc::EPERM));
                self.answer(ALLOW);
            }
            Check::Socket => {
                self.load(offset_argument(0));
                self.skip_if(BPF_JEQ, libc::AF_UNIX as u32, 12, 0);
                self.skip_if(BPF_JEQ, libc::AF_INET as u32, 5, 0);
                self.skip_if(BPF_JEQ, libc::AF_INET6 as u32, 4, 0);
                self.skip_if(BPF_JEQ, libc::AF_NETLINK as u32, 0, 2);
                self.load(offset_argument(2));
                self.skip_if(BPF_JEQ, libc::NETLINK_ROUTE as u32, 7, 0);
                self.answer(refuse(libc::EAFNOSUPPORT));
                self.load(offset_argument(1));
                self.push(libc::BPF_ALU | libc::BPF_AND | BPF_K, 0, 0, 0xf);
                self.skip_if(BPF_JEQ, libc::SOCK_STREAM as u32, 3, 0);
                self.skip_if(BPF_JEQ, libc::SOCK_DGRAM as u32, 2, 0);
                self.skip_if(BPF_JEQ, libc::SOCK_SEQPACKET as u32, 1, 0);
                self.answer(refuse(libc::EPERM));
                self.answer(ALLOW);
            }
            Check::SocketPair => {
                self.load(offset_argument(0));
                self.skip_if(BPF_JEQ, libc::AF_UNIX as u32, 1, 0);
                self.answer(refuse(libc::EAFNOSUPPORT));
                self.answer(ALLOW);
            }
            Check::Ioctl => {
                self.load(offset_argument(1));
                self.skip_if(BPF_JEQ, libc::TIOCSTI as u32, 1, 0);
                self.skip_if(BPF_JEQ, libc::TIOCLINUX as u32, 0, 1);
                self.answer(refuse(libc::EPERM));
                self.answer(ALLOW);
            }
            Check::Personality => {
                const UNAME26: u32 = 0x0002_0000;
                self.load(offset_argument(0));
                self.skip_if(BPF_JEQ, 0, 3, 0);
                self.skip_if(BPF_JEQ, UNAME26, 2, 0);
                self.skip_if(BPF_JEQ, u32::MAX, 1, 0);
                self.answer(refuse(libc::EPERM));
                self.answer(ALLOW);
            }
            Check::Open(flags) => {
                self.load(offset_argument(flags));
                self.skip_if(BPF_JSET, OPEN_WRITES, 0, 1);
                self.answer(if options.audit { NOTIFY } else { ALLOW });
                self.answer(ALLOW);
            }
            Check::NotFirst(otherwise) => {
                self.load(offset_argument(0));
                self.skip_if(BPF_JEQ, FIRST, 0, 1);
                self.answer(refuse(libc::EPERM));
                self.answer(otherwise);
            }
            Check::Priority(user, otherwise) => {
                self.load(offset_argument(0));
                self.skip_if(BPF_JEQ, user, 2, 0);
                self.load(offset_argument(1));
                self.skip_if(BPF_JEQ, FIRST, 0, 1);
                self.answer(refuse(libc::EPERM));
                self.answer(otherwise);
            }
        }
    }
}

fn answers(options: Options) -> Vec<(u32, Answer)> {
    let recorded = Answer::Plain(if options.audit { NOTIFY } else { ALLOW });
    let number = |call: &libc::c_long| u32::try_from(*call).unwrap_or(u32::MAX);
    let mut answers: Vec<(u32, Answer)> = Vec::new();
    answers.extend(ALLOWED.iter().map(|call| (number(call), Answer::Plain(ALLOW))));
    answers.extend(RECORDED.iter().map(|call| (number(call), recorded)));
    let unfit = Answer::Plain(refuse(libc::EINVAL));
    answers.extend(UNFIT.iter().map(|call| (number(call), unfit)));
    let absent = Answer::Plain(refuse(libc::ENOSYS));
    answers.extend(ABSENT.iter().map(|call| (number(call), absent)));
    answers.extend(CHECKED.iter().map(|(call, check)| (number(call), Answer::Check(*check))));
    if options.pin_cpus {
        let affinity = number(&libc::SYS_sched_setaffinity);
        answers.push((affinity, Answer::Plain(refuse(libc::EPERM))));
    }
    if options.served {
        // Not every release of gVisor's can tell of it. Programs do without, and so does
        // the guest.
        answers.push((number(&libc::SYS_openat2), absent));
    }
    answers
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
