//! What the making of an image tells while it is under way.

use std::fmt;
use std::path::Path;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another image is being made or removed; this goes on after it.
    Waiting,
    /// The image was there already.
    AlreadyThere {
        /// Its name.
        name: &'a str,
        /// Its root directory.
        root: &'a Path,
    },
    /// A step begins.
    Step(Step),
    /// How much of a step is done: packages, bytes.
    Part {
        /// So many.
        done: u64,
        /// Of so many.
        of: u64,
        /// Of what.
        unit: Unit,
    },
    /// A program said something. It is foreign text, to be tamed before a terminal sees it.
    Line(&'a str),
    /// Something that this machine has, and the making goes without: whoever waits should know why
    /// packages may not be found.
    Without(&'a str),
    /// The image is whole now.
    Ready {
        /// Its name.
        name: &'a str,
        /// Its root directory.
        root: &'a Path,
    },
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packages.
    Packages,
    /// Bytes.
    Bytes,
}

/// A step of making an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Is what it takes to make an image there?
    Look,
    /// Install the system's packages.
    System,
    /// Install packages of Python and Node.
    Packages,
    /// A container engine builds it.
    Engine,
    /// Take an archive apart.
    Unpack,
    /// Take out what is no sandbox's business, and set permissions.
    Clean,
    /// Write it to the disk for good.
    Keep,
}

impl Step {
    /// Its name, for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::System => "system",
            Self::Packages => "packages",
            Self::Engine => "engine",
            Self::Unpack => "unpack",
            Self::Clean => "clean",
            Self::Keep => "keep",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Look => "look for what it takes",
            Self::System => "install the system's packages",
            Self::Packages => "install packages of Python and Node",
            Self::Engine => "build it with the engine",
            Self::Unpack => "unpack it",
            Self::Clean => "clean it",
            Self::Keep => "write it to the disk",
        })
    }
}
