//! Why there is no image. Each error says what failed and why, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::definition::Key;
use crate::progress::Step;

/// Why an image could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A definition that makes no sense.
    #[error("{}: {reason}", of.as_deref().unwrap_or("this definition"))]
    Definition {
        /// The image's name or the file, if it is known.
        of: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such image.
    #[error("there is no image {name:?}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names of those that are there.
        known: Vec<String>,
    },
    /// Another image has the name, and nobody said that it is to lose it.
    #[error("another image is called {name:?}")]
    Taken {
        /// The name.
        name: String,
    },
    /// The name stands for something else.
    #[error("{name:?} is no name for an image: it stands for the one with what a task needs")]
    Reserved {
        /// The name.
        name: String,
    },
    /// This machine lacks what it takes.
    #[error("{what}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to get it.
        help: String,
    },
    /// An archive that cannot be used. It is somebody else's, so this is nothing unusual.
    #[error("{} cannot be used: {reason}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A program failed.
    #[error("cannot {step}: `{command}` {how}{}", quoted(said))]
    Failed {
        /// In which step.
        step: Step,
        /// What was run.
        command: String,
        /// How it ended.
        how: String,
        /// The last lines that it said.
        said: Vec<String>,
        /// What to do, if that is known.
        help: Option<String>,
    },
    /// Something took too long and was ended.
    #[error("cannot {step}: `{command}` took longer than {} s{}", limit.as_secs(), quoted(said))]
    TimedOut {
        /// In which step.
        step: Step,
        /// What was run.
        command: String,
        /// How long it may take.
        limit: Duration,
        /// The last lines that it said.
        said: Vec<String>,
    },
    /// Another process makes or removes an image.
    #[error("another process holds {} and has not ended within {} s", lock.display(), waited.as_secs())]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Somebody wanted it to stop.
    #[error("it was stopped")]
    Stopped,
    /// The store is somebody else's.
    #[error("{} belongs to another user", path.display())]
    NotOurs {
        /// The store.
        path: PathBuf,
    },
    /// Something in the store that is not understood, so that nothing is done with it.
    #[error("{} cannot be used: {reason}", place.display())]
    Unreadable {
        /// Its directory.
        place: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk is full.
    #[error("there is no room left for {}", path.display())]
    Full {
        /// What was to be written.
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

impl ImageError {
    /// What to do about it, in words; `None` where the message says it all.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Missing { help, .. } => help.clone(),
            Self::Unknown { name, .. } if Key::named(name).is_some() => {
                "it was removed, or made elsewhere; make it again of the files that it was made \
                 of: cofferdam image build --for DIR"
                    .to_owned()
            }
            Self::Unknown { known, .. } if known.is_empty() => {
                "make the agent image: cofferdam image build; a directory is named with a slash \
                 in it: ./DIR"
                    .to_owned()
            }
            Self::Unknown { known, .. } => format!(
                "one of: {}; or make it: cofferdam image build; a directory is named with a \
                 slash in it: ./DIR",
                known.join(", ")
            ),
            Self::Taken { name } => {
                format!("choose another: --name NAME; or have it take that one's: --name {name}")
            }
            Self::Reserved { .. } => {
                "choose another: image build NAME, image import FILE --name NAME".to_owned()
            }
            Self::Failed { help: Some(help), .. } => help.clone(),
            Self::Busy { .. } => "wait for it, or end it".to_owned(),
            Self::NotOurs { .. } => {
                "do it as that user, or choose another COFFERDAM_HOME".to_owned()
            }
            Self::Unreadable { place, .. } => {
                format!("remove it if it is of no use to anybody: rm -r {}", place.display())
            }
            Self::Full { .. } => {
                "make room: cofferdam image prune; or choose another COFFERDAM_HOME".to_owned()
            }
            Self::Definition { .. }
            | Self::Archive { .. }
            | Self::Failed { .. }
            | Self::TimedOut { .. }
            | Self::Stopped
            | Self::System { .. } => return None,
        })
    }

    /// What a refusal of the system becomes. A full disk is one of its own.
    pub(crate) fn system(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::System { doing, path, source },
        }
    }
}

fn quoted(said: &[String]) -> String {
    said.iter().map(|line| format!("\n    {line}")).collect()
}
