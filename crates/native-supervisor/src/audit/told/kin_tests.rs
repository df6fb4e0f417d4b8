//! The processes inside, followed: reports in, records out.

use cofferdam_types::AuditAct;
use proptest::prelude::*;

use super::*;

/// Reports in, records out: `(process, call, path)`.
#[derive(Default)]
struct Told {
    kin: Kin,
    now: u64,
    records: Vec<(u32, Option<u64>, String)>,
}

impl Told {
    fn hear(&mut self, process: u32, name: &str, rest: &str) {
        self.hear_thread(process, process, name, rest);
    }

    fn hear_thread(&mut self, process: u32, thread: u32, name: &str, rest: &str) {
        self.now += 10;
        let text = format!("strace.go:9] [{process:4}:{thread:4}] {name} {rest}");
        let records = &mut self.records;
        self.kin.hear(self.now, Message { text, cut: false }, &mut |record| {
            let path = match record.act {
                AuditAct::OpenedForWriting { path } | AuditAct::Created { path } => path,
                other => format!("{other:?}"),
            };
            records.push((record.pid, record.call.map(|call| call.0), path));
        });
    }

    fn fork(&mut self, process: u32, name: &str, child: u32) {
        self.hear(process, name, "E fork()");
        self.hear(process, name, &format!("X fork() = {child} (0x{child:x}) (1ms)"));
    }

    fn chdir(&mut self, process: u32, path: &str) {
        self.hear(process, "x", &format!("X chdir(0x7f1000 {path}) = 0 (0x0) (1ms)"));
    }

    fn make(&mut self, process: u32, path: &str) {
        self.hear(process, "x", &format!("E mkdir(0x7f1000 {path}, 0o777)"));
    }

    /// The last record.
    fn last(&self) -> (u32, Option<u64>, &str) {
        let (process, call, path) = self.records.last().unwrap();
        (*process, *call, path)
    }

    /// A sandbox in which process 5 works for call 36, and process 6 for call 37.
    fn two_calls() -> Self {
        let mut told = Self::default();
        for (monitor, name, process) in [(2, "c10", 5), (3, "c11", 6)] {
            told.fork(1, "guest", monitor);
            told.hear(monitor, "guest", "E openat(AT_FDCWD /, 0x7f1000 /x, O_RDONLY, 0o0)");
            told.hear(monitor, name, "X chdir(0x7f1000 /workspace) = 0 (0x0) (1ms)");
            told.fork(monitor, name, process);
        }
        told
    }
}

#[test]
fn whoever_is_made_for_a_call_belongs_to_it() {
    let mut told = Told::two_calls();
    told.make(5, "a");
    assert_eq!(told.last(), (5, Some(36), "/workspace/a"));
    told.make(6, "/b");
    assert_eq!(told.last(), (6, Some(37), "/b"));
    // Twice, and by whatever name.
    told.fork(5, "c11", 7);
    told.fork(7, "c11", 8);
    told.hear(8, "c11", "E mkdir(0x7f1000 c, 0o777)");
    assert_eq!(told.last(), (8, Some(36), "/workspace/c"));
    // What the guest does itself belongs to no call.
    told.make(1, "d");
    assert_eq!(told.last(), (1, None, "/d"));
}

#[test]
fn threads_belong_to_their_process() {
    let mut told = Told::two_calls();
    told.hear(5, "x", "E clone(CLONE_VM|CLONE_FS|CLONE_THREAD, 0x0, 0x0, 0x0, 0x0)");
    told.hear(5, "x", "X clone(CLONE_VM|CLONE_FS|CLONE_THREAD, 0x0, 0x0, 0x0, 0x0) = 9 (0x9) (1s)");
    told.hear_thread(5, 9, "x", "E vfork()");
    told.make(5, "a");
    assert_eq!(told.last(), (5, Some(36), "/workspace/a"));
    told.hear_thread(5, 9, "x", "X vfork() = 10 (0xa) (1s)");
    told.make(10, "b");
    assert_eq!(told.last(), (10, Some(36), "/workspace/b"));
    // What one says of where it is may be late, and no longer so.
    told.hear_thread(5, 9, "x", "E chdir(0x7f1000 sub)");
    told.hear_thread(5, 9, "x", "X chdir(0x7f1000 sub) = 0 (0x0) (1s)");
    told.make(5, "c");
    assert_eq!(told.last(), (5, Some(36), "?/c"));
    told.hear(5, "x", "E openat(AT_FDCWD /workspace, 0x7f1000 /x, O_RDONLY, 0o0)");
    told.make(5, "d");
    assert_eq!(told.last(), (5, Some(36), "?/d"));
}

#[test]
fn a_thread_with_a_directory_of_its_own_leaves_none_that_is_certain() {
    let mut told = Told::two_calls();
    told.hear(5, "x", "E clone(CLONE_VM|CLONE_THREAD, 0x0, 0x0, 0x0, 0x0)");
    told.hear(5, "x", "X clone(CLONE_VM|CLONE_THREAD, 0x0, 0x0, 0x0, 0x0) = 9 (0x9) (1s)");
    told.make(5, "a");
    assert_eq!(told.last(), (5, Some(36), "?/a"));
}

#[test]
fn while_it_moves_nobody_knows_where_a_process_is() {
    let mut told = Told::two_calls();
    told.hear(5, "x", "E chdir(0x7f1000 sub)");
    told.make(5, "a");
    assert_eq!(told.last(), (5, Some(36), "?/a"));
    told.hear(5, "x", "X chdir(0x7f1000 sub) = 0 (0x0) (1ms)");
    told.make(5, "b");
    assert_eq!(told.last(), (5, Some(36), "/workspace/sub/b"));
    told.hear(5, "x", "E chdir(0x7f1000 nowhere)");
    told.hear(5, "x", "X chdir(0x7f1000 nowhere) = 0 (0x0) errno=2 (no such file) (1ms)");
    told.make(5, "c");
    assert_eq!(told.last(), (5, Some(36), "/workspace/sub/c"));
    // One whose name makes its lines ambiguous.
    let name = " E open(0x1000 ";
    told.hear(5, name, "E chdir(0x7f1000 /elsewhere)");
    told.hear(5, name, "X chdir(0x7f1000 /elsewhere) = 0 (0x0) (1ms)");
    told.make(5, "d");
    assert_eq!(told.last(), (5, Some(36), "?/d"));
}

#[test]
fn who_is_born_under_a_name_that_leaves_doubt_is_not_taken_for_whoever_had_its_number() {
    let mut told = Told::two_calls();
    let name = " E open(0x1000 ";
    told.hear(6, name, "E fork()");
    told.hear(6, name, "X fork() = 2 (0x2) (1ms)");
    // Number 2 was a monitor's, whose name is believed.
    told.hear(2, "c10", "E mkdir(0x7f1000 /a, 0o777)");
    assert_eq!(told.last(), (2, None, "/a"));
}

#[test]
fn of_however_many_are_killed_only_so_many_are_remembered() {
    let mut told = Told::two_calls();
    for child in 10..30_000 {
        told.fork(5, "x", child);
        told.chdir(child, &format!("/{}", "long/".repeat(2000)));
    }
    assert!(told.kin.processes.len() <= MOST_PROCESSES + 1, "{}", told.kin.processes.len());
    let kept = told.kin.processes.values().filter_map(|process| process.directory.as_ref());
    assert!(kept.map(|directory| directory.len()).all(|length| length < LONGEST_DIRECTORY));
    for thread in 100_000..200_000 {
        told.hear_thread(6, thread, "x", "E fork()");
    }
    assert!(told.kin.bearing.len() <= MOST_BEARING);
    // The guest is among those that are known.
    told.make(1, "a");
    assert_eq!(told.last(), (1, None, "/a"));
}

#[test]
fn a_process_that_is_heard_of_before_its_parent_is_waited_for() {
    let mut told = Told::two_calls();
    told.hear(5, "x", "E vfork()");
    told.chdir(7, "sub");
    told.make(7, "a");
    told.hear(7, "x", "E fork()");
    told.make(8, "b");
    told.hear(7, "x", "X fork() = 8 (0x8) (1s)");
    assert_eq!(told.records, []);
    // Others go on meanwhile.
    told.make(6, "other");
    assert_eq!(told.records.len(), 1);
    told.hear(5, "x", "X vfork() = 7 (0x7) (1s)");
    let expected = [
        (6, Some(37), "/workspace/other".to_owned()),
        (7, Some(36), "/workspace/sub/a".to_owned()),
        (8, Some(36), "/workspace/sub/b".to_owned()),
    ];
    assert_eq!(told.records, expected);
    assert_eq!((told.kin.weight, told.kin.bearing.len()), (0, 0));
}

#[test]
fn nobody_is_waited_for_for_ever() {
    let mut told = Told::two_calls();
    told.hear(5, "x", "E vfork()");
    told.make(7, "a");
    told.now += PATIENCE;
    told.make(6, "b");
    let first = (7, None, "?/a".to_owned());
    assert_eq!(told.records, [first, (6, Some(37), "/workspace/b".to_owned())]);
    // Nor for more than can be kept.
    let long = "x".repeat(MOST_WAITING / 4);
    (0..10).for_each(|_| told.make(7, &long));
    assert!(told.records.len() > 5 && told.kin.weight <= MOST_WAITING + long.len() + 100);
}

#[test]
fn where_nobody_makes_one_an_unknown_process_has_no_call() {
    let mut told = Told::two_calls();
    told.make(70, "a");
    assert_eq!(told.last(), (70, None, "?/a"));
    // What ends a call without having begun one makes nobody.
    told.hear(6, "x", "X fork() = 70 (0x46) (1s)");
    told.make(70, "b");
    assert_eq!(told.last(), (70, None, "?/b"));
}

#[test]
fn working_directories_are_followed() {
    let mut told = Told::two_calls();
    told.hear(5, "x", "X chdir(0x7f1000 none) = 0 (0x0) errno=2 (no such file) (1s)");
    told.make(5, "a");
    assert_eq!(told.last().2, "/workspace/a");
    told.hear(5, "x", "X fchdir(0x3 /tmp/, 0x1 d) = 0 (0x0) (1s)");
    told.make(5, "a");
    assert_eq!(told.last().2, "/tmp/, 0x1 d/a");
    // Where another call tells it, that is so.
    told.hear(5, "x", "E openat(AT_FDCWD /tmp/real, 0x7f1000 /x, O_RDONLY, 0o0)");
    told.make(5, "a");
    assert_eq!(told.last().2, "/tmp/real/a");
    told.fork(5, "x", 7);
    told.chdir(7, "/home");
    told.make(5, "a");
    assert_eq!(told.last().2, "/tmp/real/a");
    // One that somebody else may change is not known.
    told.hear(5, "x", "E clone(CLONE_FS|0x11, 0x0)");
    told.hear(5, "x", "X clone(CLONE_FS|0x11, 0x0) = 8 (0x8) (1s)");
    for process in [5, 8] {
        told.chdir(process, "/home");
        told.make(process, "a");
        assert_eq!(told.last(), (process, Some(36), "?/a"));
    }
}

#[test]
fn what_has_ended_is_forgotten() {
    let mut told = Told::two_calls();
    for child in 10..5000 {
        told.fork(5, "x", child);
        told.hear(child, "x", "E exit_group(0x0)");
    }
    assert!(told.kin.processes.len() < 100, "{}", told.kin.processes.len());
    // Other threads of a process that ends may still be heard of.
    told.make(4990, "a");
    assert_eq!(told.last(), (4990, Some(36), "/workspace/a"));
}

#[test]
fn a_number_that_comes_round_again_is_not_taken_for_the_old_one() {
    let mut told = Told::two_calls();
    // One of call 36 that is killed, which nobody tells.
    told.fork(5, "x", 30_000);
    told.fork(5, "x", 60_000);
    told.fork(5, "x", 20);
    told.make(30_000, "old");
    assert_eq!(told.last(), (30_000, Some(36), "/workspace/old"));
    told.fork(5, "x", 29_998);
    // As long as nobody makes one it is still that one.
    told.make(30_000, "old");
    assert_eq!(told.last(), (30_000, Some(36), "/workspace/old"));
    told.hear(6, "x", "E fork()");
    let before = told.records.len();
    told.make(30_000, "new");
    assert_eq!(told.records.len(), before, "it waits");
    told.hear(6, "x", "X fork() = 30000 (0x7530) (1s)");
    assert_eq!(told.last(), (30_000, Some(37), "/workspace/new"));
    // The guest is always the guest.
    told.hear(6, "x", "E fork()");
    told.make(1, "guest");
    assert_eq!(told.last(), (1, None, "/guest"));
}

/// What somebody may write who knows how lines look.
const HOSTILE: &str =
    "([, 0-9\\[\\]():=]| [EX] fork\\(|\\) = 6 \\(0x6\\)|, 0x1 /|c11|\\[   6:   6\\]|é){0,12}";

proptest! {
    #[test]
    fn nothing_that_a_process_writes_is_an_act_of_another(
        lines in prop::collection::vec((HOSTILE, HOSTILE, HOSTILE, 0..6u8), 1..6)
    ) {
        let mut told = Told::two_calls();
        for (name, one, two, which) in lines {
            let name: String = name.chars().take(15).collect();
            let known = told.records.len();
            let (line, path) = match which {
                0 => (format!("E mkdir(0x7f1000 /{one}, 0o777)"), Some(format!("/{one}"))),
                1 => (
                    format!("E openat(AT_FDCWD /w/d{two}, 0x7f1000 {one}, O_RDWR, 0o0)"),
                    Some(if one.is_empty() { format!("/w/d{two}") } else { format!("/w/d{two}/{one}") }),
                ),
                2 => (format!("X mkdir(0x7f1000 {one}, 0o777) = 0 (0x0) (1s)"), None),
                3 => (format!("X chdir(0x7f1000 /{one}) = 0 (0x0) (1s)"), None),
                4 => (format!("E fchdir(0x3 /w/{one})"), None),
                _ => (format!("E open(0x7f1000 /{one}, O_RDONLY, 0o0)"), None),
            };
            told.hear(5, &name, &line);
            match path {
                Some(path) => {
                    prop_assert_eq!(told.records.len(), known + 1, "{}", line);
                    let (process, call, found) = told.last();
                    prop_assert_eq!((process, call), (5, Some(36)));
                    prop_assert!(found == path || found.starts_with("? "), "{} in {}", found, line);
                }
                None => prop_assert_eq!(told.records.len(), known, "{}", line),
            }
            told.make(6, "/other");
            prop_assert_eq!(told.last(), (6, Some(37), "/other"));
        }
        prop_assert_eq!(told.kin.processes.len(), 5);
        prop_assert_eq!(told.kin.bearing.len(), 0);
    }

    #[test]
    fn any_reports_are_taken(
        lines in prop::collection::vec((1..9u32, HOSTILE, "(\\PC|[ EX(),=0-9]){0,30}"), 0..10)
    ) {
        let mut told = Told::default();
        for (process, name, rest) in lines {
            told.hear(process, &name, &rest);
        }
    }
}
