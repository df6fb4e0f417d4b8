//! `cofferdam doctor` tries for real and says what will be used.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use cofferdam_testkit::podman_environment;
use serde_json::Value;

use crate::home::Home;

#[test]
fn the_last_line_says_what_will_be_used() {
    text(&Home::new());
}

pub(crate) fn text(home: &Home) {
    let ran = home.cofferdam(["doctor"]).run().expect_code(0);
    let text = ran.text();
    assert_eq!(text.lines().last(), Some("Sandboxes will be made by: native"), "{text}");
    for word in [
        "native",
        "code cells and desktop",
        "this machine",
        "trial: /bin/true ran",
        "grade",
        "system calls",
    ] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    assert_eq!(ran.errors(), "");
}

#[test]
fn as_json_it_is_one_object() {
    json(&Home::new());
}

pub(crate) fn json(home: &Home) {
    let ran = home.cofferdam(["doctor", "--json"]).run().expect_code(0);
    let findings: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&findings), ["backends", "chosen", "provisions", "version"]);
    assert_eq!(findings["chosen"], "native");
    assert_eq!(findings["version"], env!("CARGO_PKG_VERSION"));
    let provisions = findings["provisions"].as_array().unwrap();
    for part in ["python", "typescript", "JupyterLab", "X server", "window manager"] {
        assert!(provisions.iter().any(|fact| fact["part"] == part), "{part}: {provisions:?}");
    }
    // Nothing is set up in this home, and no machine has this one.
    let viewer = provisions.iter().find(|fact| fact["part"] == "viewer").unwrap();
    assert_eq!(viewer["weakness"], "install it: cofferdam setup viewer");
    let native = &findings["backends"][0];
    assert_eq!(keys(native), ["backend", "machine", "trial"]);
    assert_eq!(native["trial"]["result"], "works");
    assert!(native["trial"]["milliseconds"].as_f64().unwrap() > 0.0);
    assert_eq!(native["trial"]["isolation"]["backend"], "native");
    for fact in native["trial"]["isolation"]["facts"].as_array().unwrap() {
        assert_eq!(keys(fact), ["part", "value", "weakness"]);
    }
}

#[test]
fn a_report_that_cannot_be_written_is_no_success() {
    let home = Home::new();
    for words in [&["doctor"][..], &["doctor", "--json"]] {
        let mut doctor = home.cofferdam(words);
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = doctor.command().stdin(Stdio::null()).stdout(full).output().unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{words:?}: {told}");
        assert!(told.starts_with("error[CLI-004]: cannot write the output\n"), "{told}");
    }
    // That nobody reads it needs no words.
    let mut doctor = home.cofferdam(["doctor"]);
    doctor.command().stdin(Stdio::null()).stdout(std::io::pipe().unwrap().1);
    let ran = doctor.command().output().unwrap();
    assert_eq!((ran.status.code(), ran.stderr), (Some(1), Vec::new()));
}

#[test]
fn where_no_sandbox_can_be_made_it_says_why_with_6() {
    let home = Home::new();
    let file = home.beside("file");
    home.make_file(&file, "");
    let ran = home.cofferdam(["doctor"]).env("COFFERDAM_HOME", &file).run().expect_code(6);
    let text = ran.text();
    assert!(text.contains("trial: failed") && text.contains("error[SBX-005]"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("No sandbox can be made"), "{text}");
    let words = ["doctor", "--json"];
    let ran = home.cofferdam(words).env("COFFERDAM_HOME", &file).run().expect_code(6);
    let findings: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(findings["chosen"], Value::Null);
    assert_eq!(findings["backends"][0]["trial"]["result"], "fails");
    assert_eq!(findings["backends"][0]["trial"]["problem"]["code"], "SBX-005");
}

#[test]
fn without_a_home_it_says_so_in_json_too() {
    let home = Home::new();
    let relative = |words: &[&str]| home.cofferdam(words).env("COFFERDAM_HOME", "relative").run();
    let mut unset = home.cofferdam(["doctor", "--json"]);
    unset.command().env_remove("COFFERDAM_HOME");
    for ran in [relative(&["doctor", "--json"]), unset.run()] {
        let ran = ran.expect_code(2);
        let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!((&told["event"], &told["code"]), (&"failed".into(), &"CLI-001".into()));
        assert_eq!(ran.errors(), "");
    }
    assert_eq!(relative(&["doctor"]).expect_error(2, &["CLI-001"]).text(), "");
}

#[test]
fn without_user_namespaces_nothing_runs_and_the_repair_is_told() {
    nothing_runs_without("max_user_namespaces");
}

#[test]
fn without_network_namespaces_nothing_runs_and_the_repair_is_told() {
    nothing_runs_without("max_net_namespaces");
}

/// A user namespace of its own has a limit of its own, so the machine's is left
/// alone.
fn nothing_runs_without(limit: &str) {
    let place = tempfile::tempdir().unwrap();
    let script = format!("echo 0 > /proc/sys/user/{limit} || exit 99; \"$0\" exec -- echo ran");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", &script])
        .arg(env!("CARGO_BIN_EXE_cofferdam"))
        .env("COFFERDAM_HOME", place.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{errors}");
    assert_eq!(output.stdout, b"", "nothing runs without isolation");
    assert!(errors.contains("error[SBX-002]"), "{errors}");
    assert!(errors.contains(&format!("sysctl -w user.{limit}=")), "{errors}");
    let left = std::fs::read_dir(place.path().join("sandboxes")).unwrap();
    let left = left.filter(|entry| entry.as_ref().unwrap().file_name() != ".shared");
    assert_eq!(left.count(), 0, "nothing is left of it");
}

/// What an ordinary user's doctor says of each back end on a machine without these programs,
/// whose users have these ranges of ids.
fn says_without(
    programs: &[&str],
    ranges: bool,
    docker: &Path,
    home: &Home,
) -> Vec<(String, String)> {
    let user = home.user().unwrap();
    let place = home.make_directory(if ranges { "ranges" } else { "none" });
    let path = |name: &str| place.join(name).display().to_string();
    let own = fs::read_to_string("/etc/passwd").unwrap();
    let engines = place.join("podman");
    fs::create_dir(&engines).unwrap();
    let passwd = format!("{own}tester:x:{user}:{user}::{}:/bin/sh\n", engines.display());
    fs::write(place.join("passwd"), passwd).unwrap();
    let line = if ranges { "tester:1700000000:65536\n" } else { "" };
    fs::write(place.join("ids"), line).unwrap();
    let environment = podman_environment(&engines).unwrap();
    let mut binds = vec![(path("passwd"), "/etc/passwd".to_owned())];
    binds.extend(["/etc/subuid", "/etc/subgid"].map(|file| (path("ids"), file.to_owned())));
    for program in programs {
        let places =
            ["/usr/bin", "/usr/sbin", "/usr/local/bin"].map(|place| format!("{place}/{program}"));
        let there = places.into_iter().filter(|path| Path::new(path).is_file());
        binds.extend(there.map(|path| ("/dev/null".to_owned(), path)));
    }
    let binds = binds.iter().map(|(from, to)| format!("mount --bind {from} {to} && "));
    let script = format!(
        "{}chown -R {user}:{user} {} && exec setpriv --reuid={user} --regid={user} --clear-groups \"$@\"",
        binds.collect::<String>(),
        engines.display()
    );
    // What Podman leaves running ends with the first process.
    let namespaces = ["--mount", "--propagation=private", "--pid", "--mount-proc", "--fork"];
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["--kill-child", "sh", "-c", &script, "sh"])
        .arg(home.program())
        .args(["doctor", "--json"])
        .env_clear()
        .envs(environment)
        .env("DOCKER_HOST", format!("unix://{}", docker.display()))
        .env("COFFERDAM_HOME", home.path())
        .current_dir("/")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let backends = findings["backends"].as_array().unwrap();
    let name = |backend: &Value| backend["backend"].as_str().unwrap().to_owned();
    backends.iter().map(|backend| (name(backend), backend.to_string())).collect()
}

#[track_caller]
fn assert_told(said: &[(String, String)], backend: &str, words: &[&str]) {
    let (_, text) = said.iter().find(|(name, _)| name == backend).unwrap();
    for word in words {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
}

#[test]
fn what_engines_lack_is_told_with_the_repair() {
    let home = Home::of_ordinary_user();
    if home.user().is_none() {
        crate::tell("skipped: only root can take programs away");
        return;
    }
    let socket = home.beside("docker.sock");
    let _closed = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let said = says_without(&["newuidmap", "crun"], true, &socket, &home);
    assert_told(&said, "docker", &["permission denied", "run as root, or use --sandbox podman"]);
    assert_told(&said, "podman", &["newuidmap", "sudo apt install uidmap"]);
    assert_told(&said, "crun", &["not installed", "sudo apt install crun"]);

    let said = says_without(&["runc", "runsc"], false, &home.beside("nowhere"), &home);
    assert_told(&said, "docker", &["daemon", "sudo systemctl start docker"]);
    assert_told(&said, "podman", &["/etc/subuid", "sudo usermod --add-subuids"]);
    assert_told(&said, "runc", &["not installed", "sudo apt install runc"]);
    assert_told(&said, "runsc", &["not installed", "sudo apt install runsc/bookworm-backports"]);
    assert_told(&said, "crun", &["containers belong to root", "--sandbox podman"]);
}
