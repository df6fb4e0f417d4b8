//! The words of the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cofferdam_sandbox::{Audit, Changes, Lifetime, Spec, Workspace};
use cofferdam_types::{Limits, SandboxId, Usd, UsdError, parse_duration};

use crate::image::ImageVerb;
use crate::remote::RemoteVerb;
use crate::sandbox_options::SandboxOptions;
use crate::serve::ServeArguments;
use crate::setup::SetupArguments;

/// A coding agent that builds in the dry.
#[derive(Debug, Parser)]
#[command(name = "cofferdam", version, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Arguments {
    /// Reads the words that the program was started with, its own name first.
    ///
    /// # Errors
    /// When they are none of this program's, or ask for help.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        // Getting to know all verbs takes longer than what `exec` has to do itself.
        if words.get(1).is_some_and(|word| word == "exec") {
            let ExecAlone { verb: ExecVerb::Exec(arguments) } = ExecAlone::try_parse_from(words)?;
            return Ok(Self { verb: Verb::Exec(arguments) });
        }
        Self::try_parse_from(words)
    }
}

/// The program, as far as somebody has to know it who says `exec`.
#[derive(Debug, Parser)]
#[command(name = "cofferdam", version, disable_help_subcommand = true)]
struct ExecAlone {
    #[command(subcommand)]
    verb: ExecVerb,
}

/// A program that is nothing but `exec`.
#[derive(Debug, Parser)]
#[command(name = "cofferdam-exec", version)]
pub(crate) struct ExecProgram {
    #[command(flatten)]
    arguments: ExecArguments,
}

impl ExecProgram {
    /// Reads the words that the program was started with, its own name first.
    ///
    /// # Errors
    /// When they are none of this program's, or ask for help.
    pub(crate) fn read(words: &[OsString]) -> Result<ExecArguments, clap::Error> {
        Ok(Self::try_parse_from(words)?.arguments)
    }
}

#[derive(Debug, Subcommand)]
enum ExecVerb {
    Exec(Box<ExecArguments>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Give it a task, get working code
    ///
    /// The agent works on the files of the current directory (or --workspace) in
    /// a sandbox: no network, and none of your other files, variables or keys.
    /// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but a check fails, 4 a
    /// limit was reached, 5 the model could not be reached or refused, 6 the
    /// sandbox could not be made, 130 interrupted, 143 terminated.
    Run(Box<RunArguments>),
    Exec(Box<ExecArguments>),
    /// Take jobs over HTTP, for a team
    ///
    /// Listens on this machine alone unless told otherwise. The first start makes an
    /// admin's token and prints it once. Jobs survive the server: what was
    /// acknowledged goes on after a restart, in the sandboxes it had.
    Serve(Box<ServeArguments>),
    #[command(flatten)]
    Remote(RemoteVerb),
    /// Install what code cells and notebooks need
    ///
    /// Python with JupyterLab and Deno go into a directory of the product's own, which
    /// every sandbox sees read-only. Packages come from where pip and npm of this machine
    /// get theirs; their versions are fixed. What is there already stays. Exit codes: 0
    /// it is all there, 1 something failed or is missing, 2 wrong usage, 130 interrupted,
    /// 143 terminated.
    Setup(SetupArguments),
    /// Make, take in, list and remove images: other programs for sandboxes than this
    /// machine's
    ///
    /// `--image NAME` has a sandbox made of one. Exit codes: 0 done, 1 something failed,
    /// 2 wrong usage, 130 interrupted, 143 terminated.
    #[command(subcommand)]
    Image(ImageVerb),
    /// Try every back end for real, and say what this machine can do
    Doctor(DoctorArguments),
}

/// Run one command in a fresh sandbox
///
/// The command gets an empty /workspace (or the directory given by
/// --workspace), no network, and none of your files, variables or keys. With
/// a terminal it is interactive. The exit code is the command's own; 124 on
/// time-out, 125 if the sandbox could not be made, 126 and 127 if the command
/// could not be started or found, 128+N on signal N. Keys of a terminal are the
/// command's input also where its output goes elsewhere: in `exec … | less` both
/// read them, unless exec has </dev/null.
#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(crate) sandbox: SandboxOptions,
    /// The directory to work in; it gets the changes when the command has ended
    /// [default: an empty one, thrown away]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Where changes to --workspace are kept until then: on disk they survive
    /// whatever dies, in memory --disk limits them for ordinary users too
    #[arg(long, value_name = "PLACE", default_value = "disk")]
    changes: ChangesPlace,
    /// End the command after this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Print one JSON event a line, the last one telling how it ended
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what the command did (programs, files, connections) to this regular
    /// file, one JSON record a line
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<std::path::PathBuf>,
    /// Keep only this much of stdout and of stderr: the first and the last half
    #[arg(long, value_name = "SIZE", value_parser = cofferdam_types::parse_bytes)]
    pub(crate) output: Option<u64>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl ExecArguments {
    /// The sandbox these arguments ask for.
    pub(crate) fn spec(&self) -> Spec {
        Spec {
            id: SandboxId::generate(),
            limits: Limits {
                wall_time: self.timeout,
                output: self.output,
                ..self.sandbox.limits()
            },
            network: self.sandbox.network(),
            workspace: match &self.workspace {
                Some(directory) => Workspace::Directory(directory.clone()),
                None => Workspace::Scratch,
            },
            changes: match self.changes {
                ChangesPlace::Disk => Changes::OnDisk,
                ChangesPlace::Memory => Changes::InMemory,
            },
            root: self.sandbox.root(),
            lifetime: Lifetime::Owned,
            audit: Audit::On,
            require: self.sandbox.required(),
            outlets: None,
        }
    }
}

/// Where changes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChangesPlace {
    /// On the host's disk
    Disk,
    /// In memory
    Memory,
}

/// What is frozen in a job's record, and cannot be said again when it goes on.
const FROZEN: [&str; 15] = [
    "check",
    "attempts",
    "workspace",
    "memory",
    "cpus",
    "pids",
    "disk",
    "inodes",
    "open_files",
    "network",
    "env",
    "read",
    "image",
    "sandbox",
    "require",
];

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// What is to be done, in your words; `-` reads it from stdin. With --resume
    /// or --last: what to tell the agent before it goes on
    #[arg(value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// The model that plans and directs: PROVIDER/NAME, demo, or replay/ID
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The model that writes code when it is delegated to [default: the same]
    #[arg(long, value_name = "MODEL")]
    pub(crate) coder: Option<String>,
    /// The model that writes summaries when the conversation gets too long
    /// [default: the one that plans]
    #[arg(long, value_name = "MODEL")]
    pub(crate) summariser: Option<String>,
    /// How many tokens the models take in and give out together [default: as
    /// known by their names]
    #[arg(long, value_name = "N")]
    pub(crate) context_window: Option<u64>,
    /// The directory to work in; made if it is not there [default: the current
    /// one]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// A command that proves the work done: run in a clean copy of the workspace
    /// without network. Can be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,
    /// How often the work may be handed in and fail a check [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempts: Option<u32>,
    /// Put the result into this ZIP file as well
    #[arg(long, value_name = "FILE.zip")]
    pub(crate) out: Option<PathBuf>,
    /// Stop after so many answers of models
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// Stop before this much money is spent
    #[arg(long, value_name = "USD", value_parser = some_money)]
    pub(crate) max_cost: Option<Usd>,
    /// Stop before so many tokens are used
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Go on with an earlier job: its id, the beginning of it, or its transcript
    #[arg(long, value_name = "ID", conflicts_with = "last", conflicts_with_all = FROZEN)]
    pub(crate) resume: Option<String>,
    /// Go on with the job that was begun last
    #[arg(long, conflicts_with_all = FROZEN)]
    pub(crate) last: bool,
    /// Print one JSON event a line, the last one telling how it ended
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but what went wrong and how it ended
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) sandbox: SandboxOptions,
}

/// An amount of money with which something can be done.
pub(crate) fn some_money(text: &str) -> Result<Usd, String> {
    match text.parse() {
        Ok(Usd::ZERO) => Err("nothing can be done for nothing".to_owned()),
        Ok(amount) => Ok(amount),
        Err(error) => Err(UsdError::to_string(&error)),
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_follows_the_command_is_the_commands() {
        let parsed = parsed(&["exec", "--", "ls", "--json", "-la"]);
        let Ok(Verb::Exec(arguments)) = parsed else { panic!("exec") };
        assert_eq!(arguments.command, ["ls", "--json", "-la"]);
        assert!(!arguments.json);
    }

    fn words(words: &[&str]) -> Vec<OsString> {
        ["cofferdam"].iter().chain(words).map(OsString::from).collect()
    }

    fn parsed(arguments: &[&str]) -> Result<Verb, String> {
        Arguments::read(&words(arguments))
            .map(|parsed| parsed.verb)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn who_says_exec_is_told_what_the_whole_program_would_tell() {
        ExecAlone::command().debug_assert();
        for arguments in [
            ["exec"].as_slice(),
            &["exec", "--help"],
            &["exec", "-h"],
            &["exec", "--version"],
            &["exec", "--memory", "much", "--", "true"],
            &["exec", "--mem", "1G", "--", "true"],
            &["exec", "--pids", "1", "true"],
            &["exec", "--changes", "tape", "--json", "true"],
        ] {
            let whole = Arguments::try_parse_from(words(arguments)).unwrap_err();
            let alone = Arguments::read(&words(arguments)).unwrap_err();
            assert_eq!(alone.to_string(), whole.to_string());
            assert_eq!(alone.exit_code(), whole.exit_code());
        }
    }

    #[test]
    fn who_summarises_and_how_much_is_read_at_once_can_be_said() {
        let words = ["run", "--summariser", "a/b", "--context-window", "9000", "do it"];
        let Ok(Verb::Run(run)) = parsed(&words) else { panic!("run") };
        assert_eq!(run.summariser.as_deref(), Some("a/b"));
        assert_eq!(run.context_window, Some(9_000));
        let words = ["serve", "--summariser", "a/b", "--context-window", "9000"];
        let Ok(Verb::Serve(serve)) = parsed(&words) else { panic!("serve") };
        assert_eq!(serve.summariser.as_deref(), Some("a/b"));
        assert_eq!(serve.context_window, Some(9_000));
        // Both may change when a job goes on.
        assert!(parsed(&["run", "--last", "--summariser", "a/b"]).is_ok());
        assert!(parsed(&["run", "--last", "--context-window", "9000"]).is_ok());
        assert!(parsed(&["run", "--context-window", "much", "do it"]).is_err());
    }

    #[test]
    fn a_context_is_that_of_a_job() {
        for words in [
            &["context", "019a"][..],
            &["context", "--last", "--full"],
            &["context", "019a", "--json", "--server", "http://127.0.0.1:9"],
        ] {
            assert!(parsed(words).is_ok(), "{words:?}");
        }
        assert!(parsed(&["context"]).is_err());
        assert!(parsed(&["context", "019a", "--last"]).is_err());
    }
}
