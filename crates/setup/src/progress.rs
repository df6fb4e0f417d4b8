//! What a set-up tells while it is under way.

use std::fmt;
use std::path::Path;

use crate::recipe::Part;

/// Something that happened in a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another set-up is under way; this one goes on after it.
    Waiting,
    /// A part was there already.
    AlreadyThere {
        /// Which.
        part: Part,
        /// Where.
        place: &'a Path,
    },
    /// A step of a part begins.
    Step {
        /// Which part.
        part: Part,
        /// Which step.
        step: Step,
    },
    /// A program said something. It is foreign text, to be tamed before a terminal sees it.
    Line {
        /// A line, cut if it was long.
        text: &'a str,
    },
    /// A part is whole now.
    Ready {
        /// Which.
        part: Part,
        /// Where.
        place: &'a Path,
    },
}

/// A step of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Is what it takes to install there?
    Look,
    /// Make an environment for the packages.
    Environment,
    /// Fetch and unpack the packages.
    Packages,
    /// Does what was installed run?
    Trial,
    /// Make it readable for sandboxes and writable for nobody else.
    Seal,
}

impl Step {
    /// Its name, for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Environment => "environment",
            Self::Packages => "packages",
            Self::Trial => "trial",
            Self::Seal => "seal",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Look => "look for what it takes to install",
            Self::Environment => "make an environment",
            Self::Packages => "install packages",
            Self::Trial => "try what was installed",
            Self::Seal => "set permissions",
        })
    }
}
