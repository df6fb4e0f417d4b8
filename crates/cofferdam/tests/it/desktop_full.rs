//! A sandbox whose disks are full: code cells, the desktop and recordings say so or go
//! on, and the job goes on.

use cofferdam_testkit::Turn;
use serde_json::{Value, json};

use crate::agent::bash;
use crate::desk_lab::{GREEN, Lab, Plan, Viewer, calls_ended, probed, wait};
use crate::eventually;
use crate::home::Home;

/// Fills the workspace and what the home and temporary files are on, to the last byte. No
/// file may be as large as that.
const FILL: &str = "for place in /tmp .; do n=0; while head -c 16M /dev/zero > $place/fill-$n; do \
                    n=$((n + 1)); done; done; ! echo x > /tmp/fill && ! echo x > fill";
const EMPTY: &str = "rm /tmp/fill* fill*";

fn computer(arguments: Value) -> Turn {
    Turn::call("computer", arguments)
}

fn python(code: &str) -> Turn {
    Turn::call("python", json!({ "code": code }))
}

#[test]
fn full_disks_are_told_and_the_job_goes_on() {
    let home = Home::new();
    home.set_up_cells();
    let look = || computer(json!({"action": "screenshot"}));
    let click = json!({"action": "left_click", "coordinate": [700, 500]});
    let first = vec![bash(FILL), python("x = 41"), look(), bash(EMPTY), python("x = 41")];
    let then = vec![
        wait("go"),
        bash(FILL),
        python("x + 1"),
        computer(click),
        computer(json!({"action": "wait_for_change", "duration": 0.2})),
        python("open('/tmp/another', 'w').write('x' * 100000)"),
        bash("until [ -e /dev/shm/end ]; do sleep 0.05; done"),
        bash(EMPTY),
        python("x + 1"),
        look(),
    ];
    let lab = Lab::of(Plan { memory: "1G", disk: "32M", first, then, ..Plan::at(home) });
    let recording = lab.at("/desktop/recording");
    assert_eq!(lab.served.ask("POST", &recording).expect(200), json!({"recording": true}));
    let size = "stat --format=%s ~/.cofferdam/recording/raw.webm";
    eventually("pictures", || lab.exec(size).trim().parse::<u64>().unwrap() > 2000);
    lab.put("go");
    eventually("a job that has used what is full", || calls_ended(&lab.events()).len() == 15);

    // The click was done, although the window cannot write that down.
    let (mut viewer, ..) = Viewer::connect(&lab.served, &lab.job);
    eventually("a green window", || viewer.pixel(900, 600) == GREEN);
    drop(viewer);

    // The recording ended when it could not be written, and what there is of it is not
    // lost.
    eventually("no ffmpeg", || lab.exec("pgrep -c ffmpeg") == "0\n");
    let told = lab.served.ask("POST", &recording).refused(409, "API-007");
    assert!(told["detail"].as_str().unwrap().contains("has ended by itself"), "{told}");
    assert_eq!(lab.served.ask("DELETE", &recording).expect(200)["recording"], false);
    let film = lab.place.path().join("film.webm");
    std::fs::write(&film, lab.served.ask("GET", &recording).send().body).unwrap();
    assert_eq!(probed(&film)["streams"][0]["width"], 1280);
    // Where there is no room at all, another cannot begin, and says so.
    lab.exec("rm -r ~/.cofferdam/recording; head -c 16M /dev/zero > /tmp/fill-more");
    let told = lab.served.ask("POST", &recording).refused(409, "API-007");
    assert!(told["remedy"].as_str().unwrap().contains("the disk"), "{told}");
    lab.exec("touch /dev/shm/end");
    lab.served.until(&lab.job, &["complete"]);

    let ended = calls_ended(&lab.events());
    let is = |number: usize, status: &str, words: &str| {
        let (how, text) = &ended[number];
        assert_eq!(how, status, "{number}: {text}");
        assert!(text.contains(words), "{number}: {text}");
    };
    is(1, "done", "");
    is(2, "failed", "No space left on device");
    is(3, "failed", "No space left on device");
    is(5, "done", "new interpreter");
    is(9, "done", "");
    is(10, "done", "");
    is(11, "done", "42");
    is(12, "done", "screen, 1280x800:");
    is(13, "done", "");
    is(14, "failed", "No space left on device");
    is(17, "done", "42");
    assert!(!ended[17].1.contains("new interpreter"), "{}", ended[17].1);
    is(18, "done", "screen, 1280x800:");
    assert_eq!(ended.len(), 19);
    lab.end();
}
