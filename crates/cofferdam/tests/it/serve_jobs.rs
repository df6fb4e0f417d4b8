//! Jobs over HTTP: submitted, watched, steered, downloaded.

use serde_json::{Value, json};

use crate::agent::bash;
use crate::eventually;
use crate::served::{Served, bearer, events, read_until};

/// A job that works until somebody makes the file `go`.
const WAITS: &str = "touch here; while [ ! -e go ]; do sleep 0.05; done; echo went > went.txt";

#[test]
fn schedule_status_and_download() {
    let served = Served::new([bash("echo 'print(1)' > one.py")]);
    for (media_type, body) in
        [("application/json", r#"{"task": "write it"}"#), ("text/plain", "write it")]
    {
        for path in ["/schedule", "/submit"] {
            let made = served.ask("POST", path).body(media_type, body).expect(202);
            let job = made["job_id"].as_str().unwrap().to_owned();
            assert_eq!(made.as_object().unwrap().len(), 1);
            let mut status = Value::Null;
            eventually("a job that is complete", || {
                status = served.ask("GET", &format!("/status/{job}")).expect(200);
                assert_eq!(status["job_id"], job.as_str());
                let complete = status["status"] == "complete";
                assert_eq!(status["result"].is_string(), complete, "{status}");
                complete
            });
            let zip = served.ask("GET", status["result"].as_str().unwrap()).send();
            assert_eq!(zip.header("content-type"), Some("application/zip"));
            assert!(zip.body.starts_with(b"PK"));
            let declared: usize = zip.header("content-length").unwrap().parse().unwrap();
            assert_eq!(declared, zip.body.len());
        }
    }
    served.stop();
}

#[test]
fn the_events_of_a_job_are_replayed_and_followed_and_end_with_it() {
    let served = Served::new([bash(WAITS)]);
    let job = served.submit(&json!({"task": "wait"}));
    served.until_file(&job, "here");
    let path = format!("/api/v1/jobs/{job}/events");
    let stream = served.ask("GET", &path).header("Accept", "text/event-stream");
    let reader = std::thread::spawn(move || stream.send());
    let write = format!("/api/v1/jobs/{job}/files/content?path=go");
    served.ask("PUT", &write).body("application/octet-stream", "").expect(200);
    let answer = reader.join().unwrap();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let followed = events(&answer.text());
    for (number, (id, kind, data)) in (1..).zip(&followed) {
        assert_eq!((*id, &data["seq"], &data["event"]), (number, &json!(number), &json!(kind)));
    }
    assert_eq!(followed.last().unwrap().1, "ended");

    // The same in pages, and from a point on.
    let mut after = 0;
    let mut paged = Vec::new();
    loop {
        let page = served.ask("GET", &format!("{path}?after={after}&limit=3")).expect(200);
        paged.extend(page["events"].as_array().unwrap().clone());
        after = page["after"].as_u64().unwrap();
        assert_eq!(page["over"], true);
        if page["more"] == false {
            break;
        }
    }
    let all: Vec<Value> = followed.iter().map(|(_, _, data)| data.clone()).collect();
    assert_eq!(paged, all);
    let rest = served
        .ask("GET", &path)
        .header("Accept", "text/event-stream")
        .header("Last-Event-ID", "4")
        .send();
    assert_eq!(events(&rest.text()), followed[4..]);
    served.stop();
}

#[test]
fn a_job_hears_messages_rests_goes_on_and_stops() {
    let served = Served::new([bash(WAITS), bash("touch again; sleep 600")]);
    let job = served.submit(&json!({"task": "wait"}));
    let path = |name: &str| format!("/api/v1/jobs/{job}/{name}");
    served.until_file(&job, "here");
    served.ask("POST", &path("resume")).refused(409, "API-007");
    served.ask("DELETE", &format!("/api/v1/jobs/{job}")).refused(409, "API-007");
    served.ask("POST", &path("messages")).json(&json!({"text": "hear"})).expect(202);
    served.ask("POST", &path("messages")).json(&json!({"text": " "})).refused(422, "API-012");
    served.ask("POST", &path("pause")).expect(202);
    let exec = json!({"command": "touch go"});
    served.ask("POST", &path("exec")).json(&exec).expect(200);
    eventually("a job that rests", || {
        served.ask("GET", &format!("/api/v1/jobs/{job}")).expect(200)["paused"] == true
    });
    let resumed = json!({"message": "on", "max_turns": 50});
    served.ask("POST", &path("resume")).json(&resumed).expect(202);
    served.until_file(&job, "again");
    served.ask("POST", &path("cancel")).expect(202);
    let ended = served.until(&job, &["cancelled"]);
    assert_eq!(ended["ending"], "cancelled");
    served.ask("POST", &path("cancel")).refused(409, "API-007");

    let page = served.ask("GET", &path("events?limit=1000")).expect(200);
    let said = page["events"].as_array().unwrap();
    let of = |kind: &str| said.iter().filter(|event| event["event"] == kind).count();
    assert_eq!((of("user_said"), of("paused"), of("budget_changed")), (2, 1, 1), "{page}");
    let changed = said.iter().find(|event| event["event"] == "budget_changed").unwrap();
    assert_eq!(changed["budget"]["turns"], 50);

    served.ask("DELETE", &format!("/api/v1/jobs/{job}")).expect(204);
    served.ask("GET", &format!("/api/v1/jobs/{job}")).refused(404, "API-004");
    served.stop();
}

#[test]
fn a_job_that_hears_nothing_is_not_told_without_bound() {
    let served = Served::new([bash(WAITS)]);
    let job = served.submit(&json!({"task": "wait"}));
    let path = |name: &str| format!("/api/v1/jobs/{job}/{name}");
    served.until_file(&job, "here");
    served.ask("POST", &path("pause")).expect(202);
    served.ask("POST", &path("exec")).json(&json!({"command": "touch go"})).expect(200);
    eventually("a job that rests", || {
        served.ask("GET", &format!("/api/v1/jobs/{job}")).expect(200)["paused"] == true
    });
    let say = || served.ask("POST", &path("messages")).json(&json!({"text": "hear"}));
    // A few may still be heard by whoever lets it rest.
    let mut accepted = 0;
    let refused = loop {
        let answer = say().send();
        if answer.status != 202 {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 200, "messages are kept without bound");
    };
    assert!(accepted >= 64, "{accepted}");
    assert!(refused.header("retry-after").is_some(), "{}", refused.head);
    say().refused(429, "API-014");
    // What ends the wait is taken all the same.
    served.ask("POST", &path("resume")).json(&json!({"message": "on"})).expect(202);
    served.until(&job, &["complete"]);
    say().refused(409, "API-007");
    let page = served.ask("GET", &path("events?limit=1000")).expect(200);
    let said = page["events"].as_array().unwrap();
    assert_eq!(said.iter().filter(|event| event["event"] == "user_said").count(), accepted + 1);
    served.stop();
}

#[test]
fn a_job_begins_with_what_was_uploaded() {
    let served = Served::new([bash("cat greeting.txt greeting.txt > twice.txt")]);
    let mut archive = Vec::new();
    // A tar by hand: one file of six bytes.
    let mut header = [0_u8; 512];
    header[..12].copy_from_slice(b"greeting.txt");
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(b"00000000006");
    header[136..147].copy_from_slice(b"00000000000");
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    header[263..265].copy_from_slice(b"00");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    archive.extend_from_slice(&header);
    archive.extend_from_slice(b"hello\n");
    archive.resize(512 * 4, 0);

    let upload = served.ask("POST", "/api/v1/uploads").body("application/x-tar", archive);
    let upload = upload.expect(201);
    let job = served.submit(&json!({"task": "twice", "upload": upload["id"]}));
    let shown = served.until(&job, &["complete", "error"]);
    assert_eq!(shown["status"], "complete", "{shown}");
    let read = format!("/api/v1/jobs/{job}/files/content?path=twice.txt");
    assert_eq!(served.ask("GET", &read).send().text(), "hello\nhello\n");

    let garbage = served.ask("POST", "/api/v1/uploads").body("application/zip", "no archive");
    garbage.refused(422, "API-012");
    let form = served.ask("POST", "/api/v1/uploads").body("multipart/form-data", "x");
    form.refused(415, "API-009");
    let nowhere = json!({"task": "t", "upload": "019a0000-0000-7000-8000-000000000000"});
    served.ask("POST", "/api/v1/jobs").json(&nowhere).refused(422, "API-012");
    served.stop();
}

#[test]
fn a_repeated_submission_is_the_same_job() {
    let served = Served::new([]);
    let submit = |key: &str, task: &str| {
        let ask = served.ask("POST", "/api/v1/jobs").header("Idempotency-Key", key);
        ask.json(&json!({ "task": task }))
    };
    let first = submit("\"k-1\"", "one").expect(202);
    assert_eq!(submit("k-1", "one").expect(202)["id"], first["id"]);
    submit("k-1", "two").refused(422, "API-013");
    submit(&"x".repeat(256), "one").refused(400, "API-001");
    // Keys are each user's own.
    let other = served.new_user("other");
    let theirs = served
        .nobody("POST", "/api/v1/jobs")
        .header("Authorization", &bearer(&other))
        .header("Idempotency-Key", "k-1")
        .json(&json!({"task": "one"}))
        .expect(202);
    assert_ne!(theirs["id"], first["id"]);
    // A key outlives its job, and says so.
    let first = first["id"].as_str().unwrap();
    served.until(first, &["complete"]);
    served.ask("DELETE", &format!("/api/v1/jobs/{first}")).expect(204);
    let told = submit("k-1", "one").refused(422, "API-013");
    assert!(told["detail"].as_str().unwrap().contains("`k-1`"), "{told}");
    let plain = served.ask("POST", "/schedule").header("Idempotency-Key", "k-1");
    plain.json(&json!({"task": "one"})).refused(422, "API-013");
    served.stop();
}

#[test]
fn lists_have_pages_and_filters() {
    let served = Served::new([]);
    let mut made: Vec<String> =
        (0..5).map(|n| served.submit(&json!({"task": format!("job {n}")}))).collect();
    made.reverse();
    for job in &made {
        served.until(job, &["complete"]);
    }
    let mut listed = Vec::new();
    let mut path = "/api/v1/jobs?limit=2&status=complete,error".to_owned();
    loop {
        let page = served.ask("GET", &path).expect(200);
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.len() <= 2);
        listed.extend(jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/jobs?limit=2&status=complete,error&cursor={next}");
    }
    assert_eq!(listed, made);
    let none = served.ask("GET", "/api/v1/jobs?status=pending").expect(200);
    assert_eq!(none["jobs"], json!([]));
    for bad in ["limit=0", "limit=1000", "status=done", "cursor=x", "user=me", "sort=up"] {
        served.ask("GET", &format!("/api/v1/jobs?{bad}")).refused(400, "API-001");
    }
    served.stop();
}

#[test]
fn projects_are_packed_a_few_at_once() {
    // More than the buffers of a connection hold, and not to be compressed.
    let served = Served::new([bash("head -c 33554432 /dev/urandom > noise")]);
    let job = served.submit(&json!({"task": "noise"}));
    served.until(&job, &["complete"]);
    let tar = || served.ask("GET", &format!("/api/v1/jobs/{job}/output.tar.zst"));
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = tar().open();
        let head = read_until(&mut stream, b"\r\n\r\n");
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        held.push(stream);
    }
    tar().refused(503, "API-016");
    assert!(tar().send().header("retry-after").is_some());
    served.ask("GET", &format!("/api/v1/jobs/{job}/output.patch")).refused(503, "API-016");
    // What was kept needs no sandbox.
    let zip = format!("/api/v1/jobs/{job}/output.zip");
    assert!(served.ask("GET", &zip).send().body.len() > 32 << 20);
    drop(held);
    eventually("a place for another", || tar().send().status == 200);

    // Kept by another server, or lost: no failure of this one.
    std::fs::remove_dir_all(served.home().path().join("blobs")).unwrap();
    let told = served.ask("GET", &zip).refused(409, "API-007");
    assert!(told["remedy"].as_str().unwrap().contains("--artifacts"), "{told}");
    served.ask("GET", &format!("/api/v1/jobs/{job}/audit")).refused(409, "API-007");
    served.stop();
}

#[test]
fn the_patch_of_a_job_that_changed_nothing_is_empty() {
    let served = Served::new([]);
    let job = served.submit(&json!({"task": "nothing"}));
    served.until(&job, &["complete"]);
    let patch = served.ask("GET", &format!("/api/v1/jobs/{job}/output.patch")).send();
    assert_eq!((patch.status, patch.text().as_str()), (200, ""));
    served.stop();
}
