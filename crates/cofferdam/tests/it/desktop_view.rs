//! A job's desktop in a real browser: watched live, taken over, given back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_testkit::Browser;
use serde_json::json;

use crate::agent::bash;
use crate::desk_lab::{BLUE, GREEN, Lab, Plan, Screen, Viewer, ask, colours, near, probed};
use crate::eventually;
use crate::home::Home;
use crate::served::Served;

fn state_is(state: &str) -> String {
    format!("document.querySelector('#desk').dataset.state === '{state}'")
}

/// Waits until the canvas shows this colour at a point of the desktop, about: pictures
/// may come as JPEG.
fn until_pixel(browser: &Browser, colour: [u8; 3]) {
    let near = format!(
        "(() => {{ const canvas = document.querySelector('#desk-screen canvas'); if \
         (!canvas?.width) return false; const copy = document.createElement('canvas'); const point \
         = copy.getContext('2d', {{ willReadFrequently: true }}); point.drawImage(canvas, -900, \
         -600); const pixel = point.getImageData(0, 0, 1, 1).data; return {colour:?}.every((wanted, at) => Math.abs(wanted - pixel[at]) < \
         8); }})()"
    );
    browser.until(&near);
}

/// Keeps a picture of the page where `docs/` shows it, if somebody wants it made anew.
fn keep_picture(browser: &Browser, name: &str) {
    if std::env::var_os("UPDATE_IMAGES").is_none() {
        return;
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images/");
    let png = STANDARD.decode(browser.picture()).unwrap();
    std::fs::write(format!("{path}{name}"), png).unwrap();
}

#[test]
fn a_person_watches_takes_over_and_gives_back() {
    let lab = Lab::new();
    lab.served.home().set_up_cells();
    let browser = lab.visit();
    browser.click("#desk-watch");
    browser.until(&state_is("watching"));
    until_pixel(&browser, BLUE);
    assert!(browser.text("#desk-state").contains("You watch"), "{}", browser.text("#desk-state"));

    // A click of a watcher does nothing. What the page shows afterwards was asked for
    // after it.
    browser.click("#desk-screen canvas");
    let (mut beside, width, height) = Viewer::connect(&lab.served, &lab.job);
    assert_eq!((width, height), (1280, 800));
    assert_eq!(beside.pixel(900, 600), BLUE);
    assert_eq!(lab.said(), "", "{}", lab.said());

    browser.click("#desk-hands");
    browser.until(&state_is("acting"));
    beside.until_told(r#"{"hands":"other"}"#);
    let desktop = lab.served.ask("GET", &lab.at("/desktop")).expect(200);
    assert_eq!(desktop, json!({"running": true, "width": 1280, "height": 800, "hands": "other"}));
    // Only one at a time.
    beside.say(r#"{"take_over":{}}"#);
    beside.until_told("another person has taken over");

    // The job wants to click, and waits.
    lab.put("go");
    eventually("a click that waits", || lab.computer_calls().0 == 2);
    browser.click("#desk-screen canvas");
    lab.until_said("up 1");
    until_pixel(&browser, GREEN);
    let keys = "const canvas = document.querySelector('#desk-screen canvas'); for (const type of \
                ['keydown', 'keyup']) canvas.dispatchEvent(new KeyboardEvent(type, { key: 'q', \
                code: 'KeyQ', bubbles: true }))";
    browser.run(keys);
    lab.until_said("key q");
    keep_picture(&browser, "desktop.png");
    assert_eq!(lab.computer_calls(), (2, 1), "the job's click waits");
    browser.click("#desk-hands");
    browser.until(&state_is("watching"));
    beside.until_told(r#"{"hands":"job"}"#);

    // The model is told, with a picture from before and one from after.
    eventually("an answer to the click", || lab.computer_calls() == (2, 2));
    lab.put("end");
    lab.served.until(&lab.job, &["complete"]);
    browser.until("document.querySelector('#desk').hidden");
    let mut asked = lab.asked.lock().unwrap().clone();
    // The last one was asked after it had waited.
    asked.pop();
    let told = asked.last().unwrap()["messages"].as_array().unwrap().last().unwrap().clone();
    let content = told["content"][0]["content"].as_array().unwrap();
    let text = told.to_string();
    assert!(text.contains("A person had the desktop for"), "{content:?}");
    assert!(text.contains("not done"), "the model decides anew: {content:?}");
    let pictures = content.iter().filter(|part| part["type"] == "image").count();
    assert!(pictures >= 2, "{content:?}");
    assert_eq!(browser.console(), Vec::<String>::new());
    drop(beside);
    lab.end();
}

#[test]
fn whoever_watches_cannot_act_whatever_is_sent() {
    watched(Lab::new());
}

#[test]
fn an_ordinary_user_watches_and_takes_over_too() {
    watched(Lab::of(Plan::at(Home::of_ordinary_user())));
}

#[test]
fn without_xvnc_people_watch_and_take_over_too() {
    let lab = Lab::of(Plan { screen: Screen::Xvfb, ..Plan::at(Home::of_ordinary_user()) });
    assert_eq!(lab.exec("pgrep -c 'Xvnc|Xtigervnc'; pgrep -c x11vnc"), "0\n1\n");
    watched(lab);
}

fn watched(lab: Lab) {
    let press = |down: u8| [5, down, 2, 188, 1, 244];
    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    viewer.until_told(r#"{"hands":"job"}"#);
    for bytes in
        [&press(1)[..], &press(0), &[4, 1, 0, 0, 0, 0, 0, 0x61], &[4, 0, 0, 0, 0, 0, 0, 0x61]]
    {
        viewer.send(bytes);
    }
    // In pieces that are no messages, and keys by their place.
    for byte in [&press(1)[..], &press(0)].concat() {
        viewer.send(&[byte]);
    }
    viewer.send(&[255, 0, 0, 1, 0, 0, 0, 0x62, 0, 0, 0, 0x30]);
    // A viewer beside the server looks at the screen from time to time only.
    eventually("a blue window", || viewer.pixel(900, 600) == BLUE);
    assert_eq!(lab.said(), "");

    // Whoever takes over acts, and what is held then is released when the connection
    // goes.
    viewer.say(r#"{"take_over":{}}"#);
    viewer.until_told(r#"{"hands":"yours"}"#);
    viewer.send(&press(1));
    viewer.send(&[4, 1, 0, 0, 0, 0, 0, 0x61]);
    // The window manager looks at a button first, so that a key may overtake it.
    lab.until_said("key a");
    lab.until_said("down 1");
    eventually("a green window", || viewer.pixel(900, 600) == GREEN);
    // A key that is held repeats itself. Nothing else came before.
    let said = lab.said();
    let (keys, others): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| *line == "key a");
    assert!(!keys.is_empty() && others == ["down 1"], "{said}");
    drop(viewer);
    lab.until_said("released a");
    lab.until_said("up 1");
    eventually("hands that are the job's", || {
        lab.served.ask("GET", &lab.at("/desktop")).expect(200)["hands"] == "job"
    });

    // What is not known ends the connection, with a reason.
    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    viewer.send(&[7, 0, 0, 0]);
    viewer.until_closed("messages of type 7 are not taken");
    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    viewer.say("give me the hands");
    viewer.until_closed("a text message was no control");
    lab.end();
}

#[test]
fn a_recording_shows_the_desktop_with_chapters_of_what_the_job_did() {
    let lab = Lab::new();
    let path = lab.at("/desktop/recording");
    for method in ["GET", "POST", "DELETE"] {
        lab.served.nobody(method, &path).refused(401, "API-002");
    }
    lab.served.ask("GET", &path).refused(404, "API-004");
    lab.served.ask("DELETE", &path).refused(404, "API-004");
    for _ in 0..2 {
        let begun = lab.served.ask("POST", &path).expect(200);
        assert_eq!(begun, json!({"recording": true}));
    }
    let exec = |command: &str| lab.exec(command);
    let length = "stat --format=%s ~/.cofferdam/recording/raw.webm || echo 0";
    eventually("a film with something in it", || exec(length) != "0\n");
    assert_eq!(exec("pgrep -c ffmpeg"), "1\n", "one at a time");
    lab.put("go");
    eventually("a click, and what comes after it", || {
        let events = lab.events();
        let started = events.iter().filter(|event| event["event"] == "tool_started");
        lab.computer_calls() == (2, 2) && started.count() == 7
    });
    // The click turns the window green, which is in the film's last pictures.
    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    eventually("a green window", || viewer.pixel(900, 600) == GREEN);
    let (mut size, mut grown) = (exec(length), 0);
    eventually("pictures of it", || {
        let now = exec(length);
        grown += u32::from(now != size);
        size = now;
        grown == 2
    });
    let ended = lab.served.ask("DELETE", &path).expect(200);
    assert_eq!(ended["recording"], false);
    let film = lab.served.ask("GET", &path).send();
    assert_eq!(film.header("content-type"), Some("video/webm"));
    assert_eq!(ended["bytes"], film.body.len());
    let file = lab.place.path().join("film.webm");
    std::fs::write(&file, &film.body).unwrap();
    let about = probed(&file);
    let stream = &about["streams"][0];
    assert_eq!((&stream["codec_name"], &stream["width"]), (&json!("vp8"), &json!(1280)));
    let titles: Vec<&str> = about["chapters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chapter| chapter["tags"]["title"].as_str().unwrap())
        .collect();
    // The job may still have been on its way to where it waits when it was begun.
    assert!(titles.ends_with(&["bash", "computer", "bash"]), "{about}");
    let colours = colours(&file);
    assert!(near(&colours[0], BLUE), "{colours:?}");
    assert!(near(colours.last().unwrap(), GREEN), "{colours:?}");
    lab.served.ask("DELETE", &path).refused(404, "API-004");
    eventually("no ffmpeg", || exec("pgrep -c ffmpeg") == "0\n");
    lab.end();
}

#[test]
fn without_ffmpeg_a_recording_says_how_to_get_it() {
    let served = Served::new([bash("echo first > here; exec /bin/sleep 600")]);
    let job = json!({"task": "work", "env": {"PATH": "/nowhere"}});
    let job = served.submit(&job);
    served.until_file(&job, "here");
    let told = served.ask("POST", &format!("/api/v1/jobs/{job}/desktop/recording"));
    let told = told.refused(409, "API-007");
    assert!(told["remedy"].as_str().unwrap().contains("apt-get install ffmpeg"), "{told}");
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    served.stop();
}

#[test]
fn a_desktop_is_for_whoever_has_a_token() {
    let served = Served::new([bash("echo first > here; sleep 600")]);
    let job = served.submit(&json!({"task": "work"}));
    served.until_file(&job, "here");
    let path = format!("/api/v1/jobs/{job}/desktop");
    for method in ["GET", "POST"] {
        served.nobody(method, &path).refused(401, "API-002");
    }
    let status = |headers: &[(&str, &str)]| {
        let (head, _stream) = ask(&served, &job, headers);
        head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let bearer = format!("Bearer {}", served.token);
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("Sec-WebSocket-Protocol", "binary, bearer.cof_x")]), 401);
    assert_eq!(status(&[("Authorization", &bearer), ("Origin", "https://evil.example")]), 403);
    assert_eq!(status(&[("Authorization", &bearer), ("Sec-WebSocket-Protocol", "chat")]), 400);
    served.ask("GET", &format!("{path}/screen")).refused(426, "API-018");

    // Nothing is started by looking.
    let state = served.ask("GET", &path).expect(200);
    assert_eq!(state, json!({"running": false, "hands": "job"}));
    assert_eq!(status(&[("Authorization", &bearer)]), 409);
    let state = served.ask("POST", &path).expect(200);
    assert_eq!(state, json!({"running": true, "width": 1280, "height": 800, "hands": "job"}));
    assert_eq!(served.ask("POST", &path).expect(200), state);
    assert_eq!(status(&[("Authorization", &bearer), ("Sec-WebSocket-Protocol", "binary")]), 101);
    let other = served.new_user("other");
    let asked = served.nobody("POST", &path).header("Authorization", &format!("Bearer {other}"));
    asked.refused(404, "API-004");

    // The viewer's modules are for everybody, once they are there.
    let module = "/assets/novnc/core/rfb.js";
    let told = served.nobody("GET", module).refused(404, "API-004");
    assert!(told["remedy"].as_str().unwrap().contains("cofferdam setup"), "{told}");
    served.home().set_up_cells();
    let answer = served.nobody("GET", module).send();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/javascript; charset=utf-8"));
    for path in ["package.json", "../../.ready", "%2e%2e/x.js", "core/no.js"] {
        served.nobody("GET", &format!("/assets/novnc/{path}")).refused(404, "API-004");
    }
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    served.ask("POST", &path).refused(409, "API-007");
    served.stop();
}
