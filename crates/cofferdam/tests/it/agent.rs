//! `cofferdam run` beside a scripted model.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_testkit::{Dialect, Recorded, ScriptedServer, Turn};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::home::Home;
use crate::invocation::{Invocation, Ran};

/// A model server with a thread of its own, and a directory to work in.
pub(crate) struct Agent {
    pub(crate) home: Home,
    pub(crate) workspace: PathBuf,
    pub(crate) dialect: Dialect,
    server: ScriptedServer,
    _runtime: Runtime,
}

impl Agent {
    /// A model that says this, one turn after another, then "done".
    pub(crate) fn new(dialect: Dialect, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::at(Home::new(), dialect, turns)
    }

    /// The same in a home of its own.
    pub(crate) fn at(home: Home, dialect: Dialect, turns: impl IntoIterator<Item = Turn>) -> Self {
        let turns: Vec<Turn> = turns.into_iter().collect();
        Self::with_home(home, dialect, move |_, number| {
            turns.get(number).cloned().unwrap_or_else(|| Turn::text("done"))
        })
    }

    /// A model that looks at each request.
    pub(crate) fn with(
        dialect: Dialect,
        script: impl FnMut(&Recorded, usize) -> Turn + Send + 'static,
    ) -> Self {
        Self::with_home(Home::new(), dialect, script)
    }

    /// The same in a home of its own.
    pub(crate) fn with_home(
        home: Home,
        dialect: Dialect,
        script: impl FnMut(&Recorded, usize) -> Turn + Send + 'static,
    ) -> Self {
        let workspace = home.make_directory("work");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(ScriptedServer::with(script)).unwrap();
        Self { home, workspace, dialect, server, _runtime: runtime }
    }

    /// `cofferdam run` with these words, in the workspace, with this model.
    pub(crate) fn run(&self, words: &[&str]) -> Invocation {
        self.invoke("run", words)
    }

    /// The same with another verb.
    pub(crate) fn invoke(&self, verb: &str, words: &[&str]) -> Invocation {
        let (provider, url, key) = match self.dialect {
            Dialect::Messages => ("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
            Dialect::Responses => ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
            Dialect::Chat => ("openai-compatible", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        };
        let base = match self.dialect {
            Dialect::Messages => self.server.base_url(),
            _ => format!("{}/v1", self.server.base_url()),
        };
        let mut invocation = self.home.cofferdam([verb]);
        invocation.command().current_dir(&self.workspace).env("HOME", self.home.beside("user"));
        invocation
            .words(words)
            .env("MODEL", format!("{provider}/scripted"))
            .env(url, base)
            .env(key, "key-of-the-test")
    }

    /// Settings of the user who runs the program.
    pub(crate) fn configure(&self, toml: &str) {
        let directory = self.home.beside("user/.config/cofferdam");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.toml"), toml).unwrap();
    }

    /// Where the model is.
    pub(crate) fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// What the model was asked so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.server.requests()
    }

    /// A file of the workspace.
    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.join(name)).unwrap_or_default()
    }

    /// The only transcript there is, as records.
    pub(crate) fn transcript(&self) -> Vec<Value> {
        let history = self.home.path().join("history");
        let files: Vec<_> = std::fs::read_dir(history).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len(), 1);
        records(&std::fs::read(files[0].path()).unwrap())
    }
}

/// The records in some lines; they follow each other without a gap.
pub(crate) fn records(lines: &[u8]) -> Vec<Value> {
    let text = String::from_utf8(lines.to_vec()).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (number, record) in (1..).zip(&records) {
        assert_eq!(record["seq"], number, "{record}");
    }
    records
}

/// The records of this kind.
pub(crate) fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["event"] == kind).collect()
}

/// A turn that runs a command.
pub(crate) fn bash(command: &str) -> Turn {
    Turn::call("bash", json!({ "command": command }))
}

/// How the job ended, by the last line of `--json`.
pub(crate) fn ending(ran: &Ran) -> Value {
    let text = ran.text();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "ended", "{last}");
    last["ending"].clone()
}

/// The files of a directory and below, with their content.
pub(crate) fn tree(path: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                open.push(entry);
            } else {
                let name = entry.strip_prefix(path).unwrap().to_string_lossy().into_owned();
                found.push((name, std::fs::read_to_string(&entry).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

/// Longer than any run here takes.
pub(crate) const SOON: Duration = Duration::from_secs(30);
