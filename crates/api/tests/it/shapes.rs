//! The shapes that clients in other languages rely on.

use cofferdam_api::{CreateJob, Exec, Message, Resume, Scheduled, TerminalControl, TerminalSize};

#[test]
fn a_misspelt_field_is_told() {
    let error = serde_json::from_str::<CreateJob>(r#"{"task": "x", "modell": "demo"}"#);
    assert!(error.unwrap_err().to_string().contains("unknown field `modell`"));
    assert!(serde_json::from_str::<Message>(r#"{"text": "x", "y": 1}"#).is_err());
    assert!(serde_json::from_str::<Exec>(r#"{"cmd": "x"}"#).is_err());
    assert!(serde_json::from_str::<Resume>(r#"{"turns": 1}"#).is_err());
}

#[test]
fn a_task_alone_is_a_job() {
    let job: CreateJob = serde_json::from_str(r#"{"task": "x"}"#).unwrap();
    assert_eq!(job, CreateJob::task("x"));
    assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"task":"x"}"#);
    assert!(serde_json::from_str::<CreateJob>("{}").is_err());
}

#[test]
fn what_schedule_answers_is_fixed() {
    let id = "019a0000-0000-7000-8000-000000000001".parse().unwrap();
    let text = serde_json::to_string(&Scheduled { job_id: id }).unwrap();
    assert_eq!(text, r#"{"job_id":"019a0000-0000-7000-8000-000000000001"}"#);
}

#[test]
fn a_terminal_is_resized_by_a_named_control() {
    let control = TerminalControl::Resize(TerminalSize { cols: 80, rows: 24 });
    let text = r#"{"resize":{"cols":80,"rows":24}}"#;
    assert_eq!(serde_json::to_string(&control).unwrap(), text);
    assert_eq!(serde_json::from_str::<TerminalControl>(text).unwrap(), control);
}

#[test]
fn a_whole_number_is_one_however_it_is_written() {
    let turns = |json: &str| {
        let text = format!(r#"{{"task": "t", "max_turns": {json}}}"#);
        serde_json::from_str::<CreateJob>(&text).map(|job| job.max_turns).map_err(|_| ())
    };
    assert_eq!(turns("224"), Ok(Some(224)));
    assert_eq!(turns("224.0"), Ok(Some(224)));
    assert_eq!(turns("null"), Ok(None));
    for bad in ["224.5", "-1", "4294967296", "1e400", "\"3\"", "18446744073709551615", "1e300"] {
        assert_eq!(turns(bad), Err(()), "{bad}");
    }
}
