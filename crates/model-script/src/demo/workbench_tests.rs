//! A workbench for tests: carries out what a model asks for, for real, in a
//! directory of its own. What it starts ends with it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use cofferdam_model::{Assembler, Model, Request};
use cofferdam_types::{Answer, Block, Content, Message, ToolCall, ToolResult, ToolSpec};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::said::text;

/// More answers than any script has.
const TURNS: usize = 40;

pub(super) const ORCHESTRATOR: [&str; 8] =
    ["bash", "read_file", "write_file", "edit_file", "search_files", "plan", "delegate", "finish"];
pub(super) const CODER: [&str; 5] = ["bash", "read_file", "write_file", "edit_file", "finish"];

pub(super) struct Workbench {
    pub(super) directory: TempDir,
    background: Vec<Child>,
    /// The port that the demo's service really got.
    port: String,
}

/// How a conversation went.
pub(super) struct Course {
    pub(super) messages: Vec<Message>,
    pub(super) success: bool,
    pub(super) summary: String,
}

/// What happens in place of a call.
pub(super) type Interference<'a> = &'a mut dyn FnMut(&ToolCall) -> Option<(bool, String)>;

impl Workbench {
    pub(super) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        Self { directory, background: Vec::new(), port: "5000".to_owned() }
    }

    pub(super) fn put(&self, path: &str, content: &str) {
        fs::write(self.directory.path().join(path), content).unwrap();
    }

    pub(super) fn get(&self, path: &str) -> String {
        fs::read_to_string(self.directory.path().join(path)).unwrap()
    }

    /// Lets the model work on a task until it hands in.
    pub(super) fn work(&mut self, model: &dyn Model, task: &str) -> Course {
        self.work_with(model, task, &ORCHESTRATOR, &mut |_| None)
    }

    pub(super) fn work_with(
        &mut self,
        model: &dyn Model,
        task: &str,
        tools: &[&str],
        interfere: Interference<'_>,
    ) -> Course {
        let mut messages = vec![Message::user(task)];
        for _ in 0..TURNS {
            let answer = ask(model, &messages, tools);
            messages.push(Message::Model { blocks: answer.blocks.clone() });
            let mut results = Vec::new();
            for call in answer.calls() {
                let arguments = call.arguments.object().unwrap();
                let interference = interfere(call);
                if call.name == "finish" && interference.is_none() {
                    let success = arguments["success"].as_bool().unwrap();
                    return Course { messages, success, summary: word(&arguments, "summary") };
                }
                let (failed, output) =
                    interference.unwrap_or_else(|| self.call(model, call, &arguments));
                let content = vec![Content::text(output)];
                results.push(ToolResult { id: call.id.clone(), content, failed });
            }
            if results.is_empty() {
                return Course { messages, success: true, summary: answer.text() };
            }
            messages.push(Message::Tools { results });
        }
        panic!("no end: {}", render(&messages));
    }

    fn call(
        &mut self,
        model: &dyn Model,
        call: &ToolCall,
        arguments: &Map<String, Value>,
    ) -> (bool, String) {
        match call.name.as_str() {
            "bash" if arguments.contains_key("process") => (false, self.stop()),
            "bash" if arguments.get("background") == Some(&Value::Bool(true)) => {
                (false, self.start(&word(arguments, "command")))
            }
            "bash" => self.bash(&word(arguments, "command")),
            "read_file" => (false, self.get(&word(arguments, "path"))),
            "write_file" => {
                self.put(&word(arguments, "path"), &word(arguments, "content"));
                (false, "Written.".to_owned())
            }
            "edit_file" => self.edit(arguments),
            "delegate" => {
                let brief = format!(
                    "{}\n{}\n{}",
                    word(arguments, "instruction"),
                    word(arguments, "context"),
                    word(arguments, "constraints")
                );
                let course = self.work_with(model, &brief, &CODER, &mut |_| None);
                (!course.success, course.summary)
            }
            "plan" => (false, "Noted.".to_owned()),
            other => (true, format!("unknown tool: {other}")),
        }
    }

    pub(super) fn bash(&self, command: &str) -> (bool, String) {
        let command = command.replace("127.0.0.1:5000", &format!("127.0.0.1:{}", self.port));
        let output = self.shell(&command).output().unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
        let code = output.status.code().unwrap();
        (code != 0, format!("{}exit code: {code}", said.concat()))
    }

    /// Starts the demo's service on any free port, and waits until it listens.
    fn start(&mut self, command: &str) -> String {
        let command = command.replace("--port 5000", "--port 0");
        let mut shell = self.shell(&command);
        let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        self.background.push(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        self.port = line.trim().rsplit(':').next().unwrap_or_default().to_owned();
        format!("Started in the background as p{}.", self.background.len())
    }

    /// Ends everything in the background.
    pub(super) fn stop(&mut self) -> String {
        for mut child in self.background.drain(..) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        "Stopped.".to_owned()
    }

    fn edit(&self, arguments: &Map<String, Value>) -> (bool, String) {
        let (path, old) = (word(arguments, "path"), word(arguments, "old_string"));
        let content = self.get(&path);
        match content.matches(&old).count() {
            1 => {
                self.put(&path, &content.replacen(&old, &word(arguments, "new_string"), 1));
                (false, "Edited.".to_owned())
            }
            count => (true, format!("old_string occurs {count} times")),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the programs are the demo's own; a test runs them where it can look at them"
    )]
    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(self.directory.path()).stdin(Stdio::null());
        shell
    }
}

impl Drop for Workbench {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Asks a model that answers at once.
pub(super) fn ask(model: &dyn Model, messages: &[Message], tools: &[&str]) -> Answer {
    let tool = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        schema: Value::Null,
    };
    let request = Request {
        system: "You are a coding agent.".to_owned(),
        messages: messages.to_vec(),
        tools: tools.iter().map(tool).collect(),
        max_output: 8000,
        cache_key: "key".to_owned(),
        which: cofferdam_model::Which::FIRST,
    };
    let pieces = model.ask(request).collect::<Vec<_>>().now_or_never().unwrap();
    let mut assembler = Assembler::default();
    for piece in pieces {
        assembler.push(piece.unwrap()).unwrap();
    }
    assembler.finish().unwrap()
}

/// A conversation as people would read it: outputs by their last lines, long
/// arguments by their length.
pub(super) fn render(messages: &[Message]) -> String {
    let mut page = String::new();
    for message in messages {
        match message {
            Message::User { content } => page += &format!("user: {}\n", text(content)),
            Message::Model { blocks } => {
                for block in blocks {
                    match block {
                        Block::Text { text } => page += &format!("demo: {text}\n"),
                        Block::ToolCall(call) => page += &render_call(call),
                        Block::Thinking { .. } => panic!("{block:?}"),
                    }
                }
            }
            Message::Tools { results } => {
                for result in results {
                    let (id, text) = (&result.id, text(&result.content));
                    let last = text.lines().last().unwrap_or_default();
                    page += &format!("  {id} → {last}\n");
                }
            }
        }
        page.push('\n');
    }
    page
}

fn render_call(call: &ToolCall) -> String {
    let arguments = call.arguments.object().unwrap();
    let shown = arguments.iter().map(|(name, value)| match value {
        Value::String(text) if text.lines().count() > 8 => {
            format!(" {name}=({} lines)", text.lines().count())
        }
        value => format!(" {name}={value}"),
    });
    format!("  {} {}{}\n", call.id, call.name, shown.collect::<String>())
}

fn word(arguments: &Map<String, Value>, name: &str) -> String {
    arguments.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("no {name}")).to_owned()
}
