//! Where a value comes from, and how far that place is trusted.

use std::fmt;

/// How far a place is trusted. Ordered: later is trusted more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Lies in the workspace: written by whoever wrote the repository, or by an
    /// earlier job.
    Workspace,
    /// The user's own, or built in.
    User,
}

/// Where a value comes from. Shown as people would look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The product.
    BuiltIn,
    /// A key of the user's file.
    UserFile(String),
    /// A key of the project's file.
    ProjectFile(&'static str),
    /// A variable of the `.env` file.
    DotEnv(String),
    /// A variable of the environment.
    Environment(String),
    /// An option of the command line.
    Flag(&'static str),
}

impl Origin {
    pub(crate) fn trust(&self) -> Trust {
        match self {
            Self::ProjectFile(_) | Self::DotEnv(_) => Trust::Workspace,
            Self::BuiltIn | Self::UserFile(_) | Self::Environment(_) | Self::Flag(_) => Trust::User,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => formatter.write_str("the built-in value"),
            Self::UserFile(key) => write!(formatter, "{key} in your config.toml"),
            Self::ProjectFile(key) => write!(formatter, "{key} in .cofferdam/config.toml"),
            Self::DotEnv(name) => write!(formatter, "{name} in .env"),
            Self::Environment(name) => formatter.write_str(name),
            Self::Flag(name) => formatter.write_str(name),
        }
    }
}

/// A value that knows where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Sourced<T> {
    pub(crate) fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    pub(crate) fn trust(&self) -> Trust {
        self.origin.trust()
    }
}

/// Text of a stranger for a message: quoted, without control characters, short.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_text_cannot_steer_a_terminal_or_fill_it() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c\n"), r#""a\u{1b}[2Jb\u{202e}c\n""#);
        assert!(shown(&"x".repeat(10_000)).chars().count() < 90);
    }
}
