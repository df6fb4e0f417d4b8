//! A job told step by step, and seen by a view.

use std::time::Duration;

use cofferdam_model::Delta;
use cofferdam_types::{
    Answer, Arguments, Block, Budget, CallId, Content, Ending, Event, FailureKind, FileChange,
    JobSpec, LOG_VERSION, Limits, ModelFailure, ModelName, Network, Place, Record, RequestId, Rest,
    Role, Span, Spent, StopReason, ThreadId, Timestamp, Tokens, ToolCall, ToolOutput, ToolStatus,
    Usd,
};
use cofferdam_view::{Happening, Style, View};
use serde_json::Value;

/// A job that happens, and everything that was written for it.
pub(crate) struct World {
    pub(crate) view: View,
    pub(crate) records: Vec<Record>,
    pub(crate) written: Vec<String>,
    now: Duration,
    request: u32,
    call: u64,
}

/// The tool call `name` with these arguments.
pub(crate) fn asks(id: &str, name: &str, arguments: &Value) -> Block {
    let arguments = Arguments(arguments.to_string());
    Block::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
}

pub(crate) fn says(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

pub(crate) fn output(status: ToolStatus, text: &str, millis: u64) -> ToolOutput {
    ToolOutput { took: Duration::from_millis(millis), ..ToolOutput::text(status, text) }
}

pub(crate) const MAIN: ThreadId = ThreadId(0);
pub(crate) const CODER: ThreadId = ThreadId(1);

impl World {
    pub(crate) fn new(style: Style) -> Self {
        let view = View::new(style);
        let (records, written) = (Vec::new(), Vec::new());
        Self { view, records, written, now: Duration::ZERO, request: 0, call: 0 }
    }

    /// A job that has its sandbox.
    pub(crate) fn begun(style: Style, task: &str, checks: &[&str]) -> Self {
        let mut world = Self::new(style);
        world.event(Event::Created { spec: Box::new(spec(task, checks)) });
        world.event(taken_up());
        world.wait(20);
        world.event(Event::SandboxOpened {
            sandbox: "0190a5b0-0000-7000-8000-00000000000a".parse().unwrap(),
            backend: "native".to_owned(),
            grade: "namespaces".to_owned(),
            weaknesses: Vec::new(),
        });
        world
    }

    pub(crate) fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    pub(crate) fn happen(&mut self, happening: Happening<'_>) {
        let text = self.view.happen(self.now, happening);
        self.written.push(text);
    }

    pub(crate) fn tick(&mut self, millis: u64) {
        self.wait(millis);
        self.happen(Happening::Tick);
    }

    pub(crate) fn event(&mut self, event: Event) {
        let at = Timestamp(1_700_000_000_000).after(self.now);
        let seq = self.records.len() as u64 + 1;
        let record = Record { v: LOG_VERSION, seq, at, event };
        self.happen(Happening::Record(&record));
        self.records.push(record);
    }

    pub(crate) fn delta(&mut self, thread: ThreadId, delta: &Delta) {
        self.happen(Happening::Delta { thread, delta });
    }

    pub(crate) fn printed(&mut self, call: CallId, bytes: &[u8]) {
        self.happen(Happening::Output { call, bytes });
    }

    pub(crate) fn asked(&mut self, thread: ThreadId, attempt: u32) {
        self.request += 1;
        let role = if thread == MAIN { Role::Orchestrator } else { Role::Coder };
        let (request, model) = (RequestId(self.request), ModelName("acme/large-1".to_owned()));
        self.event(Event::ModelAsked { thread, request, role, model, attempt, span: None });
    }

    /// A summary is asked for.
    pub(crate) fn asked_for_summary(&mut self, thread: ThreadId, attempt: u32) {
        self.request += 1;
        let (request, role) = (RequestId(self.request), Role::Summariser);
        let model = ModelName("acme/brief-1".to_owned());
        let span = Some(Span::Messages { through: 40 });
        self.event(Event::ModelAsked { thread, request, role, model, attempt, span });
    }

    /// A piece of something long is to be read.
    pub(crate) fn asked_to_read(&mut self, thread: ThreadId) {
        self.request += 1;
        let (request, role) = (RequestId(self.request), Role::Summariser);
        let model = ModelName("acme/brief-1".to_owned());
        self.event(Event::ModelAsked { thread, request, role, model, attempt: 1, span: None });
    }

    /// An answer that comes token by token, then whole.
    pub(crate) fn answer(&mut self, thread: ThreadId, blocks: Vec<Block>) {
        self.asked(thread, 1);
        for block in &blocks {
            match block {
                Block::Text { text } => self.stream(thread, text, Delta::Text),
                Block::Thinking { text, .. } => self.stream(thread, text, Delta::Thinking),
                Block::ToolCall(_) => {}
            }
        }
        self.answered(blocks, StopReason::Done);
    }

    pub(crate) fn stream(&mut self, thread: ThreadId, text: &str, delta: fn(String) -> Delta) {
        for token in text.split_inclusive(' ') {
            self.wait(30);
            self.delta(thread, &delta(token.to_owned()));
        }
    }

    pub(crate) fn answered(&mut self, blocks: Vec<Block>, stop: StopReason) {
        let tokens = Tokens { input: 400, cache_read: 3_600, cache_write: 0, output: 150 };
        let answer = Answer { blocks, stop, tokens };
        let (request, cost) = (RequestId(self.request), Some(Usd::from_nanos(4_100_000)));
        self.event(Event::ModelAnswered { request, answer, cost });
    }

    pub(crate) fn failed(&mut self, kind: FailureKind, message: &str, again_in: Option<u64>) {
        let at = Timestamp(1_700_000_000_000).after(self.now);
        self.event(Event::ModelFailed {
            request: RequestId(self.request),
            failure: ModelFailure { kind, message: message.to_owned(), retry_after: None },
            tokens: Tokens::default(),
            cost: None,
            retry_at: again_in.map(|millis| at.after(Duration::from_millis(millis))),
        });
    }

    pub(crate) fn started(&mut self, thread: ThreadId, id: &str, tool: &str) -> CallId {
        self.call += 1;
        let call = CallId(self.call);
        self.event(Event::ToolStarted { call, thread, id: id.to_owned(), tool: tool.to_owned() });
        call
    }

    pub(crate) fn delegated(&mut self, brief: &str) -> CallId {
        self.call += 1;
        let call = CallId(self.call);
        self.event(Event::Delegated {
            thread: CODER,
            call,
            brief: brief.to_owned(),
            reading: None,
        });
        call
    }

    pub(crate) fn ended(&mut self, call: CallId, thread: ThreadId, id: &str, output: ToolOutput) {
        self.event(Event::ToolEnded { call, thread, id: id.to_owned(), output });
    }

    /// A call that is over at once.
    pub(crate) fn calls(&mut self, id: &str, tool: &str, output: ToolOutput) {
        let call = self.started(MAIN, id, tool);
        self.wait(u64::try_from(output.took.as_millis()).unwrap());
        self.ended(call, MAIN, id, output);
    }

    /// A command that lasts: it is seen to run, prints, and ends.
    pub(crate) fn runs(
        &mut self,
        thread: ThreadId,
        id: &str,
        printed: &str,
        code: i32,
        millis: u64,
    ) {
        let call = self.started(thread, id, "bash");
        self.tick(100);
        self.printed(call, printed.as_bytes());
        self.wait(millis.saturating_sub(100));
        let status = if code == 0 { ToolStatus::Done } else { ToolStatus::Failed };
        let text = format!("{printed}exit code: {code}");
        self.ended(call, thread, id, output(status, &text, millis));
    }

    pub(crate) fn finishes(&mut self, ending: Ending, changes: Vec<FileChange>) {
        self.event(Event::Ending { ending: ending.clone() });
        self.wait(40);
        let spent = Spent {
            turns: self.request,
            tokens: Tokens { input: 1_200, cache_read: 10_800, cache_write: 0, output: 450 },
            cost: Usd::from_nanos(12_300_000),
            unpriced: 0,
            time: self.now,
        };
        self.event(Event::Ended { ending, spent, changes, delivery_problem: None });
        let rest = self.view.end();
        self.written.push(rest);
    }

    pub(crate) fn text(&self) -> String {
        self.written.concat()
    }
}

/// A process takes the job up, to go on with it.
pub(crate) fn taken_up() -> Event {
    Event::TakenUp { version: "0.1.0".to_owned(), only_delivers: false }
}

/// A long output as the tool cuts it.
pub(crate) fn cut_output(head: &str, tail: &str, whole: u64) -> ToolOutput {
    let text = format!("{head}[… about 40000 bytes are left out here …]\n{tail}exit code: 0");
    ToolOutput {
        status: ToolStatus::Done,
        content: vec![Content::text(text)],
        rest: Some(Rest { handle: "output:1".to_owned(), bytes: whole }),
        took: Duration::from_millis(2_300),
    }
}

pub(crate) fn spec(task: &str, checks: &[&str]) -> JobSpec {
    JobSpec {
        job: "0190a5b0-0000-7000-8000-000000000001".parse().unwrap(),
        task: task.to_owned(),
        orchestrator: ModelName("acme/large-1".to_owned()),
        coder: ModelName("acme/small-1".to_owned()),
        summariser: None,
        budget: Budget {
            turns: 50,
            tokens: Some(200_000),
            cost: Some("1.50".parse().unwrap()),
            time: Some(Duration::from_secs(600)),
        },
        checks: checks.iter().map(|check| (*check).to_owned()).collect(),
        attempts: 3,
        place: Place {
            workspace: "/srv/somebody/project".into(),
            sandbox: "auto".to_owned(),
            require: None,
            network: Network::None,
            limits: Limits::default(),
            readable: Vec::new(),
            image: None,
            variables: Vec::new(),
        },
        out: None,
    }
}
