//! A job's desktop in a real browser: watched live, taken over, given back.

mod viewer;

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_testkit::{Browser, Turn};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::bash;
use crate::eventually;
use crate::served::Served;
use viewer::{Viewer, ask};

/// A window over the whole screen, of one colour, that says what happens to it.
const WINDOW: &str = r##"
import pathlib, tkinter

root = tkinter.Tk()
root.title("Seen")
root.geometry("1280x800+0+0")
field = tkinter.Frame(root, background="#2060c0")
field.pack(fill="both", expand=True)
label = tkinter.Label(field, background="#2060c0", foreground="white", justify="left")
label.configure(font=("DejaVu Sans", 30), text="A program in the sandbox")
label.place(x=60, y=60)
log = open("said", "a", buffering=1)

def say(*words):
    print(*words, file=log, flush=True)
    lines = [*label["text"].split("\n"), " ".join(map(str, words))]
    label.configure(text="\n".join(lines[:1] + lines[1:][-8:]))

def down(event):
    say("down", event.num)
    for part in (field, label):
        part.configure(background="#12c834")

root.bind("<Button>", down)
root.bind("<ButtonRelease>", lambda event: say("up", event.num))
root.bind("<Key>", lambda event: say("key", event.keysym))
root.bind("<KeyRelease>", lambda event: say("released", event.keysym))
root.bind("<FocusIn>", lambda event: pathlib.Path("ready").write_text(""))

def show():
    if not field.winfo_viewable() or field.winfo_width() < 1000:
        root.after(20, show)
        return
    root.focus_force()

root.after(20, show)
root.mainloop()
"##;

const BLUE: [u8; 3] = [0x20, 0x60, 0xc0];
const GREEN: [u8; 3] = [0x12, 0xc8, 0x34];

/// A job that has the window on its desktop, waits until `go` is there, clicks, waits
/// until `end` is there, and ends.
struct Lab {
    served: Served,
    job: String,
    /// What the model was asked, each time.
    asked: Arc<Mutex<Vec<Value>>>,
    place: TempDir,
}

impl Lab {
    fn new() -> Self {
        let write = format!("cat > window.py <<'END'\n{WINDOW}END\n");
        let wait = |file: &str| bash(&format!("until [ -e {file} ]; do sleep 0.05; done"));
        let start = json!({"command": "python3 window.py", "background": true});
        let turns = [
            bash(&write),
            Turn::call("computer", json!({"action": "screenshot"})),
            Turn::call("bash", start),
            wait("go"),
            Turn::call("computer", json!({"action": "left_click", "coordinate": [700, 500]})),
            wait("end"),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let served = Served::with(move |request, said| {
            kept.lock().unwrap().push(request.clone());
            turns.get(said).cloned().unwrap_or_else(|| Turn::text("done"))
        });
        let job = served.submit(&json!({"task": "use the desktop"}));
        served.until_file(&job, "ready");
        let place = tempfile::Builder::new().prefix("cofferdam-view-").tempdir().unwrap();
        Self { served, job, asked, place }
    }

    /// A browser at the job's page, with the token entered.
    fn visit(&self) -> Browser {
        let browser = Browser::start(self.place.path());
        browser.open(&format!("http://{}/#/jobs/{}", self.served.address, self.job));
        browser.until("!document.querySelector('#door').hidden");
        browser.type_into("#token", &self.served.token);
        browser.click("#token-form button");
        browser.until("!document.querySelector('#job').hidden");
        browser
    }

    fn at(&self, rest: &str) -> String {
        format!("/api/v1/jobs/{}{rest}", self.job)
    }

    /// What the window has said.
    fn said(&self) -> String {
        self.served.ask("GET", &self.at("/files/content?path=said")).send().text()
    }

    fn until_said(&self, words: &str) {
        eventually(&format!("a window that says {words:?}"), || self.said().contains(words));
    }

    /// Lets the job go on that waits for a file.
    fn put(&self, file: &str) {
        let put = self.served.ask("PUT", &self.at(&format!("/files/content?path={file}")));
        put.body("application/octet-stream", "x").expect(200);
    }

    fn events(&self) -> Vec<Value> {
        let page = self.served.ask("GET", &self.at("/events?limit=1000")).expect(200);
        page["events"].as_array().unwrap().clone()
    }

    /// How many calls of `computer` have begun, and how many have ended.
    fn computer_calls(&self) -> (usize, usize) {
        let events = self.events();
        let calls: Vec<&Value> = events
            .iter()
            .filter(|event| event["event"] == "tool_started" && event["tool"] == "computer")
            .map(|event| &event["call"])
            .collect();
        let ended = events
            .iter()
            .filter(|event| event["event"] == "tool_ended" && calls.contains(&&event["call"]));
        (calls.len(), ended.count())
    }

    fn end(self) {
        self.served.ask("POST", &self.at("/cancel")).send();
        self.served.until(&self.job, &["cancelled", "complete"]);
        self.served.stop();
    }
}

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
    let lab = Lab::new();
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
    assert_eq!(viewer.pixel(900, 600), BLUE);
    assert_eq!(lab.said(), "");

    // Whoever takes over acts, and what is held then is released when the connection
    // goes.
    viewer.say(r#"{"take_over":{}}"#);
    viewer.until_told(r#"{"hands":"yours"}"#);
    viewer.send(&press(1));
    viewer.send(&[4, 1, 0, 0, 0, 0, 0, 0x61]);
    lab.until_said("key a");
    assert!(!lab.said().contains("up 1") && !lab.said().contains("released"), "{}", lab.said());
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

/// What ffprobe says of a film.
fn probed(film: &std::path::Path) -> Value {
    let mut probe = std::process::Command::new("ffprobe");
    probe.args(["-v", "error", "-of", "json", "-show_format", "-show_streams", "-show_chapters"]);
    let ran = probe.arg(film).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The colour of one place in each picture of a film.
fn colours(film: &std::path::Path) -> Vec<Vec<u8>> {
    let mut decode = std::process::Command::new("ffmpeg");
    decode.args(["-nostdin", "-v", "error", "-i"]).arg(film);
    decode.args(["-vf", "crop=2:2:900:600", "-pix_fmt", "rgb24", "-f", "rawvideo", "-"]);
    let ran = decode.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout.chunks(12).map(|picture| picture[..3].to_vec()).collect()
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
    let exec = |command: &str| {
        let exec = lab.served.ask("POST", &lab.at("/exec"));
        exec.json(&json!({"command": command})).expect(200)["stdout"].clone()
    };
    let length = "stat --format=%s ~/.cofferdam/recording/raw.webm || echo 0";
    eventually("a film with something in it", || exec(length) != "0\n");
    assert_eq!(exec("pgrep -c ffmpeg"), "1\n", "one at a time");
    lab.put("go");
    eventually("a click, and what comes after it", || {
        let events = lab.events();
        let started = events.iter().filter(|event| event["event"] == "tool_started");
        lab.computer_calls() == (2, 2) && started.count() == 6
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
    let near = |colour: &[u8], wanted: [u8; 3]| {
        colour.iter().zip(wanted).all(|(seen, wanted)| seen.abs_diff(wanted) < 24)
    };
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
