//! One command in a job's sandbox, beside what the job does there.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cofferdam_api::{Exec, ExecResult};
use cofferdam_guest_protocol::{Leftovers, OutputMode, Program};
use cofferdam_sandbox::WORKSPACE;
use cofferdam_types::CallId;
use http::{HeaderMap, StatusCode};

use crate::app::{App, place};
use crate::body;
use crate::files::wanted_back;
use crate::problem::{Refusal, UNFIT};
use crate::request::{Caller, Id, json};
use crate::wish::time;

/// Bytes of a command.
const LONGEST_COMMAND: usize = 128 << 10;
/// Arguments of a program.
const MOST_ARGUMENTS: usize = 1024;

/// `POST /api/v1/jobs/{id}/exec`.
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let asked: Exec = body::json(&headers, &bytes)?;
    let program = program(&asked)?;
    let cwd = directory(asked.cwd.as_deref())?;
    let timeout = match time("timeout", &asked.timeout)? {
        Some(span) if span > app.limits.exec_time => {
            let most = app.limits.exec_time.as_secs();
            return Err(unfit(format!("timeout is more than {most}s")));
        }
        Some(span) => span,
        None => app.limits.exec_time_default,
    };
    let _place = place(&app.room.commands, "commands")?;
    let visit = app.fleet.visit(&row).await?;
    let keep = app.limits.exec_output;
    let mut command = visit
        .command(program)
        .cwd(cwd)
        .timeout(Some(timeout))
        .output(OutputMode::Capture { limit: keep })
        .leftovers(Leftovers::Kill)
        .keep(keep);
    if let Some(stdin) = asked.stdin {
        command = command.input(stdin);
    }
    let result = tokio::select! {
        result = visit.run(visitor_call()?, command) => result?,
        () = visit.over() => return Err(wanted_back()),
    };
    let (stdout, stdout_base64) = text(&result.stdout);
    let (stderr, stderr_base64) = text(&result.stderr);
    let result = ExecResult {
        outcome: result.outcome,
        stdout,
        stdout_base64,
        stderr,
        stderr_base64,
        truncated: result.truncated,
        duration_ms: millis(result.usage.duration),
        cpu_ms: millis(result.usage.cpu),
        peak_memory: result.usage.peak_memory,
        left_running: result.left_running,
    };
    json(StatusCode::OK, &result)
}

fn program(asked: &Exec) -> Result<Program, Refusal> {
    let good = |text: &str| !text.contains('\0');
    match (&asked.command, &asked.argv) {
        (Some(command), None) => {
            if command.trim().is_empty() || command.len() > LONGEST_COMMAND || !good(command) {
                return Err(unfit(format!(
                    "command is empty, longer than {LONGEST_COMMAND} bytes, or holds a NUL"
                )));
            }
            Ok(Program::Shell(command.clone().into_bytes()))
        }
        (None, Some(argv)) => {
            let length: usize = argv.iter().map(String::len).sum();
            let named = argv.first().is_some_and(|program| !program.is_empty());
            let few = argv.len() <= MOST_ARGUMENTS && length <= LONGEST_COMMAND;
            if !named || !few || !argv.iter().all(|word| good(word)) {
                return Err(unfit("argv is empty, too long, or holds a NUL"));
            }
            Ok(Program::Argv(argv.iter().map(|word| word.clone().into_bytes()).collect()))
        }
        _ => Err(unfit("there must be either command or argv")),
    }
}

/// Where a command runs; a relative path is one in the workspace.
fn directory(cwd: Option<&str>) -> Result<String, Refusal> {
    let Some(cwd) = cwd else { return Ok(WORKSPACE.to_owned()) };
    if cwd.is_empty() || cwd.len() > 4096 || cwd.contains('\0') {
        return Err(unfit("cwd is no path"));
    }
    Ok(if cwd.starts_with('/') { cwd.to_owned() } else { format!("{WORKSPACE}/{cwd}") })
}

/// A name for a call that no call of the job itself has: those are small.
pub(crate) fn visitor_call() -> Result<CallId, Refusal> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Refusal::internal(&error))?;
    let number = u64::from_le_bytes(bytes) >> 12;
    Ok(CallId((1 << 52) | number))
}

fn text(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(STANDARD.encode(bytes))),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn unfit(detail: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::new(UNFIT, detail, "see /api/v1/openapi.json for what is taken")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(json: &str) -> Result<Program, u16> {
        let asked = serde_json::from_str(json).unwrap();
        program(&asked).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn a_command_is_a_line_or_words() {
        assert_eq!(exec(r#"{"command": "ls"}"#), Ok(Program::Shell(b"ls".into())));
        assert_eq!(
            exec(r#"{"argv": ["ls", ""]}"#),
            Ok(Program::Argv(vec![b"ls".into(), b"".into()]))
        );
        for json in [
            "{}",
            r#"{"command": " "}"#,
            r#"{"command": "a\u0000b"}"#,
            r#"{"argv": []}"#,
            r#"{"argv": [""]}"#,
            r#"{"argv": ["a\u0000"]}"#,
            r#"{"command": "ls", "argv": ["ls"]}"#,
        ] {
            assert_eq!(exec(json), Err(422), "{json}");
        }
    }

    #[test]
    fn a_relative_directory_is_one_in_the_workspace() {
        assert_eq!(directory(None).unwrap(), "/workspace");
        assert_eq!(directory(Some("src")).unwrap(), "/workspace/src");
        assert_eq!(directory(Some("/tmp")).unwrap(), "/tmp");
        assert!(directory(Some("")).is_err());
    }

    #[test]
    fn calls_of_visitors_are_far_from_those_of_jobs() {
        for _ in 0..1000 {
            let CallId(call) = visitor_call().unwrap();
            assert!(((1 << 52)..(1 << 53)).contains(&call), "{call}");
        }
    }

    #[test]
    fn output_that_is_no_text_comes_with_its_bytes() {
        assert_eq!(text(b"ok"), ("ok".to_owned(), None));
        assert_eq!(text(b"\xff"), ("\u{fffd}".to_owned(), Some("/w==".to_owned())));
    }
}
