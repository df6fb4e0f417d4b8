//! At a terminal that others use as well: its keys are theirs until we are in the foreground.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::home::Home;
use crate::terminal::Terminal;
use crate::{eventually, invocation};

/// A shell with job control at a terminal: `$0` is the program, `$1` a file for its output.
fn shell(home: &Home, script: &str) -> (Terminal, PathBuf) {
    let log = home.beside("log");
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", &format!("set -m\n{script}")]).arg(home.program()).arg(&log);
    shell.env_clear().env("PATH", "/usr/bin:/bin").env("COFFERDAM_HOME", home.path());
    (Terminal::start(&mut shell), log)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_command_in_the_background_that_wants_no_input_runs_to_its_end() {
    let home = Home::new();
    let script = "\"$0\" exec -- sh -c 'sleep 1; echo done' > \"$1\" & wait $!; exit $?";
    let (terminal, log) = shell(&home, script);
    // These are the shell's.
    terminal.press("keys\n");
    let (code, shown) = terminal.end();
    assert_eq!((code, read(&log).as_str()), (0, "done\n"), "{shown}");
}

#[test]
fn in_the_foreground_a_command_gets_the_keys() {
    let home = Home::new();
    let script = "\"$0\" exec -- sh -c 'echo ready; cat; exit 4' > \"$1\" &
                  read word; echo \"the shell has $word\"; fg; exit $?";
    let (terminal, log) = shell(&home, script);
    eventually("it runs", || read(&log) == "ready\n");
    terminal.press("this\n");
    terminal.until_it_shows("the shell has this");
    terminal.press("that\n");
    eventually("it gets it", || read(&log) == "ready\nthat\n");
    terminal.press("\u{4}");
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
}

/// Where only our input is a terminal its end is no failure either.
#[test]
fn a_terminal_that_goes_is_the_end_of_input() {
    let home = Home::new();
    for options in [&["--"][..], &["--json", "--"]] {
        let keyboard =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let line = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        let mut exec = home.exec(options).words(["sh", "-c", "cat; echo ended"]);
        exec.command().stdin(line).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = exec.command().spawn().unwrap();
        drop(exec); // which has the line as well
        rustix::io::write(&keyboard, b"hello\n").unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut buffer = [0; 4096];
        let mut said = String::new();
        while !said.contains("hello") {
            let taken = stdout.read(&mut buffer).unwrap();
            assert!(taken > 0, "{said}");
            said.push_str(&String::from_utf8_lossy(&buffer[..taken]));
        }
        drop(keyboard);
        stdout.read_to_string(&mut said).unwrap();
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(invocation::wait(&mut child), 0, "{options:?}: {told}{said}");
        assert!(said.contains("ended"), "{options:?}: {said}");
    }
}
