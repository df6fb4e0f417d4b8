//! Failures as people see them: a code, what failed, why, and what to do.

use std::borrow::Cow;
use std::path::Path;

use cofferdam_config::ConfigError;
use cofferdam_images::ImageError;
use cofferdam_notebook::NoNotebook;
use cofferdam_runtime::{DriveError, JournalError};
use cofferdam_sandbox::{
    AUTO, CallError, NoSuchBackend, OpenError, Reconciled, RoomError, SandboxError,
};
use cofferdam_setup::SetupError;
use cofferdam_types::{JobId, ModelName, error_chain};
use cofferdam_view::{tame, tame_line};
use rustix::io::Errno;
use serde::Serialize;

use crate::run::{NotFound, UnusableFile};
use crate::serve::{ServeFailure, Unusable};

/// What helps where a process may have no more descriptors.
const MORE_FILES: &str = "raise the limit of open files: ulimit -n 1024";

/// A failure, told. Each code has a page in `docs/errors/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    pub(crate) code: Cow<'static, str>,
    pub(crate) what: String,
    pub(crate) cause: String,
    pub(crate) remedy: String,
}

impl Problem {
    pub(crate) fn new(
        code: impl Into<Cow<'static, str>>,
        what: &str,
        cause: impl Into<String>,
        remedy: &str,
    ) -> Self {
        let code = code.into();
        Self { code, what: what.to_owned(), cause: cause.into(), remedy: remedy.to_owned() }
    }

    /// The same, and what went wrong besides.
    pub(crate) fn and_then(mut self, next: &Self) -> Self {
        let Self { code, what, cause, remedy } = next;
        self.cause = format!("{}\nand {code}, {what}: {cause}", self.cause.trim_end());
        if self.remedy != *remedy {
            self.remedy = format!("{}\nand {remedy}", self.remedy);
        }
        self
    }

    /// The product's own directory cannot be found.
    pub(crate) fn home(cause: String) -> Self {
        let remedy = "set COFFERDAM_HOME to a directory of yours";
        Self::new("CLI-001", "no place for the product's files", cause, remedy)
    }

    /// The run-time cannot start.
    pub(crate) fn runtime(error: &std::io::Error) -> Self {
        Self::new("CLI-002", "cannot start", error.to_string(), MORE_FILES)
    }

    /// An option that makes no sense.
    pub(crate) fn option(cause: String) -> Self {
        Self::new("CLI-003", "an option makes no sense", cause, "see --help")
    }

    /// A file that was to be written could not be.
    pub(crate) fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        let cause = format!("{}: {error}", path.display());
        Self::new("CLI-004", "cannot write a file", cause, "name a file that can be written")
    }

    /// A command's output could not be written to where our stdout leads.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        let remedy = "make room on the disk, or let the output go elsewhere, and run it again";
        Self::new("CLI-004", "cannot write the output", format!("stdout: {error}"), remedy)
    }

    /// What a command was to read could not be read.
    pub(crate) fn input(error: &std::io::Error) -> Self {
        let remedy = "mend where stdin comes from, or give it none (</dev/null), and run it again";
        Self::new("CLI-005", "cannot read the input", format!("stdin: {error}"), remedy)
    }

    /// The user was faster than the job.
    pub(crate) fn interrupted(signal: i32) -> Self {
        let cause = format!("signal {signal} came");
        let remedy = "a job that had begun goes on with `cofferdam run --last`";
        Self::new("RUN-009", "stopped before it came to its end", cause, remedy)
    }

    /// The user was faster than the sandbox of a command.
    pub(crate) fn not_begun(signal: i32) -> Self {
        let cause = format!("signal {signal} came");
        let remedy = "nothing of the command was run: run it again";
        Self::new("RUN-009", "stopped before the command had begun", cause, remedy)
    }

    /// The user told a command to end, it was killed, and nobody said that it had ended.
    pub(crate) fn not_seen_to_end(signal: i32) -> Self {
        let cause = format!("signal {signal} came, and the killed command was not seen to end");
        let remedy = "it ended with its sandbox, which is closed: run it again";
        Self::new("RUN-009", "stopped before it came to its end", cause, remedy)
    }

    /// A workspace that cannot be used.
    pub(crate) fn no_workspace(path: &std::path::Path, error: &std::io::Error) -> Self {
        let cause = format!("{}: {error}", path.display());
        let remedy = "name a directory that you may write to with --workspace";
        Self::new("RUN-001", "this is no place to work in", cause, remedy)
    }

    /// A ZIP file that could not be written in the end.
    pub(crate) fn out(error: &dyn std::error::Error) -> Self {
        let remedy = "name a file in a directory that you may write to with --out";
        Self::new("RUN-010", "the ZIP file could not be written", error_chain(error), remedy)
    }

    /// A workspace that is too much.
    pub(crate) fn workspace(path: &std::path::Path) -> Self {
        let cause = format!("{} is no project", path.display());
        let remedy = "go into a project's directory, or name one (also a new one) with --workspace";
        Self::new("RUN-001", "this is no place to work in", cause, remedy)
    }

    /// A configuration that makes no sense, or lacks something.
    pub(crate) fn config(error: &ConfigError) -> Self {
        Self::new("RUN-002", "the configuration does not do", error_chain(error), &error.remedy())
    }

    /// A model that cannot be used.
    pub(crate) fn model(name: &ModelName, cause: String) -> Self {
        let what = format!("{name} cannot be used");
        Self::new("RUN-003", &what, cause, "mend its address or key: docs/configuration.md")
    }

    /// A model in a file that cannot be used.
    pub(crate) fn model_file(path: &Path, error: &UnusableFile) -> Self {
        let what = format!("the embedder {path:?} cannot be used");
        Self::new("RUN-003", &what, error.cause.clone(), &error.remedy)
    }

    /// A limit on money for a model whose price is not known.
    pub(crate) fn price(name: &ModelName) -> Self {
        let remedy = format!(
            "leave --max-cost out, or set the price: [prices.\"{name}\"] in the configuration"
        );
        let cause = format!("what {name} costs is not known");
        Self::new("RUN-004", "the cost cannot be limited", cause, &remedy)
    }

    /// A job that cannot be found.
    pub(crate) fn job(name: &str, error: &NotFound) -> Self {
        let (cause, remedy) = match error {
            NotFound::None => (
                match name {
                    "" => "there is no job yet".to_owned(),
                    name => format!("there is no job {name:?}"),
                },
                "the transcripts of jobs are in history/ of COFFERDAM_HOME".to_owned(),
            ),
            NotFound::Several(jobs) => {
                let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
                (
                    format!("several jobs are called {name:?}"),
                    format!("one of: {}", jobs.join(", ")),
                )
            }
            NotFound::Unreadable(error) => {
                (error.to_string(), "make the directory history/ readable".to_owned())
            }
        };
        Self::new("RUN-005", "no such job", cause, &remedy)
    }

    /// A job that needs nothing more.
    pub(crate) fn complete(job: JobId) -> Self {
        let cause = format!("job {job} is complete");
        Self::new("RUN-006", "nothing to go on with", cause, "say what else is to be done: TASK")
    }

    /// A transcript that cannot be read or written.
    pub(crate) fn transcript(error: &JournalError) -> Self {
        let remedy = match error {
            JournalError::Busy { .. } => "wait for the other process, or stop it",
            JournalError::File { .. } => "make room on the disk, or mend the permissions",
            JournalError::Garbled { .. } => "restore the file, or begin a new job",
        };
        Self::new("RUN-007", "the job's transcript cannot be used", error_chain(error), remedy)
    }

    /// A transcript that is no job's.
    pub(crate) fn unusable(path: &std::path::Path, cause: &str) -> Self {
        let cause = format!("{}: {cause}", path.display());
        let remedy = "restore the file, use a newer release, or begin a new job";
        Self::new("RUN-007", "the job's transcript cannot be used", cause, remedy)
    }

    /// A log of a server that this release cannot read.
    pub(crate) fn unusable_log(job: JobId, cause: &str) -> Self {
        let remedy = "use the release of the server, or a newer one";
        let cause = format!("{job}: {cause}");
        Self::new("RUN-007", "the job's transcript cannot be used", cause, remedy)
    }

    /// A job that could not be driven to its end.
    pub(crate) fn drive(error: &DriveError) -> Self {
        let remedy = "make room on the disk, then go on with --resume";
        Self::new("RUN-008", "the job stopped without an end", error_chain(error), remedy)
    }

    /// A notebook that a job does not have.
    pub(crate) fn notebook(error: &NoNotebook) -> Self {
        let remedy = match error {
            NoNotebook::NoCells => "ask again when it has",
            NoNotebook::Unknown { .. } | NoNotebook::Several { .. } => "name one with --kernel",
        };
        Self::new("RUN-011", "there is no such notebook", error.to_string(), remedy)
    }

    /// A server that cannot be.
    pub(crate) fn server(failure: &ServeFailure) -> Self {
        let (code, what) = match failure.what {
            Unusable::Data => ("SRV-001", "the server's directory cannot be used"),
            Unusable::Store => ("SRV-002", "the server's database cannot be used"),
            Unusable::Address => ("SRV-003", "the server cannot listen"),
        };
        Self::new(code, what, failure.cause.clone(), &failure.remedy)
    }

    /// A set-up that did not come to its end.
    pub(crate) fn setup(error: &SetupError) -> Self {
        let (code, what, usual) = match error {
            SetupError::NoPython { .. }
            | SetupError::OldPython { .. }
            | SetupError::NoVenv { .. }
            | SetupError::NoNpm { .. }
            | SetupError::Processor { .. } => {
                ("SET-001", "this machine lacks what it takes to install", "install it")
            }
            SetupError::Failed { .. } | SetupError::TimedOut { .. } => (
                "SET-002",
                "a part could not be installed",
                "see what the program said; nothing of the part was left, so try again",
            ),
            SetupError::Busy { .. } => {
                ("SET-003", "another set-up is under way", "wait for it, or end it")
            }
            SetupError::NotOurs { .. } | SetupError::System { .. } => (
                "SET-004",
                "the place for what is installed cannot be used",
                "make room on the disk, or mend the permissions",
            ),
            SetupError::Stopped => (
                "SET-005",
                "the set-up was stopped",
                "what was whole before stays; run it again for the rest",
            ),
        };
        Self::new(code, what, error_chain(error), &error.help().unwrap_or(usual.to_owned()))
    }

    /// An image that could not be made, found or removed.
    pub(crate) fn image(error: &ImageError) -> Self {
        let (code, what, usual) = match error {
            ImageError::Missing { .. } => {
                ("IMG-001", "this machine lacks what it takes to make an image", "install it")
            }
            ImageError::Failed { .. } | ImageError::TimedOut { .. } => (
                "IMG-002",
                "the image could not be made",
                "see what the program said; nothing of the image was left, so try again",
            ),
            ImageError::Definition { .. } => (
                "IMG-003",
                "this cannot be made an image of",
                "name packages, and images, properly; the task's files have to be readable",
            ),
            ImageError::Archive { .. } => (
                "IMG-004",
                "the archive cannot be used",
                "name a file that can be read; or save the image again: `docker save`, `podman \
                 save --format oci-archive`",
            ),
            ImageError::Unknown { .. } => {
                ("IMG-005", "there is no such image", "see cofferdam image list")
            }
            ImageError::Busy { .. } => {
                ("IMG-006", "another process makes or removes an image", "wait for it, or end it")
            }
            ImageError::NotOurs { .. }
            | ImageError::Unreadable { .. }
            | ImageError::Full { .. }
            | ImageError::System { .. } => (
                "IMG-007",
                "the place for images cannot be used",
                "make room on the disk, or mend the permissions",
            ),
            ImageError::Taken { .. } => {
                ("IMG-009", "another image has this name", "choose another: --name NAME")
            }
            ImageError::Reserved { .. } => {
                ("IMG-010", "no image can have this name", "choose another")
            }
            ImageError::Stopped => {
                ("IMG-008", "it was stopped", "nothing was left of what it had begun; run it again")
            }
        };
        Self::new(code, what, error_chain(error), &error.help().unwrap_or(usual.to_owned()))
    }

    /// A back end that there is none of.
    pub(crate) fn backend(none: &NoSuchBackend) -> Self {
        let remedy = format!("use {AUTO} or one of: {}", none.known.join(", "));
        Self::new("SBX-001", "no such back end", format!("{:?} is not known", none.name), &remedy)
    }

    /// A sandbox that could not be made.
    pub(crate) fn open(error: &SandboxError) -> Self {
        const WHAT: &str = "cannot make the sandbox";
        match error {
            SandboxError::Open(OpenError::Unusable { cause, remedy }) => {
                Self::new("SBX-002", WHAT, cause, remedy)
            }
            SandboxError::Open(error @ OpenError::TooWeak { .. }) => Self::new(
                "SBX-003",
                "the sandbox would be weaker than required",
                error.to_string(),
                "mend the weak parts (`cofferdam doctor`), or require less",
            ),
            SandboxError::Open(OpenError::Invalid { cause, remedy }) => {
                Self::new("SBX-004", WHAT, cause, remedy)
            }
            SandboxError::Open(OpenError::Occupied { cause, remedy }) => {
                Self::new("SBX-010", "the workspace's directory is not free", cause, remedy)
            }
            SandboxError::Open(OpenError::Step { step, source }) => {
                let too_many_files = source.raw_os_error() == Some(Errno::MFILE.raw_os_error());
                let remedy = if too_many_files { MORE_FILES } else { "run `cofferdam doctor`" };
                Self::new("SBX-005", WHAT, format!("{step}: {source}"), remedy)
            }
            other => Self::new("SBX-005", WHAT, error_chain(other), "run `cofferdam doctor`"),
        }
    }

    /// A command that did not start, or whose end is not known.
    pub(crate) fn call(error: &CallError, command: &str) -> Self {
        match error {
            CallError::NotStarted { errno, what } => {
                let remedy = if *errno == Errno::NOENT.raw_os_error() {
                    "programs in home directories are not in the sandbox: install it system-wide, \
                     or show its directory with --read"
                } else {
                    "check that it is a program that may be executed"
                };
                Self::new("SBX-006", &format!("cannot start {command}"), what, remedy)
            }
            CallError::Encode(error) => Self::new(
                "SBX-006",
                &format!("cannot start {command}"),
                format!("its arguments and variables are longer than 1 MiB: {error}"),
                "let it read what is long from a file or from stdin",
            ),
            CallError::Refused(refusal) => Self::new(
                "SBX-006",
                &format!("cannot start {command}"),
                refusal.to_string(),
                "nothing of it was run: run it again; other limits (--open-files, --pids) may help",
            ),
            other => Self::new(
                "SBX-007",
                "the command's end is not known",
                other.to_string(),
                "run it again; if it happens again, report it with `cofferdam doctor --json`",
            ),
        }
    }

    /// What an earlier sandbox left and cannot be removed or applied.
    pub(crate) fn remains(cause: String) -> Self {
        Self::new(
            "SBX-009",
            "what an earlier sandbox left could not be cleared away",
            cause,
            "make room on the disk, mend the permissions or unmount what is in the way; each start of \
             cofferdam tries again",
        )
    }

    /// What of earlier sandboxes could not be cleared away, if anything.
    pub(crate) fn remains_of(reconciled: &Result<Reconciled, RoomError>) -> Option<Self> {
        let cause = match reconciled {
            Ok(Reconciled { left, .. }) => match left.as_slice() {
                [] => return None,
                [one] => one.clone(),
                [one, others @ ..] => format!("{one}; and {} more", others.len()),
            },
            Err(error) => error_chain(error),
        };
        Some(Self::remains(cause))
    }

    /// A sandbox that could not be removed or whose changes could not be kept.
    pub(crate) fn close(error: &RoomError) -> Self {
        Self::new(
            "SBX-008",
            "the sandbox did not end well",
            error_chain(error),
            "make room on the disk, mend the permissions or unmount what is in the way; the next start \
             of cofferdam tries again, or says what it waits for",
        )
    }
}

/// As people see it on a terminal. Names of files, and what programs and servers say, are parts
/// of it, so all of it is tamed here.
impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let indent = |text: &str| tame(text).trim_end().replace('\n', "\n         ");
        write!(formatter, "error[{}]: {}", tame_line(&self.code), tame_line(&self.what))?;
        write!(formatter, "\n  cause: {}", indent(&self.cause))?;
        write!(formatter, "\n  help:  {}", indent(&self.remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_failed_why_and_what_to_do() {
        let error = SandboxError::Open(OpenError::Step {
            step: "mount proc".to_owned(),
            source: std::io::Error::from_raw_os_error(1),
        });
        insta::assert_snapshot!(Problem::open(&error), @r"
        error[SBX-005]: cannot make the sandbox
          cause: mount proc: Operation not permitted (os error 1)
          help:  run `cofferdam doctor`
        ");
    }

    #[test]
    fn a_step_that_lacks_descriptors_is_helped_by_more_of_them() {
        let error = SandboxError::Open(OpenError::Step {
            step: "take /etc/hosts".to_owned(),
            source: Errno::MFILE.into(),
        });
        assert!(Problem::open(&error).remedy.contains("ulimit -n"));
    }

    #[test]
    fn whatever_a_name_holds_moves_no_cursor_and_adds_no_line_of_ours() {
        let name = "\u{1b}]0;evil\u{7}\u{1b}[2J\rerror[SBX-001]: fine\u{9b}1A\u{202e}";
        let problem = Problem::new("SBX\u{1b}", &format!("a\n{name}"), name, name);
        let told = problem.to_string();
        insta::assert_snapshot!(told, @"
        error[SBX␛]: a ⏎ ␛]0;evil␇ ⏎ error[SBX-001]: fine⟨U+009B⟩1A⟨U+202E⟩
          cause: ␛]0;evil␇
                 error[SBX-001]: fine⟨U+009B⟩1A⟨U+202E⟩
          help:  ␛]0;evil␇
                 error[SBX-001]: fine⟨U+009B⟩1A⟨U+202E⟩
        ");
        // Machines get it as it is.
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["cause"], name);
    }

    #[test]
    fn a_missing_program_is_told_apart_from_one_that_cannot_run() {
        let missing = CallError::NotStarted { errno: 2, what: "frobnicate".to_owned() };
        assert!(Problem::call(&missing, "frobnicate").remedy.contains("--read"));
        let forbidden = CallError::NotStarted { errno: 13, what: "/etc/hosts".to_owned() };
        assert!(Problem::call(&forbidden, "/etc/hosts").remedy.contains("executed"));
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        const OURS: [&str; 6] = ["CLI", "REM", "RUN", "SBX", "SET", "SRV"];
        let source = concat!(include_str!("problem.rs"), include_str!("remote/problem.rs"));
        let words = source.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let is_code = |word: &&str| {
            let (prefix, number) = word.split_once('-').unwrap_or_default();
            OURS.contains(&prefix) && number.parse::<u32>().is_ok()
        };
        let mut used: Vec<String> = words.filter(is_code).map(str::to_owned).collect();
        used.sort();
        used.dedup();
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if !OURS.iter().any(|prefix| name.starts_with(prefix)) {
                // The server's own, which has a test like this one.
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(&format!("# {name}: ")), "{}", path.display());
            pages.push(name);
        }
        pages.sort();
        assert_eq!(used, pages);
    }
}
