//! Cases of the catalogue that have no script of their own, against a server that
//! runs.

use std::collections::BTreeSet;
use std::sync::Mutex;

use cofferdam_testkit::Turn;
use serde_json::{Value, json};

use crate::agent::of_kind;
use crate::served::{Served, bearer};

/// Case 112, smaller: what a burst of submissions gets.
#[test]
fn of_a_burst_of_jobs_none_is_lost() {
    const CLIENTS: usize = 20;
    const EACH: usize = 10;
    let served = Served::new([]);
    let tokens = [served.token.clone(), served.new_user("other")];
    let taken = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (served, taken, token) = (&served, &taken, &tokens[client % tokens.len()]);
            scope.spawn(move || {
                for number in 0..EACH {
                    let job = json!({"task": "Run: true", "model": "demo"});
                    let ask = served
                        .nobody("POST", "/api/v1/jobs")
                        .header("Authorization", &bearer(token))
                        .header("Idempotency-Key", &format!("{client}-{number}"));
                    let answer = ask.json(&job).send();
                    if answer.status == 429 {
                        assert!(answer.header("retry-after").is_some());
                        continue;
                    }
                    assert_eq!(answer.status, 202, "{}", answer.text());
                    let id = answer.json()["id"].as_str().unwrap().to_owned();
                    assert!(taken.lock().unwrap().insert(id), "one job for two");
                }
            });
        }
    });
    let taken = taken.into_inner().unwrap();
    assert!(!taken.is_empty());
    for job in &taken {
        let shown = served.until(job, &["complete", "error", "cancelled"]);
        assert_eq!(shown["status"], "complete", "{shown}");
        // One command each, once.
        let events =
            served.ask("GET", &format!("/api/v1/jobs/{job}/events?limit=1000")).expect(200);
        let events = events["events"].as_array().unwrap().clone();
        let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
        assert_eq!((of("tool_started"), of("ended")), (1, 1), "{job}");
    }
    let mut listed = BTreeSet::new();
    let mut path = "/api/v1/jobs?user=all&limit=200".to_owned();
    loop {
        let page = served.ask("GET", &path).expect(200);
        let jobs = page["jobs"].as_array().unwrap();
        listed.extend(jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/jobs?user=all&limit=200&cursor={next}");
    }
    assert_eq!(listed, taken);
    served.stop();
}

/// Cases 097 and 098: what a model asks for that would widen its sandbox.
fn greedy(secret: &str) -> Vec<(&'static str, Value)> {
    let look = format!(
        "cat {secret}; env; cat /proc/*/environ; touch /etc/evil /usr/evil; cat /etc/shadow; \
         exec 3<>/dev/tcp/127.0.0.1/22; echo looked"
    );
    let off = json!({
        "command": look, "cwd": "/", "workdir": "/", "sandbox": "off", "network": "open",
        "dangerouslyDisableSandbox": true,
        "env": {"LD_PRELOAD": "/workspace/x.so", "GIT_SSH_COMMAND": "sh -c id", "PATH": "."},
    });
    vec![
        ("bash", off),
        ("bash", json!({"command": look})),
        ("bash", json!({"command": look, "timeout": 1e9})),
        ("bash", json!({"command": "echo a\u{0}b"})),
        ("bash", json!({"command": format!("true {}", "x".repeat(1 << 20))})),
        ("read_file", json!({"path": secret})),
        ("read_file", json!({"path": format!("../../../../../..{secret}")})),
        ("read_file", json!({"path": "/etc/shadow", "sandbox": "off"})),
        ("write_file", json!({"path": "/etc/evil", "content": "x"})),
        ("write_file", json!({"path": format!("{secret}.evil"), "content": "x"})),
        ("write_file", json!({"path": "../evil", "content": "x", "root": "/"})),
    ]
}

#[test]
fn what_a_model_asks_for_does_not_widen_its_sandbox() {
    let secret = tempfile::Builder::new().prefix("canary-").tempfile().unwrap();
    std::fs::write(secret.path(), "the-canary-of-the-host").unwrap();
    let path = secret.path().to_str().unwrap().to_owned();
    let calls = greedy(&path);
    let count = calls.len();
    let served = Served::with(move |_, said| match said {
        0 => Turn::calls(calls.clone()),
        _ => Turn::text("done"),
    });
    let job = served.submit(&json!({"task": "be greedy"}));
    let shown = served.until(&job, &["complete", "error", "cancelled"]);
    assert_eq!(shown["status"], "complete", "{shown}");
    let events = events(&served, &job);
    let ended = of_kind(&events, "tool_ended");
    assert_eq!(ended.len(), count);
    // What came of it has nothing of the host's.
    let told = json!(ended).to_string();
    assert!(told.contains("looked"), "{told}");
    for word in ["the-canary-of-the-host", "key-of-the-test", "root:*", "root:!", "root:$"] {
        assert!(!told.contains(word), "{word}");
    }
    for path in ["/etc/evil", "/usr/evil", &format!("{path}.evil")] {
        assert!(!std::path::Path::new(path).exists(), "{path}");
    }
    // The sandbox is the one that the job was given.
    let opened = of_kind(&events, "sandbox_opened");
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0]["weaknesses"], json!([]));
    served.stop();
}

/// All events of a job.
pub(crate) fn events(served: &Served, job: &str) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let path = format!("/api/v1/jobs/{job}/events?limit=1000&after={}", events.len());
        let page = served.ask("GET", &path).expect(200);
        events.extend(page["events"].as_array().unwrap().clone());
        if page["more"] == false {
            return events;
        }
    }
}
