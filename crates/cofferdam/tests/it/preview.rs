//! Previews: web servers in a job's sandbox, seen by programs and in a browser.

use std::io::{Read, Write};
use std::net::TcpStream;

use cofferdam_testkit::{Browser, Dialect, Turn};
use serde_json::{Value, json};

use crate::agent::{Agent, bash};
use crate::served::{Answer, Ask, Served, bearer, read_until};
use crate::{eventually, server_lab};

/// A server with a job in whose sandbox web servers listen.
fn serving() -> (Served, String) {
    let app = json!({"path": "app.py", "content": include_str!("preview/app.py")});
    let run = json!({"command": "python3 app.py > log 2>&1", "background": true});
    let wait = bash("until [ -e end ]; do sleep 0.1; done");
    let served = Served::new([Turn::call("write_file", app), Turn::call("bash", run), wait]);
    let job = served.submit(&json!({"task": "serve"}));
    served.until_file(&job, "ready");
    (served, job)
}

fn end(served: Served, job: &str) {
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(job, &["cancelled"]);
    served.stop();
}

/// The address of a view, taken apart: its host, and its path with the ticket.
fn view(served: &Served, job: &str, port: u16) -> (String, String) {
    let path = format!("/api/v1/jobs/{job}/ports/{port}/view");
    let answer = served.ask("POST", &path).expect(200);
    let (host, path) =
        answer["url"].as_str().unwrap().strip_prefix("http://").unwrap().split_once('/').unwrap();
    (host.to_owned(), format!("/{path}"))
}

/// Enters a preview; its host, and the cookie.
fn enter(served: &Served, job: &str, port: u16) -> (String, String) {
    let (host, path) = view(served, job, port);
    let answer = served.nobody("GET", &path).host(&host).send();
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{}", answer.head);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && !cookie.contains("omain"), "{cookie}");
    (host, cookie.split(';').next().unwrap().to_owned())
}

fn told(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}{}", answer.head, answer.text());
    answer.json()
}

#[test]
fn programs_see_it_with_their_token() {
    let (served, job) = serving();
    let at = |rest: &str| format!("/jobs/{job}/ports/3000{rest}");
    let seen = told(&served.ask("GET", &at("/a%2Fb//c?d=%20e")).header("X-Own", "1").send());
    assert_eq!(seen["path"], "/a%2Fb//c?d=%20e");
    let headers = &seen["headers"];
    assert_eq!(headers["host"], "localhost:3000");
    assert_eq!(headers["x-own"], "1");
    assert_eq!(headers["x-forwarded-host"], served.address.to_string());
    assert_eq!(headers["x-forwarded-prefix"], at(""));
    assert!(!seen.to_string().contains("cof_"), "{seen}");
    assert!(served.ask("GET", &at("")).send().text().contains("script.js"));
    assert!(served.ask("GET", &at("/")).send().text().contains("script.js"));

    let body = vec![7; 3_000_000];
    let post = served.ask("POST", &at("/post")).body("application/octet-stream", body);
    assert_eq!(told(&post.header("Content-Encoding", "gzip").send())["length"], 3_000_000);
    assert_eq!(told(&served.ask("DELETE", &at("/x")).send())["method"], "DELETE");

    let answer = served.ask("GET", &at("/redirect")).send();
    assert_eq!(answer.header("location"), Some(at("/landed?x=1").as_str()));
    let answer = served.ask("GET", &at("/escape")).send();
    assert_eq!(answer.header("location"), Some(at("/api/v1/jobs").as_str()));
    let answer = served.ask("GET", &at("/away")).send();
    assert_eq!((answer.status, answer.header("location")), (307, None));

    let answer = served.ask("GET", &at("/hostile")).send();
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("sandbox allow-scripts") && !policy.contains("same-origin"));
    assert_eq!(answer.header("x-count"), Some("7"));
    assert_eq!(answer.header("x-frame-options"), Some("DENY"));
    for name in [
        "set-cookie",
        "strict-transport-security",
        "clear-site-data",
        "access-control-allow-origin",
        "service-worker-allowed",
    ] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    end(served, &job);
}

#[test]
fn it_is_not_for_everybody() {
    let (served, job) = serving();
    let other = bearer(&served.new_user("other"));
    for (method, path) in [
        ("GET", format!("/jobs/{job}/ports/3000/")),
        ("POST", format!("/jobs/{job}/ports/3000/x/y")),
        ("GET", format!("/api/v1/jobs/{job}/ports")),
        ("POST", format!("/api/v1/jobs/{job}/ports/3000/view")),
        ("POST", format!("/api/v1/jobs/{job}/lab")),
    ] {
        served.nobody(method, &path).refused(401, "API-002");
        let ask = served.nobody(method, &path).header("Authorization", &other);
        ask.refused(404, "API-004");
        let unknown = path.replace(&job, "019a0000-0000-7000-8000-000000000000");
        served.ask(method, &unknown).refused(404, "API-004");
    }
    let listed = served.ask("GET", &format!("/api/v1/jobs/{job}/ports")).expect(200);
    let expected = json!([
        {"port": 3000, "address": "0.0.0.0", "loopback_only": false},
        {"port": 3001, "address": "127.0.0.1", "loopback_only": true},
    ]);
    assert_eq!(listed["ports"], expected);
    let told = served.ask("GET", &format!("/jobs/{job}/ports/3999/")).refused(502, "API-021");
    assert!(told["remedy"].as_str().unwrap().ends_with("3000, 3001"), "{told}");
    for port in ["0", "70000", "x", "03000"] {
        let path = format!("/api/v1/jobs/{job}/ports/{port}/view");
        served.ask("POST", &path).refused(422, "API-012");
    }
    served.ask("CONNECT", &format!("/jobs/{job}/ports/3000/")).refused(422, "API-012");
    // People elsewhere are not sent to their own machine.
    let path = format!("/api/v1/jobs/{job}/ports/3000/view");
    served.ask("POST", &path).host("cofferdam.example").refused(421, "API-010");
    end(served, &job);
}

#[test]
fn an_origin_of_its_own_is_entered_by_a_ticket() {
    let (served, job) = serving();
    let (host, path) = view(&served, &job, 3000);
    let expected = format!("3000-{job}.localhost:{}", served.address.port());
    assert_eq!(host, expected);
    let get = |path: &str| served.nobody("GET", path).host(&host);
    let refused = get("/").send();
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains(&format!("/api/v1/jobs/{job}/ports/3000/view")));
    assert_eq!(get("/?cofferdam_ticket=x").send().status, 401);

    // Not on another port's name, and then no more at all.
    let wrong = host.replace("3000-", "3001-");
    assert_eq!(served.nobody("GET", &path).host(&wrong).send().status, 401);
    assert_eq!(get(&path).send().status, 401);

    let (_, path) = view(&served, &job, 3000);
    let entered = get(&path.replace("/?", "/a?b=c&")).send();
    assert_eq!((entered.status, entered.header("location")), (303, Some("/a?b=c")));
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(get(&path).send().status, 401, "a ticket works once");

    let own = format!("http://{host}");
    let ask = |method: &str, path: &str| {
        served.nobody(method, path).host(&host).header("Cookie", &format!("a=1; {cookie}"))
    };
    let seen = told(&ask("GET", "/x").header("Referer", &format!("{own}/page")).send());
    assert_eq!(seen["headers"]["cookie"], "a=1");
    assert_eq!(seen["headers"]["referer"], "http://localhost:3000/page");
    assert!(!seen.to_string().contains(&cookie), "{seen}");
    // Whatever has our paths there is the program's.
    let api = ask("GET", "/api/v1/me").header("Authorization", &bearer(&served.token)).send();
    assert_eq!(told(&api)["path"], "/api/v1/me");
    assert!(!api.text().contains("cof_"), "{}", api.text());
    let bare = get("/api/v1/me").header("Authorization", &bearer(&served.token)).send();
    assert_eq!(bare.status, 401, "a token is nothing there");
    // And the cookie is nothing elsewhere.
    served.nobody("GET", "/api/v1/me").header("Cookie", &cookie).refused(401, "API-002");
    let path = format!("/jobs/{job}/ports/3000/");
    served.nobody("GET", &path).header("Cookie", &cookie).refused(401, "API-002");
    let answer = served.nobody("GET", "/").host(&wrong).header("Cookie", &cookie).send();
    assert_eq!(answer.status, 401);

    let post = ask("POST", "/post").header("Origin", &own).body("text/plain", "abc");
    let seen = told(&post.send());
    assert_eq!(
        (&seen["headers"]["origin"], &seen["length"]),
        (&json!("http://localhost:3000"), &json!(3))
    );
    for origin in
        [format!("http://{}", served.address), "null".to_owned(), own.replace("3000-", "3001-")]
    {
        let post = ask("POST", "/post").header("Origin", &origin).body("text/plain", "abc");
        assert_eq!(post.send().status, 403, "{origin}");
        assert_eq!(socket(&ask("GET", "/socket").header("Origin", &origin)).0, 403, "{origin}");
    }
    let framed = ask("GET", "/").header("Sec-Fetch-Site", "cross-site");
    assert_eq!(framed.header("Sec-Fetch-Dest", "iframe").send().status, 403);

    let answer = ask("GET", "/hostile").send();
    let cookies: Vec<&str> =
        answer.head.lines().filter(|line| line.to_lowercase().starts_with("set-cookie")).collect();
    assert_eq!(cookies, ["set-cookie: theirs=1; Path=/"]);
    assert_eq!(answer.header("strict-transport-security"), None);
    assert_eq!(answer.header("x-frame-options"), None);
    assert_eq!(ask("GET", "/redirect").send().header("location"), Some("/landed?x=1"));
    let nothing = served.nobody("GET", "/").host(&enter(&served, &job, 3999).0).send();
    assert_eq!(nothing.status, 401);
    let (host, cookie) = enter(&served, &job, 3999);
    let nothing = served.nobody("GET", "/").host(&host).header("Cookie", &cookie).send();
    assert_eq!(nothing.status, 502);
    assert!(nothing.text().contains("3000, 3001"), "{}", nothing.text());
    end(served, &job);
}

/// The status of the answer to a handshake, and the connection.
fn socket(ask: &Ask) -> (u16, TcpStream) {
    let mut stream = ask.upgrade();
    let head = String::from_utf8_lossy(&read_until(&mut stream, b"\r\n\r\n")).into_owned();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), stream)
}

/// A text message of a client, masked by zeros.
fn message(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

#[test]
fn streams_and_websockets_pass_and_end_with_what_let_them_in() {
    let (served, job) = serving();
    let user = served.ask("GET", "/api/v1/me").expect(200)["user"]["id"].clone();
    let made = format!("/api/v1/users/{}/tokens", user.as_str().unwrap());
    let made = served.ask("POST", &made).expect(201);
    let short = bearer(made["secret"].as_str().unwrap());
    let path = format!("/api/v1/jobs/{job}/ports/3000/view");
    let url = served.nobody("POST", &path).header("Authorization", &short).expect(200);
    let url = url["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let (host, path) = url.split_once('/').unwrap();
    let entered = served.nobody("GET", &format!("/{path}")).host(host).send();
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let theirs = |path: &str| served.nobody("GET", path).host(host).header("Cookie", &cookie);

    let mut stream = theirs("/stream").open();
    read_until(&mut stream, b"one");
    let own = format!("http://{host}");
    let (status, mut first) = socket(&theirs("/socket").header("Origin", &own));
    assert_eq!(status, 101);
    first.write_all(&message("hello")).unwrap();
    read_until(&mut first, b"\x81\x05hello");
    let by_path = format!("/jobs/{job}/ports/3000/socket");
    let (status, mut second) = socket(&served.ask("GET", &by_path));
    assert_eq!(status, 101);
    second.write_all(&message("again")).unwrap();
    read_until(&mut second, b"\x81\x05again");

    // The first is let in by a token that is removed, and so is the stream.
    let gone = format!("/api/v1/tokens/{}", made["token"]["id"].as_str().unwrap());
    served.ask("DELETE", &gone).expect(204);
    assert_eq!(theirs("/").send().status, 401);
    let mut rest = Vec::new();
    // A connection that is reset has ended too.
    drop(first.read_to_end(&mut rest));
    drop(stream.read_to_end(&mut rest));
    assert!(!rest.ends_with(b"0\r\n\r\n"), "a part of it looks like all of it");
    second.write_all(&message("still")).unwrap();
    read_until(&mut second, b"\x81\x05still");

    let mut whole = served.ask("GET", &format!("/jobs/{job}/ports/3000/stream")).open();
    read_until(&mut whole, b"one");
    let go = format!("/api/v1/jobs/{job}/files/content?path=go");
    served.ask("PUT", &go).body("application/octet-stream", "").expect(200);
    read_until(&mut whole, b"two\r\n0\r\n\r\n");

    // The job does not wait for those who look at it.
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    drop(second.read_to_end(&mut Vec::new()));
    served.until(&job, &["cancelled"]);
    let over = served.ask("GET", &format!("/jobs/{job}/ports/3000/"));
    over.refused(409, "API-007");
    served.stop();
}

#[test]
fn hostile_answers_do_no_harm() {
    let (served, job) = serving();
    let at = |path: &str| served.ask("GET", &format!("/jobs/{job}/ports/3001{path}"));
    for path in ["/close", "/endless", "/many", "/inject", "/switch", "/twice", "/noise"] {
        let answer = at(path).send();
        assert_eq!(answer.status, 502, "{path}: {}", answer.head);
        assert_eq!(answer.header("set-cookie"), None, "{path}");
    }
    let raw = |path: &str| {
        let mut bytes = Vec::new();
        drop(at(path).open().read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    // What is cut does not look whole.
    let huge = raw("/huge");
    assert!(huge.to_lowercase().contains("content-length: 10737418240"), "{huge}");
    assert!(huge.ends_with("abc"), "{huge}");
    let garbage = raw("/garbage");
    assert!(!garbage.ends_with("0\r\n\r\n"), "{garbage}");

    // One that never answers holds nobody else up, nor the end of the job.
    let mut never = at("/never").open();
    served.until_file(&job, "never");
    told(&served.ask("GET", &format!("/jobs/{job}/ports/3000/x")).send());
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    let said = read_until(&mut never, b"API-007");
    assert!(said.starts_with(b"HTTP/1.1 409"), "{}", String::from_utf8_lossy(&said));
    served.until(&job, &["cancelled"]);
    served.stop();
}

#[test]
fn a_browser_shows_it_and_its_page_can_do_nothing_here() {
    let (served, job) = serving();
    let place = tempfile::Builder::new().prefix("cofferdam-preview-").tempdir().unwrap();
    let browser = Browser::start(place.path());
    let main = format!("http://{}", served.address);
    browser.open(&main);
    browser.type_into("#token", &served.token);
    browser.click("#token-form button");
    browser.until("!document.querySelector('#room').hidden");
    browser.run(&format!("location.hash = '#/jobs/{job}'"));
    browser.run("window.open = (...given) => { window.__opened = given; }");
    browser.until("document.querySelector('#ports [data-port=\"3000\"]')");
    browser.until("document.querySelector('#events').textContent.includes('3000, 3001')");
    picture(&browser, "previews");
    browser.click("#ports [data-port=\"3000\"]");
    browser.until("window.__opened");
    let opened = browser.run("return window.__opened");
    assert_eq!(opened[2], "noopener,noreferrer");

    browser.open(opened[0].as_str().unwrap());
    browser.until("document.querySelector('#said')?.textContent === 'hello'");
    let href = browser.run("return location.href");
    assert_eq!(href, format!("http://3000-{job}.localhost:{}/", served.address.port()));
    assert_eq!(browser.run("return document.cookie"), "", "the cookie is out of its reach");
    assert_eq!(browser.run("return document.referrer + String(window.opener)"), "null");

    // With whatever it has it gets nothing from us, and changes nothing.
    let tries = "const tries = []; for (const [path, options] of [['/api/v1/jobs', {}], \
                 ['/api/v1/jobs', { credentials: 'include' }], ['/api/v1/jobs/JOB/cancel', { \
                 method: 'POST', credentials: 'include' }], ['/jobs/JOB/ports/3000/', { \
                 credentials: 'include' }]]) tries.push(await fetch('MAIN' + path, \
                 options).then((answer) => answer.status, () => 'blocked')); await \
                 fetch('MAIN/api/v1/jobs/JOB/cancel', { method: 'POST', mode: 'no-cors', \
                 credentials: 'include' }).then(() => 0, () => 0); return tries";
    let tries = browser.run(&tries.replace("MAIN", &main).replace("JOB", &job));
    assert_eq!(tries, json!(["blocked", "blocked", "blocked", "blocked"]));
    let socket = format!(
        "return new Promise((done) => {{ const socket = new WebSocket('ws://{}/api/v1/jobs/{job}/\
         terminal'); socket.onopen = () => done('open'); socket.onerror = () => done('refused'); }})",
        served.address
    );
    assert_eq!(browser.run(&socket), "refused");
    let shown = served.ask("GET", &format!("/api/v1/jobs/{job}")).expect(200);
    assert_eq!(shown["status"], "running");
    // Its own posts and fetches work.
    let own =
        "return (await (await fetch('/post', { method: 'POST', body: 'abc' })).json()).length";
    assert_eq!(browser.run(own), 3);
    // Another port of the same job is another origin.
    let (other, cookie) = enter(&served, &job, 3001);
    let reach = format!("return fetch('http://{other}/noise').then(() => 'read', () => 'blocked')");
    assert_eq!(browser.run(&reach), "blocked");
    drop(cookie);
    drop(browser);
    end(served, &job);
}

/// A picture for the documentation, where it is asked for.
fn picture(browser: &Browser, name: &str) {
    use base64::Engine;
    if std::env::var_os("UPDATE_IMAGES").is_none() {
        return;
    }
    let png = base64::engine::general_purpose::STANDARD.decode(browser.picture()).unwrap();
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images/");
    std::fs::write(format!("{images}{name}.png"), png).unwrap();
}

#[test]
fn a_domain_can_be_named_for_people_elsewhere() {
    let agent = Agent::new(Dialect::Messages, [bash("until [ -e end ]; do sleep 0.1; done")]);
    let names = ["--allow-host", "cofferdam.example", "--preview-domain", "view.example:8443"];
    let served = server_lab::Served::with_options(agent, &names);
    let address = served.url.strip_prefix("http://").unwrap().parse().unwrap();
    let token = bearer(&served.token());
    let ask = |method: &str, path: &str| {
        Ask::new(address, method, path).host("cofferdam.example").header("Authorization", &token)
    };
    let job = served.submit(&["wait"]);
    let view = format!("/api/v1/jobs/{job}/ports/3000/view");
    // A proxy in front of the server speaks TLS.
    let mut answer = Value::Null;
    eventually("a sandbox", || {
        let asked = ask("POST", &view).header("X-Forwarded-Proto", "https").send();
        answer = asked.json();
        asked.status == 200
    });
    let url = answer["url"].as_str().unwrap();
    let host = format!("3000-{job}.view.example:8443");
    let path = url.strip_prefix(&format!("https://{host}")).unwrap();
    let entered = Ask::new(address, "GET", path).host(&host).send();
    assert_eq!(entered.status, 303, "{}", entered.head);
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-cofferdam_view=") && cookie.ends_with("; Secure"));
    let local = Ask::new(address, "GET", "/").host(&format!("3000-{job}.localhost"));
    local.refused(421, "API-010");
    ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, "ended");
}
