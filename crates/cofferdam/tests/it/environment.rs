//! What a command finds around it, and what it does not.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

use crate::home::Home;
use crate::processes;

#[test]
fn nothing_of_the_callers_environment_is_inside() {
    no_canaries(&Home::new());
}

pub(crate) fn no_canaries(home: &Home) {
    let script = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; :";
    let ran = home
        .exec(["--", "sh", "-c", script])
        .env("ANTHROPIC_API_KEY", "canary-1")
        .env("AWS_SECRET_ACCESS_KEY", "canary-2")
        .env("SSH_AUTH_SOCK", "/tmp/canary-3")
        .env("HTTP_PROXY", "http://user:canary-4@127.0.0.1:1/")
        .env("LD_PRELOAD_CANARY", "canary-5")
        .run()
        .expect_code(0);
    let text = ran.text();
    assert!(!text.contains("canary"), "{text}");
    assert!(!text.contains("COFFERDAM_HOME"), "{text}");
    let mut names: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["HOME", "LANG", "PATH", "PWD", "TERM", "USER"]);
}

#[test]
fn a_home_among_the_programs_is_not_shown() {
    let Ok(place) = tempfile::Builder::new().prefix("cofferdam-it-").tempdir_in("/opt") else {
        return; // only root makes directories there
    };
    let home = Home::new();
    let user = place.path();
    for (path, content) in [(".netrc", "canary"), ("tools/tool", "mine")] {
        let path = user.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    for path in [user.to_path_buf(), user.join("tools")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = format!("cd {} && ls -A . tools; cat tools/tool", user.display());
    let list = |options: &[&str]| {
        let words = options.iter().copied().chain(["--", "sh", "-c", &script]);
        home.exec(words).env("HOME", user).run().text()
    };
    assert_eq!(list(&[]), ".:\n");
    let tools = user.join("tools");
    let with_tools = list(&["--read", tools.to_str().unwrap()]);
    assert_eq!(with_tools, ".:\ntools\n\ntools:\ntool\nmine");
    // Of the product's own files there is nothing to see either.
    let sandboxes = user.join("product/sandboxes");
    std::fs::create_dir_all(&sandboxes).unwrap();
    let script = format!("ls -A {}/product {}/.netrc", user.display(), user.display());
    let ran = home.exec(["--", "sh", "-c", &script]).env("COFFERDAM_HOME", user.join("product"));
    assert_eq!(ran.run().text(), format!("{0}/.netrc\n\n{0}/product:\n", user.display()));
}

#[test]
fn who_serves_the_sandbox_has_nothing_of_the_callers_environment_in_memory() {
    let home = Home::new();
    // Of two pieces, so that only a variable has it in one.
    let secret = format!("canary{}", home.mark());
    let running = home
        .exec(["--", "sh", "-c", "echo ready; exec sleep 1000"])
        .env("ANTHROPIC_API_KEY", &secret)
        .spawn();
    running.until_it_says("ready\n");
    assert!(processes::remembers(running.pid(), &secret), "the caller has it");
    let mut served = home.supervisors();
    assert_eq!(served.len(), 1, "{served:?}");
    served.extend(processes::children(served[0]));
    assert_eq!(served.len(), 2, "a supervisor and a guest: {served:?}");
    for pid in served {
        assert!(!processes::remembers(pid, &secret), "{:?}", processes::name(pid));
        let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert_eq!(arguments.trim_end_matches('\0'), "cofferdam-supervisor");
    }
    running.signal(rustix::process::Signal::TERM);
    running.wait().expect_code(143);
}

#[test]
fn variables_are_given_by_name_and_by_value() {
    variables(&Home::new());
}

pub(crate) fn variables(home: &Home) {
    let words = ["--env", "GIVEN=a=b c", "--env", "MINE", "--env", "UNSET", "--env", "EMPTY="];
    let ran = home
        .exec(words)
        .words(["--env", "LANG=C", "--", "env"])
        .env("MINE", "my own")
        .env("OTHER", "secret")
        .run()
        .expect_code(0);
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    for line in ["GIVEN=a=b c", "MINE=my own", "EMPTY=", "LANG=C"] {
        assert!(lines.contains(&line), "{line} is not in: {text}");
    }
    assert!(!text.contains("UNSET") && !text.contains("OTHER") && !text.contains("C.UTF-8"));
}

#[test]
fn variables_need_not_be_text() {
    let home = Home::new();
    let odd = |prefix: &str| OsString::from_vec([prefix.as_bytes(), b"\xff\xfe"].concat());
    let ran = home
        .exec([OsString::from("--env"), odd("GIVEN=")])
        .words(["--env", "MINE", "--", "sh", "-c", "printf %s \"$GIVEN$MINE\""])
        .env("MINE", odd(""))
        .run()
        .expect_code(0);
    assert_eq!(ran.stdout, b"\xff\xfe\xff\xfe");
}

#[test]
fn arguments_need_not_be_text() {
    let home = Home::new();
    let odd = OsString::from_vec(b"\xff\xfe \n'\"$(true)".to_vec());
    let ran = home.exec(["--", "printf", "%s"]).words([&odd]).run().expect_code(0);
    assert_eq!(ran.stdout, odd.into_vec());
}

#[test]
fn a_command_is_at_home_in_its_workspace() {
    at_home(&Home::new());
}

pub(crate) fn at_home(home: &Home) {
    let script = "pwd; id -un; id -u; touch $HOME/x /tmp/x /workspace/x && echo writable
                  touch /usr/x /etc/x /x 2>/dev/null || echo sealed; hostname";
    let ran = home.shell(&[], script).expect_code(0);
    assert_eq!(ran.text(), "/workspace\nagent\n1000\nwritable\nsealed\ncofferdam\n");
}

/// Runs a command by a shell that first does something to itself.
fn after(home: &Home, preparation: &str, words: &[&str]) -> (i32, String) {
    let mut shell = std::process::Command::new("/bin/sh");
    let script = format!("{preparation}; exec \"$@\"");
    shell.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_cofferdam"), "exec", "--"]).args(words);
    shell.env("COFFERDAM_HOME", home.path()).stdin(std::process::Stdio::null());
    let output = shell.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_callers_own_settings_do_not_matter_inside() {
    let home = Home::new();
    for umask in ["000", "022", "077"] {
        let script = "umask; mkdir d; stat -c %a d /tmp /etc/passwd";
        let ran = after(&home, &format!("umask {umask}"), &["sh", "-c", script]);
        assert_eq!(ran, (0, "0022\n755\n1777\n644\n".to_owned()), "umask {umask}");
    }
    let ran = after(&home, "trap '' INT TERM HUP USR1 QUIT", &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(ran, (143, String::new()));
    let ran = after(&home, "cd /tmp; mkdir $$; cd $$; rmdir ../$$", &["pwd"]);
    assert_eq!(ran, (0, "/workspace\n".to_owned()));
}

#[test]
fn the_callers_open_files_are_not_inside() {
    let home = Home::new();
    let secret = home.beside("secret");
    home.make_file(&secret, "canary");
    let preparation = format!("exec 9<{}", secret.display());
    let script = "cat <&9; cat /proc/*/fd/9; ls -l /proc/self/fd";
    let (_, text) = after(&home, &preparation, &["sh", "-c", script]);
    assert!(!text.contains("canary") && !text.contains("secret"), "{text}");
}

#[test]
fn homes_of_the_host_are_not_inside() {
    let home = Home::new();
    let secret = home.beside("secret");
    home.make_file(&secret, "canary");
    let ran = home.shell(&[], &format!("cat {}; ls -A /root /home", secret.display()));
    assert!(!ran.text().contains("canary"));
    assert!(ran.errors().contains("No such file"), "{}", ran.errors());
    assert!(ran.text().ends_with("/home:\nagent\n"), "{}", ran.text());
}

#[test]
fn a_directory_that_may_be_read_is_at_its_own_path_and_cannot_be_written() {
    let home = Home::new();
    let tools = home.make_directory("tools");
    home.make_file(&tools.join("tool"), "of mine");
    let tools = tools.to_str().unwrap();
    let script = format!("cat {tools}/tool; touch {tools}/x || echo ' read-only'");
    let ran = home.shell(&["--read", tools], &script).expect_code(0);
    assert_eq!(ran.text(), "of mine read-only\n");
}

#[test]
fn there_is_no_network() {
    let home = Home::new();
    let script = r"
import socket
def reach(address):
    try:
        socket.create_connection(address, 5)
        print('reached', address)
    except OSError as error:
        print(type(error).__name__)
reach(('192.0.2.1', 80))
reach(('host.example', 80))
reach(('127.0.0.1', 1))
";
    let ran = home.python(&[], script).expect_code(0);
    assert_eq!(ran.text(), "OSError\ngaierror\nConnectionRefusedError\n");
}
