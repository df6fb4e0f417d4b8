//! What is asked for wrongly, or cannot be had, is refused with its reason.

use crate::home::Home;

#[test]
fn bad_options_are_2_and_say_what_would_do() {
    let home = Home::new();
    let table: &[(&[&str], &[&str])] = &[
        (&[], &["COMMAND"]),
        (&["--"], &["COMMAND"]),
        (&["--memory", "lots", "--", "true"], &["--memory", "a size such as"]),
        (&["--memory", "-1", "--", "true"], &["-1"]),
        (&["--memory", "99999999999G", "--", "true"], &["--memory", "a size such as"]),
        (&["--memory", "0", "--", "true"], &["--memory", "less than 4M"]),
        (&["--cpus", "0", "--", "true"], &["--cpus", "a number of CPUs"]),
        (&["--cpus", "NaN", "--", "true"], &["--cpus", "a number of CPUs"]),
        (&["--pids", "1", "--", "true"], &["--pids", "4.."]),
        (&["--pids", "99999999999", "--", "true"], &["--pids"]),
        (&["--open-files", "3", "--", "true"], &["--open-files", "32.."]),
        (&["--inodes", "some", "--", "true"], &["--inodes"]),
        (&["--timeout", "soon", "--", "true"], &["--timeout", "a time such as"]),
        (&["--timeout", "-5s", "--", "true"], &["-5"]),
        (&["--network", "maybe", "--", "true"], &["--network", "none, open or allow:"]),
        (&["--network", "allow:http://x/", "--", "true"], &["--network"]),
        (&["--require", "magic", "--", "true"], &["--require", "contained"]),
        (&["--sandbox", "chroot", "--", "true"], &["SBX-001", "chroot", "native"]),
        (&["--env", "=x", "--", "true"], &["CLI-003", "names no variable"]),
        (&["--env", "", "--", "true"], &["CLI-003", "names no variable"]),
        (&["--image", "/", "--read", "/opt", "--", "true"], &["cannot be used with"]),
        (&["--frobnicate", "--", "true"], &["--frobnicate"]),
        (&["--output", "little", "--", "true"], &["--output", "a size such as"]),
    ];
    for (words, reasons) in table {
        let ran = home.exec(words.iter()).run();
        assert_eq!(ran.text(), "", "{words:?}");
        ran.expect_error(2, reasons);
    }
    home.cofferdam(["frobnicate"]).run().expect_error(2, &["frobnicate"]);
    home.cofferdam([""; 0]).run().expect_error(2, &["Usage"]);
}

#[test]
fn bad_options_are_told_as_json_where_we_were_asked_for_it_and_not_the_command() {
    let home = Home::new();
    let ran = home.exec(["--frobnicate", "--", "npm", "ls", "--json"]).run();
    assert_eq!(ran.expect_error(2, &["--frobnicate"]).text(), "");
    let ran = home.exec(["--json", "--frobnicate", "--", "true"]).run().expect_code(2);
    assert!(ran.text().contains("CLI-003") && ran.errors().is_empty(), "{}", ran.text());
}

#[test]
fn the_least_that_may_be_asked_for_is_enough() {
    let home = Home::new();
    for words in [
        ["--memory", "4M"],
        ["--open-files", "32"],
        ["--pids", "4"],
        ["--cpus", "0.01"],
        ["--disk", "0"],
        ["--inodes", "0"],
        ["--output", "0"],
    ] {
        home.exec(words).words(["--", "true"]).run().expect_code(0);
    }
    home.exec(["--timeout", "0", "--", "true"]).run().expect_code(124);
}

#[test]
fn a_home_that_makes_no_sense_is_refused() {
    let home = Home::new();
    let run = |path: &str| home.exec(["--", "true"]).env("COFFERDAM_HOME", path).run();
    run("relative").expect_error(2, &["CLI-001", "absolute", "COFFERDAM_HOME"]);
    let mut none = home.exec(["--", "true"]);
    none.command().env_remove("COFFERDAM_HOME");
    none.run().expect_error(2, &["CLI-001", "HOME is not set"]);
}

#[test]
fn a_sandbox_that_cannot_be_made_is_125_with_cause_and_help() {
    cannot_be_made(&Home::new());
}

pub(crate) fn cannot_be_made(home: &Home) {
    let file = home.beside("file");
    home.make_file(&file, "");
    let missing = home.beside("missing");
    let (file, missing) = (file.to_str().unwrap(), missing.to_str().unwrap());
    let own = home.path();
    let own = own.to_str().unwrap();
    let table: &[(&[&str], &[&str])] = &[
        (&["--workspace", missing], &["SBX-004", missing, "No such file"]),
        (&["--workspace", file], &["SBX-004", "not a directory"]),
        (&["--workspace", own], &["SBX-004", "COFFERDAM_HOME"]),
        (&["--workspace", "/"], &["SBX-004", "COFFERDAM_HOME"]),
        (&["--read", missing], &["SBX-004", missing]),
        (&["--read", own], &["SBX-004", "COFFERDAM_HOME"]),
        (&["--image", missing], &["SBX-004", missing]),
        (
            &["--sandbox", "native", "--require", "virtual"],
            &["SBX-003", "virtual", "cofferdam doctor"],
        ),
    ];
    for (words, reasons) in table {
        let ran = home.exec(words.iter()).words(["--", "true"]).run();
        let ran = ran.expect_error(125, reasons);
        assert!(ran.errors().contains("cause:") && ran.errors().contains("help:"), "{words:?}");
        assert_eq!(ran.text(), "", "{words:?}");
    }
    let ran = home.exec(["--", "true"]).env("COFFERDAM_HOME", file).run();
    ran.expect_error(125, &["SBX-005", file]);
}

#[test]
fn a_path_that_is_no_text_is_refused_for_that() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let home = Home::new();
    let odd = home.make_directory("plain").join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).unwrap();
    for option in ["--workspace", "--read"] {
        let ran = home.exec([OsStr::new(option), odd.as_os_str()]).words(["--", "true"]).run();
        ran.expect_error(125, &["SBX-004", "not UTF-8", "help:"]);
    }
}

#[test]
fn a_trail_that_cannot_be_written_is_told_before_anything_is_run() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let nowhere = home.beside("missing/trail");
    let words = ["--workspace", workspace.to_str().unwrap(), "--audit", nowhere.to_str().unwrap()];
    let ran = home.shell(&words, "touch was-run");
    ran.expect_error(125, &["CLI-004", nowhere.to_str().unwrap(), "No such file"]);
    assert!(!workspace.join("was-run").exists());
}

#[test]
fn a_trail_within_the_workspace_is_refused() {
    // What was there before may be a link that an earlier command left.
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let victim = home.beside("victim");
    home.make_file(&victim, "precious");
    std::os::unix::fs::symlink(&victim, workspace.join("trail")).unwrap();
    let trail = workspace.join("trail");
    let words = ["--workspace", workspace.to_str().unwrap(), "--audit", trail.to_str().unwrap()];
    home.shell(&words, "true").expect_error(2, &["CLI-003", "--audit", "--workspace"]);
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "precious");
}

#[test]
fn a_link_that_leads_a_trail_into_the_workspace_is_refused() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let trail = home.beside("trail");
    std::os::unix::fs::symlink(workspace.join("planted"), &trail).unwrap();
    let words = ["--workspace", workspace.to_str().unwrap(), "--audit", trail.to_str().unwrap()];
    let run = || home.shell(&words, "touch was-run").expect_error(2, &["CLI-003", "--audit"]);
    run();
    assert_eq!(std::fs::read_dir(&workspace).unwrap().count(), 0, "something was made");
    home.make_file(&workspace.join("planted"), "precious");
    run();
    assert_eq!(std::fs::read_to_string(workspace.join("planted")).unwrap(), "precious");
    assert!(!workspace.join("was-run").exists());
}

/// What is no file may never take what is written to it, or be somebody's who did not expect it.
#[test]
fn a_trail_that_is_no_regular_file_is_refused_before_anything_is_run() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let fifo = home.beside("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    let run = |path: &str| {
        let words = ["--workspace", workspace.to_str().unwrap(), "--audit", path];
        home.shell(&words, "touch was-run").expect_error(125, &["CLI-004", path, "regular file"]);
        assert!(!workspace.join("was-run").exists(), "{path}");
    };
    let fifo_path = fifo.to_str().unwrap();
    run(fifo_path);
    let reader = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let reader = rustix::fs::open(&fifo, reader, rustix::fs::Mode::empty()).unwrap();
    run(fifo_path);
    drop(reader);
    run("/dev/null");
    run("/dev/stdout");
}

#[test]
fn a_trail_that_is_our_own_output_is_refused() {
    let home = Home::new();
    let path = home.beside("output");
    home.make_file(&path, "before\n");
    let mut exec = home.exec(["--audit", path.to_str().unwrap(), "--", "true"]);
    let output = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    exec.command().stdin(std::process::Stdio::null()).stdout(output);
    let ran = exec.command().output().unwrap();
    assert_eq!(ran.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("CLI-004"));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "before\n");
}

#[test]
fn help_and_version_go_to_stdout() {
    let home = Home::new();
    let help = home.cofferdam(["--help"]).run().expect_code(0);
    assert!(help.text().contains("exec") && help.text().contains("doctor"), "{}", help.text());
    let help = home.exec(["--help"]).run().expect_code(0);
    for word in ["--memory", "--workspace", "--network", "124 on", "--json"] {
        assert!(help.text().contains(word), "{word} is not in: {}", help.text());
    }
    let version = home.cofferdam(["--version"]).run().expect_code(0);
    assert_eq!(version.text(), format!("cofferdam {}\n", env!("CARGO_PKG_VERSION")));
}
