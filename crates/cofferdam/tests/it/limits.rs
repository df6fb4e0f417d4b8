//! Limits hold, and what reaches them is told.

use std::time::Duration;

use crate::home::Home;
use crate::json;

#[test]
fn a_memory_bomb_ends_for_lack_of_memory() {
    memory(&Home::new());
}

pub(crate) fn memory(home: &Home) {
    let script = "
blocks = []
while True:
    blocks.append(bytearray(8 << 20))
";
    let ran = home.python(&["--memory", "128M"], script);
    if home.groups_hold("memory") {
        ran.expect_error(137, &["memory was used up", "--memory"]);
    } else {
        ran.expect_error(1, &["MemoryError"]);
    }
}

#[test]
fn many_processes_share_one_memory_limit() {
    let home = Home::new();
    if !home.groups_hold("memory") {
        return;
    }
    let script = "
import os, time
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(40 << 20)
        time.sleep(1000)
        os._exit(0)
killed = sum(os.wait()[1] == 9 for _ in range(5))
print(killed)
";
    let ran = home.python(&["--memory", "160M"], script);
    assert!(ran.code == 137 || ran.text() == "5\n", "{}: {}", ran.code, ran.text());
}

#[test]
fn a_workspace_in_memory_is_full_before_the_memory_is() {
    let home = Home::new();
    let script = "head -c 300M /dev/zero > /workspace/x; echo $?; \
                  head -c 300M /dev/zero > /tmp/x; echo $?; echo alive";
    let ran = home.shell(&["--memory", "64M", "--disk", "512M"], script).expect_code(0);
    assert_eq!(ran.text(), "1\n1\nalive\n");
    assert!(ran.errors().contains("No space left on device"), "{}", ran.errors());
}

#[test]
fn a_narrow_caller_does_not_widen_the_cpu_limit() {
    let home = Home::new();
    if !home.groups_hold("cpu") || std::thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    // It may use one processor; what it runs takes two, and is held to one all the same.
    let mut only = rustix::thread::CpuSet::new();
    only.set(rustix::thread::sched_getcpu());
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    rustix::thread::sched_setaffinity(None, &only).unwrap();
    let script = "
import os, time
os.sched_setaffinity(0, range(os.cpu_count()))
end = time.monotonic() + 2
for _ in range(2):
    if os.fork() == 0:
        while time.monotonic() < end:
            pass
        os._exit(0)
for _ in range(2):
    os.wait()
used = os.times()
print(used.children_user + used.children_system)
";
    let ran = home.python(&["--cpus", "1", "--require", "bounded"], script);
    rustix::thread::sched_setaffinity(None, &allowed).unwrap();
    let used: f64 = ran.expect_code(0).text().trim().parse().unwrap();
    assert!(used < 2.6, "{used} s of CPU in two seconds of one");
}

#[test]
fn temporary_files_count_as_memory() {
    let home = Home::new();
    if !home.groups_hold("memory") {
        return;
    }
    let script =
        "head -c 512M /dev/zero > /tmp/big; echo $?; head -c 512M /dev/zero > /dev/shm/big";
    let ran = home.shell(&["--memory", "64M", "--timeout", "30s"], script);
    assert!(ran.code != 0 || !ran.text().starts_with("0\n"), "{}", ran.text());
    assert_ne!(ran.code, 124);
}

#[test]
fn a_command_after_a_bomb_finds_everything_in_order() {
    let home = Home::new();
    let bomb = "while True:\n  globals()[str(id(object()))] = bytearray(64 << 20)";
    for _ in 0..3 {
        home.python(&["--memory", "128M", "--timeout", "5s"], bomb);
        home.shell(&["--memory", "128M"], "true").expect_code(0);
    }
}

#[test]
fn the_host_goes_on_while_bombs_go_off() {
    host_goes_on(&Home::new());
}

pub(crate) fn host_goes_on(home: &Home) {
    // Whoever is refused or killed is followed by another.
    let bombs = [
        "
import os
print('off', flush=True)
while True:
    try: os.fork()
    except OSError: pass
",
        "
import os
print('off', flush=True)
while True:
    child = os.fork()
    if child == 0:
        blocks = []
        try:
            while True: blocks.append(bytearray(8 << 20))
        except MemoryError: os._exit(1)
    os.waitpid(child, 0)
",
        "
print('off', flush=True)
block = bytes(1 << 20)
while True:
    with open('/workspace/full', 'wb', buffering=0) as file:
        try:
            while True: file.write(block)
        except OSError: pass
",
    ];
    let limits = ["--pids", "64", "--memory", "128M", "--disk", "64M", "--timeout", "300s"];
    let bombs = bombs.map(|bomb| {
        let running = home.exec(limits).words(["--", "/usr/bin/python3", "-c", bomb]).spawn();
        running.until_it_says("off\n");
        running
    });
    // A program of the host's is started, does its work and ends, over and over.
    let place = home.make_directory("host");
    for number in 0..300 {
        let path = place.join(number.to_string());
        let mut copy = std::process::Command::new("cp");
        assert!(copy.arg("/etc/passwd").arg(&path).status().unwrap().success());
        assert!(path.metadata().unwrap().len() > 0);
    }
    // It was done long before the bombs' time was up.
    for bomb in bombs {
        assert!(!bomb.has_ended(), "{}", bomb.errors_so_far());
        bomb.signal(rustix::process::Signal::TERM);
        bomb.wait();
    }
}

#[test]
fn processes_stop_at_their_number() {
    processes(&Home::new());
}

pub(crate) fn processes(home: &Home) {
    let script = "
import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        count += 1
except BlockingIOError:
    print(count)
";
    let ran = home.python(&["--pids", "40"], script).expect_code(0);
    let count: u32 = ran.text().trim().parse().unwrap_or_else(|_| panic!("{}", ran.text()));
    assert!((20..40).contains(&count), "{count}");
}

#[test]
fn a_fork_bomb_burns_out_and_is_gone() {
    fork_bomb(&Home::new());
}

pub(crate) fn fork_bomb(home: &Home) {
    let mark = home.mark();
    let bomb = "bomb() { bomb | bomb & }; bomb; sleep 1000";
    let words = ["--pids", "60", "--timeout", "1s", "--", "sh", "-c", bomb, &mark];
    let ran = home.exec(words).run();
    assert!(ran.elapsed < Duration::from_secs(30), "{:?}", ran.elapsed);
    assert_eq!(crate::processes::with_argument(&mark), Vec::<i32>::new());
    home.shell(&[], "true").expect_code(0);
}

#[test]
fn a_scratch_workspace_is_full_at_its_size() {
    disk(&Home::new());
}

pub(crate) fn disk(home: &Home) {
    let script = "for n in 1 2 3 4; do head -c 40M /dev/zero > file-$n || break; done
                  du -sm . | cut -f1";
    let ran = home.shell(&["--disk", "64M", "--memory", "1G"], script).expect_code(0);
    assert!(ran.errors().contains("No space left on device"), "{}", ran.errors());
    let used: u64 = ran.text().trim().parse().unwrap();
    assert!((60..=64).contains(&used), "{used} MiB");
}

#[test]
fn no_file_in_a_directory_grows_beyond_the_limit() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let words = ["--disk", "8M", "--workspace", workspace.to_str().unwrap()];
    let ran = home.shell(&words, "head -c 20M /dev/zero > big; echo $?");
    assert_ne!(ran.text(), "0\n");
    assert!(workspace.join("big").metadata().unwrap().len() <= 8 << 20);
}

#[test]
fn changes_in_memory_stop_at_their_size_and_are_applied() {
    changes_in_memory(&Home::new());
}

pub(crate) fn changes_in_memory(home: &Home) {
    let workspace = home.make_directory("workspace");
    home.make_file(&workspace.join("old"), "x");
    let script = "for n in 1 2 3 4; do head -c 10M /dev/zero > file-$n || break; done; rm old";
    let words =
        ["--disk", "24M", "--changes", "memory", "--workspace", workspace.to_str().unwrap()];
    let ran = home.shell(&words, script).expect_code(0);
    assert!(ran.errors().contains("No space left on device"), "{}", ran.errors());
    assert_eq!(workspace.join("file-1").metadata().unwrap().len(), 10 << 20);
    assert!(!workspace.join("old").exists());
    let sizes =
        std::fs::read_dir(&workspace).unwrap().map(|f| f.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() <= 24 << 20);
}

#[test]
fn files_stop_at_their_number() {
    let home = Home::new();
    let script = "
count = 0
try:
    while count < 1000:
        open(f'file-{count}', 'w').close()
        count += 1
except OSError as error:
    print(error.strerror, count)
";
    let ran = home.python(&["--inodes", "100"], script).expect_code(0);
    let text = ran.text();
    let count =
        text.trim().strip_prefix("No space left on device ").unwrap_or_else(|| panic!("{text}"));
    let count: u64 = count.parse().unwrap();
    assert!((90..=116).contains(&count), "{count}");
}

#[test]
fn one_cpu_is_one_however_many_want_it() {
    cpus(&Home::new());
}

pub(crate) fn cpus(home: &Home) {
    let script =
        "loop() { while :; do :; done; }; loop & one=$!; loop & sleep 2; kill $one $!; wait";
    let ran = home.shell(&["--json", "--cpus", "1"], script);
    let ended = json::last(&ran);
    let number = |key: &str| ended[key].as_u64().unwrap() as f64;
    let ratio = number("cpu_us") / number("duration_us");
    assert!(ratio <= 1.3, "{ratio}: {ended}");
}

#[test]
fn open_files_stop_at_their_number() {
    open_files(&Home::new());
}

pub(crate) fn open_files(home: &Home) {
    let script = "
files = []
try:
    while len(files) < 1000:
        files.append(open('/dev/null'))
except OSError as error:
    print(error.strerror, 3 + len(files))
";
    let ran = home.python(&["--open-files", "64"], script).expect_code(0);
    assert_eq!(ran.text(), "Too many open files 64\n");
}

/// Three descriptors are its streams; with one more, its libraries can be loaded.
#[test]
fn with_too_few_descriptors_it_says_so_with_125() {
    let home = Home::new();
    for limit in 4..=48 {
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", "ulimit -n $0 && exec \"$@\""]).arg(limit.to_string());
        shell.arg(home.program()).args(["exec", "--", "true"]);
        shell.env("COFFERDAM_HOME", home.path()).stdin(std::process::Stdio::null());
        let output = shell.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {}
            Some(125) => {
                for word in ["error[", "cause: ", "help: "] {
                    assert!(errors.contains(word), "{limit}: {word} is not in: {errors}");
                }
            }
            other => panic!("{limit}: {other:?}: {errors}"),
        }
        // The run-time takes six.
        assert!(limit >= 9 || errors.contains("error[CLI-002]"), "{limit}: {errors}");
    }
    // What those that were refused had begun is in nobody's way.
    assert_eq!(home.shell(&[], "true").expect_code(0).errors(), "");
}

#[test]
fn limits_cannot_be_raised_from_inside() {
    let home = Home::new();
    let script =
        "ulimit -n 100000 2>/dev/null && echo raised; ulimit -u 100000 2>/dev/null && echo raised
                  ls /sys/fs/cgroup 2>/dev/null; cat /proc/self/cgroup | grep -c cofferdam- ; :";
    let ran = home.shell(&["--open-files", "64", "--pids", "40"], script).expect_code(0);
    assert_eq!(ran.text(), "0\n");
}
