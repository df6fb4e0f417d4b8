//! The verbs that ask a server: `submit`, `list`, `status`, `logs`, `cancel`,
//! `pause`, `resume`, `say`, `download`, `user` and `token`; and `context`, which does
//! where the job is not here, as `download --notebook` does.

mod access;
mod download;
mod files;
mod list;
mod logs;
mod notebook;
mod orders;
mod problem;
mod status;
mod submit;
pub(crate) mod table;
mod users;
mod watch;
mod which;

use std::process::ExitCode;

use bytes::Bytes;
use clap::Subcommand;

use crate::context::{self, ContextArguments};
use crate::interruption::{Asked, Signals};
use crate::problem::Problem;
use crate::streams::Writer;
use crate::{Product, exit, streams};

pub(crate) use access::{Place, ServerOptions};
pub(crate) use problem::{NO_SERVER, failed};
pub(crate) use which::find;

/// A failure with the exit code that goes with it.
pub(crate) type Failed = (Problem, u8);

/// What a server is asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteVerb {
    /// Give a task to a server
    ///
    /// Prints the job's id. With --follow it is then shown as by `cofferdam run`,
    /// with the same exit codes; leaving it does not stop the job.
    Submit(Box<submit::SubmitArguments>),
    /// List the jobs of a server, the newest first
    List(list::ListArguments),
    /// Show a job of a server
    ///
    /// The exit code is that of the job's ending, as of `cofferdam run`; 0 while it
    /// has none.
    Status(status::StatusArguments),
    /// Show what happened in a job of a server
    ///
    /// With --follow the exit code is that of the job's ending, as of `cofferdam
    /// run`.
    Logs(logs::LogsArguments),
    /// Show what the model of a job sees now, part by part, and what was cut from it
    ///
    /// Of a job of `cofferdam run` here, or of a server's if there is none of that id
    /// here or --server is given. It can be looked at while the job runs.
    Context(ContextArguments),
    /// Stop a job of a server
    Cancel(orders::OrderArguments),
    /// Let a job of a server rest as soon as nothing is under way
    Pause(orders::OrderArguments),
    /// Let a job of a server go on, after a pause or although it had ended
    Resume(orders::ResumeArguments),
    /// Say something to a job of a server
    Say(orders::SayArguments),
    /// Download what a job of a server has made, also while it is worked on
    ///
    /// With --notebook, its code cells as a Jupyter notebook; also of a job of
    /// `cofferdam run` here, if there is one of that id here and no --server is given;
    /// --last is then the one that was begun last here.
    Download(download::DownloadArguments),
    /// Manage the users of a server; for admins
    #[command(subcommand)]
    User(users::UserVerb),
    /// Manage the tokens of a server's users; for admins
    #[command(subcommand)]
    Token(users::TokenVerb),
}

impl RemoteVerb {
    /// Whether everything is told as JSON.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Submit(arguments) => arguments.json,
            Self::List(arguments) => arguments.json,
            Self::Status(arguments) => arguments.json,
            Self::Logs(arguments) => arguments.json,
            Self::Context(arguments) => arguments.json,
            Self::Cancel(arguments) | Self::Pause(arguments) => arguments.json,
            Self::Resume(arguments) => arguments.json,
            Self::Say(arguments) => arguments.json,
            Self::Download(_) => false,
            Self::User(verb) => verb.json(),
            Self::Token(verb) => verb.json(),
        }
    }
}

/// Does what is asked; returns the exit code.
pub(crate) async fn run(product: &Product, verb: RemoteVerb) -> ExitCode {
    let json = verb.json();
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tell(json, &Problem::runtime(&error), &mut Writer::stdout()).await;
            return ExitCode::from(exit::FAILED);
        }
    };
    if let RemoteVerb::Submit(arguments) = verb {
        return submit::run(product, *arguments, signals).await;
    }
    let whole = matches!(verb, RemoteVerb::Download(_));
    let mut out = Writer::stdout();
    let done = tokio::select! {
        done = attempt(product, verb, &mut out) => done,
        // Nothing here is lost by leaving; whoever leaves knows why.
        asked = signals.end() => Ok(asked.exit_code()),
    };
    let code = match &done {
        Ok(code) | Err((_, code)) => *code,
    };
    let told = async {
        if let Err((problem, _)) = &done {
            tell(json, problem, &mut out).await;
        }
        // Half of what was asked for is no success, be it that the disk is full.
        match out.finish().await {
            false if code == 0 => {
                if whole {
                    let cause = "it could not be written to stdout".to_owned();
                    streams::tell(&problem::download(cause).to_string());
                }
                exit::FAILED
            }
            _ => code,
        }
    };
    // Only readers of ours can still keep us.
    tokio::select! {
        biased;
        code = told => ExitCode::from(code),
        asked = signals.insistence() => ExitCode::from(asked.map_or(code, Asked::exit_code)),
    }
}

async fn attempt(product: &Product, verb: RemoteVerb, out: &mut Writer) -> Result<u8, Failed> {
    match verb {
        // It shows a job, and so needs the screen.
        RemoteVerb::Submit(_) => Ok(exit::FAILED),
        RemoteVerb::List(arguments) => list::run(product, &arguments, out).await,
        RemoteVerb::Status(arguments) => status::run(product, &arguments, out).await,
        RemoteVerb::Logs(arguments) => logs::run(product, &arguments, out).await,
        RemoteVerb::Context(arguments) => context::run(product, &arguments, out).await,
        RemoteVerb::Cancel(arguments) => orders::cancel(product, &arguments, out).await,
        RemoteVerb::Pause(arguments) => orders::pause(product, &arguments, out).await,
        RemoteVerb::Resume(arguments) => orders::resume(product, &arguments, out).await,
        RemoteVerb::Say(arguments) => orders::say(product, &arguments, out).await,
        RemoteVerb::Download(arguments) => download::run(product, &arguments, out).await,
        RemoteVerb::User(verb) => users::user(product, &verb, out).await,
        RemoteVerb::Token(verb) => users::token(product, &verb, out).await,
    }
}

async fn tell(json: bool, problem: &Problem, out: &mut Writer) {
    if json {
        out.write(crate::events::Event::Failed { problem }.line()).await;
    } else {
        streams::tell(&problem.to_string());
    }
}

/// Prints text, with a line's end.
pub(crate) async fn print(out: &mut Writer, text: &str) {
    out.write(Bytes::from(format!("{text}\n"))).await;
}

/// Prints a value as a line of JSON.
pub(crate) async fn print_json(out: &mut Writer, value: &impl serde::Serialize) {
    print(out, &json_line(value)).await;
}

fn json_line(value: &impl serde::Serialize) -> String {
    // Everything that a server answers has a JSON form.
    serde_json::to_string(value).unwrap_or_default()
}
