//! A workspace that somebody filled to do harm when its changes are applied.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::process::Stdio;
use std::time::Duration;

use crate::home::Home;
use crate::invocation;
use crate::workspace::Desk;

#[test]
fn links_never_lead_a_change_outside() {
    links(Home::new());
}

pub(crate) fn links(home: Home) {
    let desk = Desk::at(home);
    let outside = desk.home.make_directory("outside");
    desk.home.make_file(&outside.join("victim"), "precious");
    // First a link in place of a directory, then files "in" that directory.
    let target = outside.display();
    desk.shell(&format!("ln -s {target} directory; ln -s {target}/victim file")).expect_code(0);
    let script = "rm directory; mkdir directory; echo evil > directory/victim
                  rm file; echo evil > file; echo evil > through 2>/dev/null";
    desk.shell(script).expect_code(0);
    // And the other way: a directory whose place a link takes.
    desk.shell("mkdir place; echo evil > place/victim").expect_code(0);
    desk.shell(&format!("rm -r place; ln -s {target} place; echo evil > place/victim"));
    // And through a link that is there already.
    desk.shell("echo evil > place/victim; chmod 777 place; rm place/victim; mkdir place/d");
    assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "precious");
    assert_eq!(crate::workspace::names(&outside), ["victim"]);
    assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn a_workspace_swapped_for_a_link_while_it_is_in_use_leads_nowhere() {
    let desk = Desk::new();
    let outside = desk.home.make_directory("outside");
    let script = "echo ready; read go; echo evil > file; mkdir d; echo evil > d/file";
    let words = ["--workspace", desk.directory.to_str().unwrap(), "--", "sh", "-c", script];
    let mut running = desk.home.exec(words).spawn();
    running.until_it_says("ready\n");
    fs::rename(&desk.directory, desk.home.beside("moved")).unwrap();
    std::os::unix::fs::symlink(&outside, &desk.directory).unwrap();
    std::io::Write::write_all(running.stdin.as_mut().unwrap(), b"go\n").unwrap();
    let ran = running.wait();
    assert_eq!(crate::workspace::names(&outside), Vec::<String>::new(), "{}", ran.errors());
    if ran.code != 0 {
        // It was refused; the changes wait until the directory is back.
        fs::remove_file(&desk.directory).unwrap();
        fs::rename(desk.home.beside("moved"), &desk.directory).unwrap();
        desk.home.shell(&[], "true").expect_code(0);
        assert_eq!(desk.read("d/file"), "evil\n");
    } else {
        assert_eq!(fs::read_to_string(desk.home.beside("moved/d/file")).unwrap(), "evil\n");
    }
}

#[test]
fn names_may_hold_anything() {
    names(Home::new());
}

pub(crate) fn names(home: Home) {
    let desk = Desk::at(home);
    let script = r"
import os
os.chdir(b'/workspace')
for name in [b'new\nline', b'-rf', b'\xff\xfe', b'\x1b[2J', b' ', b'...', b'x' * 255, b'*', b'$(id)',
             b'.wh.file', b'.wh..wh..opq', b'.cofferdam-incoming', b'.cofferdam-lifted-0']:
    open(name, 'w').write('x')
    os.mkdir(name[:200] + b'.d')
    open(name[:200] + b'.d/' + name, 'w').write('x')
print(len(os.listdir('.')))
";
    assert_eq!(desk.python(script).expect_code(0).text(), "26\n");
    assert_eq!(fs::read_dir(&desk.directory).unwrap().count(), 26);
    assert_eq!(desk.names().len(), 39);
    // And they are deleted as well as they are made.
    let script = "
import os, shutil
for name in os.listdir(b'/workspace'):
    shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)
";
    desk.python(script).expect_code(0);
    assert_eq!(desk.names(), Vec::<String>::new());
}

#[test]
fn what_is_no_file_passes_without_being_opened() {
    special_files(Home::new());
}

pub(crate) fn special_files(home: Home) {
    let desk = Desk::at(home);
    let script = "
import os, socket
os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('socket')
with open('sparse', 'w') as file:
    file.truncate(1 << 40)
    file.seek(1 << 39)
    file.write('middle')
open('after', 'w').write('x')
";
    let words = ["--disk", "2T", "--workspace", desk.directory.to_str().unwrap()];
    let ran = desk.home.python(&words, script).expect_code(0);
    assert!(ran.elapsed < Duration::from_secs(30), "{:?}", ran.elapsed);
    let kind = |name: &str| fs::symlink_metadata(desk.directory.join(name)).unwrap();
    assert!(kind("pipe").file_type().is_fifo());
    assert_eq!(desk.read("after"), "x");
    assert_eq!(kind("sparse").len(), 1 << 40);
    assert!(kind("sparse").blocks() < 1000, "{} blocks", kind("sparse").blocks());
    // The next command is not held up by them either.
    desk.shell("test -p pipe && rm pipe sparse").expect_code(0);
}

#[test]
fn a_terabyte_is_refused_where_the_limit_is_less() {
    let desk = Desk::new();
    let ran = desk.shell("truncate -s 1T sparse; echo $?");
    assert!(!desk.directory.join("sparse").metadata().is_ok_and(|file| file.len() > 2 << 30));
    assert_ne!(ran.text(), "0\n", "{}", ran.errors());
}

#[test]
fn directories_that_nobody_may_enter_are_applied_and_can_be_removed() {
    locked(Home::new());
}

pub(crate) fn locked(home: Home) {
    let desk = Desk::at(home);
    let script = "mkdir -p locked/in/deep read-only; echo x > locked/in/file; touch read-only/file
                  echo secret > unreadable; chmod 000 unreadable locked/in/file
                  echo constant > constant; chmod 444 constant
                  chmod 000 locked/in locked; chmod 555 read-only";
    desk.shell(script).expect_code(0);
    let mode = |name: &str| {
        fs::symlink_metadata(desk.directory.join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("locked"), mode("unreadable"), mode("read-only")), (0, 0, 0o555));
    assert_eq!((mode("constant"), desk.read("constant")), (0o444, "constant\n".to_owned()));
    let script = "chmod 700 locked; chmod 700 locked/in; ls locked/in; chmod 600 unreadable
                  cat unreadable; rm -r locked; touch read-only/more || echo refused";
    let ran = desk.shell(script).expect_code(0);
    assert_eq!(ran.text(), "deep\nfile\nsecret\nrefused\n", "{}", ran.errors());
    assert_eq!(desk.names(), ["constant", "read-only", "read-only/file", "unreadable"]);
}

#[test]
fn a_directory_without_any_rights_can_be_replaced() {
    let desk = Desk::new();
    desk.shell("mkdir -p d/e; touch d/e/f; chmod 000 d/e; chmod 555 d").expect_code(0);
    desk.shell("chmod 700 d; chmod 700 d/e; rm -r d; echo now a file > d").expect_code(0);
    assert_eq!(desk.read("d"), "now a file\n");
}

#[test]
fn the_workspaces_own_rights_may_be_taken_away() {
    let desk = Desk::new();
    desk.shell("echo x > file; chmod 000 .").expect_code(0);
    let mode = fs::metadata(&desk.directory).unwrap().permissions().mode() & 0o777;
    assert!(mode == 0o755 || mode == 0, "{mode:o}");
    fs::set_permissions(&desk.directory, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(desk.read("file"), "x\n");
}

#[test]
fn the_workspace_itself_cannot_be_deleted() {
    let desk = Desk::new();
    desk.file("file", "x");
    desk.shell("cd /; rm -rf /workspace; rmdir /workspace; mv /workspace /tmp/w; ls /workspace; :");
    assert!(desk.directory.is_dir());
    assert_eq!(desk.names(), Vec::<String>::new());
}

#[test]
fn many_files_and_deep_trees_are_applied() {
    let desk = Desk::new();
    let script = "
import os
for number in range(3000):
    open(f'file-{number}', 'w').write('x')
for _ in range(300):
    os.mkdir('deep'); os.chdir('deep')
open('bottom', 'w').write('reached')
";
    desk.python(script).expect_code(0);
    assert_eq!(fs::read_dir(&desk.directory).unwrap().count(), 3001);
    let bottom = desk.directory.join("deep/".repeat(300)).join("bottom");
    assert_eq!(fs::read_to_string(bottom).unwrap(), "reached");
}

#[test]
fn a_tree_too_deep_to_apply_is_told_and_not_lost() {
    let desk = Desk::new();
    let script = "
import os
open('first', 'w').write('x')
name = 'deep' + chr(27) + ']0;evil' + chr(7)
for _ in range(2500):
    os.mkdir(name); os.chdir(name)
";
    let ran = desk.python(script);
    if ran.code != 0 {
        let ran = ran.expect_error(125, &["SBX-008", "deep␛]0;evil␇"]);
        assert!(ran.errors().contains("help:"));
        assert!(!ran.stderr.contains(&0x1b), "a name reaches the terminal as it is");
        // What could not be applied stays where the message says, until a person
        // has looked at it.
        let sandboxes = desk.home.path().join("sandboxes");
        for entry in fs::read_dir(&sandboxes).unwrap().flatten() {
            if entry.file_name() != ".shared" {
                remove_deep(&entry.path());
            }
        }
    }
    remove_deep(&desk.directory);
}

/// A tree that is deeper than `remove_dir_all` likes.
fn remove_deep(path: &std::path::Path) {
    let status = std::process::Command::new("rm").arg("-rf").arg(path).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_hostile_git_directory_is_just_files() {
    let desk = Desk::new();
    let script =
        "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch /tmp/pwned' > .git/hooks/pre-commit
                  chmod 755 .git/hooks/pre-commit; echo '[core]' > .git/config";
    desk.shell(script).expect_code(0);
    assert_eq!(desk.read(".git/config"), "[core]\n");
}

#[test]
fn a_workspace_that_is_gone_at_the_end_is_told() {
    let desk = Desk::new();
    let words = ["--workspace", desk.directory.to_str().unwrap(), "--", "sh", "-c"];
    let script = "echo late > file; echo ready; read go";
    let mut running = desk.home.exec(words).words([script]).spawn();
    running.until_it_says("ready\n");
    fs::remove_dir(&desk.directory).unwrap();
    std::io::Write::write_all(running.stdin.as_mut().unwrap(), b"go\n").unwrap();
    running.wait().expect_error(125, &["SBX-008", desk.directory.to_str().unwrap()]);
    // Once the directory is there again, the next start brings the changes.
    let directory = desk.home.make_directory("workspace");
    desk.home.shell(&[], "true").expect_code(0);
    assert_eq!(fs::read_to_string(directory.join("file")).unwrap(), "late\n");
}

#[test]
fn changes_that_are_kept_are_told_of_whatever_else_went_wrong() {
    for options in [&[][..], &["--json"]] {
        let desk = Desk::new();
        let place = desk.directory.to_str().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut input = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let script = "echo late > file; echo ready; exec cat";
        let mut exec = desk.home.exec(options).words(["--workspace", place, "--"]);
        exec.command().args(["sh", "-c", script]).stdin(OwnedFd::from(input.try_clone().unwrap()));
        exec.command().stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = exec.command().spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("ready") {
            assert!(stdout.read_line(&mut said).unwrap() > 0, "{said}");
        }
        fs::remove_dir(&desk.directory).unwrap();
        // Who closes a connection without having read everything resets it.
        input.write_all(b"unread").unwrap();
        drop((peer, input));
        assert_eq!(invocation::wait(&mut child), 125);
        let mut told = String::new();
        match options {
            [] => child.stderr.take().unwrap().read_to_string(&mut told).unwrap(),
            _ => stdout.read_to_string(&mut told).unwrap(),
        };
        let last = told.lines().last().unwrap_or_default();
        let told = if options.is_empty() { told.as_str() } else { last };
        for part in ["CLI-005", "Connection reset", "SBX-008", place] {
            assert!(told.contains(part), "{options:?}: no {part} in {told}");
        }
        desk.home.make_directory("workspace");
        desk.home.shell(&[], "true").expect_code(0);
        assert_eq!(desk.read("file"), "late\n");
    }
}
