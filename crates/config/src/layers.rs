//! What comes in: the texts and variables of every layer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use cofferdam_types::{Network, Usd};

use crate::dotenv::DotEnv;
use crate::error::ConfigError;
use crate::origin::{Origin, Sourced};

/// Every layer as it was found. Not printable: it holds secrets.
#[derive(Clone, Default)]
pub struct Layers {
    /// The user's file.
    pub user_file: Option<Text>,
    /// The text of the project's file.
    pub project_file: Option<String>,
    /// The text of the `.env` file.
    pub dotenv: Option<String>,
    /// The directory of the project's file and of `.env`.
    pub project: PathBuf,
    /// The variables of this process.
    pub environment: BTreeMap<String, OsString>,
    /// The options of the command line.
    pub flags: Flags,
}

/// A file with its text.
#[derive(Clone)]
pub struct Text {
    /// Where it lies.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

/// Options of the command line; `None` where one was not given.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--model`
    pub model: Option<String>,
    /// `--coder`
    pub coder: Option<String>,
    /// `--summariser`
    pub summariser: Option<String>,
    /// `--context-window`
    pub context_window: Option<u64>,
    /// `--workspace`
    pub workspace: Option<PathBuf>,
    /// `--max-turns`
    pub turns: Option<u32>,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// `--max-cost`
    pub cost: Option<Usd>,
    /// `--timeout` of `run`: the time of the whole job.
    pub time: Option<Duration>,
    /// The options of the sandbox.
    pub sandbox: SandboxFlags,
}

/// Options of the sandbox; `None` where one was not given.
#[derive(Clone, Debug, Default)]
pub struct SandboxFlags {
    /// `--sandbox`
    pub backend: Option<String>,
    /// `--require`
    pub require: Option<String>,
    /// `--image`
    pub image: Option<PathBuf>,
    /// `--memory`
    pub memory: Option<u64>,
    /// `--cpus`, in thousandths.
    pub milli_cpus: Option<u32>,
    /// `--pids`
    pub pids: Option<u32>,
    /// `--disk`
    pub disk: Option<u64>,
    /// `--inodes`
    pub inodes: Option<u64>,
    /// `--open-files`
    pub open_files: Option<u32>,
    /// `--timeout` of `exec`: the time of one command.
    pub wall_time: Option<Duration>,
    /// `--network`
    pub network: Option<Network>,
}

/// The variables of the environment and of `.env`, kept apart.
pub(crate) struct Variables<'a> {
    environment: &'a BTreeMap<String, OsString>,
    dotenv: BTreeMap<String, String>,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(layers: &'a Layers, warnings: &mut Vec<String>) -> Self {
        let dotenv = DotEnv::parse(layers.dotenv.as_deref().unwrap_or_default());
        if let Some(first) = dotenv.bad_lines.first() {
            warnings.push(format!(
                ".env has lines that make no sense ({}, the first is line {first}); they are ignored",
                dotenv.bad_lines.len()
            ));
        }
        Self { environment: &layers.environment, dotenv: dotenv.variables }
    }

    /// A variable of the environment. One that is set to nothing is not set.
    pub(crate) fn user(&self, name: &str) -> Result<Option<Sourced<String>>, ConfigError> {
        let Some(value) = self.environment.get(name) else { return Ok(None) };
        let origin = Origin::Environment(name.to_owned());
        match value.to_str() {
            Some(text) => Ok(sourced(text, origin)),
            None => Err(ConfigError::Value {
                place: name.to_owned(),
                cause: "is not UTF-8".to_owned(),
                remedy: format!("set {name} to text, or unset it"),
            }),
        }
    }

    /// A variable of the `.env` file. One that is set to nothing is not set.
    pub(crate) fn workspace(&self, name: &str) -> Option<Sourced<String>> {
        let text = self.dotenv.get(name)?;
        sourced(text, Origin::DotEnv(name.to_owned()))
    }
}

fn sourced(text: &str, origin: Origin) -> Option<Sourced<String>> {
    let text = text.trim();
    (!text.is_empty()).then(|| Sourced::new(text.to_owned(), origin))
}
