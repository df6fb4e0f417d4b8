//! A real Chromium for tests, without a window, driven through chromedriver.
//!
//! As much of WebDriver as tests of a page need, over a plain socket: a crate for it
//! would bring an HTTP client into the workspace. The browser reaches loopback
//! addresses only. It goes when it is dropped, and with the test if that is killed.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// Longer than anything takes on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// What chromedriver says before the number of its port.
const STARTED: &str = "started successfully on port ";

/// How WebDriver calls the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Bytes of an answer: a picture of a screen has the longest.
const LONGEST: u64 = 64 << 20;

/// Ctrl and Enter, as keys.
pub const CTRL_ENTER: &str = "\u{e009}\u{e007}";

/// A browser with one tab.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    /// Kept, so that what the driver says has somewhere to go.
    _said: BufReader<ChildStdout>,
    port: u16,
    session: String,
    downloads: PathBuf,
}

impl Browser {
    /// Starts one that keeps its files in this directory of its own.
    ///
    /// # Panics
    /// When Chromium or its driver is not installed, or does not start.
    #[must_use]
    pub fn start(directory: &Path) -> Self {
        let downloads = directory.join("downloads");
        for place in [directory, &downloads] {
            fs::create_dir_all(place)
                .unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        }
        let mut driver = launch(directory);
        let mut said = BufReader::new(driver.stdout.take().unwrap_or_else(|| panic!("no stdout")));
        let port = port(&mut said);
        let session = String::new();
        // From here on it goes when it is dropped.
        let mut browser = Self { driver, _said: said, port, session, downloads };
        let made = browser.ask("POST", "/session", Some(&browser.wishes(directory)));
        browser.session = format!("/session/{}", text(&made["sessionId"]));
        browser
    }

    fn wishes(&self, directory: &Path) -> Value {
        let arguments = [
            "--headless=new".to_owned(),
            // Its own sandbox needs what containers and root do not give. The pages
            // are ours.
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--no-first-run".to_owned(),
            "--no-proxy-server".to_owned(),
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"
                .to_owned(),
            // It goes when the driver does.
            "--remote-debugging-pipe".to_owned(),
            "--window-size=1200,900".to_owned(),
            format!("--user-data-dir={}", directory.join("profile").display()),
        ];
        json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": {
                "binary": "/usr/bin/chromium",
                "args": arguments,
                "prefs": {
                    "download.default_directory": self.downloads,
                    "download.prompt_for_download": false,
                },
            },
        } } })
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn open(&self, url: &str) {
        self.order("/url", &json!({ "url": url }));
    }

    /// Loads the page again.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn reload(&self) {
        self.order("/refresh", &json!({}));
    }

    /// What a function with this body returns, run in the page; promises are waited
    /// for.
    ///
    /// # Panics
    /// When the function throws.
    pub fn run(&self, body: &str) -> Value {
        self.order("/execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Panics
    /// When it stays untrue. The page's text is told.
    #[track_caller]
    pub fn until(&self, expression: &str) {
        let begun = Instant::now();
        while self.run(&format!("return Boolean({expression})")) != true {
            if begun.elapsed() > PATIENCE {
                let page = self.run("return document.body.innerText");
                panic!("in vain: {expression}\nthe page:\n{}\n{:#?}", text(&page), self.console());
            }
            thread::sleep(GLANCE);
        }
    }

    /// The text of the first element that a CSS selector finds, hidden or not; empty
    /// without one.
    ///
    /// # Panics
    /// When the driver fails.
    #[must_use]
    pub fn text(&self, selector: &str) -> String {
        let found = format!("document.querySelector({})", Value::from(selector));
        text(&self.run(&format!("return {found}?.textContent ?? ''")))
    }

    /// Clicks, with the mouse.
    ///
    /// # Panics
    /// When there is no such element, or it cannot be clicked.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.order(&format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Types into a field, with the keyboard.
    ///
    /// # Panics
    /// When there is no such element, or it takes no keys.
    #[track_caller]
    pub fn type_into(&self, selector: &str, keys: &str) {
        let path = format!("/element/{}/value", self.element(selector));
        self.order(&path, &json!({ "text": keys }));
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let wanted = json!({ "using": "css selector", "value": selector });
        text(&self.order("/element", &wanted)[ELEMENT])
    }

    /// What the console has said since it was last asked, the browser's own
    /// complaints included.
    ///
    /// # Panics
    /// When the driver fails.
    #[must_use]
    pub fn console(&self) -> Vec<String> {
        let said = self.order("/se/log", &json!({ "type": "browser" }));
        said.as_array().into_iter().flatten().map(|line| text(&line["message"])).collect()
    }

    /// A picture of the page: a PNG in base64.
    ///
    /// # Panics
    /// When the driver fails.
    #[must_use]
    pub fn picture(&self) -> String {
        text(&self.ask("GET", &format!("{}/screenshot", self.session), None))
    }

    /// Gives a command to Chromium's own debugging protocol.
    ///
    /// # Panics
    /// When it refuses.
    pub fn debug(&self, command: &str, parameters: &Value) {
        let command = json!({ "cmd": command, "params": parameters });
        self.order("/goog/cdp/execute", &command);
    }

    /// Where downloads go.
    #[must_use]
    pub fn downloads(&self) -> &Path {
        &self.downloads
    }

    #[track_caller]
    fn order(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), Some(body))
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = exchange(self.port, method, path, body)
            .unwrap_or_else(|error| panic!("chromedriver, {method} {path}: {error}"));
        let error = &answer["value"]["error"];
        assert!(error.is_null(), "chromedriver, {method} {path}: {error} {:#}", answer["value"]);
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Politely first, so that the profile is not written to any more.
        if !self.session.is_empty() {
            drop(exchange(self.port, "DELETE", &self.session, None));
        }
        let group = i32::try_from(self.driver.id()).unwrap_or_default();
        self.driver.kill().ok();
        self.driver.wait().ok();
        if let Some(pid) = Pid::from_raw(group) {
            kill_process_group(pid, Signal::KILL).ok();
        }
        let begun = Instant::now();
        loop {
            let left = group_members(group);
            if left.is_empty() {
                return;
            }
            if begun.elapsed() > PATIENCE {
                assert!(thread::panicking(), "left of the browser: {left:?}");
                return;
            }
            thread::sleep(GLANCE);
        }
    }
}

/// The driver, in a process group that the browser is in too. It goes with the thread
/// that has started it.
#[expect(clippy::disallowed_methods, reason = "a browser, in tests")]
fn launch(directory: &Path) -> Child {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig=KILL", "chromedriver", "--port=0"]).process_group(0);
    command.env("HOME", directory).env("TMPDIR", directory);
    for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DISPLAY"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("setpriv chromedriver: {error}"))
}

fn port(said: &mut BufReader<ChildStdout>) -> u16 {
    let mut all = String::new();
    loop {
        let before = all.len();
        let read = said.read_line(&mut all).unwrap_or_default();
        assert!(read > 0, "chromedriver does not start: {all}");
        let line = all.get(before..).unwrap_or_default();
        if let Some((_, rest)) = line.split_once(STARTED) {
            let digits = rest.trim().trim_end_matches('.');
            return digits.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A request to the driver and its answer.
fn exchange(port: u16, method: &str, path: &str, body: Option<&Value>) -> io::Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = BufReader::new(stream).take(LONGEST);
    let mut head = Vec::new();
    // The driver keeps the connection, whatever it is told.
    while !head.ends_with(b"\r\n\r\n") {
        if answer.read_until(b'\n', &mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Response::new(&mut headers);
    parsed.parse(&head).map_err(io::Error::other)?;
    let mut headers = parsed.headers.iter();
    let length = headers.find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
    let length = length.ok_or_else(|| io::Error::other("the answer has no length"))?;
    serde_json::from_reader(answer.take(length)).map_err(io::Error::other)
}

/// The processes of a group that are still alive.
fn group_members(group: i32) -> Vec<i32> {
    let belongs = |pid: &i32| -> Option<bool> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut rest = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let alive = rest.next()? != "Z";
        Some(alive && rest.nth(1)?.parse() == Ok(group))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid| belongs(pid) == Some(true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_runs_scripts_and_leaves_nothing() {
        let place = tempfile::Builder::new().prefix("cofferdam-browser-").tempdir().unwrap();
        let browser = Browser::start(place.path());
        browser.open("data:text/html,<title>x</title><input id=a><b id=b>text</b>");
        browser.type_into("#a", "typed");
        assert_eq!(browser.run("return document.querySelector('#a').value"), "typed");
        assert_eq!(browser.text("#b"), "text");
        assert_eq!(browser.run("return await Promise.resolve(6 * 7)"), 42);
        let group = i32::try_from(browser.driver.id()).unwrap();
        assert!(group_members(group).len() > 2, "the browser is in the group of its driver");
        drop(browser);
        assert_eq!(group_members(group), Vec::<i32>::new());
        place.close().unwrap();
    }
}
