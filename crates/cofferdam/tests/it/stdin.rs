//! Our stdin is the command's.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use crate::home::Home;
use crate::invocation;

#[test]
fn what_we_are_given_the_command_gets() {
    passed(&Home::new());
}

pub(crate) fn passed(home: &Home) {
    let empty = home.exec(["--", "wc", "-c"]).run().expect_code(0);
    assert_eq!(empty.text().trim(), "0");
    let bytes: Vec<u8> = (0..=255).collect();
    let ran = home.exec(["--", "cat"]).input(bytes.clone()).run().expect_code(0);
    assert_eq!(ran.stdout, bytes);
}

#[test]
fn eight_mebibytes_pass_unchanged() {
    let home = Home::new();
    let bytes: Vec<u8> =
        (0..8u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let ran = home.exec(["--", "cat"]).input(bytes.clone()).run().expect_code(0);
    assert!(ran.stdout == bytes, "{} bytes came back", ran.stdout.len());
}

#[test]
fn a_command_that_does_not_read_its_input_ends_all_the_same() {
    let home = Home::new();
    home.exec(["--", "true"]).input(vec![b'x'; 8 << 20]).run().expect_code(0);
    let ran = home.exec(["--", "head", "-c", "3"]).input(vec![b'x'; 8 << 20]).run();
    assert_eq!(ran.expect_code(0).text(), "xxx");
}

#[test]
fn input_that_nobody_ends_does_not_hold_up_the_end() {
    let home = Home::new();
    let running = home.exec(["--", "echo", "done"]).spawn();
    let ran = running.wait().expect_code(0);
    assert_eq!(ran.text(), "done\n");
    assert!(ran.elapsed < Duration::from_secs(30), "{:?}", ran.elapsed);
}

#[test]
fn input_comes_when_it_is_typed_not_when_it_ends() {
    let home = Home::new();
    let script = "while read word; do echo got $word; done; echo end";
    let mut running = home.exec(["--", "sh", "-c", script]).spawn();
    for word in ["one", "two"] {
        writeln!(running.stdin.as_mut().unwrap(), "{word}").unwrap();
        running.until_it_says(&format!("got {word}\n"));
    }
    drop(running.stdin.take());
    assert_eq!(running.wait().expect_code(0).text(), "got one\ngot two\nend\n");
}

#[test]
fn input_reaches_a_command_that_never_stops_speaking() {
    let home = Home::new();
    let script = "yes & read word; kill $!; wait; echo; echo got $word";
    let ran = home.exec(["--", "sh", "-c", script]).input("it\n").run().expect_code(0);
    assert!(ran.stdout.ends_with(b"\ngot it\n"));
}

#[test]
fn streams_that_are_closed_are_as_good_as_empty_ones() {
    let home = Home::new();
    // The program as a shell starts it after `<&-`, `>&-` and `2>&-`.
    for (script, closed) in [
        (r#""$@" <&-"#, "stdin"),
        (r#""$@" >&-"#, "stdout"),
        (r#""$@" 2>&-"#, "stderr"),
        (r#""$@" <&- >&- 2>&-"#, "all"),
    ] {
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_cofferdam"), "exec", "--"]);
        shell.args(["sh", "-c", "cat; echo out; echo err >&2; exit 5"]);
        shell.env("COFFERDAM_HOME", home.path());
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.spawn().unwrap();
        assert_eq!(invocation::wait(&mut child), 5, "{closed}");
    }
}
