//! Who may do what over HTTP, and what a hostile client gets to see.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::agent::bash;
use crate::eventually;
use crate::served::{Ask, Served, bearer, read_until};

#[test]
fn nothing_but_what_is_public_is_answered_without_a_token() {
    let served = Served::new([]);
    let document = served.nobody("GET", "/api/v1/openapi.json").expect(200);
    let mut closed = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation.get("security").is_some() {
                continue;
            }
            let path = path.replace("{id}", "019a0000-0000-7000-8000-000000000000");
            let method = method.to_uppercase();
            let ask = |ask: Ask| if method == "GET" { ask } else { ask.json(&json!({})) };
            let nobody = ask(served.nobody(&method, &path)).refused(401, "API-002");
            let wrong = served.nobody(&method, &path).header("Authorization", "Bearer x");
            assert_eq!(ask(wrong).refused(401, "API-002"), nobody, "{method} {path}");
            closed += 1;
        }
    }
    assert!(closed > 30, "{closed}");
    for path in ["/", "/assets/app.js", "/assets/style.css", "/health", "/ready"] {
        assert_eq!(served.nobody("GET", path).send().status, 200, "{path}");
    }
    served.nobody("GET", "/nothing").refused(401, "API-002");
    served.ask("GET", "/nothing").refused(404, "API-004");
    served.stop();
}

#[test]
fn guesses_are_slowed_down_and_known_tokens_are_not() {
    let served = Served::new([]);
    served.ask("GET", "/api/v1/me").expect(200);
    let guess = || {
        let guess = bearer(&format!("cof_{}", "A".repeat(43)));
        served.nobody("GET", "/api/v1/me").header("Authorization", &guess).send()
    };
    let mut last = guess();
    assert_eq!(last.status, 401);
    eventually("a guess that is refused", || {
        last = guess();
        last.status == 429
    });
    assert!(last.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    served.ask("GET", "/api/v1/me").expect(200);
    // Nor is a right one that is seen for the first time: others may share the address.
    let fresh = bearer(&served.new_user("fresh"));
    assert_eq!(guess().status, 429);
    served.nobody("GET", "/api/v1/me").header("Authorization", &fresh).expect(200);
    served.stop();
}

#[test]
fn another_users_job_is_like_one_that_is_not_there() {
    let served = Served::new([bash("touch here; sleep 600")]);
    let job = served.submit(&json!({"task": "secret"}));
    served.until_file(&job, "here");
    let other = bearer(&served.new_user("other"));
    let get = |path: &str| served.nobody("GET", path).header("Authorization", &other);
    let unknown = "019a0000-0000-7000-8000-000000000000";
    for (method, rest) in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/events"),
        ("POST", "/messages"),
        ("POST", "/cancel"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("GET", "/files"),
        ("GET", "/files/content?path=here"),
        ("PUT", "/files/content?path=here"),
        ("DELETE", "/files/content?path=here"),
        ("POST", "/files/move"),
        ("POST", "/exec"),
        ("GET", "/terminal"),
        ("GET", "/audit"),
        ("GET", "/artifacts"),
        ("GET", "/output.zip"),
        ("GET", "/output.tar.zst"),
        ("GET", "/output.patch"),
    ] {
        let told = |id: &str| {
            let ask = served.nobody(method, &format!("/api/v1/jobs/{id}{rest}"));
            let ask = ask.header("Authorization", &other);
            let ask = if method == "GET" { ask } else { ask.json(&json!({})) };
            ask.refused(404, "API-004")
        };
        assert_eq!(told(&job), told(unknown), "{method} {rest}");
        assert_eq!(told("x"), told(unknown), "{method} {rest}");
    }
    assert_eq!(get(&format!("/status/{job}")).send().status, 404);
    assert_eq!(get(&format!("/jobs/{job}/output.zip")).send().status, 404);
    assert_eq!(get("/api/v1/jobs").expect(200)["jobs"], json!([]));
    get("/api/v1/jobs?user=all").refused(403, "API-003");
    for path in ["/api/v1/users", "/api/v1/users/x/tokens"] {
        get(path).refused(403, "API-003");
    }
    // The admin sees it, and it was not touched.
    let all = served.ask("GET", "/api/v1/jobs?user=all").expect(200);
    assert_eq!(all["jobs"][0]["status"], "running");
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    served.stop();
}

#[test]
fn a_removed_token_or_user_works_no_more() {
    let served = Served::new([]);
    let token = served.new_user("short");
    let me = || served.nobody("GET", "/api/v1/me").header("X-API-Key", &token);
    let shown = me().expect(200);
    assert_eq!((&shown["user"]["name"], &shown["user"]["admin"]), (&json!("short"), &json!(false)));
    let id = shown["token"].as_str().unwrap();
    served.ask("DELETE", &format!("/api/v1/tokens/{id}")).expect(204);
    me().refused(401, "API-002");
    served.ask("DELETE", &format!("/api/v1/tokens/{id}")).refused(404, "API-004");

    let own = served.ask("GET", "/api/v1/me").expect(200)["token"].as_str().unwrap().to_owned();
    served.ask("DELETE", &format!("/api/v1/tokens/{own}")).refused(409, "API-007");

    let users = served.ask("GET", "/api/v1/users").expect(200);
    let of = |name: &str| {
        let users = users["users"].as_array().unwrap();
        let user = users.iter().find(|user| user["name"] == name).unwrap();
        format!("/api/v1/users/{}", user["id"].as_str().unwrap())
    };
    served.ask("DELETE", &of("short")).expect(204);
    served.ask("DELETE", &of("short")).refused(404, "API-004");
    served.ask("DELETE", &of("admin")).refused(409, "API-007");
    let twice = json!({"name": "twice"});
    served.ask("POST", "/api/v1/users").json(&twice).expect(201);
    served.ask("POST", "/api/v1/users").json(&twice).refused(409, "API-007");
    served.ask("POST", "/api/v1/users").json(&json!({"name": "a b"})).refused(422, "API-012");
    served.stop();
}

#[test]
fn a_stream_ends_with_its_token() {
    let served = Served::new([bash("touch here; sleep 600")]);
    let token = served.new_user("short");
    let ask = |method: &str, path: &str| served.nobody(method, path).header("X-API-Key", &token);
    let made = ask("POST", "/api/v1/jobs").json(&json!({"task": "t"})).expect(202);
    let job = made["id"].as_str().unwrap();
    served.until_file(job, "here");
    let events = format!("/api/v1/jobs/{job}/events");
    let mut theirs = ask("GET", &events).header("Accept", "text/event-stream").open();
    read_until(&mut theirs, b"event: created");
    let mut other = served.ask("GET", &events).header("Accept", "text/event-stream").open();
    read_until(&mut other, b"event: created");

    let me = ask("GET", "/api/v1/me").expect(200);
    let gone = format!("/api/v1/tokens/{}", me["token"].as_str().unwrap());
    served.ask("DELETE", &gone).expect(204);
    let mut rest = Vec::new();
    theirs.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    assert_eq!(served.ask("GET", &format!("/api/v1/jobs/{job}")).expect(200)["status"], "running");
    // The same job's other reader goes on.
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    read_until(&mut other, b"event: ended");
    served.stop();
}

#[test]
fn other_hosts_and_other_sites_are_refused() {
    let served = Served::new([]);
    let raw = |head: &str| {
        let mut stream = TcpStream::connect(served.address).unwrap();
        let token = &served.token;
        write!(stream, "{head}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let port = served.address.port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        ("evil.example".to_owned(), 421),
        (format!("127.0.0.1.evil.example:{port}"), 421),
        ("127.0.0.1:1".to_owned(), 421),
        (String::new(), 421),
    ] {
        let head = format!("GET /api/v1/me HTTP/1.1\r\nHost: {host}\r\n");
        assert_eq!(raw(&head), status, "{host}");
    }
    assert_eq!(raw("GET /api/v1/me HTTP/1.1\r\n"), 400);
    let twice = format!("GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: x\r\n");
    assert_eq!(raw(&twice), 400);
    assert_eq!(raw(&format!("GET /api/v1/me HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n")), 200);

    let job = json!({"task": "t"});
    for (name, value) in [
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        served.ask("POST", "/api/v1/jobs").header(name, value).json(&job).refused(403, "API-011");
        let answer = served.ask("GET", "/api/v1/jobs").header(name, value).send();
        assert!(!answer.head.to_lowercase().contains("access-control"), "{}", answer.head);
    }
    let own = format!("http://{}", served.address);
    served.ask("POST", "/api/v1/jobs").header("Origin", &own).json(&job).expect(202);
    served.stop();
}

#[test]
fn every_answer_is_safe_in_a_browser() {
    let served = Served::new([bash("echo '<script>alert(1)</script>' > 'a b.html'")]);
    let job = served.submit(&json!({"task": "t"}));
    served.until(&job, &["complete"]);
    let paths = [
        "/".to_owned(),
        "/health".to_owned(),
        "/nothing".to_owned(),
        format!("/api/v1/jobs/{job}"),
        format!("/api/v1/jobs/{job}/files/content?path=a%20b.html"),
        format!("/jobs/{job}/output.zip"),
    ];
    for path in &paths {
        let answer = served.ask("GET", path).send();
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(answer.header("server"), None, "{path}");
        assert_eq!(answer.header("set-cookie"), None, "{path}");
        if path.contains("content") || path.contains("zip") {
            let disposition = answer.header("content-disposition").unwrap();
            assert!(disposition.starts_with("attachment"), "{disposition}");
            assert!(policy.starts_with("sandbox"), "{policy}");
        }
    }
    served.stop();
}

#[test]
fn hostile_bodies_are_refused_and_the_server_lives() {
    let served = Served::new([]);
    let post = |body: &str| served.ask("POST", "/api/v1/jobs").body("application/json", body);
    for body in [
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        "{\"task\":\"\\ud800\"}".to_owned(),
        "\u{feff}{\"task\":\"x\"}".to_owned(),
        "{\"task\":\"x\"} x".to_owned(),
        "{\"task\":null}".to_owned(),
        "{\"task\":\"a\",\"task\":\"b\"}".to_owned(),
        "{\"task\":\"x\",\"max_turns\":18446744073709551616}".to_owned(),
        "[]".to_owned(),
        String::new(),
        format!("{{\"{}\":1}}", "k".repeat(1 << 20)),
    ] {
        let told = post(&body).refused(400, "API-001");
        assert!(told.to_string().len() < 2000);
    }
    post("{\"task\":\"a\\u0000b\"}").refused(422, "API-012");
    let big = format!("{{\"task\":\"{}\"}}", "a".repeat(3 << 20));
    post(&big).refused(413, "API-008");
    let form = served.ask("POST", "/api/v1/jobs").body("application/x-www-form-urlencoded", "a=b");
    form.refused(415, "API-009");
    let zipped = served.ask("POST", "/api/v1/jobs").header("Content-Encoding", "gzip");
    zipped.json(&json!({"task": "t"})).refused(415, "API-009");
    served.ask("BREW", "/api/v1/jobs").refused(405, "API-005");
    let answer = served.ask("PUT", "/api/v1/jobs").send();
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET,HEAD,POST")));
    let long = format!("/api/v1/jobs/{}", "a".repeat(55_000));
    served.ask("GET", &long).refused(414, "API-019");
    let listed: Value = served.ask("GET", "/api/v1/jobs").expect(200);
    assert_eq!(listed["jobs"], json!([]));
    served.stop();
}
