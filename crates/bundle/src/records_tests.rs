//! Logs, and what they say of their jobs.

use cofferdam_types::{
    Answer, Arguments, Block, Budget, Cancel, CheckResult, JobId, LOG_VERSION, Limits, ModelName,
    Network, Outcome, Place, Role, SandboxId, StopReason,
};

use super::*;

fn spec() -> JobSpec {
    JobSpec {
        job: JobId::generate(),
        task: "make it".to_owned(),
        orchestrator: ModelName("demo".to_owned()),
        coder: ModelName("demo".to_owned()),
        summariser: None,
        budget: Budget { turns: 9, tokens: None, cost: None, time: None },
        checks: vec![],
        attempts: 1,
        place: Place {
            workspace: "/project".into(),
            sandbox: "auto".to_owned(),
            require: None,
            network: Network::default(),
            limits: Limits::default(),
            readable: vec![],
            image: None,
            variables: vec![],
        },
        out: None,
    }
}

/// A log of these events, a second apart.
fn log(events: Vec<Event>) -> Vec<Record> {
    let created = Event::Created { spec: Box::new(spec()) };
    let events = std::iter::once(created).chain(events);
    (1..)
        .zip(events)
        .map(|(seq, event)| Record { v: LOG_VERSION, seq, at: Timestamp(seq * 1000), event })
        .collect()
}

fn taken_up() -> Event {
    Event::TakenUp { version: "1".to_owned(), only_delivers: false }
}

fn asked(request: u32, thread: u32, role: Role, model: &str) -> Event {
    Event::ModelAsked {
        thread: ThreadId(thread),
        request: RequestId(request),
        role,
        model: ModelName(model.to_owned()),
        attempt: 1,
        span: None,
    }
}

fn answered(request: u32, calls: &[(&str, &str, &str)], cost: Option<u64>) -> Event {
    let call = |(id, name, arguments): &(&str, &str, &str)| {
        Block::ToolCall(ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            arguments: Arguments((*arguments).to_owned()),
        })
    };
    let answer = Answer {
        blocks: calls.iter().map(call).collect(),
        stop: StopReason::Tools,
        tokens: Tokens { input: 10, output: 5, ..Tokens::default() },
    };
    Event::ModelAnswered { request: RequestId(request), answer, cost: cost.map(Usd::from_nanos) }
}

fn started(call: u64, thread: u32, id: &str) -> Event {
    let (call, thread, id) = (CallId(call), ThreadId(thread), id.to_owned());
    Event::ToolStarted { call, thread, id, tool: SHELL.to_owned() }
}

fn ended(call: u64, thread: u32, id: &str, status: ToolStatus, text: &str) -> Event {
    let output = ToolOutput { took: Duration::from_millis(7), ..ToolOutput::text(status, text) };
    Event::ToolEnded { call: CallId(call), thread: ThreadId(thread), id: id.to_owned(), output }
}

fn complete(verified: bool) -> Ending {
    Ending::Complete { summary: "done".to_owned(), verified }
}

#[test]
fn commands_are_those_that_ran_with_what_became_of_them() {
    let about = About::from_records(&log(vec![
        taken_up(),
        asked(1, 0, Role::Orchestrator, "demo"),
        answered(
            1,
            &[
                ("a", SHELL, r#"{"command":"make"}"#),
                ("b", SHELL, r#"{"command":"serve","background":true}"#),
                ("c", SHELL, r#"{"command":"refused"}"#),
                ("d", "read_file", r#"{"path":"x"}"#),
                ("e", SHELL, r#"{"process":"p1"}"#),
                ("f", SHELL, r#"{"command":"#),
                ("g", SHELL, r#"{"command":"sleep"}"#),
            ],
            Some(5),
        ),
        asked(2, 1, Role::Coder, "other"),
        answered(2, &[("a", SHELL, r#"{"command":"in another thread"}"#)], None),
        started(1, 0, "a"),
        ended(1, 0, "a", ToolStatus::Failed, "exit code: 0\nno\nexit code: 2\n[1 process …]"),
        started(2, 1, "a"),
        ended(2, 1, "a", ToolStatus::Done, "exit code: 0"),
        started(3, 0, "b"),
        ended(3, 0, "b", ToolStatus::Done, "exit code: 9\np1 has started and is running"),
        ended(4, 0, "c", ToolStatus::Refused, "exit code: 0"),
        started(5, 0, "d"),
        started(6, 0, "e"),
        started(7, 0, "g"),
    ]))
    .unwrap();
    let shown: Vec<_> = about
        .commands
        .iter()
        .map(|run| (run.command.as_str(), run.background, run.status, run.exit.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [
            ("make", false, Some(ToolStatus::Failed), Some("2")),
            ("in another thread", false, Some(ToolStatus::Done), Some("0")),
            ("serve", true, Some(ToolStatus::Done), None),
            ("sleep", false, None, None),
        ]
    );
    assert_eq!(about.commands[0].took, Duration::from_millis(7));
    assert_eq!(about.models.len(), 2);
    assert_eq!((about.spent.turns, about.spent.unpriced), (2, 1));
    assert_eq!((about.spent.cost, about.spent.tokens.total()), (Usd::from_nanos(5), 30));
    assert_eq!(about.spent.time, Duration::from_secs(14), "since it was taken up");
    assert_eq!(about.at, Some(Timestamp(16_000)));
}

#[test]
fn calls_of_the_same_name_are_told_apart_by_their_order() {
    let about = About::from_records(&log(vec![
        taken_up(),
        asked(1, 0, Role::Orchestrator, "demo"),
        answered(
            1,
            &[
                ("a", SHELL, r#"{"command":"one"}"#),
                ("a", SHELL, r#"{"command":"refused"}"#),
                ("a", SHELL, r#"{"command":"two"}"#),
            ],
            None,
        ),
        started(1, 0, "a"),
        ended(1, 0, "a", ToolStatus::Done, "exit code: 0"),
        ended(2, 0, "a", ToolStatus::Refused, ""),
        started(3, 0, "a"),
        ended(3, 0, "a", ToolStatus::Failed, "exit code: 1"),
    ]))
    .unwrap();
    let told: Vec<(&str, Option<ToolStatus>)> =
        about.commands.iter().map(|run| (run.command.as_str(), run.status)).collect();
    assert_eq!(told, [("one", Some(ToolStatus::Done)), ("two", Some(ToolStatus::Failed))]);
}

#[test]
fn a_job_is_as_far_as_its_last_events_say() {
    let about = |events| About::from_records(&log(events)).unwrap();
    let of = |events| {
        let about = about(events);
        (about.status, about.verified)
    };
    let ended = |ending| {
        let spent = Spent { turns: 42, ..Spent::default() };
        Event::Ended { ending, spent, changes: vec![], delivery_problem: None }
    };
    assert_eq!(of(vec![]), (Status::Pending, false));
    assert_eq!(of(vec![taken_up()]), (Status::Running, false));
    let ending = |ending| vec![taken_up(), Event::Ending { ending }];
    assert_eq!(of(ending(complete(true))), (Status::Complete, true));
    assert_eq!(of(ending(complete(false))), (Status::Complete, false));
    let unverified = Ending::Unverified { summary: String::new() };
    assert_eq!(of(ending(unverified)), (Status::Error, false));
    let cancelled = Ending::Cancelled { by: Cancel::User };
    assert_eq!(of(ending(cancelled)), (Status::Cancelled, false));
    let over = about(vec![taken_up(), ended(complete(true))]);
    assert_eq!((over.status, over.spent.turns), (Status::Complete, 42));
    let again = vec![taken_up(), ended(complete(true)), taken_up()];
    assert_eq!(of(again), (Status::Running, false));
    let delivers = Event::TakenUp { version: "1".to_owned(), only_delivers: true };
    let handed_over_later = [ending(complete(true)), vec![delivers]].concat();
    assert_eq!(of(handed_over_later), (Status::Complete, true));
}

#[test]
fn checks_and_isolation_are_those_of_the_log() {
    let result = |exit_code| CheckResult {
        command: "make test".to_owned(),
        outcome: Outcome::Exited { exit_code },
        output: "long".to_owned(),
        took: Duration::from_secs(1),
    };
    let opened = Event::SandboxOpened {
        sandbox: SandboxId::generate(),
        backend: "native".to_owned(),
        grade: "bounded".to_owned(),
        weaknesses: vec!["disk".to_owned()],
    };
    let about = About::from_records(&log(vec![
        opened,
        Event::CheckEnded { attempt: 1, results: vec![result(1)] },
        Event::CheckEnded { attempt: 2, results: vec![result(0)] },
    ]))
    .unwrap();
    let passed: Vec<_> = about.checks.iter().map(|check| (check.attempt, check.passed)).collect();
    assert_eq!(passed, [(1, false), (2, true)]);
    assert_eq!(about.isolation.as_ref().unwrap().grade, "bounded");
    let json = serde_json::to_value(&about).unwrap();
    assert_eq!(json["checks"][0]["outcome"], "exited");
    assert_eq!(json["checks"][0]["exit_code"], 1);
    assert_eq!(serde_json::from_value::<About>(json).unwrap(), about);
}

#[test]
fn long_commands_are_cut_between_characters() {
    let long = format!(r#"{{"command":"a{}"}}"#, "é".repeat(10_000));
    let about = About::from_records(&log(vec![
        answered(1, &[("a", SHELL, &long)], None),
        started(1, 0, "a"),
    ]))
    .unwrap();
    let command = &about.commands[0].command;
    assert!(command.ends_with("é […]") && command.len() < 10_010, "{}", command.len());
}

#[test]
fn a_log_without_its_beginning_says_nothing() {
    assert_eq!(About::from_records(&[]), None);
    let records = log(vec![taken_up()]);
    assert_eq!(About::from_records(records.get(1..).unwrap()), None);
}
