//! `kill -9` of a server whose job uses a desktop, code cells and a web server while
//! people watch: the next one takes all of it up, and does nothing twice.

use std::io::Read;

use cofferdam_testkit::Turn;
use serde_json::{Value, json};

use crate::agent::bash;
use crate::desk_lab::{BLUE, GREEN, Lab, Plan, Screen, Viewer, calls_ended, colours, near, wait};
use crate::eventually;
use crate::home::Home;
use crate::served::read_until;

/// Sandboxes wait for the next server, which does not wait long for the one before.
const OPTIONS: &[&str] = &["--linger", "60s", "--lease", "2s"];

fn computer(arguments: Value) -> Turn {
    Turn::call("computer", arguments)
}

fn python(code: &str) -> Turn {
    Turn::call("python", json!({ "code": code }))
}

fn lab(first: Vec<Turn>, then: Vec<Turn>) -> Lab {
    let home = Home::new();
    home.set_up_cells();
    Lab::of(Plan { options: OPTIONS, first, then, ..Plan::at(home) })
}

/// Kills the server, and waits until the next one has taken the job up.
fn kill(lab: &mut Lab) {
    lab.served.kill_and_restart();
    let path = lab.at("/desktop");
    eventually("a job that was taken up", || lab.served.ask("GET", &path).send().status == 200);
}

#[test]
fn desktop_preview_kernel_and_recording_outlive_the_server() {
    let app = json!({"path": "app.py", "content": include_str!("preview/app.py")});
    let serve = "python3 app.py > log 2>&1 & until [ -e ready ]; do sleep 0.05; done; rm ready";
    let first = vec![python("x = 41"), Turn::call("write_file", app), bash(serve)];
    let screenshot = computer(json!({"action": "screenshot"}));
    let then = vec![wait("go"), python("x + 1"), screenshot, wait("end")];
    let mut lab = lab(first, then);
    let recording = lab.at("/desktop/recording");
    let preview = format!("/jobs/{}/ports/3000", lab.job);
    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    assert_eq!(viewer.pixel(900, 600), BLUE);
    let mut looked_at = lab.served.ask("GET", &format!("{preview}/stream")).open();
    read_until(&mut looked_at, b"one");
    assert_eq!(lab.served.ask("POST", &recording).expect(200), json!({"recording": true}));
    let before = lab.exec("pgrep ffmpeg; pgrep -x 'Xvnc|Xtigervnc'; pgrep -f '[i]pykernel_launch'");
    assert_eq!(before.lines().count(), 3, "{before}");

    kill(&mut lab);
    let mut rest = Vec::new();
    drop(looked_at.read_to_end(&mut rest));
    assert!(!rest.ends_with(b"0\r\n\r\n"), "a part of it looks like all of it");
    drop(viewer);

    // The same processes, which people reach as before.
    let after = lab.exec("pgrep ffmpeg; pgrep -x 'Xvnc|Xtigervnc'; pgrep -f '[i]pykernel_launch'");
    assert_eq!(after, before);
    let page = lab.served.ask("GET", &format!("{preview}/")).send();
    assert!(page.text().contains("script.js"), "{}", page.head);
    let view = lab.at("/ports/3000/view");
    let url = lab.served.ask("POST", &view).expect(200)["url"].as_str().unwrap().to_owned();
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let entered = lab.served.nobody("GET", &format!("/{path}")).host(host).send();
    assert_eq!(entered.status, 303, "{}", entered.head);

    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    assert_eq!(viewer.pixel(900, 600), BLUE);
    viewer.say(r#"{"take_over":{}}"#);
    viewer.until_told(r#"{"hands":"yours"}"#);
    viewer.send(&[5, 1, 2, 188, 1, 244]);
    viewer.send(&[5, 0, 2, 188, 1, 244]);
    lab.until_said("up 1");
    eventually("a green window", || viewer.pixel(900, 600) == GREEN);
    viewer.say(r#"{"give_back":{}}"#);
    viewer.until_told(r#"{"hands":"job"}"#);

    // One film from before to after.
    assert_eq!(lab.served.ask("POST", &recording).expect(200), json!({"recording": true}));
    let length = "stat --format=%s ~/.cofferdam/recording/raw.webm";
    let (mut size, mut grown) = (lab.exec(length), 0);
    eventually("pictures of it", || {
        let now = lab.exec(length);
        grown += u32::from(now != size);
        size = now;
        grown == 2
    });
    lab.served.ask("DELETE", &recording).expect(200);
    let film = lab.place.path().join("film.webm");
    std::fs::write(&film, lab.served.ask("GET", &recording).send().body).unwrap();
    let colours = colours(&film);
    assert!(near(&colours[0], BLUE), "{colours:?}");
    assert!(near(colours.last().unwrap(), GREEN), "{colours:?}");

    lab.put("go");
    lab.put("end");
    lab.served.until(&lab.job, &["complete"]);
    let endings = calls_ended(&lab.events());
    for (number, (status, text)) in endings.iter().enumerate() {
        assert_eq!(status, "done", "{number}: {text}");
    }
    let [.., cell, look, _] = endings.as_slice() else { panic!("{endings:?}") };
    assert!(cell.1.contains("42") && !cell.1.contains("new interpreter"), "{cell:?}");
    assert!(!look.1.contains("was started now"), "{look:?}");
    lab.end();
}

#[test]
fn an_action_under_way_is_taken_up_and_nothing_is_done_twice() {
    let wait_inside = "exec --sync sh -c 'until [ -e go ]; do sleep 0.05; done'";
    let script = format!("mousemove 700 500 click 1\n{wait_inside}");
    let letters = "etaoin shrdlu ".repeat(100);
    let then = vec![
        computer(json!({"action": "xdotool", "text": script})),
        computer(json!({"action": "type", "text": letters})),
        wait("typed"),
        // A change is one of what was seen last.
        computer(json!({"action": "screenshot"})),
        computer(json!({"action": "wait_for_change", "duration": 90})),
        wait("end"),
    ];
    let mut lab = lab(Vec::new(), then);
    lab.until_said("up 1");
    kill(&mut lab);
    assert_eq!(lab.said(), "down 1\nup 1\n");
    lab.put("go");

    lab.until_said("key e");
    kill(&mut lab);
    let released = |said: &str| said.lines().filter(|line| line.starts_with("released ")).count();
    eventually("all letters", || released(&lab.said()) >= letters.len());
    eventually("an end of it", || lab.computer_calls() == (3, 3));
    lab.put("typed");

    eventually("an action that waits", || {
        lab.computer_calls() == (5, 4) && lab.exec("pgrep -cf 'desk ac[t]'") == "1\n"
    });
    kill(&mut lab);
    assert_eq!(lab.computer_calls(), (5, 4), "{:?}", calls_ended(&lab.events()).last());
    let click = ". ~/.cofferdam/aide/desk-main/environment; xdotool key F5";
    lab.exec(click);
    eventually("an end of it", || lab.computer_calls() == (5, 5));
    lab.put("end");
    lab.served.until(&lab.job, &["complete"]);

    let endings = calls_ended(&lab.events());
    for (number, (status, text)) in endings.iter().enumerate() {
        assert_eq!(status, "done", "{number}: {text}");
    }
    assert!(endings[8].1.contains("changed after"), "{endings:?}");
    // What the window saw: one click, and each letter once.
    let said = lab.said();
    let count = |line: &str| said.lines().filter(|there| *there == line).count();
    assert_eq!((count("down 1"), count("up 1"), count("key F5")), (1, 1, 1), "{said}");
    let typed: String = said
        .lines()
        .filter_map(|line| line.strip_prefix("key "))
        .filter(|key| *key != "F5")
        .map(|key| if key == "space" { " " } else { key })
        .collect();
    assert_eq!(typed, letters);
    lab.end();
}

/// A person has the desktop and holds a key and a button, and a click of the job waits.
fn killed_with_a_person_at_it(screen: Screen) {
    let mut lab = Lab::of(Plan { options: OPTIONS, screen, ..Plan::at(Home::new()) });
    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    viewer.say(r#"{"take_over":{}}"#);
    viewer.until_told(r#"{"hands":"yours"}"#);
    viewer.send(&[5, 1, 2, 188, 1, 244]);
    viewer.send(&[4, 1, 0, 0, 0, 0, 0, 0x61]);
    lab.until_said("key a");
    lab.until_said("down 1");
    lab.put("go");
    eventually("a click that waits", || lab.computer_calls().0 == 2);

    kill(&mut lab);
    // What was held is released, and the job has its hands back.
    lab.until_said("up 1");
    lab.until_said("released a");
    let desktop = lab.served.ask("GET", &lab.at("/desktop")).expect(200);
    assert_eq!(desktop["hands"], "job", "{desktop}");
    lab.put("end");
    lab.served.until(&lab.job, &["complete"]);
    // Its click was not begun, which is told as not known.
    let endings = calls_ended(&lab.events());
    assert_eq!(endings[5].0, "unknown", "{endings:?}");
    assert_eq!(lab.said().matches("down 1").count(), 1, "{}", lab.said());
    lab.end();
}

#[test]
fn what_a_person_holds_is_released_when_the_server_dies() {
    killed_with_a_person_at_it(Screen::Xvnc);
}

#[test]
fn without_xvnc_what_a_person_holds_is_released_too() {
    killed_with_a_person_at_it(Screen::Xvfb);
}
