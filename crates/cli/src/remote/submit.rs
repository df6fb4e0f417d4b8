//! `cofferdam submit`: a task for a server, and what it does with it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use cofferdam_api::CreateJob;
use cofferdam_client::{Client, UploadFile};
use cofferdam_types::{JobId, Network, Usd, parse_bytes, parse_cpus, parse_duration, parse_memory};

use super::access::ServerOptions;
use super::watch::watch;
use super::{Failed, files, json_line, problem};
use crate::arguments::some_money;
use crate::interruption::{Asked, Signals};
use crate::problem::Problem;
use crate::run::read_task;
use crate::run::screen::{Manner, Screen};
use crate::{Product, exit};

/// The options of `submit`.
#[derive(Debug, Args)]
pub(crate) struct SubmitArguments {
    /// What is to be done, in your words; `-` reads it from stdin
    #[arg(value_name = "TASK")]
    task: String,
    /// The model that plans and directs: PROVIDER/NAME, or demo [default: the
    /// server's]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The model that writes code when it is delegated to [default: the same]
    #[arg(long, value_name = "MODEL")]
    coder: Option<String>,
    /// The model that writes summaries when the conversation gets too long [default:
    /// the server's; with --model the same as that]
    #[arg(long, value_name = "MODEL")]
    summariser: Option<String>,
    /// The directory or archive (tar, tar.gz, tar.zst, zip) that the workspace
    /// begins with. Of a directory, what its .gitignore names stays here
    #[arg(long, value_name = "DIR|ARCHIVE")]
    files: Option<PathBuf>,
    /// A command that proves the work done: run in a clean copy of the workspace
    /// without network. Can be given several times
    #[arg(long, value_name = "COMMAND")]
    check: Vec<String>,
    /// How often the work may be handed in and fail a check
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    /// Stop after so many answers of models
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Stop before this much money is spent
    #[arg(long, value_name = "USD", value_parser = some_money)]
    max_cost: Option<Usd>,
    /// Stop before so many tokens are used
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = duration_text)]
    timeout: Option<String>,
    /// Greater goes first; more than 0 is for admins
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i16).range(-100..=100),
    )]
    priority: Option<i16>,
    /// Show the job until it is over, as `cofferdam run` does
    #[arg(long, short)]
    follow: bool,
    /// Print the job as JSON; with --follow, one JSON event a line, the last one
    /// telling how it ended
    #[arg(long)]
    pub(crate) json: bool,
    /// With --follow: say nothing but what went wrong and how it ended
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    sandbox: Wanted,
    #[command(flatten)]
    server: ServerOptions,
}

/// The sandbox that is wanted. What is not said is the server's to decide.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox")]
struct Wanted {
    /// Memory of all its processes together, temporary files included
    #[arg(long, value_name = "SIZE", value_parser = memory_text)]
    memory: Option<String>,
    /// CPUs it may use
    #[arg(long, value_name = "N", value_parser = cpus_text)]
    cpus: Option<String>,
    /// Processes and threads alive at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    pids: Option<u32>,
    /// What the workspace may grow by
    #[arg(long, value_name = "SIZE", value_parser = bytes_text)]
    disk: Option<String>,
    /// What it may reach: none, open, or allow:HOST[:PORT],…
    #[arg(long, value_name = "NETWORK", value_parser = network_text)]
    network: Option<String>,
    /// A variable for its commands; without =VALUE, your own. The server keeps it in
    /// the job's log
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// The back end
    #[arg(long, value_name = "NAME")]
    sandbox: Option<String>,
    /// Refuse to run with less isolation than this
    #[arg(long, value_name = "GRADE", value_parser = ["contained", "bounded", "virtual"])]
    require: Option<String>,
}

/// A time as it was written, if it is one.
pub(crate) fn duration_text(text: &str) -> Result<String, String> {
    checked(text, parse_duration(text))
}

fn memory_text(text: &str) -> Result<String, String> {
    checked(text, parse_memory(text))
}

fn bytes_text(text: &str) -> Result<String, String> {
    checked(text, parse_bytes(text))
}

fn cpus_text(text: &str) -> Result<String, String> {
    checked(text, parse_cpus(text))
}

fn network_text(text: &str) -> Result<String, String> {
    checked(text, text.parse::<Network>())
}

/// Nonsense is found out here; what makes sense is sent as it was written.
fn checked<T, E: ToString>(text: &str, read: Result<T, E>) -> Result<String, String> {
    read.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Submits the task; returns the exit code.
pub(crate) async fn run(
    product: &Product,
    arguments: SubmitArguments,
    mut signals: Signals,
) -> ExitCode {
    let mut screen = Screen::of_a_server(Manner::of(arguments.json, arguments.quiet));
    let begun = tokio::select! {
        begun = submit(product, &arguments, &mut screen) => begun,
        asked = signals.end() => Err((problem::left_early(), asked.exit_code())),
    };
    let result = match begun {
        Ok((client, job)) if arguments.follow => {
            watch(&client, job, &mut screen, &mut signals).await
        }
        Ok(_) => Ok(0),
        Err(failed) => Err(failed),
    };
    let code = match &result {
        Ok(code) | Err((_, code)) => *code,
    };
    let told = async {
        if let Err((problem, _)) = &result {
            screen.failed(problem).await;
        }
        screen.finish().await;
    };
    // Only readers of ours can still keep us.
    tokio::select! {
        () = told => ExitCode::from(code),
        asked = signals.insistence() => ExitCode::from(asked.map_or(code, Asked::exit_code)),
    }
}

async fn submit(
    product: &Product,
    arguments: &SubmitArguments,
    screen: &mut Screen,
) -> Result<(Client, JobId), Failed> {
    let usage = |problem: Problem| (problem, exit::USAGE);
    let client = arguments.server.client(product)?;
    let task = read_task(&arguments.task).await.map_err(usage)?;
    let mut wanted = wish(arguments, task).map_err(|cause| usage(Problem::option(cause)))?;
    if let Some(path) = &arguments.files {
        let packed = files::pack(path.clone()).await.map_err(|error| {
            (problem::unpackable(format!("{}: {error}", path.display())), exit::USAGE)
        })?;
        for left_out in &packed.left_out {
            screen.warn(left_out).await;
        }
        let media_type = "application/octet-stream";
        let file = UploadFile::new(packed.file, media_type)
            .map_err(|error| usage(problem::unpackable(error.to_string())))?;
        wanted.upload = Some(client.upload(file).await.map_err(problem::failed)?.id);
    }
    let job = client.create_job(&wanted).await.map_err(problem::failed)?;
    match (arguments.json, arguments.follow) {
        // The first event is the job.
        (true, true) => {}
        (true, false) => screen.print_line(&json_line(&job)).await,
        (false, _) => screen.print_line(&job.id.to_string()).await,
    }
    Ok((client, job.id))
}

fn wish(arguments: &SubmitArguments, task: String) -> Result<CreateJob, String> {
    let sandbox = &arguments.sandbox;
    Ok(CreateJob {
        task,
        model: arguments.model.clone(),
        coder: arguments.coder.clone(),
        summariser: arguments.summariser.clone(),
        checks: arguments.check.clone(),
        attempts: arguments.attempts,
        max_turns: arguments.max_turns,
        max_tokens: arguments.max_tokens,
        max_cost: arguments.max_cost.map(String::from),
        timeout: arguments.timeout.clone(),
        network: sandbox.network.clone(),
        memory: sandbox.memory.clone(),
        cpus: sandbox.cpus.clone(),
        pids: sandbox.pids,
        disk: sandbox.disk.clone(),
        sandbox: sandbox.sandbox.clone(),
        require: sandbox.require.clone(),
        env: variables(&sandbox.env, |name| std::env::var_os(name))?,
        priority: arguments.priority,
        upload: None,
    })
}

/// Variables by their names; one without a value takes it from `own`, and is left
/// out where that has none.
fn variables(
    given: &[OsString],
    own: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<BTreeMap<String, String>, String> {
    let text = |value: &OsStr| {
        value.to_str().map(str::to_owned).ok_or("--env: a job's variables are text".to_owned())
    };
    let mut variables = BTreeMap::new();
    for variable in given {
        let variable = text(variable)?;
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => {
                let value = own(OsStr::new(&variable));
                (variable.as_str(), value.map(|value| text(&value)).transpose()?)
            }
        };
        if name.is_empty() {
            return Err(format!("--env {variable:?} names no variable"));
        }
        if let Some(value) = value {
            variables.insert(name.to_owned(), value);
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Holder {
        #[command(flatten)]
        submit: SubmitArguments,
    }

    fn wished(words: &[&str]) -> Result<serde_json::Value, String> {
        let words = std::iter::once(&"test").chain(words);
        let holder = Holder::try_parse_from(words).map_err(|error| error.to_string())?;
        let wish = wish(&holder.submit, holder.submit.task.clone())?;
        Ok(serde_json::to_value(wish).unwrap())
    }

    #[test]
    fn what_is_not_said_is_not_sent() {
        assert_eq!(wished(&["do it"]).unwrap(), serde_json::json!({"task": "do it"}));
    }

    #[test]
    fn options_are_sent_as_they_were_written() {
        let words = [
            "--model",
            "demo",
            "--coder",
            "a/b",
            "--summariser",
            "a/c",
            "--check",
            "make test",
            "--check",
            "true",
            "--attempts",
            "2",
            "--max-turns",
            "9",
            "--max-cost",
            "0.5",
            "--max-tokens",
            "1000",
            "--timeout",
            "10m",
            "--network",
            "allow:example.com",
            "--memory",
            "512M",
            "--cpus",
            "0.5",
            "--pids",
            "64",
            "--disk",
            "1G",
            "--sandbox",
            "native",
            "--require",
            "bounded",
            "--env",
            "A=b=c",
            "--env",
            "A_VARIABLE_THAT_NOBODY_HAS",
            "--priority",
            "-3",
            "do it",
        ];
        assert_eq!(
            wished(&words).unwrap(),
            serde_json::json!({
                "task": "do it", "model": "demo", "coder": "a/b", "summariser": "a/c",
                "checks": ["make test", "true"], "attempts": 2, "max_turns": 9,
                "max_cost": "0.5", "max_tokens": 1000, "timeout": "10m",
                "network": "allow:example.com", "memory": "512M", "cpus": "0.5", "pids": 64,
                "disk": "1G", "sandbox": "native", "require": "bounded", "env": {"A": "b=c"},
                "priority": -3,
            })
        );
    }

    #[test]
    fn nonsense_is_refused_before_anything_is_sent() {
        for words in [
            &[][..],
            &["--memory", "lots", "x"],
            &["--cpus", "0", "x"],
            &["--timeout", "soon", "x"],
            &["--network", "maybe", "x"],
            &["--require", "much", "x"],
            &["--priority", "101", "x"],
            &["--max-cost", "0", "x"],
            &["--env", "=x", "x"],
        ] {
            assert!(wished(words).is_err(), "{words:?}");
        }
    }
}
