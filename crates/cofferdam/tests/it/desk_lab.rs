//! A job with a window on its desktop, and what people see and do of it.

mod film;
mod viewer;

use std::sync::{Arc, Mutex};

use cofferdam_testkit::{Browser, Turn};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::bash;
use crate::eventually;
use crate::home::Home;
use crate::served::{OPTIONS, Served};
pub(crate) use film::{colours, near, probed};
pub(crate) use viewer::{Viewer, ask};

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
    lines = [*label["text"].split("\n"), " ".join(map(str, words))]
    label.configure(text="\n".join(lines[:1] + lines[1:][-8:]))
    # What is said has been drawn: an answer of the server's comes after that.
    root.update_idletasks()
    root.winfo_pointerx()
    print(*words, file=log, flush=True)

def down(event):
    for part in (field, label):
        part.configure(background="#12c834")
    say("down", event.num)

root.bind("<Button>", down)
root.bind("<ButtonRelease>", lambda event: say("up", event.num))
root.bind("<Key>", lambda event: say("key", event.keysym))
root.bind("<KeyRelease>", lambda event: say("released", event.keysym))
root.bind("<FocusIn>", lambda event: pathlib.Path("shown").write_text(""))

def show():
    if not field.winfo_viewable() or field.winfo_width() < 1000:
        root.after(20, show)
        return
    root.focus_force()

root.after(20, show)
root.mainloop()
"##;

pub(crate) const BLUE: [u8; 3] = [0x20, 0x60, 0xc0];
pub(crate) const GREEN: [u8; 3] = [0x12, 0xc8, 0x34];

/// What the desktop's screen is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Xvnc,
    /// Xvfb and x11vnc, because Xvnc is not found.
    Xvfb,
}

/// Where a job has its window, and what it does then.
pub(crate) struct Plan {
    pub(crate) home: Home,
    /// The server's options.
    pub(crate) options: &'static [&'static str],
    pub(crate) screen: Screen,
    /// What the sandbox has.
    pub(crate) memory: &'static str,
    pub(crate) disk: &'static str,
    /// Before the window is there, and after.
    pub(crate) first: Vec<Turn>,
    pub(crate) then: Vec<Turn>,
}

impl Plan {
    /// Waits until `go` is there, clicks, waits until `end` is there, and ends.
    pub(crate) fn at(home: Home) -> Self {
        let click = json!({"action": "left_click", "coordinate": [700, 500]});
        let then = vec![wait("go"), Turn::call("computer", click), wait("end")];
        let (memory, disk) = ("2G", "1G");
        let (options, screen, first) = (OPTIONS, Screen::Xvnc, Vec::new());
        Self { home, options, screen, memory, disk, first, then }
    }
}

/// Waits for a file.
pub(crate) fn wait(file: &str) -> Turn {
    bash(&format!("until [ -e {file} ]; do sleep 0.05; done"))
}

/// A job that has the window on its desktop.
pub(crate) struct Lab {
    pub(crate) served: Served,
    pub(crate) job: String,
    /// What the model was asked, each time.
    pub(crate) asked: Arc<Mutex<Vec<Value>>>,
    pub(crate) place: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::of(Plan::at(Home::new()))
    }

    pub(crate) fn of(plan: Plan) -> Self {
        let Plan { home, options, screen, memory, disk, first, then } = plan;
        let (path, programs) = match screen {
            Screen::Xvnc => ("/usr/bin:/bin", ""),
            Screen::Xvfb => ("/tmp/bin", "/bin/cp -rs /usr/bin /tmp/bin && rm /tmp/bin/Xvnc\n"),
        };
        let write = format!("{programs}cat > window.py <<'END'\n{WINDOW}END\n");
        let start = json!({"command": "python3 window.py", "background": true});
        let mut turns = vec![bash(&write)];
        turns.extend(first);
        turns.push(Turn::call("computer", json!({"action": "screenshot"})));
        turns.push(Turn::call("bash", start));
        turns.push(wait("shown"));
        turns.extend(then);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let served = Served::at(home, options, move |request, said| {
            kept.lock().unwrap().push(request.clone());
            turns.get(said).cloned().unwrap_or_else(|| Turn::text("done"))
        });
        let job = served.submit(&json!({
            "task": "use the desktop", "env": {"PATH": path}, "memory": memory, "disk": disk
        }));
        served.until_file(&job, "shown");
        let place = tempfile::Builder::new().prefix("cofferdam-view-").tempdir().unwrap();
        Self { served, job, asked, place }
    }

    /// A browser at the job's page, with the token entered.
    pub(crate) fn visit(&self) -> Browser {
        let browser = Browser::start(self.place.path());
        browser.open(&format!("http://{}/#/jobs/{}", self.served.address, self.job));
        browser.until("!document.querySelector('#door').hidden");
        browser.type_into("#token", &self.served.token);
        browser.click("#token-form button");
        browser.until("!document.querySelector('#job').hidden");
        browser
    }

    pub(crate) fn at(&self, rest: &str) -> String {
        format!("/api/v1/jobs/{}{rest}", self.job)
    }

    /// What the window has said.
    pub(crate) fn said(&self) -> String {
        self.served.ask("GET", &self.at("/files/content?path=said")).send().text()
    }

    pub(crate) fn until_said(&self, words: &str) {
        eventually(&format!("a window that says {words:?}"), || self.said().contains(words));
    }

    /// Lets the job go on that waits for a file.
    pub(crate) fn put(&self, file: &str) {
        let put = self.served.ask("PUT", &self.at(&format!("/files/content?path={file}")));
        put.body("application/octet-stream", "x").expect(200);
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let page = self.served.ask("GET", &self.at("/events?limit=1000")).expect(200);
        page["events"].as_array().unwrap().clone()
    }

    /// How many calls of `computer` have begun, and how many have ended.
    pub(crate) fn computer_calls(&self) -> (usize, usize) {
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

    /// What a person's command says in the job's sandbox.
    pub(crate) fn exec(&self, command: &str) -> String {
        let exec = self.served.ask("POST", &self.at("/exec"));
        let ran = exec.json(&json!({ "command": command })).expect(200);
        ran["stdout"].as_str().unwrap().to_owned()
    }

    pub(crate) fn end(self) {
        self.served.ask("POST", &self.at("/cancel")).send();
        self.served.until(&self.job, &["cancelled", "complete"]);
        self.served.stop();
    }
}

/// How each call ended, in the order in which they began: status and text. None has ended
/// twice.
pub(crate) fn calls_ended(events: &[Value]) -> Vec<(String, String)> {
    let calls = events.iter().filter(|event| event["event"] == "tool_started");
    let endings = calls.filter_map(|started| {
        let ended: Vec<&Value> = events
            .iter()
            .filter(|event| event["event"] == "tool_ended" && event["call"] == started["call"])
            .collect();
        assert!(ended.len() < 2, "{ended:?}");
        let output = &ended.first()?["output"];
        let content = output["content"].as_array().unwrap();
        let texts: Vec<&str> = content.iter().filter_map(|part| part["text"].as_str()).collect();
        Some((output["status"].as_str().unwrap().to_owned(), texts.join("\n")))
    });
    endings.collect()
}
