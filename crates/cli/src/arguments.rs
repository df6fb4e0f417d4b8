//! The words of the command line.

use clap::{Args, Parser, Subcommand};

use crate::sandbox_options::SandboxOptions;

/// A coding agent that builds in the dry.
#[derive(Debug, Parser)]
#[command(name = "cofferdam", version, about, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run one command in a fresh sandbox
    ///
    /// The command gets an empty /workspace (or the directory given by
    /// --workspace), no network, and none of your files, variables or keys. With
    /// a terminal it is interactive. The exit code is the command's own; 124 on
    /// time-out, 125 if the sandbox could not be made, 126 and 127 if the command
    /// could not be started or found, 128+N on signal N.
    Exec(Box<ExecArguments>),
    /// Try every back end for real, and say what this machine can do
    Doctor(DoctorArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(crate) sandbox: SandboxOptions,
    /// Print one JSON event a line, the last one telling how it ended
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what the command did (programs, files, connections) to this file,
    /// one JSON record a line
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<std::path::PathBuf>,
    /// Keep only this much of stdout and of stderr: the first and the last half
    #[arg(long, value_name = "SIZE", value_parser = cofferdam_types::parse_bytes)]
    pub(crate) output: Option<u64>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
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
        let parsed = Arguments::try_parse_from(["cofferdam", "exec", "--", "ls", "--json", "-la"]);
        let Verb::Exec(arguments) = parsed.unwrap().verb else { panic!("exec") };
        assert_eq!(arguments.command, ["ls", "--json", "-la"]);
        assert!(!arguments.json);
    }
}
