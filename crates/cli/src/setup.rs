//! `cofferdam setup`: installs what code cells need, or says what of it is there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use cofferdam_setup::{
    Host, Installed, Part, Progress, Recipe, Setup, SetupError, TimeLimits, found, prefix_in,
};
use cofferdam_view::tame_line;
use serde::Serialize;

use crate::interruption::{Asked, Signals};
use crate::problem::Problem;
use crate::provisions::{self, Provision};
use crate::{Product, events, exit, streams};

/// The version of what `--json` prints.
const VERSION: u32 = 1;

/// How long a set-up that was told to stop may take to clear away what it had begun.
const CLEARING: Duration = Duration::from_secs(30);

/// The options of `setup`.
#[derive(Debug, Args)]
pub(crate) struct SetupArguments {
    /// What to install [default: all of it]
    #[arg(value_name = "PART", long_help = long_help())]
    parts: Vec<Part>,
    /// Only say what is there; the exit code is 1 if something is missing
    #[arg(long)]
    check: bool,
    /// Then remove what other releases have installed; jobs that use it lose it
    #[arg(long, conflicts_with = "check")]
    prune: bool,
    /// Print one JSON event a line, the last one telling how it ended; with --check
    /// one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn long_help() -> String {
    let parts = Part::ALL.map(|part| format!("{part} ({})", part.about()));
    format!("What to install: {} [default: all of it]", parts.join("; "))
}

impl SetupArguments {
    /// Each part that is asked for, once.
    fn parts(&self) -> Vec<Part> {
        let asked = |part: &Part| self.parts.is_empty() || self.parts.contains(part);
        Part::ALL.into_iter().filter(asked).collect()
    }
}

/// Does what is asked; returns the exit code.
pub(crate) async fn run(product: &Product, arguments: SetupArguments) -> ExitCode {
    let prefix = prefix_in(&product.home);
    let host = Host::here(std::env::var_os("PATH").as_ref());
    ExitCode::from(match arguments.check {
        true => check(&prefix, &host, &arguments),
        false => install(prefix, host, arguments).await,
    })
}

#[derive(Debug, Serialize)]
struct Checked<'a> {
    version: u32,
    prefix: &'a Path,
    complete: bool,
    parts: Vec<Provision>,
}

fn check(prefix: &Path, host: &Host, arguments: &SetupArguments) -> u8 {
    let found = found(prefix, host);
    let parts = arguments.parts().into_iter().map(|part| Provision::of(part, &found));
    let parts: Vec<Provision> = parts.collect();
    let complete = parts.iter().all(|part| part.path.is_some());
    let text = if arguments.json {
        let checked = Checked { version: VERSION, prefix, complete, parts };
        serde_json::to_string_pretty(&checked).unwrap_or_default() + "\n"
    } else {
        provisions::rendered(&parts.iter().map(Provision::fact).collect::<Vec<_>>())
    };
    streams::print(text.as_bytes());
    if complete { 0 } else { exit::FAILED }
}

/// What happens, for programs.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Told<'a> {
    Begun { version: u32, prefix: &'a Path },
    Waiting,
    AlreadyThere { part: String, place: &'a Path },
    Step { part: String, step: &'static str },
    Line { text: &'a str },
    Ready { part: String, place: &'a Path },
    Ended { parts: Vec<There<'a>>, removed: &'a [PathBuf] },
}

#[derive(Debug, Serialize)]
struct There<'a> {
    part: String,
    place: &'a Path,
}

impl Told<'_> {
    fn print(&self) {
        // Each has a JSON form.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        streams::print(&line);
    }
}

impl<'a> From<Progress<'a>> for Told<'a> {
    fn from(progress: Progress<'a>) -> Self {
        match progress {
            Progress::Waiting => Self::Waiting,
            Progress::AlreadyThere { part, place } => {
                Self::AlreadyThere { part: part.to_string(), place }
            }
            Progress::Step { part, step } => {
                Self::Step { part: part.to_string(), step: step.name() }
            }
            Progress::Line { text } => Self::Line { text },
            Progress::Ready { part, place } => Self::Ready { part: part.to_string(), place },
        }
    }
}

/// What a set-up has done.
struct Done {
    installed: Vec<Installed>,
    removed: Vec<PathBuf>,
}

async fn install(prefix: PathBuf, host: Host, arguments: SetupArguments) -> u8 {
    let json = arguments.json;
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return failed(json, &Problem::runtime(&error), exit::FAILED),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut work = {
        let stop = Arc::clone(&stop);
        tokio::task::spawn_blocking(move || make(&prefix, &host, &arguments, &stop))
    };
    let mut asked = None;
    let made = tokio::select! {
        made = &mut work => Some(made),
        signal = signals.end() => {
            asked = Some(signal);
            stop.store(true, Ordering::Relaxed);
            // What is left of it if this is not enough is no part, and goes with the next one.
            tokio::time::timeout(CLEARING, work).await.ok()
        }
    };
    let made = match made {
        Some(Ok(made)) => made,
        Some(Err(error)) => {
            let error = std::io::Error::other(error);
            return failed(json, &Problem::runtime(&error), exit::FAILED);
        }
        None => Err(SetupError::Stopped),
    };
    match made {
        Ok(done) => {
            ended(json, &done);
            0
        }
        Err(error) => {
            let code = asked.map_or(exit::FAILED, Asked::exit_code);
            failed(json, &Problem::setup(&error), code)
        }
    }
}

fn make(
    prefix: &Path,
    host: &Host,
    arguments: &SetupArguments,
    stop: &AtomicBool,
) -> Result<Done, SetupError> {
    let mut teller = Teller::new(arguments.json);
    if arguments.json {
        Told::Begun { version: VERSION, prefix }.print();
    }
    let setup = Setup { prefix, host, limits: TimeLimits::default(), stop };
    let recipes = |parts: &[Part]| parts.iter().copied().map(Recipe::of).collect();
    let wanted: Result<Vec<Recipe>, SetupError> = recipes(&arguments.parts());
    let installed = setup.install(&wanted?, &mut |progress| teller.tell(progress));
    teller.clear();
    let installed = installed?;
    let mut removed = Vec::new();
    if arguments.prune {
        let kept: Vec<Recipe> = Part::ALL.into_iter().filter_map(|p| Recipe::of(p).ok()).collect();
        removed = setup.prune(&kept)?;
    }
    Ok(Done { installed, removed })
}

/// Tells what happens: as JSON, or in words of which those of programs stay on a terminal
/// only until the next.
struct Teller {
    json: bool,
    terminal: bool,
    /// Whether a line is there that the next one is written over.
    passing: bool,
}

impl Teller {
    fn new(json: bool) -> Self {
        Self { json, terminal: streams::stderr_width().is_some(), passing: false }
    }

    fn tell(&mut self, progress: Progress<'_>) {
        if self.json {
            Told::from(progress).print();
            return;
        }
        if let Progress::Line { text } = progress {
            let line = format!("  {}", tame_line(text));
            match self.terminal {
                true => streams::tell_in_passing(&line),
                false => streams::tell(&line),
            }
            self.passing = self.terminal;
            return;
        }
        self.clear();
        streams::tell(&tame_line(&match progress {
            Progress::Waiting => "another set-up is under way; waiting for its end".to_owned(),
            Progress::AlreadyThere { part, place } => {
                format!("{part} is there: {}", place.display())
            }
            Progress::Step { part, step } => format!("{part}: {step}"),
            Progress::Ready { part, place } => format!("{part} is ready: {}", place.display()),
            Progress::Line { text } => text.to_owned(),
        }));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.passing) {
            streams::tell_in_passing("");
        }
    }
}

fn ended(json: bool, done: &Done) {
    if json {
        let there = |part: &Installed| part.part.to_string();
        let parts = done.installed.iter();
        let parts = parts.map(|part| There { part: there(part), place: &part.place }).collect();
        Told::Ended { parts, removed: &done.removed }.print();
        return;
    }
    let mut text = String::new();
    for Installed { part, place } in &done.installed {
        let name = part.to_string();
        text.push_str(&format!("{name:<12}{}\n", tame_line(&place.to_string_lossy())));
    }
    for place in &done.removed {
        let place = tame_line(&place.to_string_lossy());
        text.push_str(&format!("{:<12}{place}\n", "removed"));
    }
    streams::print(text.as_bytes());
}

fn failed(json: bool, problem: &Problem, code: u8) -> u8 {
    if json {
        streams::print(&events::Event::Failed { problem }.line());
    } else {
        streams::tell(&problem.to_string());
    }
    code
}
