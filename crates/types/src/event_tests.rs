//! The log's format, pinned: what this release writes, and that it reads what
//! every earlier one wrote.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;
use crate::Summariser;
use crate::{Arguments, Block, Budget, JobId, Limits, Network, Place, Seal, StopReason, ToolCall};

/// Lines that release 0.1 wrote, one for each event it knew.
const VERSION_1: &str = include_str!("../golden/events-v1.jsonl");

/// At least one event of each kind, with every field filled.
fn samples() -> Vec<Event> {
    let thread = ThreadId(1);
    let request = RequestId(4);
    let call = CallId(7);
    let took = Duration::from_millis(1500);
    let tokens = Tokens { input: 10, cache_read: 20, cache_write: 30, output: 40 };
    let ending = Ending::Complete { summary: "done".to_owned(), verified: true };
    let budget = Budget {
        turns: 9,
        tokens: Some(1000),
        cost: Some(Usd::from_nanos(5)),
        time: Some(Duration::from_secs(60)),
    };
    let spec = JobSpec {
        job: "01890a5d-ac96-774b-bcce-b302099a8057".parse::<JobId>().unwrap(),
        task: "make it work".to_owned(),
        orchestrator: ModelName("anthropic/x".to_owned()),
        coder: ModelName("openai/y".to_owned()),
        summariser: None,
        budget: budget.clone(),
        checks: vec!["make test".to_owned()],
        attempts: 3,
        place: Place {
            workspace: PathBuf::from("/project"),
            sandbox: "auto".to_owned(),
            require: Some("bounded".to_owned()),
            network: "allow:example.org:443".parse::<Network>().unwrap(),
            limits: Limits::default(),
            readable: vec![PathBuf::from("/opt/tools")],
            image: None,
            variables: vec![("A".to_owned(), "1".to_owned())],
        },
        out: Some(PathBuf::from("/out.zip")),
    };
    let blocks = vec![
        Block::Thinking {
            text: "hm".to_owned(),
            seal: Some(Seal { wire: "messages".to_owned(), data: "{}".to_owned() }),
        },
        Block::Text { text: "I run it.".to_owned() },
        Block::ToolCall(ToolCall {
            id: "toolu_1".to_owned(),
            name: "bash".to_owned(),
            arguments: Arguments(r#"{"command":"make"}"#.to_owned()),
        }),
    ];
    let answer = Answer { blocks, stop: StopReason::Tools, tokens };
    let picture = Content::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let output = ToolOutput {
        status: ToolStatus::Failed,
        content: vec![Content::text("exit code: 1"), picture],
        rest: Some(Rest { handle: "output:7".to_owned(), bytes: 99_999 }),
        took,
    };
    let id = "toolu_1".to_owned();
    let mut samples = vec![
        Event::Created { spec: Box::new(spec) },
        Event::TakenUp { version: "0.1.0".to_owned(), only_delivers: true },
        Event::SandboxOpened {
            sandbox: "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap(),
            backend: "native".to_owned(),
            grade: "bounded".to_owned(),
            weaknesses: vec!["landlock: old kernel".to_owned()],
        },
        Event::Prepared {
            instructions: vec![Instructions {
                path: "AGENTS.md".to_owned(),
                text: "be brief".to_owned(),
                cut: false,
            }],
            skills: vec![Skill {
                name: "deploy".to_owned(),
                description: "how to deploy".to_owned(),
                path: ".agents/skills/deploy/SKILL.md".to_owned(),
            }],
        },
        Event::UserSaid { text: "and a README".to_owned() },
        Event::Delegated { thread, call, brief: "write a.py".to_owned(), reading: None },
        Event::ModelAsked {
            thread,
            request,
            role: Role::Coder,
            model: ModelName("openai/y".to_owned()),
            attempt: 2,
            span: None,
        },
        Event::ModelAnswered { request, answer, cost: Some(Usd::from_nanos(12)) },
        Event::ModelFailed {
            request,
            failure: ModelFailure {
                kind: FailureKind::RateLimited,
                message: "too many requests".to_owned(),
                retry_after: Some(Duration::from_secs(2)),
            },
            tokens,
            cost: None,
            retry_at: Some(Timestamp(1_700_000_002_000)),
        },
        Event::ModelUsed { request, tokens, cost: Some(Usd::from_nanos(9)) },
        Event::ToolStarted { call, thread, id: id.clone(), tool: "bash".to_owned() },
        Event::ToolEnded { call, thread, id, output },
        Event::Planned {
            steps: vec![PlanStep { step: "write".to_owned(), status: StepStatus::InProgress }],
            decisions: Vec::new(),
        },
        Event::CheckStarted { attempt: 1 },
        Event::CheckEnded {
            attempt: 1,
            results: vec![CheckResult {
                command: "make test".to_owned(),
                outcome: Outcome::Exited { exit_code: 2 },
                output: "1 failed".to_owned(),
                took,
            }],
        },
        Event::BudgetChanged { budget },
        Event::ModelsChanged {
            orchestrator: ModelName("anthropic/z".to_owned()),
            coder: ModelName("openai/y".to_owned()),
            summariser: None,
        },
        Event::Noted { text: "asked again".to_owned() },
        Event::CancelAsked { by: Cancel::User },
        Event::Ending { ending: ending.clone() },
        Event::Ended {
            ending,
            spent: Spent {
                turns: 3,
                tokens,
                cost: Usd::from_nanos(77),
                unpriced: 1,
                time: Duration::from_secs(9),
            },
            changes: vec![FileChange {
                path: "a.py".to_owned(),
                kind: ChangeKind::Added,
                added: Some(12),
                removed: Some(0),
            }],
            delivery_problem: Some("disk full".to_owned()),
        },
        Event::Paused,
        Event::Resumed,
    ];
    samples.extend(context_samples());
    samples
}

/// Events about what a model is shown, with the fields that others got with them.
fn context_samples() -> Vec<Event> {
    let thread = ThreadId(1);
    let cut = |cut, tokens| Event::ContextCut { thread, cut, pinned: 9_000, tokens };
    let summarised = |span, by| Cut::Summarised { span, summary: "it works".to_owned(), by };
    vec![
        Event::ModelAsked {
            thread,
            request: RequestId(5),
            role: Role::Summariser,
            model: ModelName("openai/small".to_owned()),
            attempt: 1,
            span: Some(Span::Messages { through: 40 }),
        },
        Event::Planned {
            steps: vec![PlanStep { step: "write".to_owned(), status: StepStatus::Completed }],
            decisions: vec!["tabs, not spaces".to_owned()],
        },
        cut(Cut::Pruned { through: 40, keep: 1_600 }, (9_000, 7_000)),
        cut(summarised(Span::Messages { through: 40 }, Summariser::Model), (7_000, 3_000)),
        cut(summarised(Span::Summaries { count: 2 }, Summariser::Rule), (3_000, 2_000)),
        Event::RecallAsked { thread, words: "the parser".to_owned() },
        Event::Offered { thread, text: "#12: the parser is in a.rs".to_owned() },
        Event::ModelsChanged {
            orchestrator: ModelName("anthropic/z".to_owned()),
            coder: ModelName("openai/y".to_owned()),
            summariser: Some(ModelName("openai/small".to_owned())),
        },
        Event::Listening { ports: vec![3000, 8080] },
        Event::ImageStep { step: "install the system's packages".to_owned() },
        Event::ImageReady { image: "5f3c".repeat(16) },
    ]
}

fn lines() -> String {
    let records = (1..).zip(samples()).map(|(seq, event)| {
        let record = Record { v: LOG_VERSION, seq, at: Timestamp(1_700_000_000_000), event };
        serde_json::to_string(&record).unwrap() + "\n"
    });
    records.collect()
}

#[test]
fn what_is_written_is_what_this_version_promises() {
    assert_eq!(lines(), VERSION_1, "a change of format needs a new version and a new file");
}

#[test]
fn what_version_1_wrote_is_read_as_it_was_meant() {
    let read = VERSION_1.lines().map(|line| serde_json::from_str::<Record>(line).unwrap().event);
    assert_eq!(read.collect::<Vec<_>>(), samples());
}

#[test]
fn every_kind_of_event_is_pinned() {
    // A new kind does not compile here until it is named, and fails below until
    // it has a sample.
    let place = |event: &Event| match event {
        Event::Created { .. } => 0,
        Event::TakenUp { .. } => 1,
        Event::SandboxOpened { .. } => 2,
        Event::Prepared { .. } => 3,
        Event::UserSaid { .. } => 4,
        Event::Delegated { .. } => 5,
        Event::ModelAsked { .. } => 6,
        Event::ModelAnswered { .. } => 7,
        Event::ModelFailed { .. } => 8,
        Event::ModelUsed { .. } => 9,
        Event::ToolStarted { .. } => 10,
        Event::ToolEnded { .. } => 11,
        Event::Planned { .. } => 12,
        Event::CheckStarted { .. } => 13,
        Event::CheckEnded { .. } => 14,
        Event::BudgetChanged { .. } => 15,
        Event::ModelsChanged { .. } => 16,
        Event::Noted { .. } => 17,
        Event::CancelAsked { .. } => 18,
        Event::Ending { .. } => 19,
        Event::Ended { .. } => 20,
        Event::Paused => 21,
        Event::Resumed => 22,
        Event::ContextCut { .. } => 23,
        Event::RecallAsked { .. } => 24,
        Event::Offered { .. } => 25,
        Event::Listening { .. } => 26,
        Event::ImageStep { .. } => 27,
        Event::ImageReady { .. } => 28,
    };
    let places: BTreeSet<usize> = samples().iter().map(place).collect();
    assert_eq!(places, (0..29).collect::<BTreeSet<_>>());
}

#[test]
fn a_field_that_a_later_release_adds_is_passed_over() {
    let line = r#"{"v":1,"seq":1,"at":5,"event":"noted","text":"x","later":true}"#;
    let record: Record = serde_json::from_str(line).unwrap();
    assert_eq!(record.event, Event::Noted { text: "x".to_owned() });
}
