//! JupyterLab in a job's sandbox, on the kernels of its cells.

use std::io::Write;
use std::net::TcpStream;

use cofferdam_testkit::{Browser, Turn};
use serde_json::json;

use crate::agent::bash;
use crate::served::{Served, read_until};

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
