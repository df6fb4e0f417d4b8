//! A job whose conversation gets too long for a small window, looked at everywhere.

use std::time::Duration;

use cofferdam_engine::{
    Effect, Input, RoleSettings, Run, Settings, coder_specs, orchestrator_specs, step,
};
use cofferdam_types::{
    Answer, Arguments, Block, Budget, Event, JobSpec, LOG_VERSION, Limits, ModelName, Network,
    Place, Price, Record, Role, SandboxId, StopReason, Summariser, ThreadId, Timestamp, Tokens,
    ToolCall, ToolOutput, ToolSpec, ToolStatus, Toolbox, Usd,
};
use serde_json::json;

use super::look::{Bill, Conversation, CutMade, Kind, Look, Part, Seen, What};
use super::told;

const JOB: &str = "0190a5b2-0000-7000-8000-000000000001";
const SUMMARY: &str = "The old parser was read from the first to the last file and nothing in it was \
    changed so far; next come the tests.";

fn spec() -> JobSpec {
    JobSpec {
        job: JOB.parse().unwrap(),
        task: "Port the parser".to_owned(),
        orchestrator: ModelName("test/large".to_owned()),
        coder: ModelName("test/large".to_owned()),
        summariser: Some(ModelName("test/brief".to_owned())),
        budget: Budget { turns: 500, tokens: None, cost: None, time: None },
        checks: Vec::new(),
        attempts: 1,
        place: Place {
            workspace: "/project".into(),
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
    let dollar = Usd::from_nanos(1_000);
    let price = Price { input: dollar, cache_read: dollar, cache_write: dollar, output: dollar };
    let read_file = ToolSpec {
        name: "read_file".to_owned(),
        description: "Read a file.".to_owned(),
        schema: json!({"type": "object"}),
    };
    let role = |tools| RoleSettings { tools, price: Some(price), max_output: 1_000, window: 9_000 };
    Settings {
        orchestrator: role(orchestrator_specs().into_iter().chain([read_file]).collect()),
        coder: role(coder_specs().into_iter().collect()),
        summariser: role(Toolbox::default()),
        recalls: false,
        retries: 0,
        backoff: Duration::from_millis(1),
    }
}

/// The log of a job that reads so many files; whoever summarises answers the first time
/// with nothing.
fn log(files: u32) -> Vec<Record> {
    let (settings, spec, at) = (settings(), spec(), Timestamp(1_700_000_000_000));
    let created = Event::Created { spec: Box::new(spec.clone()) };
    let mut records = vec![Record { v: LOG_VERSION, seq: 1, at, event: created }];
    let mut run = Run::new(spec, at);
    let mut inputs = vec![Input::TakeUp {
        version: "1".to_owned(),
        collected: Vec::new(),
        say: None,
        finish: false,
    }];
    let (mut read, mut summaries) = (0, 0);
    while let Some(input) = inputs.pop() {
        let made = step(&mut run, &settings, at, input);
        for event in made.events {
            records.push(Record { v: LOG_VERSION, seq: records.len() as u64 + 1, at, event });
        }
        for effect in made.effects {
            inputs.extend(match effect {
                Effect::OpenSandbox => Some(Input::SandboxOpened {
                    sandbox: JOB.parse::<SandboxId>().unwrap(),
                    backend: "native".to_owned(),
                    grade: "namespaces".to_owned(),
                    weaknesses: Vec::new(),
                }),
                Effect::Prepare => {
                    Some(Input::Prepared { instructions: Vec::new(), skills: Vec::new() })
                }
                Effect::AskModel { request, role: Role::Summariser, .. } => {
                    summaries += 1;
                    let text = if summaries == 1 { "" } else { SUMMARY };
                    let blocks = vec![Block::Text { text: text.to_owned() }];
                    Some(Input::ModelAnswered { request, answer: answer(blocks, StopReason::Done) })
                }
                Effect::AskModel { request, .. } if read < files => {
                    read += 1;
                    let call = ToolCall {
                        id: format!("c{read}"),
                        name: "read_file".to_owned(),
                        arguments: Arguments(json!({"path": format!("{read}.c")}).to_string()),
                    };
                    let blocks = vec![Block::ToolCall(call)];
                    Some(Input::ModelAnswered {
                        request,
                        answer: answer(blocks, StopReason::Tools),
                    })
                }
                Effect::RunTool { call, .. } => {
                    let long = if read % 4 == 0 { 700 } else { 150 };
                    let text = format!("file {read}\n").repeat(long);
                    let output = ToolOutput::text(ToolStatus::Done, text);
                    Some(Input::ToolEnded { call, output })
                }
                _ => None,
            });
        }
    }
    records
}

fn answer(blocks: Vec<Block>, stop: StopReason) -> Answer {
    let tokens = Tokens { input: 0, cache_read: 0, cache_write: 0, output: 40 };
    Answer { blocks, stop, tokens }
}

fn look(records: &[Record]) -> Look {
    let mut look = None;
    for record in records {
        Look::follow(&mut look, record).unwrap();
    }
    look.unwrap()
}

fn of_kind(seen: &Seen<'_>, kind: Kind) -> usize {
    seen.threads[0].parts.iter().filter(|part| part.kind == kind).count()
}

#[test]
fn a_job_whose_conversation_was_cut_is_shown_by_part_and_cut() {
    let records = log(60);
    let look = look(&records);
    let settings = settings();
    let seen = look.seen(&settings);
    assert!(seen.cuts.len() > 3, "{}", told::overview(&seen));
    for cut in seen.cuts {
        assert!(cut.after < cut.before, "{cut:?}");
        assert!(cut.before <= 9_000, "{cut:?}");
    }
    assert!(of_kind(&seen, Kind::Summary) > 0 && of_kind(&seen, Kind::Message) > 0);
    assert!(seen.threads[0].tokens <= 9_000 - seen.threads[0].answer);
    // The first summary was asked for twice, and both answers were paid for.
    let bills = seen.cuts.iter().filter_map(|cut| match &cut.what {
        What::Summarised { bill, .. } => Some(bill),
        What::Pruned { .. } => None,
    });
    let bills: Vec<_> = bills.collect();
    assert_eq!((bills[0].asked, bills[0].tokens.output), (2, 80));
    assert_eq!(bills[0].cost, Usd::from_nanos(80_000));
    assert!(bills[1..].iter().all(|bill| bill.asked == 1));
    assert!(seen.cuts.iter().any(|cut| matches!(cut.what, What::Pruned { .. })));
    let told = told::overview(&seen);
    for words in [
        "orchestrator test/large · about ",
        "  instructions                You are Cofferdam",
        "  4 tools                     plan, delegate, finish, read_file",
        "  task and memory             Port the parser",
        "summarised by test/brief, asked 2 times (80 tokens, $0.0001)",
        "cut to 1,600 bytes each",
    ] {
        assert!(told.contains(words), "{words}:\n{told}");
    }
}

#[test]
fn a_conversation_is_told_in_a_screenful() {
    let part = |kind, name: &str, tokens, begins: &str| Part {
        kind,
        name: name.to_owned(),
        tokens,
        begins: begins.to_owned(),
    };
    let mut parts = vec![
        part(Kind::Instructions, "instructions", 1_250, "You are Cofferdam, a coding agent."),
        part(Kind::Tools, "14 tools", 3_400, "bash, read_file"),
        part(Kind::Task, "task and memory", 420, "Port the parser"),
        part(Kind::Summary, "#4 to #88", 900, "The parser\u{1b}[31m was read."),
    ];
    for seq in 89..104 {
        parts.push(part(Kind::Message, &format!("#{seq} result"), 1_000, "one line of it"));
    }
    let (large, brief) = (ModelName("a/large".to_owned()), ModelName("a/brief".to_owned()));
    let thread = Conversation {
        thread: ThreadId(0),
        role: Role::Orchestrator,
        model: &large,
        window: 200_000,
        answer: 16_384,
        tokens: 20_970,
        counting: "exact, by o200k_base".to_owned(),
        counted: Some(Tokens { input: 970, cache_read: 19_000, cache_write: 0, output: 9 }),
        summarising: true,
        parts,
        system: String::new(),
        tools: Toolbox::default(),
        messages: Vec::new(),
    };
    let bill = |asked, cost, unpriced| Bill {
        model: (asked > 0).then(|| brief.clone()),
        asked,
        tokens: Tokens { input: 45_000, cache_read: 0, cache_write: 0, output: 200 },
        cost: Usd::from_nanos(cost),
        unpriced,
    };
    let cut = |event, what| CutMade {
        event,
        at: Timestamp(0),
        thread: ThreadId(u32::from(event == 97)),
        before: 121_000,
        after: 31_400,
        what,
    };
    let summarised = |summaries, by, bill| What::Summarised {
        from: 4,
        through: 88,
        summaries,
        by,
        bytes: 3_000,
        bill,
    };
    let cuts = [
        cut(61, What::Pruned { through: 50, keep: 1_600 }),
        cut(90, summarised(None, Summariser::Model, bill(1, 12_300_000, 0))),
        cut(91, summarised(None, Summariser::Model, bill(2, 0, 2))),
        cut(97, summarised(Some(3), Summariser::Rule, bill(3, 12_300_000, 1))),
        cut(1_003, summarised(None, Summariser::Rule, bill(0, 0, 0))),
    ];
    let spec = spec();
    let seen = Seen { spec: &spec, threads: vec![thread], cuts: &cuts };
    insta::assert_snapshot!(told::overview(&seen), @r"
    job 0190a5b2-0000-7000-8000-000000000001

    orchestrator a/large · about 20,970 of 183,616 tokens (11%), 16,384 kept for the answer
    counted by its provider at the last question: 19,970, 19,000 of that cached
    tokens of its messages: exact, by o200k_base
    a part of it is being summarised
         1,250  instructions                You are Cofferdam, a coding agent.
         3,400  14 tools                    bash, read_file
           420  task and memory             Port the parser
           900  summary of #4 to #88        The parser was read.
        15,000  recent messages (15)
         1,000    #92 result                one line of it
         1,000    #93 result                one line of it
         1,000    #94 result                one line of it
         1,000    #95 result                one line of it
         1,000    #96 result                one line of it
         1,000    #97 result                one line of it
         1,000    #98 result                one line of it
         1,000    #99 result                one line of it
         1,000    #100 result               one line of it
         1,000    #101 result               one line of it
         1,000    #102 result               one line of it
         1,000    #103 result               one line of it
                  3 earlier ones are in --json

    cuts: tokens before and after
    #61       121,000 → 31,400    texts up to #50 cut to 1,600 bytes each
    #90       121,000 → 31,400    #4 to #88 summarised by a/brief (45,200 tokens, $0.0123)
    #91       121,000 → 31,400    #4 to #88 summarised by a/brief, asked 2 times (45,200 tokens, price unknown)
    #97       121,000 → 31,400    3 summaries of #4 to #88 made one by rule, after a/brief was asked 3 times (45,200 tokens, $0.0123 and more) (conversation 1)
    #1003     121,000 → 31,400    #4 to #88 summarised by rule
    ");
}

#[test]
fn wherever_a_log_ends_it_can_be_looked_at() {
    let records = log(20);
    let settings = settings();
    for end in 1..=records.len() {
        let look = look(&records[..end]);
        let seen = look.seen(&settings);
        let [thread] = &seen.threads[..] else { panic!("one conversation") };
        // Also while a summary is written: what is seen is the conversation's own.
        assert!(thread.system.starts_with("You are Cofferdam"), "{end}");
        let asks = matches!(records[end - 1].event, Event::ModelAsked { span: Some(_), .. });
        assert_eq!(thread.summarising, asks, "{end}");
        assert_eq!(told::overview(&seen).contains("being summarised"), asks);
        let sum: u64 = thread.parts.iter().map(|part| part.tokens).sum();
        assert!(sum.abs_diff(thread.tokens) < 60, "{end}: {sum} {}", thread.tokens);
    }
}

#[test]
fn the_very_text_is_there_for_people_and_for_machines() {
    let records = log(60);
    let look = look(&records);
    let settings = settings();
    let seen = look.seen(&settings);
    let text = told::text(&seen);
    for words in ["You are Cofferdam", "tool finish", "Port the parser", "<memory>", SUMMARY] {
        assert!(text.contains(words), "{words}");
    }
    let json = seen.json(true);
    let thread = &json["conversations"][0];
    assert_eq!(thread["messages"][0]["from"], "user");
    assert_eq!(thread["messages"][0]["content"][0]["text"], "Port the parser");
    assert!(thread["system"].as_str().unwrap().starts_with("You are Cofferdam"));
    let brief = seen.json(false);
    assert_eq!(brief["job"], JOB);
    assert_eq!(brief["version"], 1);
    assert!(brief["conversations"][0].get("messages").is_none());
    assert_eq!(brief["cuts"], json["cuts"]);
    let summarised = brief["cuts"].as_array().unwrap().iter();
    let summarised = summarised.filter(|cut| cut["how"] == "summarised").collect::<Vec<_>>();
    assert_eq!(summarised[0]["by"], "model");
    assert_eq!(summarised[0]["bill"]["model"], "test/brief");
}

#[test]
fn a_job_that_has_only_begun_has_nothing_cut() {
    let look = look(&log(1)[..1]);
    let settings = settings();
    let told = told::overview(&look.seen(&settings));
    assert!(told.contains("nothing was cut"), "{told}");
}
