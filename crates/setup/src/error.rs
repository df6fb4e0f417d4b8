//! Why a set-up did not succeed. Each error says what failed and why, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::progress::Step;
use crate::recipe::Part;

/// Why a part is not there.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no Python that sandboxes can see.
    #[error("there is no python3 in {}", listed(looked))]
    NoPython {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// Python is older than the packages are made for.
    #[error("{} is Python {version}; the packages need {least} or newer", python.display())]
    OldPython {
        /// Which Python.
        python: PathBuf,
        /// Its version.
        version: String,
        /// The oldest that will do.
        least: String,
    },
    /// Python cannot make environments.
    #[error("{} cannot make environments: {reason}", python.display())]
    NoVenv {
        /// Which Python.
        python: PathBuf,
        /// Its version.
        version: String,
        /// What it says.
        reason: String,
    },
    /// There is no npm.
    #[error("there is no npm in {}", listed(looked))]
    NoNpm {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// The part does not exist for this processor.
    #[error("Deno has no package for {processor} processors")]
    Processor {
        /// The processor's name.
        processor: &'static str,
    },
    /// A program of the set-up failed.
    #[error("{part}: cannot {step}: `{command}` {how}{}", quoted(said))]
    Failed {
        /// Which part.
        part: Part,
        /// In which step.
        step: Step,
        /// What was run.
        command: String,
        /// How it ended.
        how: String,
        /// The last lines that it said.
        said: Vec<String>,
        /// Whether that sounds as if no registry could be reached.
        network: bool,
    },
    /// A program of the set-up took too long and was ended.
    #[error("{part}: cannot {step}: `{command}` took longer than {} s{}", limit.as_secs(), quoted(said))]
    TimedOut {
        /// Which part.
        part: Part,
        /// In which step.
        step: Step,
        /// What was run.
        command: String,
        /// How long it may take.
        limit: Duration,
        /// The last lines that it said.
        said: Vec<String>,
    },
    /// Another set-up is under way.
    #[error("another set-up holds {} and has not ended within {} s", lock.display(), waited.as_secs())]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Somebody wanted it to stop.
    #[error("the set-up was stopped")]
    Stopped,
    /// The prefix is somebody else's.
    #[error("{} belongs to another user", path.display())]
    NotOurs {
        /// The prefix.
        path: PathBuf,
    },
    /// The system did not do what it should.
    #[error("cannot {doing} {}", path.display())]
    System {
        /// What was to be done.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl SetupError {
    /// What to do about it, in words; `None` where the message says it all.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::NoPython { .. } => {
                "install it for the whole machine: apt-get install python3 python3-venv; one in \
                 a home directory cannot be seen in sandboxes"
                    .to_owned()
            }
            Self::OldPython { .. } => {
                "install a newer Python for the whole machine, as /usr/local/bin/python3, say"
                    .to_owned()
            }
            Self::NoVenv { version, .. } => format!(
                "install the missing part: apt-get install python{version}-venv (or python3-venv)"
            ),
            Self::NoNpm { .. } => "install it: apt-get install npm".to_owned(),
            Self::Processor { .. } => {
                "install deno for the whole machine by other means, as /usr/local/bin/deno"
                    .to_owned()
            }
            Self::Failed { part, network: true, .. } => reach(*part),
            Self::Failed { step: Step::Packages, .. } => {
                "the packages' versions are fixed; a registry or mirror that does not have them \
                 cannot be used"
                    .to_owned()
            }
            Self::TimedOut { part, step: Step::Packages, .. } => reach(*part),
            Self::Busy { .. } => "wait for it, or end it".to_owned(),
            Self::NotOurs { .. } => {
                "run the set-up as that user, or choose another COFFERDAM_HOME".to_owned()
            }
            Self::Failed { .. } | Self::TimedOut { .. } | Self::Stopped | Self::System { .. } => {
                return None;
            }
        })
    }

    pub(crate) fn system(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System { doing, path, source }
    }
}

fn reach(part: Part) -> String {
    let ask = match part {
        Part::Python => "pip config list",
        Part::TypeScript | Part::Viewer => "npm config get registry",
    };
    format!(
        "a package registry has to be reachable once: see `{ask}` for the one that was tried, \
         and HTTPS_PROXY if this network needs a proxy"
    )
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

fn quoted(said: &[String]) -> String {
    said.iter().map(|line| format!("\n    {line}")).collect()
}
