//! `cofferdam doctor` tries for real and says what will be used.

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

/// A user namespace of its own has a limit of its own, so the machine's is left
/// alone.
#[test]
fn without_user_namespaces_nothing_runs_and_the_repair_is_told() {
    let place = tempfile::tempdir().unwrap();
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; \"$0\" exec -- echo ran";
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_cofferdam"))
        .env("COFFERDAM_HOME", place.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{errors}");
    assert_eq!(output.stdout, b"", "nothing runs without isolation");
    assert!(errors.contains("error[SBX-002]"), "{errors}");
    assert!(errors.contains("sysctl -w user.max_user_namespaces="), "{errors}");
}
