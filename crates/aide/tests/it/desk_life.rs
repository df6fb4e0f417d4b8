//! How a desktop comes and goes.

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use cofferdam_aide_protocol::{DeskFailureKind, DeskPiece, DeskStop, Size};
use rustix::process::Signal;
use serde_json::json;

use crate::desktop::{Desktop, Home, processes_of, wait_until};

/// Nothing of it is left.
fn assert_gone(home: &Home, name: &str, display: &str) {
    assert!(!home.state(name).exists());
    assert_eq!(processes_of(&home.state(name)), [""; 0]);
    let socket = format!("/tmp/.X11-unix/X{}", display.trim_start_matches(':'));
    // Another desktop may have the number by now, but then somebody answers.
    assert!(!Path::new(&socket).exists() || UnixStream::connect(&socket).is_ok());
}

#[test]
fn a_desktop_comes_and_goes_and_leaves_nothing() {
    let mut desktop = Desktop::start();
    let state = desktop.home().state("main");
    assert!(desktop.is.fresh);
    assert_eq!(desktop.is.size, Size { width: 1280, height: 800 });
    let vnc = std::fs::metadata(&desktop.is.vnc).unwrap();
    assert!(vnc.file_type().is_socket());
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(processes_of(&state).len(), 2, "a server and a window manager");
    let found = desktop.home().run("find", "");
    let is = cofferdam_aide_protocol::Desktop { fresh: false, ..desktop.is.clone() };
    assert_eq!(found, [DeskPiece::Ready(is), DeskPiece::Done]);

    desktop.signal(Signal::TERM);
    assert_eq!(desktop.ended(), DeskStop::Asked);
    assert_gone(desktop.home(), "main", &desktop.is.display);
    let found = desktop.home().run("find", "");
    let [DeskPiece::Failed(failure)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(failure.kind, DeskFailureKind::NotRunning);
    assert!(!state.exists(), "who looks for it leaves nothing");
}

#[test]
fn a_viewer_gets_in_by_the_socket_without_a_password() {
    let desktop = Desktop::start();
    assert_vnc(&desktop);
    assert_no_ports(&desktop);
}

fn assert_vnc(desktop: &Desktop) {
    let mut viewer = UnixStream::connect(&desktop.is.vnc).unwrap();
    let mut greeting = [0; 12];
    viewer.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"RFB 003.008\n");
    std::io::Write::write_all(&mut viewer, &greeting).unwrap();
    let mut kinds = [0; 2];
    viewer.read_exact(&mut kinds).unwrap();
    assert_eq!(kinds, [1, 1], "one way to get in: none asked");
}

/// None of the desktop's programs listens on a port.
fn assert_no_ports(desktop: &Desktop) {
    let directory = desktop.home().state("main");
    let mark = format!("COFFERDAM_DESK={}", directory.display());
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if !environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) {
            continue;
        }
        for descriptor in std::fs::read_dir(entry.path().join("fd")).unwrap().flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
            let target = target.to_string_lossy().into_owned();
            if let Some(inode) = target.strip_prefix("socket:[") {
                sockets.push(inode.trim_end_matches(']').to_owned());
            }
        }
    }
    assert!(!sockets.is_empty());
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap_or_default().lines() {
            let inode = line.split_whitespace().nth(9).unwrap_or_default();
            assert!(!sockets.iter().any(|socket| socket == inode), "{table}: {line}");
        }
    }
}

#[test]
fn stop_waits_until_it_is_gone() {
    let mut desktop = Desktop::start();
    let stopped = |why| vec![DeskPiece::Stopped(why)];
    assert_eq!(desktop.home().run("stop", ""), stopped(DeskStop::Asked));
    assert_gone(desktop.home(), "main", &desktop.is.display);
    assert_eq!(desktop.ended(), DeskStop::Asked);
    assert_eq!(desktop.home().run("stop", ""), stopped(DeskStop::NotRunning));
}

#[test]
fn a_second_start_finds_the_first() {
    let desktop = Desktop::start();
    let pieces = desktop.home().run("start", "");
    let mut again = desktop.is.clone();
    again.fresh = false;
    assert_eq!(pieces, [DeskPiece::Ready(again), DeskPiece::Done]);
}

#[test]
fn two_desktops_know_nothing_of_each_other() {
    let mut one = Desktop::start();
    let mut two = one.home().desk("start --name two --width 640 --height 480");
    let two = two.stdout(std::process::Stdio::piped());
    let mut two = two.spawn().unwrap();
    let state = one.home().state("two");
    wait_until("the second is ready", || state.join("ready").exists());

    let act = |name: &str| {
        let words = format!("act --name {name}");
        let pieces = one.home().run(&words, &json!({"action": "screenshot"}).to_string());
        match pieces.first() {
            Some(DeskPiece::Picture(picture)) => picture.size,
            other => panic!("no picture: {other:?}"),
        }
    };
    assert_eq!(act("main"), Size { width: 1280, height: 800 });
    assert_eq!(act("two"), Size { width: 640, height: 480 });

    one.signal(Signal::TERM);
    assert_eq!(one.ended(), DeskStop::Asked);
    assert_eq!(processes_of(&state).len(), 2, "the other one runs on");
    let stopped = [DeskPiece::Stopped(DeskStop::Asked)];
    assert_eq!(one.home().run("stop --name two", ""), stopped);
    two.wait().unwrap();
    assert_gone(one.home(), "two", "");
}

#[test]
fn an_idle_desktop_ends_by_itself() {
    let mut desktop = Desktop::start_in(Home::new(), "start --idle 1");
    assert_eq!(desktop.ended(), DeskStop::Idle);
    assert_gone(desktop.home(), "main", &desktop.is.display);
    let pieces = desktop.act_with("", &json!({"action": "screenshot"}));
    let Some(DeskPiece::Failed(failure)) = pieces.last() else { panic!("{pieces:?}") };
    assert_eq!(failure.kind, DeskFailureKind::NotRunning);
}

#[test]
fn who_acts_or_looks_keeps_it_alive() {
    let mut desktop = Desktop::start_in(Home::new(), "start --idle 1");
    // An action that is longer than the idle time.
    desktop.act(&json!({"action": "wait", "duration": 2.5}));
    let viewer = UnixStream::connect(&desktop.is.vnc).unwrap();
    // A wait for something that must not happen has no condition to wait for.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(desktop.keeper.try_wait().unwrap().is_none());
    drop(viewer);
    assert_eq!(desktop.ended(), DeskStop::Idle);
}

#[test]
fn without_xvnc_it_is_xvfb_and_x11vnc() {
    let home = Home::with_programs(&["Xvfb", "x11vnc", "xkbcomp", "openbox"]);
    let mut desktop = Desktop::start_in(home, "start --width 800 --height 600");
    assert_vnc(&desktop);
    assert_no_ports(&desktop);
    assert_eq!(desktop.screenshot().is.size, Size { width: 800, height: 600 });
    desktop.act(&json!({"action": "mouse_move", "coordinate": [123, 45]}));
    let at = desktop.act(&json!({"action": "cursor_position"}));
    assert_eq!(at, [DeskPiece::Cursor(cofferdam_aide_protocol::Point { x: 123, y: 45 })]);
    desktop.signal(Signal::TERM);
    assert_eq!(desktop.ended(), DeskStop::Asked);
    assert_gone(desktop.home(), "main", &desktop.is.display);
}

#[test]
fn without_openbox_it_is_fluxbox() {
    let home = Home::with_programs(&["Xvnc", "xkbcomp", "fluxbox"]);
    let mut desktop = Desktop::start_in(home, "start");
    desktop.screenshot();
    desktop.signal(Signal::TERM);
    assert_eq!(desktop.ended(), DeskStop::Asked);
    assert_gone(desktop.home(), "main", &desktop.is.display);
}

#[test]
fn what_is_missing_is_named() {
    for (programs, package) in
        [(&["xkbcomp"][..], "tigervnc-standalone-server"), (&["Xvnc", "xkbcomp"], "openbox")]
    {
        let home = Home::with_programs(programs);
        let pieces = home.run("start", "");
        let [DeskPiece::Failed(failure)] = pieces.as_slice() else { panic!("{pieces:?}") };
        assert_eq!(failure.kind, DeskFailureKind::Missing);
        assert!(failure.why.contains(package), "{}", failure.why);
        assert_gone(&home, "main", "");
    }
}

#[test]
fn a_server_that_dies_ends_the_desktop() {
    let mut desktop = Desktop::start();
    kill_one(&desktop, "Xvnc");
    let DeskStop::Died { how } = desktop.ended() else { panic!("it did not die") };
    assert!(how.contains("Xvnc"), "{how}");
    assert!(!desktop.home().state("main").exists());
}

#[test]
fn a_window_manager_that_dies_is_replaced() {
    let desktop = Desktop::start();
    kill_one(&desktop, "openbox");
    let state = desktop.home().state("main");
    wait_until("another one is there", || {
        processes_of(&state).iter().any(|name| name.trim() == "openbox")
    });
    desktop.screenshot();
}

#[test]
fn what_a_killed_keeper_left_is_cleared_by_the_next() {
    let mut desktop = Desktop::start();
    let state = desktop.home().state("main");
    desktop.signal(Signal::KILL);
    desktop.keeper.wait().unwrap();
    assert_eq!(processes_of(&state).len(), 2);
    // The next one lives long enough to be seen, then goes.
    let pieces = desktop.home().run("start --idle 1", "");
    let [DeskPiece::Ready(next), DeskPiece::Stopped(DeskStop::Idle)] = pieces.as_slice() else {
        panic!("{pieces:?}")
    };
    assert!(next.fresh);
    assert_gone(desktop.home(), "main", &next.display);
}

/// Kills one of the desktop's programs.
fn kill_one(desktop: &Desktop, name: &str) {
    let mark = format!("COFFERDAM_DESK={}", desktop.home().state("main").display());
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if marked && comm.trim() == name {
            let pid = entry.file_name().to_str().unwrap().parse().unwrap();
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
            wait_until("it is gone", || {
                std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))
                    .unwrap_or_default()
                    .is_empty()
            });
            return;
        }
    }
    panic!("there is no {name}");
}
