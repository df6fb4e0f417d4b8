//! `cofferdam serve` beside a scripted model, and commands that ask it.

use cofferdam_testkit::{Dialect, Recorded, Turn};
use rustix::process::Signal;
use serde_json::Value;

use crate::agent::Agent;
use crate::eventually;
use crate::invocation::{Invocation, Ran, Running};

/// A server with a home of its own. Its commands find its token there.
pub(crate) struct Served {
    running: Option<Running>,
    pub(crate) url: String,
    pub(crate) agent: Agent,
}

impl Served {
    /// A server whose model says this, one turn after another, then "done".
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::beside(Agent::new(Dialect::Messages, turns))
    }

    /// A server whose model looks at each request.
    pub(crate) fn with(script: impl FnMut(&Recorded, usize) -> Turn + Send + 'static) -> Self {
        Self::beside(Agent::with(Dialect::Messages, script))
    }

    fn beside(agent: Agent) -> Self {
        Self::with_options(agent, &[])
    }

    /// A server with more options.
    pub(crate) fn with_options(agent: Agent, options: &[&str]) -> Self {
        let (running, url) = start(&agent, "127.0.0.1:0", options);
        Self { running: Some(running), url, agent }
    }

    /// A command of the user who started the server.
    pub(crate) fn command(&self, words: &[&str]) -> Invocation {
        let mut invocation = self.agent.home.cofferdam(words);
        invocation.command().current_dir(&self.agent.workspace);
        invocation.env("COFFERDAM_SERVER", &self.url)
    }

    /// Runs a command to its end.
    pub(crate) fn ask(&self, words: &[&str]) -> Ran {
        self.command(words).run()
    }

    /// Submits a task, and returns the job's id.
    pub(crate) fn submit(&self, words: &[&str]) -> String {
        let ran = self.ask(&[&["submit"], words].concat()).expect_code(0);
        ran.text().trim_end().to_owned()
    }

    /// A job as the server tells it.
    pub(crate) fn job(&self, id: &str) -> Value {
        serde_json::from_str(&self.ask(&["status", "--json", id]).text()).unwrap()
    }

    /// Waits until a job has such an event.
    pub(crate) fn until(&self, id: &str, kind: &str) {
        let kind = format!("\"event\":\"{kind}\"");
        eventually(&kind, || self.ask(&["logs", "--json", id]).text().contains(&kind));
    }

    /// The token that the server has left.
    pub(crate) fn token(&self) -> String {
        let path = self.agent.home.path().join("token");
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> i32 {
        self.running.as_ref().unwrap().pid()
    }

    /// Kills the server in the middle of things.
    pub(crate) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::KILL);
            running.wait();
        }
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) {
        let address = self.url.strip_prefix("http://").unwrap().to_owned();
        self.running = Some(start(&self.agent, &address, &[]).0);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        if std::thread::panicking() {
            running.signal(Signal::KILL);
            return;
        }
        running.signal(Signal::TERM);
        running.wait().expect_code(0);
    }
}

fn start(agent: &Agent, listen: &str, options: &[&str]) -> (Running, String) {
    // Sandboxes of a server that a test has lost do not wait long for another.
    let words = ["--listen", listen, "--linger", "20s", "--lease", "2s", "--log", "warn"];
    let running = agent.invoke("serve", &[&words, options].concat()).spawn();
    eventually("a server that listens", || {
        assert!(!running.has_ended(), "it has ended");
        running.so_far().contains("listening on ")
    });
    let said = running.so_far();
    let url = said.lines().find_map(|line| line.strip_prefix("listening on ")).unwrap().to_owned();
    (running, url)
}
