//! The commands that ask a server, against a real one.

use std::os::unix::fs::symlink;

use cofferdam_testkit::Turn;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::{bash, ending, of_kind, records};
use crate::eventually;
use crate::server_lab::Served;

fn write(path: &str, content: &str) -> Turn {
    Turn::call("write_file", json!({"path": path, "content": content}))
}

#[test]
fn a_task_is_submitted_followed_told_and_downloaded() {
    let served = Served::new([write("a.txt", "hello\n"), Turn::text("a.txt is written")]);
    let id = served.submit(&["write a greeting"]);
    let logs = served.ask(&["logs", "--follow", &id]).expect_code(0);
    assert!(logs.text().contains("a.txt"), "{}", logs.text());
    let status = served.ask(&["status", &id]).expect_code(0).text();
    assert!(status.contains("complete") && status.contains("a.txt is written"), "{status}");
    let list = served.ask(&["list"]).expect_code(0).text();
    assert!(list.lines().any(|line| line.starts_with(&id) && line.contains("complete")), "{list}");
    let ran = served.ask(&["download", &id]).expect_code(0);
    assert_eq!(ran.text(), format!("{id}.zip\n"));
    let zip = std::fs::read(served.agent.workspace.join(format!("{id}.zip"))).unwrap();
    assert!(zip.starts_with(b"PK"));
    let names = String::from_utf8_lossy(&zip).into_owned();
    assert!(names.contains("a.txt") && names.contains("MANIFEST.json"));
    let patch = served.ask(&["download", &id, "--format", "patch", "--out", "-"]).expect_code(0);
    assert!(patch.text().contains("+hello"), "{}", patch.text());
    // What a full disk has not taken is not called downloaded.
    let full = std::process::Command::new(env!("CARGO_BIN_EXE_cofferdam"))
        .args(["download", &id, "--out", "-", "--server", &served.url])
        .env("COFFERDAM_HOME", served.agent.home.path())
        .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&full.stderr).contains("REM-009"), "{full:?}");
    served.ask(&["download", &id, "--out", "p.tar.zst"]).expect_code(0);
    let zst = std::fs::read(served.agent.workspace.join("p.tar.zst")).unwrap();
    assert!(zst.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    // Nothing half-written is left.
    let mut names: Vec<_> = std::fs::read_dir(&served.agent.workspace)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [format!("{id}.zip"), "p.tar.zst".to_owned()]);
}

#[test]
fn a_job_that_is_followed_looks_like_one_that_runs_here() {
    let served = Served::new([bash("echo hello"), Turn::text("said hello")]);
    let ran = served.ask(&["submit", "--follow", "say hello"]).expect_code(0);
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[1]), (2, "said hello"), "{text}");
    assert!(ran.errors().contains("echo hello"), "{}", ran.errors());
    // As events: the same bytes, whichever way they are asked for.
    let followed = served.ask(&["submit", "--follow", "--json", "again"]).expect_code(0);
    let shown = records(&followed.stdout);
    assert_eq!(of_kind(&shown, "ended").len(), 1);
    let id = shown[0]["spec"]["job"].as_str().unwrap();
    assert_eq!(served.ask(&["logs", "--json", id]).expect_code(0).text(), followed.text());
    assert_eq!(served.ask(&["logs", "-f", "--json", id]).expect_code(0).text(), followed.text());
    let after = served.ask(&["logs", "--json", "--after", "2", id]).expect_code(0).text();
    let rest: String = followed.text().lines().skip(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(after, rest);
}

#[test]
fn exit_codes_are_those_of_run() {
    let served = Served::with(|_, _| bash("echo turn"));
    let words = ["submit", "--follow", "--json", "--max-turns", "2", "count"];
    let limited = served.ask(&words).expect_code(4);
    assert_eq!(ending(&limited), json!({"how": "limit_reached", "limit": "turns"}));
    served.ask(&["status", "--last"]).expect_code(4);
    let logs = served.ask(&["logs", "-f", "--last"]).expect_code(4).text();
    assert!(logs.contains("To go on: cofferdam resume "), "{logs}");
    // What only shows what there is has not failed.
    served.ask(&["logs", "--last"]).expect_code(0);
    let served = Served::new([]);
    let words = ["submit", "-f", "--check", "false", "--attempts", "1", "answer"];
    served.ask(&words).expect_code(3);
    served.ask(&["submit", "--memory", "lots", "x"]).expect_code(2);
    served.ask(&["submit", " "]).expect_error(2, &["CLI-003"]);
    let words = ["submit", "--model", "nobody/nothing", "x"];
    served.ask(&words).expect_error(1, &["API-012"]);
    let ran = served.ask(&["submit", "--json", "--model", "nobody/nothing", "x"]).expect_code(1);
    let told: Value = serde_json::from_str(&ran.text()).unwrap();
    assert_eq!((&told["event"], &told["code"]), (&json!("failed"), &json!("API-012")));
}

#[test]
fn files_go_along_without_what_is_ignored_or_outside() {
    let served = Served::new([bash("find . -type f -o -type l | sort; cat sub/code.txt")]);
    let project = served.agent.home.make_directory("project");
    std::fs::create_dir_all(project.join("sub")).unwrap();
    std::fs::create_dir_all(project.join("target")).unwrap();
    std::fs::write(project.join(".gitignore"), "target\n").unwrap();
    std::fs::write(project.join("sub/code.txt"), "the code\n").unwrap();
    std::fs::write(project.join("target/big"), "x").unwrap();
    symlink("/etc/passwd", project.join("out")).unwrap();
    symlink("sub/code.txt", project.join("in")).unwrap();
    let words = ["submit", "--follow", "--json", "--files", project.to_str().unwrap(), "look"];
    let ran = served.ask(&words).expect_code(0);
    assert!(ran.errors().contains("out is not sent"), "{}", ran.errors());
    let shown = records(&ran.stdout);
    let output = of_kind(&shown, "tool_ended")[0].to_string();
    for there in ["./.gitignore", "./in", "./sub/code.txt", "the code"] {
        assert!(output.contains(there), "{there}: {output}");
    }
    for not_there in ["target", "./out"] {
        assert!(!output.contains(not_there), "{not_there}: {output}");
    }
    served.ask(&["submit", "--files", "/nowhere", "x"]).expect_error(2, &["REM-008"]);
}

#[test]
fn a_job_is_stopped_and_goes_on_with_a_message() {
    let served = Served::with(|request, _| {
        let text = request.body.to_string();
        if text.contains("the magic word") { Turn::text("heard it") } else { bash("sleep 1000") }
    });
    let id = served.submit(&["wait"]);
    served.until(&id, "tool_started");
    served.ask(&["cancel", &id]).expect_code(0);
    served.ask(&["logs", "-f", &id]).expect_code(130);
    served.ask(&["status", &id]).expect_code(130);
    // Stopping what has stopped is no news, or makes no sense; it is not a crash.
    let again = served.ask(&["cancel", &id]);
    assert!(again.code == 0 || again.errors().contains("API-007"), "{again:?}");
    served.ask(&["resume", "--last", "the magic word"]).expect_code(0);
    let logs = served.ask(&["logs", "-f", "--json", &id]).expect_code(0);
    assert_eq!(of_kind(&records(&logs.stdout), "ended").len(), 2);
    assert_eq!(served.job(&id)["summary"], "heard it");
}

#[test]
fn a_job_rests_and_hears_what_is_said() {
    let served = Served::with(|request, number| {
        let text = request.body.to_string();
        if text.contains("one more thing") {
            Turn::text("heard it")
        } else {
            bash(&format!("echo {number}; sleep 0.2"))
        }
    });
    let id = served.submit(&["count"]);
    served.until(&id, "tool_ended");
    served.ask(&["pause", &id]).expect_code(0);
    eventually("rest", || served.job(&id)["paused"] == true);
    let list = served.ask(&["list"]).expect_code(0).text();
    assert!(list.contains("paused"), "{list}");
    served.ask(&["resume", &id]).expect_code(0);
    served.command(&["say", &id, "-"]).input("one more thing").run().expect_code(0);
    served.ask(&["logs", "-f", &id]).expect_code(0);
    assert_eq!(served.job(&id)["summary"], "heard it");
    served.ask(&["say", &id, "too late"]).expect_error(1, &["API-007"]);
}

#[test]
fn whoever_leaves_leaves_the_job_alone() {
    let served = Served::new([bash("sleep 1000")]);
    let running = served.command(&["submit", "--follow", "wait"]).spawn();
    eventually("the id", || running.lines_so_far() == 1);
    let id = running.so_far().trim().to_owned();
    served.until(&id, "tool_started");
    running.signal(Signal::INT);
    let ran = running.wait().expect_error(130, &["REM-010", "cofferdam cancel"]);
    assert_eq!(ran.text().trim(), id);
    assert_eq!(served.job(&id)["status"], "running");
    let following = served.command(&["logs", "-f", &id]).spawn();
    eventually("what there is", || following.lines_so_far() > 0);
    following.signal(Signal::TERM);
    following.wait().expect_code(143);
    served.ask(&["cancel", &id]).expect_code(0);
    served.ask(&["logs", "-f", &id]).expect_code(130);
}

#[test]
fn short_names_are_enough_where_they_are_clear() {
    let served = Served::new([]);
    served.ask(&["status", "--last"]).expect_error(2, &["REM-007", "cofferdam submit"]);
    let first = served.submit(&["one"]);
    let second = served.submit(&["two"]);
    served.ask(&["logs", "-f", &first]).expect_code(0);
    served.ask(&["logs", "-f", &second]).expect_code(0);
    let end = |id: &str| id.chars().rev().take(10).collect::<Vec<_>>();
    let end = |id: &str| end(id).into_iter().rev().collect::<String>();
    assert!(served.ask(&["status", &end(&first)]).expect_code(0).text().contains(&first));
    assert!(served.ask(&["status", "--last"]).expect_code(0).text().contains(&second));
    assert!(
        served.ask(&["status", &second.to_uppercase()]).expect_code(0).text().contains(&second)
    );
    // Ids begin with the time, so all of them begin alike.
    let both = first.get(..4).unwrap();
    served.ask(&["status", both]).expect_error(2, &["REM-007", &first, &second]);
    served.ask(&["status", "zzz"]).expect_error(2, &["REM-007"]);
    let unknown = "019a0000-0000-7000-8000-000000000000";
    served.ask(&["status", unknown]).expect_error(1, &["API-004", "cofferdam list"]);
    served.ask(&["status"]).expect_code(2);
}

#[test]
fn users_see_their_own_and_tokens_are_shown_once() {
    let served = Served::new([]);
    let id = served.submit(&["a secret of the admin's"]);
    served.ask(&["user", "add", "bob"]).expect_code(0);
    served.ask(&["user", "add", "bob"]).expect_error(1, &["API-007"]);
    let made = served.ask(&["token", "add", "--user", "bob", "--label", "laptop"]).expect_code(0);
    let token = made.text().trim().to_owned();
    let as_bob = |words: &[&str]| served.command(words).env("COFFERDAM_TOKEN", &token).run();
    assert_eq!(as_bob(&["list", "--json"]).expect_code(0).text(), "");
    as_bob(&["status", &id]).expect_error(1, &["API-004"]);
    as_bob(&["cancel", &id]).expect_error(1, &["API-004"]);
    as_bob(&["list", "--all"]).expect_error(1, &["API-003"]);
    as_bob(&["user", "list"]).expect_error(1, &["API-003"]);
    let own = as_bob(&["submit", "bob's own"]).expect_code(0).text().trim().to_owned();
    let all = served.ask(&["list", "--all"]).expect_code(0).text();
    let row = |id: &str| all.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(row(&own).contains("bob") && row(&id).contains("admin"), "{all}");
    assert!(!served.ask(&["list"]).expect_code(0).text().contains(&own));
    let listed = served.ask(&["token", "list", "--user", "bob", "--json"]).expect_code(0).text();
    assert!(listed.contains("laptop") && !listed.contains(&token), "{listed}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    served.ask(&["token", "remove", listed["id"].as_str().unwrap()]).expect_code(0);
    let refused = as_bob(&["list"]).expect_error(1, &["API-002", "COFFERDAM_TOKEN"]);
    assert!(!refused.errors().contains(&token));
    served.ask(&["user", "remove", "bob"]).expect_code(0);
    served.ask(&["user", "remove", "bob"]).expect_error(2, &["REM-011"]);
    assert!(!served.ask(&["user", "list"]).expect_code(0).text().contains("bob"));
    for id in [&own, &id] {
        eventually("its end", || {
            !served.ask(&["list", "--all"]).text().contains(&format!("{id}  running"))
        });
    }
    // The admin's token was shown by the server alone.
    assert!(!all.contains(&served.token()));
}

#[test]
fn a_job_that_is_resumed_before_it_has_come_to_rest_goes_on_at_once() {
    let served = Served::new([
        bash("until [ -e go ]; do sleep 0.01; done"),
        bash("echo second > second.txt"),
    ]);
    let id = served.submit(&["two steps"]);
    served.until(&id, "tool_started");
    served.ask(&["pause", &id]).expect_code(0);
    served.until(&id, "paused");
    served.ask(&["resume", &id, "quickly"]).expect_code(0);
    served.until(&id, "resumed");
    assert_eq!(served.job(&id)["status"], "running");
    served.ask(&["pause", &id]).expect_code(0);
    eventually("a second pause", || {
        served.ask(&["logs", "--json", &id]).text().matches("\"event\":\"paused\"").count() == 2
    });
    served.ask(&["resume", &id]).expect_code(0);
    eventually("a second resumption", || {
        served.ask(&["logs", "--json", &id]).text().matches("\"event\":\"resumed\"").count() == 2
    });
    let token = served.token();
    let url = format!("{}/api/v1/jobs/{id}/files/content?path=go", served.url);
    let put = std::process::Command::new("curl")
        .args(["-sf", "-X", "PUT", "--data-binary", "x", "-H"])
        .arg(format!("Authorization: Bearer {token}"))
        .arg(url)
        .status();
    assert!(put.unwrap().success());
    served.until(&id, "ended");
    let log = served.ask(&["logs", "--json", &id]).text();
    assert_eq!(log.matches("\"event\":\"taken_up\"").count(), 1, "{log}");
    assert_eq!(served.job(&id)["status"], "complete");
}

#[test]
fn what_was_said_to_a_job_at_rest_is_heard_when_it_goes_on() {
    let served = Served::new([bash("until [ -e go ]; do sleep 0.01; done; rm go")]);
    let id = served.submit(&["wait"]);
    served.until(&id, "tool_started");
    served.ask(&["pause", &id]).expect_code(0);
    served.until(&id, "paused");
    served.ask(&["say", &id, "the first words"]).expect_code(0);
    served.ask(&["resume", &id, "the second words"]).expect_code(0);
    served.ask(&["cancel", &id]).expect_code(0);
    served.until(&id, "ended");
    let log = served.ask(&["logs", "--json", &id]).text();
    assert!(log.contains("the first words") && log.contains("the second words"), "{log}");
}

#[test]
fn a_server_leaves_alone_what_others_keep_in_its_home() {
    let mut served = Served::new([]);
    served.kill();
    let home = served.agent.home.path().to_owned();
    let outputs = home.join("jobs/01890a5d-ac96-774b-bcce-b302099a8057/outputs");
    std::fs::create_dir_all(&outputs).unwrap();
    std::fs::write(outputs.join("1"), "of a job of `run`").unwrap();
    served.restart();
    let id = served.submit(&["nothing"]);
    served.until(&id, "ended");
    assert!(outputs.join("1").exists());
}

#[test]
fn jobs_of_a_server_cannot_read_its_files_by_a_replay() {
    let served = Served::new([]);
    let ran = served.ask(&["submit", "--model", "replay//etc/passwd", "read it"]);
    ran.expect_error(1, &["not for jobs of a server"]);
}

#[test]
fn the_trail_of_a_job_holds_what_it_did_before_it_was_resumed() {
    let served = Served::new([
        bash("touch before.txt"),
        cofferdam_testkit::Turn::text("done"),
        bash("touch after.txt"),
    ]);
    let id = served.submit(&["go"]);
    served.until(&id, "ended");
    served.ask(&["resume", &id, "and more"]).expect_code(0);
    eventually("a second end", || {
        served.ask(&["logs", "--json", &id]).text().matches("\"event\":\"ended\"").count() == 2
    });
    let token = served.token();
    let url = format!("{}/api/v1/jobs/{id}/audit", served.url);
    let got = std::process::Command::new("curl")
        .args(["-sf", "-H", &format!("Authorization: Bearer {token}"), &url])
        .output()
        .unwrap();
    let trail = String::from_utf8(got.stdout).unwrap();
    assert!(trail.contains("before.txt") && trail.contains("after.txt"), "{trail}");
}
