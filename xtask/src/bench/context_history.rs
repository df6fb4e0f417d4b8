//! A job as long as one likes, by the engine itself: its events with all their cuts, and
//! no model and no sandbox.

use anyhow::{Context as _, bail};
use cofferdam_engine::{Effect, Input, Run, Settings, Step, step};
use cofferdam_model::PriceTable;
use cofferdam_runtime::{Outfit, engine_settings};
use cofferdam_testkit::marathon::{code, prose};
use cofferdam_testkit::needles;
use cofferdam_types::{
    Answer, Arguments, Block, CallId, Event, LOG_VERSION, ModelName, Record, RequestId, Role,
    SandboxId, StopReason, Timestamp, Tokens, ToolCall, ToolOutput, ToolStatus,
};
use serde_json::json;

use super::context::BYTES_A_TOKEN;

/// Tokens that the model can take in and give out together.
pub(super) const WINDOW: u64 = 200_000;

/// Bytes that the model says in a turn, and that a tool puts out.
const SAID: usize = 4_000;
const PUT_OUT: usize = 12_000;

/// A job under way.
pub(super) struct History {
    pub(super) run: Run,
    pub(super) settings: Settings,
    pub(super) records: Vec<Record>,
    /// Bytes of what was said and put out.
    pub(super) bytes: u64,
    pub(super) turns: u32,
    open: Vec<Effect>,
    now: Timestamp,
}

impl History {
    /// A job whose model, of this name, is asked for the first time.
    fn begin(model: &str) -> anyhow::Result<Self> {
        let created = needles::session(1, 0, 0).records.into_iter().next();
        let mut created = created.context("no first event")?;
        let Event::Created { spec } = &mut created.event else { bail!("no job") };
        spec.orchestrator = ModelName(model.to_owned());
        let prices = PriceTable::default();
        let outfit = Outfit {
            prices: &prices,
            max_output: 16_000,
            retries: 3,
            window: Some(WINDOW),
            recalls: true,
        };
        let settings = engine_settings(outfit, spec);
        let run = Run::new(spec.as_ref().clone(), created.at);
        let now = created.at;
        let (records, open) = (vec![created], Vec::new());
        let mut history = Self { run, settings, records, bytes: 0, turns: 0, open, now };
        history.come_up();
        history.hear(Input::Prepared { instructions: Vec::new(), skills: Vec::new() });
        Ok(history)
    }

    /// The same job with the state that another process has rebuilt, until its model is
    /// asked again.
    pub(super) fn taken_up(&self, run: Run) -> Self {
        let (settings, now) = (self.settings.clone(), self.now);
        let (records, open) = (Vec::new(), Vec::new());
        let mut history = Self { run, settings, records, bytes: 0, turns: 0, open, now };
        history.come_up();
        history
    }

    fn come_up(&mut self) {
        let (version, collected) = ("bench".to_owned(), Vec::new());
        self.hear(Input::TakeUp { version, collected, say: None, finish: false });
        self.hear(Input::SandboxOpened {
            sandbox: SandboxId::generate(),
            backend: "none".to_owned(),
            grade: "none".to_owned(),
            weaknesses: Vec::new(),
        });
    }

    /// One that was told and put out so many tokens.
    pub(super) fn of(tokens: u64, model: &str) -> anyhow::Result<Self> {
        let mut history = Self::begin(model)?;
        while history.bytes < tokens * BYTES_A_TOKEN {
            let (call, output) = history.answered()?;
            history.hear(Input::ToolEnded { call, output });
        }
        Ok(history)
    }

    /// Has the model answer with a call, and returns what comes of that.
    pub(super) fn answered(&mut self) -> anyhow::Result<(CallId, ToolOutput)> {
        // What is asked for besides: summaries, and what was let go.
        for _ in 0..100 {
            let effects = std::mem::take(&mut self.open);
            for effect in effects {
                match effect {
                    Effect::AskModel { request, role: Role::Summariser, .. } => {
                        self.hear(Input::ModelAnswered { request, answer: self.summary() });
                    }
                    Effect::AskModel { request, .. } => {
                        let answer = self.answer(request);
                        self.hear(Input::ModelAnswered { request, answer });
                    }
                    Effect::Recall { thread, .. } => {
                        self.hear(Input::Offered { thread, text: String::new() });
                    }
                    Effect::RunTool { call, .. } => {
                        let text = code(self.turns, PUT_OUT);
                        self.bytes += text.len() as u64;
                        return Ok((call, ToolOutput::text(ToolStatus::Done, text)));
                    }
                    _ => {}
                }
            }
        }
        bail!("the engine asks for nothing")
    }

    fn answer(&mut self, request: RequestId) -> Answer {
        self.turns += 1;
        let number = self.turns;
        let text = prose(number, SAID);
        let path = format!("src/part_{number}.rs");
        let (name, arguments) = match number % 4 {
            0 => ("bash", json!({"command": format!("make part-{number}")})),
            _ => ("read_file", json!({"path": path})),
        };
        let arguments = Arguments(arguments.to_string());
        self.bytes += (text.len() + arguments.0.len()) as u64;
        let id = format!("call_{}", request.0);
        let call = ToolCall { id, name: name.to_owned(), arguments };
        let blocks = vec![Block::Text { text }, Block::ToolCall(call)];
        Answer { blocks, stop: StopReason::Tools, tokens: Tokens::default() }
    }

    fn summary(&self) -> Answer {
        let text = format!(
            "Up to turn {} the parts were read one after the other, and those that had to be \
             made were made; nothing failed, and nothing that was read has to be changed.",
            self.turns
        );
        let blocks = vec![Block::Text { text }];
        Answer { blocks, stop: StopReason::Done, tokens: Tokens::default() }
    }

    /// Has the engine hear something.
    pub(super) fn hear(&mut self, input: Input) {
        self.now = self.now.after(std::time::Duration::from_secs(1));
        let step = step(&mut self.run, &self.settings, self.now, input);
        self.take(step);
    }

    /// The same by hand, for whoever takes the time: what [`step`] made of it is kept.
    pub(super) fn take(&mut self, step: Step) {
        for event in step.events {
            let seq = self.records.len() as u64 + 1;
            self.records.push(Record { v: LOG_VERSION, seq, at: self.now, event });
        }
        self.open.extend(step.effects);
    }

    /// What is to be done next.
    pub(super) fn open(&self) -> &[Effect] {
        &self.open
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }
}
