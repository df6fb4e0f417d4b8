//! A job with cells, told step by step.

use std::path::PathBuf;

use cofferdam_notebook::{Limits, Notebook, Output, Part, Stream, contents, notebooks};
use cofferdam_types::{
    Answer, Arguments, Block, Budget, CallId, Ending, Event, JobSpec, LOG_VERSION, ModelName,
    Network, Place, Record, RequestId, Role, Spent, StopReason, ThreadId, Timestamp, Tokens,
    ToolCall, ToolOutput, ToolStatus,
};
use serde_json::{Value, json};

pub(crate) const MAIN: ThreadId = ThreadId(0);

/// A picture of one pixel.
pub(crate) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) records: Vec<Record>,
    request: u32,
    call: u64,
}

impl World {
    pub(crate) fn new(task: &str) -> Self {
        let mut world = Self { records: Vec::new(), request: 0, call: 0 };
        world.event(Event::Created { spec: Box::new(spec(task)) });
        world
    }

    pub(crate) fn event(&mut self, event: Event) {
        let seq = self.records.len() as u64 + 1;
        let at = Timestamp(1_700_000_000_000 + seq);
        self.records.push(Record { v: LOG_VERSION, seq, at, event });
    }

    pub(crate) fn answers(&mut self, thread: ThreadId, role: Role, blocks: Vec<Block>) {
        self.request += 1;
        let (request, model) = (RequestId(self.request), ModelName("acme/large-1".to_owned()));
        self.event(Event::ModelAsked { thread, request, role, model, attempt: 1, span: None });
        let answer = Answer { blocks, stop: StopReason::Tools, tokens: Tokens::default() };
        self.event(Event::ModelAnswered { request, answer, cost: None });
    }

    pub(crate) fn says(&mut self, text: &str) {
        let text = text.to_owned();
        self.answers(MAIN, Role::Orchestrator, vec![Block::Text { text }]);
    }

    /// A call that begins.
    pub(crate) fn begins(&mut self, thread: ThreadId, tool: &str, arguments: &str) -> CallId {
        // Some providers use the same names again in each answer.
        let (id, tool) = ("call_0".to_owned(), tool.to_owned());
        let arguments = Arguments(arguments.to_owned());
        let call = Block::ToolCall(ToolCall { id: id.clone(), name: tool.clone(), arguments });
        self.answers(thread, Role::Orchestrator, vec![call]);
        self.call += 1;
        let call = CallId(self.call);
        self.event(Event::ToolStarted { call, thread, id, tool });
        call
    }

    pub(crate) fn ends(&mut self, thread: ThreadId, call: CallId, output: ToolOutput) {
        self.event(Event::ToolEnded { call, thread, id: "call_0".to_owned(), output });
    }

    /// A whole cell.
    pub(crate) fn cell(&mut self, tool: &str, arguments: &Value, outputs: &[Output]) {
        let call = self.begins(MAIN, tool, &arguments.to_string());
        let output =
            ToolOutput { content: contents(outputs), ..ToolOutput::text(ToolStatus::Done, "") };
        self.ends(MAIN, call, output);
    }

    pub(crate) fn python(&mut self, code: &str, outputs: &[Output]) {
        self.cell("python", &json!({ "code": code }), outputs);
    }

    pub(crate) fn completes(&mut self, summary: &str) {
        let ending = Ending::Complete { summary: summary.to_owned(), verified: false };
        let (spent, changes) = (Spent::default(), Vec::new());
        self.event(Event::Ended { ending, spent, changes, delivery_problem: None });
    }

    pub(crate) fn notebooks(&self) -> Vec<Notebook> {
        notebooks(&self.records, &Limits::default())
    }

    /// The only notebook.
    pub(crate) fn notebook(&self) -> String {
        let notebooks = self.notebooks();
        assert_eq!(notebooks.len(), 1);
        notebooks.first().unwrap().to_json()
    }
}

pub(crate) fn stdout(text: impl Into<String>) -> Output {
    Output::Printed { stream: Stream::Stdout, text: text.into() }
}

pub(crate) fn stderr(text: impl Into<String>) -> Output {
    Output::Printed { stream: Stream::Stderr, text: text.into() }
}

pub(crate) fn plain(text: &str) -> Part {
    Part::new("text/plain", text)
}

fn spec(task: &str) -> JobSpec {
    let model = ModelName("acme/large-1".to_owned());
    JobSpec {
        job: "0190a5b0-0000-7000-8000-000000000001".parse().unwrap(),
        task: task.to_owned(),
        orchestrator: model.clone(),
        coder: model,
        summariser: None,
        budget: Budget { turns: 10, tokens: None, cost: None, time: None },
        checks: Vec::new(),
        attempts: 1,
        place: Place {
            workspace: PathBuf::from("/work"),
            sandbox: "auto".to_owned(),
            require: None,
            network: Network::None,
            limits: cofferdam_types::Limits::default(),
            readable: Vec::new(),
            image: None,
            variables: Vec::new(),
        },
        out: None,
    }
}
