//! JupyterLab in a job's sandbox, on the kernels of its cells.

use std::io::Write;
use std::net::TcpStream;

use cofferdam_testkit::{Browser, Turn};
use serde_json::json;

use crate::agent::bash;
use crate::eventually;
use crate::home::Home;
use crate::served::{OPTIONS, Served, bearer, read_until};

/// A text message of a client, masked by zeros.
fn message(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x81, 0x80 | 126];
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn execute(stream: &mut TcpStream, code: &str) {
    let header = json!({
        "msg_id": "1", "msg_type": "execute_request", "username": "", "session": "s",
        "date": "2026-01-01T00:00:00Z", "version": "5.4",
    });
    let request = json!({
        "channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "buffers": [],
        "content": {"code": code, "silent": false, "store_history": false,
            "user_expressions": {}, "allow_stdin": false, "stop_on_error": true},
    });
    stream.write_all(&message(&request.to_string())).unwrap();
}

#[test]
fn jupyterlab_opens_on_the_kernels_of_the_job() {
    let cell = json!({"code": "answer = 6 * 7"});
    let wait = bash("touch here; until [ -e end ]; do sleep 0.1; done");
    let served = Served::new([Turn::call("python", cell), wait]);
    served.home().set_up_cells();
    let job = served.submit(&json!({"task": "calculate"}));
    served.until_file(&job, "here");
    let lab = || {
        let answer = served.ask("POST", &format!("/api/v1/jobs/{job}/lab")).expect(200);
        answer["url"].as_str().unwrap().to_owned()
    };
    let url = lab();
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    assert_eq!(served.nobody("GET", "/lab").host(host).send().status, 401);
    let entered = served.nobody("GET", &format!("/{path}")).host(host).send();
    assert_eq!((entered.status, entered.header("location")), (303, Some("/lab")));
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let get = |path: &str| served.nobody("GET", path).host(host).header("Cookie", &cookie);
    let page = get("/lab").send();
    assert_eq!(page.status, 200, "{}", page.head);
    assert!(page.text().contains("<title>JupyterLab</title>"));

    let kernels = get("/api/kernels").expect(200);
    assert_eq!(kernels.as_array().unwrap().len(), 1, "{kernels}");
    assert_eq!(kernels[0]["name"], "python3");
    let channels = format!("/api/kernels/{}/channels", kernels[0]["id"].as_str().unwrap());
    let own = format!("http://{host}");
    let mut stream = get(&channels).header("Origin", &own).upgrade();
    read_until(&mut stream, b"\r\n\r\n");
    execute(&mut stream, "print('the answer is', answer)");
    read_until(&mut stream, b"the answer is 42");

    // Whoever asks again gets the same one; kernels are no web servers.
    assert!(lab().starts_with(&format!("http://{host}/lab?")));
    let ports = served.ask("GET", &format!("/api/v1/jobs/{job}/ports")).expect(200);
    assert_eq!(ports["ports"].as_array().unwrap().len(), 1, "{ports}");

    let place = tempfile::Builder::new().prefix("cofferdam-lab-").tempdir().unwrap();
    let browser = Browser::start(place.path());
    browser.open(&lab());
    browser.until("document.querySelector('#jp-main-dock-panel')");
    drop(browser);
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    served.stop();
}

/// How many processes of a job's sandbox have this in their arguments.
fn count(served: &Served, job: &str, words: &str) -> u32 {
    let look = json!({"command": format!("pgrep -fc '{words}'")});
    let ask = served.ask("POST", &format!("/api/v1/jobs/{job}/exec"));
    ask.json(&look).expect(200)["stdout"].as_str().unwrap().trim().parse().unwrap()
}

/// Whether JupyterLab runs in a job's sandbox.
fn runs(served: &Served, job: &str) -> bool {
    // The brackets keep the shell from finding itself.
    let found = count(served, job, "[j]upyter-lab --no-browser");
    assert!(found < 2, "{found}");
    found == 1
}

/// Where a job's JupyterLab is, for a browser.
fn address(served: &Served, job: &str) -> String {
    let lab = served.ask("GET", &format!("/jobs/{job}/lab")).send();
    assert_eq!(lab.status, 303, "{}{}", lab.head, lab.text());
    lab.header("location").unwrap().to_owned()
}

/// The host of a job's JupyterLab, and the cookie that it is entered by.
fn enter(served: &Served, job: &str) -> (String, String) {
    let url = address(served, job);
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let entered = served.nobody("GET", &format!("/{path}")).host(host).send();
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap();
    (host.to_owned(), cookie.to_owned())
}

#[test]
fn jupyterlab_ends_when_nobody_uses_it_and_comes_back() {
    let home = Home::new();
    home.set_up_cells();
    let settings = home.make_directory("user").join(".config/cofferdam");
    std::fs::create_dir_all(&settings).unwrap();
    home.make_file(&settings.join("config.toml"), "[sandbox]\nidle = \"5s\"\n");
    let served = Served::at(home, OPTIONS, |_, _| {
        // On an interpreter of the job's, which is no reason for JupyterLab to stay.
        let cells = "import pathlib, time\npathlib.Path('here').touch()\ntime.sleep(600)";
        Turn::call("python", json!({"code": cells, "timeout": 600}))
    });
    let jobs = ["be looked at", "be left alone"].map(|task| served.submit(&json!({"task": task})));
    let [used, unused] = &jobs;
    for job in &jobs {
        served.until_file(job, "here");
    }
    // Somebody is connected, until a page of it is open in a browser.
    let (host, cookie) = enter(&served, used);
    let (own, events) = (format!("http://{host}"), "/api/events/subscribe");
    let get = |path: &str| served.nobody("GET", path).host(&host).header("Cookie", &cookie);
    let mut connection = get(events).header("Origin", &own).upgrade();
    assert!(read_until(&mut connection, b"\r\n\r\n").starts_with(b"HTTP/1.1 101"));
    let place = tempfile::Builder::new().prefix("cofferdam-lab-").tempdir().unwrap();
    let browser = Browser::start(place.path());
    browser.open(&address(&served, used));
    browser.until("document.querySelector('#jp-main-dock-panel')");
    drop(connection);
    enter(&served, unused);
    eventually("the end of the one that nobody uses", || !runs(&served, unused));
    // The page was open for longer than that, and nobody touched it.
    assert!(runs(&served, used));
    drop(browser);
    eventually("the end of the other one", || !runs(&served, used));

    for job in &jobs {
        assert_eq!(count(&served, job, "[i]pykernel_launcher"), 1, "the job's own goes on");
        let (host, cookie) = enter(&served, job);
        let page = served.nobody("GET", "/lab").host(&host).header("Cookie", &cookie).send();
        assert!(page.text().contains("<title>JupyterLab</title>"), "{}", page.head);
        served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    }
    for job in &jobs {
        served.until(job, &["cancelled"]);
    }
    served.stop();
}

#[test]
fn its_address_leads_there_and_no_other_site_does() {
    let served = Served::new([bash("touch here; until [ -e end ]; do sleep 0.1; done")]);
    served.home().set_up_cells();
    let job = served.submit(&json!({"task": "wait"}));
    served.until_file(&job, "here");
    let path = format!("/jobs/{job}/lab");
    served.nobody("GET", &path).refused(401, "API-002");
    let other = bearer(&served.new_user("other"));
    served.nobody("GET", &path).header("Authorization", &other).refused(404, "API-004");
    for (name, value) in [("Sec-Fetch-Site", "cross-site"), ("Origin", "https://evil.example")] {
        served.ask("GET", &path).header(name, value).refused(403, "API-011");
    }
    assert!(!runs(&served, &job), "it was refused, and started all the same");
    let (host, cookie) = enter(&served, &job);
    let page = served.nobody("GET", "/lab").host(&host).header("Cookie", &cookie).send();
    assert!(page.text().contains("<title>JupyterLab</title>"), "{}", page.head);
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    served.ask("GET", &path).refused(409, "API-007");
    served.stop();
}

#[test]
fn where_there_is_none_it_says_how_to_get_it() {
    let served = Served::new([bash("touch here; until [ -e end ]; do sleep 0.1; done")]);
    let job = served.submit(&json!({"task": "wait"}));
    served.until_file(&job, "here");
    let lab = served.ask("POST", &format!("/api/v1/jobs/{job}/lab"));
    let told = lab.refused(422, "API-012");
    assert!(told["remedy"].as_str().unwrap().contains("cofferdam setup"), "{told}");
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    served.stop();
}
