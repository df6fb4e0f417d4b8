//! A world for a run: a clock, a log, and the effects nobody has answered yet.

use std::path::PathBuf;
use std::time::Duration;

use cofferdam_engine::{
    Effect, Input, RoleSettings, Run, Settings, coder_specs, orchestrator_specs, step,
};
use cofferdam_types::{
    Answer, Arguments, Block, Budget, CallId, CheckResult, Content, Ending, Event, FailureKind,
    JobId, JobSpec, LOG_VERSION, Limits, ModelFailure, ModelName, Network, Outcome, Place, Record,
    RequestId, SandboxId, StopReason, Timestamp, Tokens, ToolCall, ToolOutput, ToolSpec,
    ToolStatus, Toolbox,
};

pub(crate) struct World {
    pub(crate) run: Run,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    pub(crate) log: Vec<Record>,
    /// Effects that were asked for and not answered.
    pub(crate) open: Vec<Effect>,
}

pub(crate) fn spec() -> JobSpec {
    JobSpec {
        job: JobId::generate(),
        task: "make it work".to_owned(),
        orchestrator: ModelName("test/orchestrator".to_owned()),
        coder: ModelName("test/coder".to_owned()),
        summariser: None,
        budget: Budget { turns: 50, tokens: None, cost: None, time: None },
        checks: Vec::new(),
        attempts: 3,
        place: Place {
            workspace: PathBuf::from("/project"),
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

fn settings() -> Settings {
    let sandbox = ["bash", "read_file", "write_file"].map(|name| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        schema: serde_json::json!({ "type": "object" }),
    });
    let role = |own: Vec<ToolSpec>| RoleSettings {
        tools: sandbox.iter().cloned().chain(own).collect(),
        price: None,
        max_output: 1000,
        window: 200_000,
    };
    Settings {
        orchestrator: role(orchestrator_specs()),
        coder: role(coder_specs()),
        summariser: RoleSettings { tools: Toolbox::default(), ..role(Vec::new()) },
        recalls: false,
        retries: 3,
        backoff: Duration::from_millis(100),
    }
}

impl World {
    /// A job that nobody has taken up yet.
    pub(crate) fn created(spec: JobSpec) -> Self {
        let now = Timestamp(1_000_000);
        let created = Event::Created { spec: Box::new(spec.clone()) };
        let log = vec![Record { v: LOG_VERSION, seq: 1, at: now, event: created }];
        Self { run: Run::new(spec, now), settings: settings(), now, log, open: Vec::new() }
    }

    /// A job whose model is being asked for the first time.
    pub(crate) fn asking(spec: JobSpec) -> Self {
        let mut world = Self::created(spec);
        world.take_up();
        world.open_sandbox();
        world
    }

    pub(crate) fn take_up(&mut self) {
        self.hear(Input::TakeUp {
            version: "1".to_owned(),
            collected: Vec::new(),
            say: None,
            finish: false,
        });
    }

    pub(crate) fn open_sandbox(&mut self) {
        self.hear(opened());
        if self.open.contains(&Effect::Prepare) {
            self.hear(Input::Prepared { instructions: Vec::new(), skills: Vec::new() });
        }
    }

    /// The process that took the job up finds the sandbox that the one before it had.
    pub(crate) fn find_sandbox(&mut self) {
        let sandbox = self.log.iter().rev().find_map(|record| match record.event {
            Event::SandboxOpened { sandbox, .. } => Some(sandbox),
            _ => None,
        });
        self.hear(opened_as(sandbox.unwrap()));
    }

    /// Has the run hear something; returns what happened and what is to be done.
    pub(crate) fn hear(&mut self, input: Input) -> (Vec<Event>, Vec<Effect>) {
        self.close(&input);
        let step = step(&mut self.run, &self.settings, self.now, input);
        for event in &step.events {
            let seq = self.log.len() as u64 + 1;
            let at = self.now.max(self.log.last().map_or(self.now, |record| record.at));
            self.log.push(Record { v: LOG_VERSION, seq, at, event: event.clone() });
        }
        if step.effects.contains(&Effect::Deliver) {
            self.open.clear();
        }
        self.open.extend(step.effects.iter().cloned());
        (step.events, step.effects)
    }

    /// The effect that an input answers is open no more.
    fn close(&mut self, input: &Input) {
        self.open.retain(|effect| match (effect, input) {
            (Effect::AskModel { request, .. }, Input::ModelAnswered { request: of, .. })
            | (Effect::AskModel { request, .. }, Input::ModelFailed { request: of, .. }) => {
                request != of
            }
            (Effect::RunTool { call, .. }, Input::ToolEnded { call: of, .. }) => call != of,
            (Effect::Recall { thread, .. }, Input::Offered { thread: of, .. }) => thread != of,
            (Effect::MakeImage, Input::ImageReady { .. } | Input::SandboxFailed { .. })
            | (Effect::OpenSandbox, Input::SandboxOpened { .. } | Input::SandboxFailed { .. })
            | (Effect::Prepare, Input::Prepared { .. })
            | (Effect::Check, Input::Checked { .. })
            | (Effect::Deliver, Input::Delivered { .. }) => false,
            (Effect::WakeAt(at), Input::Woken) => *at > self.now,
            _ => true,
        });
    }

    /// The question that is under way.
    pub(crate) fn question(&self) -> RequestId {
        let asked = self.open.iter().find_map(|effect| match effect {
            Effect::AskModel { request, .. } => Some(*request),
            _ => None,
        });
        asked.unwrap_or_else(|| panic!("nobody is asked: {:?}", self.open))
    }

    /// The calls that run.
    pub(crate) fn running(&self) -> Vec<CallId> {
        let calls = self.open.iter().filter_map(|effect| match effect {
            Effect::RunTool { call, .. } => Some(*call),
            _ => None,
        });
        calls.collect()
    }

    /// The model answers.
    pub(crate) fn answer(&mut self, answer: Answer) -> (Vec<Event>, Vec<Effect>) {
        let request = self.question();
        self.hear(Input::ModelAnswered { request, answer })
    }

    /// The model fails.
    pub(crate) fn fail(&mut self, kind: FailureKind) -> (Vec<Event>, Vec<Effect>) {
        let request = self.question();
        let failure = ModelFailure { kind, message: "no".to_owned(), retry_after: None };
        self.hear(Input::ModelFailed { request, failure, tokens: Tokens::default() })
    }

    /// A call ends well.
    pub(crate) fn done(&mut self, call: CallId, text: &str) -> (Vec<Event>, Vec<Effect>) {
        self.hear(Input::ToolEnded { call, output: ToolOutput::text(ToolStatus::Done, text) })
    }

    pub(crate) fn deliver(&mut self) -> (Vec<Event>, Vec<Effect>) {
        self.hear(Input::Delivered { changes: Vec::new(), problem: None })
    }

    /// How the job is to end, by the last event.
    pub(crate) fn ending(&self) -> Ending {
        match &self.log.last().unwrap().event {
            Event::Ending { ending } | Event::Ended { ending, .. } => ending.clone(),
            other => panic!("the job is not ending: {other:?}"),
        }
    }

    /// The text that a call was answered with.
    pub(crate) fn result_of(&self, call: CallId) -> String {
        let found = self.log.iter().find_map(|record| match &record.event {
            Event::ToolEnded { call: of, output, .. } if *of == call => Some(output.plain_text()),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("call {call} has not ended"))
    }

    /// The last thing said to a model in this conversation.
    pub(crate) fn last_words(&self, thread: u32) -> String {
        let prompt = self.run.prompt(&self.settings, cofferdam_types::ThreadId(thread));
        match prompt.messages.last().unwrap() {
            cofferdam_types::Message::User { content } => content
                .iter()
                .map(|content| match content {
                    Content::Text { text } => text.as_str(),
                    Content::Image { .. } => "",
                })
                .collect(),
            other => panic!("the model is not spoken to: {other:?}"),
        }
    }

    /// The process dies; another takes the job up from the log.
    pub(crate) fn crash(&mut self) {
        self.run = Run::replay(&self.log).unwrap();
        self.open.clear();
        self.take_up();
    }
}

pub(crate) fn opened() -> Input {
    opened_as(SandboxId::generate())
}

pub(crate) fn opened_as(sandbox: SandboxId) -> Input {
    Input::SandboxOpened {
        sandbox,
        backend: "native".to_owned(),
        grade: "bounded".to_owned(),
        weaknesses: Vec::new(),
    }
}

/// An answer with calls: tool and arguments of each.
pub(crate) fn calls(calls: &[(&str, &str)]) -> Answer {
    let blocks = calls.iter().enumerate().map(|(index, (name, arguments))| {
        Block::ToolCall(ToolCall {
            id: format!("id{index}"),
            name: (*name).to_owned(),
            arguments: Arguments((*arguments).to_owned()),
        })
    });
    Answer { blocks: blocks.collect(), stop: StopReason::Tools, tokens: tokens() }
}

pub(crate) fn says(text: &str) -> Answer {
    let blocks = vec![Block::Text { text: text.to_owned() }];
    Answer { blocks, stop: StopReason::Done, tokens: tokens() }
}

pub(crate) fn tokens() -> Tokens {
    Tokens { input: 100, cache_read: 0, cache_write: 0, output: 10 }
}

pub(crate) fn check(exit_code: i32) -> CheckResult {
    CheckResult {
        command: "make test".to_owned(),
        outcome: Outcome::Exited { exit_code },
        output: "its output".to_owned(),
        took: Duration::ZERO,
    }
}
