//! The command's output, byte by byte, however much it is and whoever reads it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;

use crate::home::Home;
use crate::{eventually, invocation, processes};

#[test]
fn stdout_and_stderr_are_kept_apart_and_exact() {
    apart(&Home::new());
}

pub(crate) fn apart(home: &Home) {
    let script =
        "import os; os.write(1, bytes(range(256))); os.write(2, bytes(reversed(range(256))))";
    let ran = home.python(&[], script).expect_code(0);
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(ran.stdout, all);
    assert_eq!(ran.stderr, all.into_iter().rev().collect::<Vec<u8>>());
}

#[test]
fn bytes_that_are_no_text_survive() {
    let home = Home::new();
    let ran = home.shell(&[], r"printf '\377\376\200a\300\200'").expect_code(0);
    assert_eq!(ran.stdout, b"\xff\xfe\x80a\xc0\x80");
}

#[test]
fn a_line_of_32_mebibytes_comes_whole() {
    let home = Home::new();
    let script = "head -c 33554432 /dev/zero | tr '\\0' x; echo end";
    let ran = home.shell(&[], script).expect_code(0);
    assert_eq!(ran.stdout.len(), (32 << 20) + 4);
    assert!(ran.stdout.ends_with(b"xend\n"));
}

/// What the command has for its stdout is a pipe that it can open anew by name.
#[test]
fn streams_can_be_opened_by_name() {
    by_name(&Home::new());
}

pub(crate) fn by_name(home: &Home) {
    let script = "echo plain; echo named > /dev/stdout; echo complaint > /dev/stderr; \
                  echo both >> /proc/self/fd/1";
    let ran = home.shell(&[], script).expect_code(0);
    assert_eq!(ran.text(), "plain\nnamed\nboth\n");
    assert_eq!(ran.errors(), "complaint\n");
}

/// A flood is not read by us but passed on by the kernel, which cannot do that for all files.
#[test]
fn a_flood_arrives_in_files_of_every_kind() {
    let home = Home::new();
    let script = "head -c 5000000 /dev/zero | tr '\\0' x; sleep 0.1; echo; echo end; \
                  head -c 3000000 /dev/zero | tr '\\0' y >&2";
    let expected = [vec![b'x'; 5_000_000], b"\nend\n".to_vec()].concat();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("output");
    for kind in ["new", "appended to"] {
        fs::write(&path, "before\n").unwrap();
        let mut options = fs::OpenOptions::new();
        let options =
            if kind == "new" { options.write(true).truncate(true) } else { options.append(true) };
        let mut exec = home.exec(["--", "sh", "-c", script]);
        exec.command().stdin(Stdio::null()).stdout(options.open(&path).unwrap());
        let ran = exec.command().stderr(Stdio::piped()).output().unwrap();
        assert!(ran.status.success(), "{kind}: {:?}", ran.status);
        let before = if kind == "new" { Vec::new() } else { b"before\n".to_vec() };
        assert!(fs::read(&path).unwrap() == [before, expected.clone()].concat(), "{kind}");
        assert!(ran.stderr == [b'y'; 3_000_000], "{kind}: {} bytes", ran.stderr.len());
    }
    let mut exec = home.exec(["--", "sh", "-c", script]);
    let ran = exec.command().stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    assert!(ran.status.success() && ran.stderr == [b'y'; 3_000_000], "to nowhere");
}

/// Two streams may be one file; what comes by the one is not to be written over the other.
#[test]
fn floods_into_one_file_are_both_there() {
    let home = Home::new();
    let script = "seq 100000; for line in 1 2 3 4 5 6 7 8 9; do echo problem $line >&2; \
                  sleep 0.02; seq 1000; done; seq 100000 >&2";
    let place = tempfile::tempdir().unwrap();
    let file = fs::File::create(place.path().join("output")).unwrap();
    let mut exec = home.exec(["--", "sh", "-c", script]);
    exec.command().stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    assert!(exec.command().status().unwrap().success());
    let text = fs::read_to_string(place.path().join("output")).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("problem ")).count(), 9);
    assert_eq!(text.lines().count(), 209_009);
}

/// A reader who takes nothing does not keep us from hearing that it is enough.
#[test]
fn a_flood_that_begins_slowly_can_be_interrupted() {
    let home = Home::new();
    let mark = home.mark();
    let script = "while :; do head -c 16384 /dev/zero; echo \"$0\" >&2; sleep 0.01; done";
    let mut exec = home.exec(["--", "sh", "-c", script, &mark]);
    exec.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = exec.command().spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    // It goes as far as the pipe and what may wait behind it let it, and then no further. How
    // far that is depends on the pieces in which it came.
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let counting = std::thread::spawn(move || {
        for _line in stderr.lines() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut before = 0;
    eventually("it goes no further", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let now = told.load(Ordering::Relaxed);
        now > 0 && std::mem::replace(&mut before, now) == now
    });
    let own = i32::try_from(child.id()).unwrap();
    invocation::kill(own, Signal::INT);
    eventually("the command has ended", || processes::with_argument(&mark) == [own]);
    drop(stdout);
    invocation::wait(&mut child);
    counting.join().unwrap();
}

/// What was written before the end comes, however late it is read, and of what is left behind
/// nothing is waited for.
#[test]
fn a_flood_ends_with_its_command() {
    let home = Home::new();
    let script = "yes | head -c 900000; sleep 1000 & exit 7";
    let mut exec = home.exec(["--", "sh", "-c", script]);
    exec.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = exec.command().spawn().unwrap();
    let count = std::io::copy(&mut child.stdout.take().unwrap(), &mut std::io::sink()).unwrap();
    assert_eq!(count, 900_000);
    assert_eq!(invocation::wait(&mut child), 7);
}

#[test]
fn a_flood_passes_through_little_memory() {
    flood(&Home::new());
}

pub(crate) fn flood(home: &Home) {
    const FLOOD: u64 = 300 << 20;
    let script = format!("head -c {FLOOD} /dev/zero; read rest");
    let mut exec = home.exec(["--", "sh", "-c", &script]);
    exec.command().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = exec.command().spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut count = 0;
    while count < FLOOD {
        let read = stdout.read(&mut buffer).unwrap();
        assert!(read > 0, "it ends after {count} bytes");
        count += read as u64;
    }
    let peak = processes::status_bytes(i32::try_from(child.id()).unwrap(), "VmHWM");
    drop(child.stdin.take());
    assert_eq!(stdout.read(&mut buffer).unwrap(), 0);
    assert_eq!(invocation::wait(&mut child), 1);
    assert_eq!(count, FLOOD);
    assert!(peak < 64 << 20, "{peak} bytes of memory");
}

#[test]
fn a_reader_who_waits_holds_up_the_command_and_not_the_memory() {
    let home = Home::new();
    let mut exec = home.exec(["--", "sh", "-c", "yes | head -c 200000000"]);
    exec.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = exec.command().spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 2];
    stdout.read_exact(&mut first).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300)); // it may fill what it can
    assert!(processes::status_bytes(pid, "VmRSS") < 64 << 20);
    let rest = std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    assert_eq!(rest + 2, 200_000_000);
    assert_eq!(invocation::wait(&mut child), 0);
}

#[test]
fn when_the_reader_goes_everything_ends_with_141() {
    reader_goes(&Home::new());
}

pub(crate) fn reader_goes(home: &Home) {
    let mark = home.mark();
    let script = "trap '' PIPE TERM; while :; do echo y; done 2>/dev/null";
    for options in [&["--"][..], &["--json", "--"]] {
        let mut exec = home.exec(options).words(["sh", "-c", script, mark.as_str()]);
        exec.command().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = exec.command().spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        // Beyond the beginning, which is passed on in another way.
        std::io::copy(&mut (&mut stdout).take(1 << 20), &mut std::io::sink()).unwrap();
        drop(stdout);
        assert_eq!(invocation::wait(&mut child), 141, "{options:?}");
        assert_eq!(processes::with_argument(&mark), Vec::<i32>::new(), "{options:?}");
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(told, "", "{options:?}");
    }
}

/// What is said on stderr is lost when nobody takes it, and nothing else is.
#[test]
fn a_stderr_that_fails_does_not_end_the_command() {
    let home = Home::new();
    let little = "for n in 1 2 3 4 5; do echo problem $n >&2 || exit 1; sleep 0.1; done";
    let flood = "head -c 5000000 /dev/zero >&2 || exit 1; echo problem >&2 || exit 2";
    for problems in [little, flood] {
        let script = format!("{problems}; echo done; exit 7");
        for kind in ["full", "unread"] {
            let stderr = match kind {
                "full" => Stdio::from(full_disk()),
                _ => Stdio::from(std::io::pipe().unwrap().1),
            };
            let mut exec = home.exec(["--", "sh", "-c", &script]);
            exec.command().stdin(Stdio::null()).stderr(stderr);
            let ran = exec.command().output().unwrap();
            assert_eq!(ran.status.code(), Some(7), "{kind}: {problems}");
            assert_eq!(ran.stdout, b"done\n", "{kind}: {problems}");
        }
    }
}

#[test]
fn when_the_reader_of_stderr_goes_the_command_goes_on() {
    let home = Home::new();
    let script = "head -c 9000000 /dev/zero >&2 || exit 1; echo done; exit 7";
    let mut exec = home.exec(["--", "sh", "-c", script]);
    exec.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = exec.command().spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    // Beyond the beginning, which is passed on in another way.
    std::io::copy(&mut (&mut stderr).take(1 << 20), &mut std::io::sink()).unwrap();
    drop(stderr);
    assert_eq!(invocation::wait(&mut child), 7);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "done\n");
}

#[test]
fn a_full_disk_under_our_stdout_ends_the_command_and_is_told() {
    let home = Home::new();
    let endless = "while :; do echo lost; done 2>/dev/null";
    for script in ["echo lost", endless, "cat /dev/zero 2>/dev/null"] {
        for options in [&["--"][..], &["--json", "--"]] {
            let mut exec = home.exec(options).words(["sh", "-c", script]);
            exec.command().stdin(Stdio::null()).stdout(full_disk()).stderr(Stdio::piped());
            let mut child = exec.command().spawn().unwrap();
            assert_eq!(invocation::wait(&mut child), 141, "{options:?}: {script}");
            let mut told = String::new();
            child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
            let expected = "error[CLI-004]: cannot write the output\n  \
                            cause: stdout: No space left on device (os error 28)\n  help:  ";
            assert!(told.starts_with(expected), "{options:?}: {script}: {told}");
            assert_eq!(told.lines().count(), 3, "{options:?}: {script}: {told}");
        }
    }
}

#[test]
fn input_that_cannot_be_read_is_not_an_end_of_it() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let place = workspace.to_str().unwrap();
    let script = "touch was-run; cat; echo took it for the whole";
    let unreadable = fs::File::create(home.beside("unreadable")).unwrap();
    let directory = fs::File::open(&workspace).unwrap();
    // Reading where a process has no memory fails, and nothing says so before it is tried.
    let broken = || fs::File::open("/proc/self/mem").unwrap();
    for (stdin, cause, is_begun) in [
        (unreadable, "stdin: Bad file descriptor", false),
        (directory, "stdin: Is a directory", false),
        (broken(), "stdin: Input/output error", true),
    ] {
        let mut exec = home.exec(["--workspace", place, "--"]).words(["sh", "-c", script]);
        exec.command().stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = exec.command().output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{cause}: {told}");
        assert!(told.starts_with("error[CLI-005]: cannot read the input\n"), "{told}");
        assert!(told.contains(cause) && told.contains("</dev/null"), "{told}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{cause}");
        if !is_begun {
            assert!(!workspace.join("was-run").exists(), "{cause}");
        }
    }
    let mut exec = home.exec(["--json", "--"]).words(["sh", "-c", script]);
    exec.command().stdin(broken());
    let output = exec.command().output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap().to_owned();
    assert!(last.contains("CLI-005"), "{last}");
    // What is not read is not missed.
    let mut exec = home.exec(["--", "echo", "done"]);
    exec.command().stdin(Stdio::null());
    assert_eq!(exec.command().output().unwrap().stdout, b"done\n");
}

/// What is always out of room.
fn full_disk() -> fs::File {
    fs::OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn an_output_limit_keeps_the_beginning_and_the_end_and_says_what_is_missing() {
    let home = Home::new();
    let script = "echo first; yes filler | head -c 1000000; echo last; echo problem >&2";
    let ran = home.shell(&["--output", "10K"], script).expect_code(0);
    let text = ran.text();
    assert!(text.starts_with("first\nfiller\n") && text.ends_with("last\n"), "{text}");
    assert!(text.contains("bytes dropped here]"), "{text}");
    assert!(ran.stdout.len() < 11 << 10, "{} bytes", ran.stdout.len());
    assert_eq!(ran.errors(), "problem\n");
}
