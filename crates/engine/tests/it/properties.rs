//! What holds whatever comes in.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

use cofferdam_engine::{Effect, Input, Run};
use cofferdam_types::{
    Answer, Budget, CallId, Cancel, Event, FailureKind, Message, ModelFailure, RequestId, Role,
    SandboxId, StopReason, ThreadId, Tokens, ToolOutput, ToolStatus, Usd,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::world::{World, calls, check, opened, opened_as, says, spec, tokens};

/// Something that may happen next.
#[derive(Clone, Debug)]
enum Fate {
    /// One of the open effects is answered, in one of many ways.
    Answered {
        which: usize,
        how: u8,
    },
    /// Something comes that nobody asked for.
    Stray {
        what: u8,
        number: u32,
    },
    /// Time passes.
    Waited {
        millis: u64,
    },
    /// The process dies, and another takes the job up.
    Crashed {
        finish: bool,
    },
    Paused,
    Cancelled,
    UserSpoke,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => (any::<usize>(), any::<u8>()).prop_map(|(which, how)| Fate::Answered { which, how }),
        1 => (any::<u8>(), 0..9_u32).prop_map(|(what, number)| Fate::Stray { what, number }),
        2 => (0..5_000_u64).prop_map(|millis| Fate::Waited { millis }),
        1 => any::<bool>().prop_map(|finish| Fate::Crashed { finish }),
        1 => Just(Fate::Paused),
        1 => Just(Fate::Cancelled),
        1 => Just(Fate::UserSpoke),
    ]
}

fn busy_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        60 => (any::<usize>(), any::<u8>()).prop_map(|(which, how)| Fate::Answered { which, how }),
        1 => (any::<u8>(), 0..9_u32).prop_map(|(what, number)| Fate::Stray { what, number }),
        4 => Just(Fate::Crashed { finish: false }),
        1 => Just(Fate::Paused),
        3 => Just(Fate::UserSpoke),
    ]
}

fn answer(how: u8) -> Answer {
    match how % 14 {
        0 => says("done"),
        1 => says(""),
        2 => calls(&[("bash", r#"{"command":"make"}"#)]),
        3 => calls(&[("bash", r#"{"command":"ls"}"#), ("read_file", r#"{"path":"a"}"#)]),
        4 => calls(&[("bash", r#"{"command":"#)]),
        5 => calls(&[("no_such_tool", "{}"), ("write_file", "{}")]),
        6 => calls(&[("finish", r#"{"summary":"done"}"#)]),
        7 => calls(&[("finish", r#"{"summary":"cannot","success":false}"#)]),
        8 => calls(&[("delegate", r#"{"instruction":"write it"}"#)]),
        9 => calls(&[("plan", r#"{"steps":[{"step":"a","status":"pending"}]}"#)]),
        10 => Answer { stop: StopReason::OutputLimit, ..says("half") },
        11 => Answer { stop: StopReason::OutputLimit, ..calls(&[("bash", r#"{"command":"x"}"#)]) },
        12 => Answer { stop: StopReason::Refused, ..says("no") },
        _ => calls(&[
            ("read_file", r#"{"path":"a"}"#),
            ("write_file", "{}"),
            ("delegate", r#"{"instruction":"more"}"#),
            ("finish", r#"{"summary":"all at once"}"#),
        ]),
    }
}

/// An answer of a model that is at work and not done soon.
fn busy_answer(role: Role, how: u8) -> Answer {
    let command = format!(r#"{{"command":"make {how}"}}"#);
    let answer = match (role, how % 8) {
        (Role::Summariser, 0..5) => says(
            "The parser was looked at and rewritten, its tests pass, and there is nothing else \
             that would matter for the task.",
        ),
        (Role::Summariser, 5) => says("}{"),
        (Role::Summariser, _) => says(""),
        (Role::Orchestrator, 0) => calls(&[("delegate", r#"{"instruction":"write it"}"#)]),
        (Role::Orchestrator, 1) => {
            let status = ["pending", "completed"][usize::from(how / 8 % 2)];
            let plan = format!(r#"{{"steps":[{{"step":"a","status":"{status}"}}]}}"#);
            calls(&[("plan", &plan), ("bash", &command)])
        }
        (Role::Coder, 0) => calls(&[("finish", r#"{"summary":"written"}"#)]),
        (_, 2) => calls(&[("read_file", r#"{"path":"a"}"#), ("bash", &command)]),
        _ => calls(&[("bash", &command)]),
    };
    Answer { tokens: Tokens::default(), ..answer }
}

fn busy_reply(effect: &Effect, how: u8) -> Input {
    match effect {
        Effect::AskModel { request, role, .. } if !how.is_multiple_of(16) => {
            Input::ModelAnswered { request: *request, answer: busy_answer(*role, how) }
        }
        Effect::AskModel { request, .. } => {
            let kinds = [FailureKind::RateLimited, FailureKind::Stalled, FailureKind::TooLong];
            let kind = kinds[usize::from(how / 16 % 3)];
            let failure = ModelFailure { kind, message: "failed".to_owned(), retry_after: None };
            Input::ModelFailed { request: *request, failure, tokens: Tokens::default() }
        }
        Effect::RunTool { call, .. } => Input::ToolEnded {
            call: *call,
            output: ToolOutput::text(ToolStatus::Done, format!("output {how}\n").repeat(200)),
        },
        Effect::OpenSandbox => opened_again(how),
        effect => reply(effect, how),
    }
}

/// A sandbox, often the one that was there before.
fn opened_again(how: u8) -> Input {
    static SAME: LazyLock<SandboxId> = LazyLock::new(SandboxId::generate);
    if how.is_multiple_of(3) { opened() } else { opened_as(*SAME) }
}

fn output(how: u8) -> ToolOutput {
    let status = [ToolStatus::Done, ToolStatus::Failed, ToolStatus::Unknown][usize::from(how % 3)];
    ToolOutput::text(status, format!("output {}", how % 5))
}

fn failure(how: u8) -> ModelFailure {
    let kinds = [
        FailureKind::RateLimited,
        FailureKind::Interrupted,
        FailureKind::Stalled,
        FailureKind::Unauthorised,
        FailureKind::TooLong,
    ];
    let retry_after = how.is_multiple_of(3).then(|| Duration::from_secs(u64::from(how)));
    let kind = kinds[usize::from(how % 5)];
    ModelFailure { kind, message: "failed".to_owned(), retry_after }
}

fn reply(effect: &Effect, how: u8) -> Input {
    match effect {
        Effect::MakeImage => Input::ImageReady { image: format!("image {how}") },
        Effect::OpenSandbox if how.is_multiple_of(16) => {
            Input::SandboxFailed { reason: "none".to_owned() }
        }
        Effect::OpenSandbox => opened_again(how),
        Effect::Prepare => Input::Prepared { instructions: Vec::new(), skills: Vec::new() },
        Effect::AskModel { request, .. } if how.is_multiple_of(5) => Input::ModelFailed {
            request: *request,
            failure: failure(how / 5),
            tokens: Tokens::default(),
        },
        Effect::AskModel { request, .. } => {
            Input::ModelAnswered { request: *request, answer: answer(how) }
        }
        Effect::RunTool { call, .. } => Input::ToolEnded { call: *call, output: output(how) },
        Effect::Recall { thread, .. } => {
            let text = if how.is_multiple_of(2) { String::new() } else { "found".to_owned() };
            Input::Offered { thread: *thread, text }
        }
        // One that was stopped may have no result.
        Effect::Check if how.is_multiple_of(9) => Input::Checked { results: Vec::new() },
        Effect::Check => Input::Checked { results: vec![check(i32::from(how % 2))] },
        Effect::WakeAt(_) => Input::Woken,
        Effect::Deliver => Input::Delivered {
            changes: Vec::new(),
            problem: how.is_multiple_of(7).then(|| "disk full".to_owned()),
        },
    }
}

fn stray(what: u8, number: u32) -> Input {
    let request = RequestId(number);
    let call = CallId(u64::from(number));
    match what % 8 {
        0 => Input::ModelAnswered { request, answer: answer(what) },
        1 => Input::ModelFailed { request, failure: failure(what), tokens: tokens() },
        2 => Input::ToolEnded { call, output: output(what) },
        3 => Input::Checked { results: vec![check(0)] },
        4 => Input::Delivered { changes: Vec::new(), problem: None },
        5 => opened(),
        6 => Input::Note { text: "noted".to_owned() },
        _ => Input::Prepared { instructions: Vec::new(), skills: Vec::new() },
    }
}

/// The world with a watcher who knows what must hold.
struct Watched {
    world: World,
    cancelled: bool,
    ended: bool,
    /// Whether the models are not done soon.
    busy: bool,
    started: HashSet<CallId>,
}

impl Watched {
    fn new(checks: bool, timed: bool, busy: bool) -> Self {
        let mut spec = spec();
        if checks {
            spec.checks = vec!["make test".to_owned()];
        }
        spec.budget = Budget {
            turns: if busy { 100 } else { 20 },
            tokens: Some(1_000_000),
            cost: Some(Usd::from_nanos(1 << 40)),
            time: timed.then_some(Duration::from_secs(3600)),
        };
        let mut world = World::created(spec);
        if busy {
            // Little more than what stands before every conversation: cuts all the time.
            world.settings.orchestrator.window = 5_000;
            world.settings.coder.window = 5_000;
            world.settings.summariser.window = 5_000;
            world.settings.recalls = true;
        }
        let mut watched =
            Self { world, cancelled: false, ended: false, busy, started: HashSet::new() };
        watched.take_up(false);
        watched
    }

    fn take_up(&mut self, finish: bool) {
        let version = "1".to_owned();
        self.hear(Input::TakeUp { version, collected: Vec::new(), say: None, finish });
    }

    fn hear(&mut self, input: Input) {
        if let Input::TakeUp { finish, .. } = input {
            self.ended = false;
            // Whoever takes up a job that was stopped wants it to go on, or says
            // that it is only to end.
            self.cancelled &= finish || self.world.run.ending().is_none();
        }
        let (events, effects) = self.world.hear(input);
        for event in &events {
            assert!(!self.ended, "after the end came {event:?}");
            match event {
                Event::CancelAsked { .. } => self.cancelled = true,
                Event::Ended { .. } => self.ended = true,
                Event::ToolStarted { call, .. } => {
                    assert!(self.started.insert(*call), "call {call} was started twice");
                }
                _ => {}
            }
        }
        for effect in &effects {
            // Looking at the workspace goes with opening it.
            let rests = self.world.run.paused() && *effect != Effect::Prepare;
            assert!(!(rests && effect.starts_work()), "while it rests came {effect:?}");
            assert!(!(self.cancelled && effect.starts_work()), "after a cancel came {effect:?}");
            if let Effect::AskModel { thread, max_output, role, .. } = effect {
                self.fits(*thread, *role, *max_output);
                well_formed(&self.world.run.prompt(&self.world.settings, *thread).messages);
            }
        }
        assert_eq!(Run::replay(&self.world.log).unwrap(), self.world.run);
    }

    /// A question and the longest answer to it are no more than its model can read.
    fn fits(&self, thread: ThreadId, role: Role, max_output: u32) {
        let settings = self.world.settings.role(role);
        let prompt = self.world.run.prompt(&self.world.settings, thread);
        let tools: usize = settings.tools.iter().map(|tool| tool.schema.to_string().len()).sum();
        let bytes = tools + prompt.system.len() + format!("{:?}", prompt.messages).len();
        let tokens = bytes as u64 / 5 + u64::from(max_output);
        assert!(tokens <= settings.window, "{tokens} tokens for {role:?}");
    }

    fn meet(&mut self, fate: Fate) {
        match fate {
            Fate::Answered { which, how } => {
                if !self.world.open.is_empty() {
                    let effect = self.world.open[which % self.world.open.len()].clone();
                    if let Effect::WakeAt(at) = effect {
                        self.world.now = self.world.now.max(at);
                    }
                    let reply = if self.busy { busy_reply } else { reply };
                    self.hear(reply(&effect, how));
                }
            }
            Fate::Stray { what, number } => {
                // Nobody hands over what nobody was asked for.
                let input = stray(what, number);
                if !matches!(input, Input::Delivered { .. }) || !self.ending() {
                    self.hear(input);
                }
            }
            Fate::Waited { millis } => {
                self.world.now = self.world.now.after(Duration::from_millis(millis));
                self.hear(Input::Woken);
            }
            Fate::Crashed { finish } if !self.ended => {
                self.world.run = Run::replay(&self.world.log).unwrap();
                self.world.open.clear();
                let ending = self.world.run.ending().cloned();
                self.take_up(finish);
                if finish {
                    assert_eq!(self.world.run.ending(), ending.as_ref());
                }
            }
            Fate::Crashed { .. } => {}
            Fate::Paused => self.hear(Input::Pause),
            Fate::Cancelled => self.hear(Input::Cancel { by: Cancel::User }),
            Fate::UserSpoke => self.hear(Input::UserSaid { text: "and more".to_owned() }),
        }
    }

    /// From here on everything that was asked for is answered, somehow.
    fn end(mut self, rest: Vec<u8>) {
        for how in rest {
            if self.ended {
                break;
            }
            if self.world.open.is_empty() && self.world.run.paused() {
                self.take_up(true);
            }
            assert!(!self.world.open.is_empty(), "the run waits for nothing");
            self.meet(Fate::Answered { which: 0, how });
        }
        assert!(self.ended, "the run did not end: {:#?}", self.world.open);
        let ends = self.world.log.iter().filter(|record| is_end(&record.event));
        assert_eq!(ends.count(), 1);
        let last = &self.world.log.last().unwrap().event;
        assert!(is_end(last), "after the end came {last:?}");
    }

    fn ending(&self) -> bool {
        self.world.open.contains(&Effect::Deliver)
    }
}

/// A conversation that every provider takes: the user first, and right after
/// each answer with calls exactly their results.
fn well_formed(messages: &[Message]) {
    assert!(matches!(messages.first(), Some(Message::User { .. })));
    assert!(!matches!(messages.last(), Some(Message::Model { .. })), "{messages:#?}");
    for (before, after) in messages.iter().zip(messages.iter().skip(1)) {
        match (before, after) {
            (Message::Model { blocks }, after) => {
                let answer =
                    Answer { blocks: blocks.clone(), stop: StopReason::Done, tokens: tokens() };
                let asked: Vec<String> = answer.calls().map(|call| call.id.clone()).collect();
                let answered: Vec<String> = match after {
                    Message::Tools { results } => {
                        results.iter().map(|result| result.id.clone()).collect()
                    }
                    _ => Vec::new(),
                };
                assert_eq!(asked, answered);
            }
            (_, Message::Tools { .. }) => panic!("results without calls: {messages:#?}"),
            _ => {}
        }
    }
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Ended { .. })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_run_keeps_its_promises_and_ends_once_whatever_comes(
        checks in any::<bool>(),
        timed in any::<bool>(),
        fates in vec(fate(), 0..80),
        rest in vec(any::<u8>(), 400),
    ) {
        let mut watched = Watched::new(checks, timed, false);
        for fate in fates {
            watched.meet(fate);
        }
        watched.end(rest);
    }

}

proptest! {
    // Each of these is long.
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_run_whose_conversations_are_cut_keeps_its_promises(
        fates in vec(busy_fate(), 0..150),
        rest in vec(any::<u8>(), 400),
    ) {
        let mut watched = Watched::new(false, false, true);
        for fate in fates {
            watched.meet(fate);
        }
        watched.busy = false;
        watched.end(rest);
    }
}
