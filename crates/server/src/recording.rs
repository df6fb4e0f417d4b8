//! Recordings of a job's desktop, on request: a film with chapters that say what the
//! job did.
//!
//! ffmpeg records inside the sandbox and keeps its file there. Nothing of it is
//! remembered here, so it outlives the server; it ends with the sandbox.

mod chapters;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use cofferdam_api::Recording;
use cofferdam_fleet::Visit;
use cofferdam_guest_protocol::{Leftovers, OutputMode};
use cofferdam_sandbox::{OutputChunk, Process};
use cofferdam_store::JobRow;
use cofferdam_types::Outcome;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};

use crate::app::{App, place};
use crate::disposition::attachment;
use crate::exec::visitor_call;
use crate::files::wanted_back;
use crate::headers::DOWNLOAD;
use crate::problem::{CONFLICT, MISSING, Refusal};
use crate::request::{Caller, Id, json};

const START: &str = include_str!("recording/start.sh");
const STOP: &str = include_str!("recording/stop.sh");
const CHAPTERS: &str = include_str!("recording/chapters.sh");
/// No film is longer, whatever is there in its place.
const READ: &str = r#"exec head -c 256M "$HOME/.cofferdam/recording/desktop.webm""#;

/// How long a script may take: to end a recording, to put chapters into it.
const PATIENCE: Duration = Duration::from_secs(50);
/// Bytes of what a script says.
const WORDS: u64 = 4096;
/// Events that are looked at for chapters, and how many of them at once.
const EVENTS: u64 = 20_000;
const PAGE: u32 = 1000;

/// `POST /api/v1/jobs/{id}/desktop/recording`.
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let _place = place(&app.room.commands, "commands")?;
    let visit = app.fleet.visit(&row).await?;
    let begun = tokio::select! {
        begun = tokio::time::timeout(PATIENCE, begin(&visit)) => begun,
        () = visit.over() => return Err(wanted_back()),
    };
    let word = begun.unwrap_or_else(|_| Ok(String::new()))?;
    let remedy = match word.as_str() {
        "started" => {
            let (user, job) = (caller.0.user.id, row.id);
            tracing::info!(%user, %job, "a recording of the desktop was begun");
            return json(StatusCode::OK, &going_on());
        }
        "running" => return json(StatusCode::OK, &going_on()),
        "missing" => {
            let why = "ffmpeg is not installed where the job works";
            let remedy = "install it on the server's machine: apt-get install ffmpeg";
            return Err(Refusal::new(CONFLICT, why, remedy));
        }
        "ended" => {
            let why = "the last recording has ended by itself, and nobody has fetched it";
            let remedy = "end it first, which puts chapters into it: DELETE";
            return Err(Refusal::new(CONFLICT, why, remedy));
        }
        "off" => "start the desktop first: POST /api/v1/jobs/{id}/desktop",
        _ => "look at the disk and the memory that the job has left",
    };
    Err(Refusal::new(CONFLICT, "the desktop cannot be recorded now", remedy))
}

fn going_on() -> Recording {
    Recording { recording: true, milliseconds: None, bytes: None }
}

/// Starts the recording, which stays; the word that it says.
async fn begin(visit: &Visit) -> Result<String, Refusal> {
    let command = visit.shell(START).timeout(None);
    let mut process = visit.start(visitor_call()?, command).await?;
    let mut said = Vec::new();
    while let Some(chunk) = process.next_output().await {
        if let OutputChunk::Stdout(bytes) = chunk {
            said.extend_from_slice(&bytes);
        }
        if said.contains(&b'\n') || said.len() > 100 {
            break;
        }
    }
    let word = String::from_utf8_lossy(&said).trim().to_owned();
    if word == "started" {
        process.release();
    }
    Ok(word)
}

/// `DELETE /api/v1/jobs/{id}/desktop/recording`.
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let _place = place(&app.room.commands, "commands")?;
    let visit = app.fleet.visit(&row).await?;
    let said = run(&visit, STOP, Bytes::new()).await?;
    let mut lines = said.lines();
    let detail = match lines.next().unwrap_or_default() {
        "ended" => {
            let mut number = || lines.next().and_then(|line| line.trim().parse::<i64>().ok());
            let (begun, ended) = (number().unwrap_or(0), number().unwrap_or(0));
            let chapters = chapters(&app, &row).await?;
            let file = chapters::file(&chapters, begun, ended);
            let bytes = run(&visit, CHAPTERS, file.into()).await?;
            let (user, job) = (caller.0.user.id, row.id);
            tracing::info!(%user, %job, "a recording of the desktop has ended");
            return json(
                StatusCode::OK,
                &Recording {
                    recording: false,
                    milliseconds: u64::try_from(ended.saturating_sub(begun)).ok(),
                    bytes: bytes.trim().parse().ok(),
                },
            );
        }
        "none" => return Err(none()),
        "stuck" => "the recording does not end".to_owned(),
        _ => format!("nothing was recorded: {}", lines.collect::<Vec<_>>().join(" ")),
    };
    Err(Refusal::new(CONFLICT, detail, "begin another one"))
}

fn none() -> Refusal {
    let remedy = "begin one: POST /api/v1/jobs/{id}/desktop/recording; end it: DELETE";
    Refusal::new(MISSING, "there is no recording of the job's desktop", remedy)
}

/// What the job did, as far as it is looked back.
async fn chapters(app: &App, row: &JobRow) -> Result<Vec<chapters::Chapter>, Refusal> {
    let mut after = row.last_seq.saturating_sub(EVENTS);
    let mut chapters = Vec::new();
    // It goes on meanwhile: as many pages as there were, and one more.
    for _ in 0..=EVENTS / u64::from(PAGE) {
        let lines = app.store().events(row.id, after, PAGE).await?;
        let Some(last) = lines.last() else { break };
        after = last.seq;
        chapters.extend(lines.iter().filter_map(|line| chapters::chapter(&line.text)));
    }
    Ok(chapters)
}

/// Runs a script to its end; what it says.
async fn run(visit: &Visit, script: &str, input: Bytes) -> Result<String, Refusal> {
    let command = visit
        .shell(script)
        .timeout(Some(PATIENCE))
        .output(OutputMode::Capture { limit: WORDS })
        .leftovers(Leftovers::Kill)
        .keep(WORDS)
        .input(input);
    let result = tokio::select! {
        result = visit.run(visitor_call()?, command) => result?,
        () = visit.over() => return Err(wanted_back()),
    };
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// `GET /api/v1/jobs/{id}/desktop/recording`.
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let place = place(&app.room.commands, "commands")?;
    let visit = app.fleet.visit(&row).await?;
    let command = visit
        .shell(READ)
        .timeout(Some(app.limits.exec_time))
        .output(OutputMode::Stream)
        .leftovers(Leftovers::Kill);
    let mut process = visit.start(visitor_call()?, command).await?;
    let Some(first) = piece(&visit, &mut process).await else { return Err(none()) };
    let reading = Some((visit, process, place));
    let rest = stream::unfold(reading, |reading| async {
        let (visit, mut process, place) = reading?;
        match piece(&visit, &mut process).await {
            Some(bytes) => Some((Ok(bytes), Some((visit, process, place)))),
            None => {
                let whole = tokio::select! {
                    whole = is_whole(&visit, &mut process) => whole,
                    // Whoever wants the sandbox back does not wait for a reader.
                    () = visit.over() => false,
                };
                if whole { None } else { Some((Err(std::io::Error::other("it was cut")), None)) }
            }
        }
    });
    let all = stream::StreamExt::chain(stream::iter([Ok(first)]), rest);
    let mut response = Response::new(Body::from_stream(all));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("video/webm"));
    headers.insert(CONTENT_DISPOSITION, attachment(format!("{}.webm", row.id).as_bytes()));
    headers.insert(CONTENT_SECURITY_POLICY, DOWNLOAD);
    Ok(response)
}

/// Whether all of the film was read.
async fn is_whole(visit: &Visit, process: &mut Process) -> bool {
    let Ok(report) = process.wait().await else { return false };
    matches!(visit.outcome(process, &report).await, Ok(Outcome::Exited { exit_code: 0 }))
}

/// The next piece of the film; none at its end, or when the sandbox is wanted back.
async fn piece(visit: &Visit, process: &mut Process) -> Option<Bytes> {
    loop {
        let chunk = tokio::select! {
            chunk = process.next_output() => chunk?,
            () = visit.over() => return None,
        };
        if let OutputChunk::Stdout(bytes) = chunk {
            return Some(bytes);
        }
    }
}
