//! What an image consists of, in the words of package managers, and the key of that content.
//!
//! Definitions come from the repository, from people and from the files of a task; each is checked
//! before anything is made of it, so that a name is a name and no option or command.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cofferdam_setup::{Part, Recipe};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::ImageError;
use crate::requirement::{debian_package, python_version, requirement};

/// The definition of the agent image.
const AGENT: &str = include_str!("../../../images/agent.toml");

/// Entries of one list, and characters of one entry.
const MOST: usize = 1_000;
const LONGEST: usize = 200;

/// An image, as it is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What people call it.
    pub name: String,
    /// The release of Debian, by its code name.
    pub suite: String,
    /// The version of Python, as `3.11`; the release's own if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// What of `cofferdam setup` is in it, with the same versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Kit>,
    /// Debian packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apt: Vec<String>,
    /// Python packages, as lines of a requirements file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pip: Vec<String>,
    /// Packages of npm, for everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub npm: Vec<String>,
    /// Variables of every command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// A part of `cofferdam setup` that can be in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kit {
    /// Python's kernel, matplotlib and JupyterLab.
    Python,
    /// Deno.
    TypeScript,
}

impl Kit {
    /// What it consists of, to the last version.
    ///
    /// # Errors
    /// When there is no such part for this kind of processor.
    pub fn recipe(self) -> Result<Recipe, ImageError> {
        let part = match self {
            Self::Python => Part::Python,
            Self::TypeScript => Part::TypeScript,
        };
        Recipe::of(part).map_err(|error| ImageError::Missing {
            what: error.to_string(),
            help: error.help().unwrap_or_default(),
        })
    }
}

/// The name of an image's content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(String);

impl Key {
    /// The key of something that consists of these pieces.
    #[must_use]
    pub fn of(pieces: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for piece in pieces {
            // Lengths keep one piece's end apart from the next one's beginning.
            hash.update((piece.len() as u64).to_le_bytes());
            hash.update(piece);
        }
        Self(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The key with this name: 64 hexadecimal digits.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let digits = name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (digits && name.len() == 64).then(|| Self(name.to_owned()))
    }

    /// All of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As much of it as people need to see.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Definition {
    /// The agent image: what an agent needs for code, notebooks and a desktop.
    ///
    /// # Errors
    /// Never, unless the product was built from a broken definition.
    pub fn agent() -> Result<Self, ImageError> {
        Self::parse(AGENT)
    }

    /// Reads a definition.
    ///
    /// # Errors
    /// When it is no TOML, has fields that there are none of, or does not pass [`Self::check`].
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        let read: Result<Self, _> = toml::from_str(text);
        let definition = read.map_err(|error| ImageError::Definition {
            of: None,
            reason: error.message().to_owned(),
        })?;
        definition.check()?;
        Ok(definition)
    }

    /// Whether every word of it is what it should be.
    ///
    /// # Errors
    /// With the first word that is not.
    pub fn check(&self) -> Result<(), ImageError> {
        let wrong =
            |reason: String| Err(ImageError::Definition { of: Some(self.name.clone()), reason });
        if !is_name(&self.name) {
            return wrong(format!(
                "{:?} is no name for an image: small letters, digits, dots, dashes",
                self.name
            ));
        }
        reserved(&self.name)?;
        if !is_suite(&self.suite) {
            return wrong(format!("{:?} is no code name of a release", self.suite));
        }
        // In the one spelling that releases and bases are called by.
        let odd = |python: &&String| python_version(python).as_ref() != Ok(*python);
        if let Some(python) = self.python.as_ref().filter(odd) {
            return wrong(format!("{python:?} is no version of Python, such as 3.11"));
        }
        type Rule = fn(&str) -> bool;
        let lists: [(&str, &[String], Rule); 3] = [
            ("Debian package", &self.apt, |word| debian_package(word).is_ok()),
            ("Python package", &self.pip, |word| requirement(word).is_ok()),
            ("package of npm", &self.npm, is_npm_package),
        ];
        for (what, list, rule) in lists {
            if list.len() > MOST {
                return wrong(format!("it has more than {MOST} entries of kind {what}"));
            }
            if let Some(word) = list.iter().find(|word| word.len() > LONGEST || !rule(word)) {
                return wrong(format!("{word:?} is no {what} by name and version"));
            }
        }
        if self.env.len() > MOST {
            return wrong(format!("it has more than {MOST} variables"));
        }
        let odd = self.env.iter().find(|(name, value)| !is_variable(name, value));
        match odd {
            Some((name, _)) => wrong(format!("the variable {name:?} cannot be set")),
            None => Ok(()),
        }
    }

    /// The key of what a renderer makes of it: another edition of a renderer makes another image.
    ///
    /// # Errors
    /// When a part of it is not there for this kind of processor.
    pub fn key(&self, renderer: &str) -> Result<Key, ImageError> {
        // Neither the name nor the order of packages makes a difference to what is in it.
        let words = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
        let (apt, pip, npm) = (words(&self.apt), words(&self.pip), words(&self.npm));
        let canonical = serde_json::json!({
            "processor": std::env::consts::ARCH,
            "suite": self.suite,
            "python": self.python,
            "apt": apt,
            "pip": pip,
            "npm": npm,
            "env": self.env,
        });
        let canonical = canonical.to_string();
        let mut pieces = vec![renderer.as_bytes().to_vec(), canonical.into_bytes()];
        for kit in self.parts.iter().collect::<BTreeSet<_>>() {
            for (name, text) in kit.recipe()?.files() {
                pieces.extend([name.as_bytes().to_vec(), text.as_bytes().to_vec()]);
            }
        }
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        Ok(Key::of(&pieces))
    }
}

/// Whether an image may be called so: no separator, so that it is never mistaken for a path.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let first = name.bytes().next();
    let rest = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    name.len() <= 64
        && first.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && name.bytes().all(rest)
}

/// The same, told as what is wrong.
///
/// # Errors
/// When no image may be called so.
pub fn check_name(name: &str) -> Result<(), ImageError> {
    if is_name(name) {
        return Ok(());
    }
    let reason = "it may have small letters, digits, dots, dashes".to_owned();
    Err(ImageError::Definition { of: Some(format!("the name {name:?}")), reason })
}

/// The name that no image has: it stands for the one with what a job's own files ask for.
pub const TASK: &str = "task";

/// Whether a name is one that an image can be given.
pub(crate) fn reserved(name: &str) -> Result<(), ImageError> {
    match name {
        TASK => Err(ImageError::Reserved { name: name.to_owned() }),
        _ => Ok(()),
    }
}

fn is_suite(suite: &str) -> bool {
    suite.len() <= 40
        && suite.starts_with(|first: char| first.is_ascii_lowercase())
        && suite.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// `name`, `@scope/name`, either with `@version`; no address, no file, no option.
fn is_npm_package(word: &str) -> bool {
    let bare = |name: &str| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte);
        name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.bytes().all(letter)
    };
    let version = |text: &str| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-^~+".contains(&byte);
        !text.is_empty() && text.bytes().all(letter)
    };
    let (scope, rest) = match word.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, word),
    };
    let (name, wanted) = match rest.split_once('@') {
        Some((name, wanted)) => (name, Some(wanted)),
        None => (rest, None),
    };
    scope.is_none_or(bare) && bare(name) && wanted.is_none_or(version)
}

fn is_variable(name: &str, value: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= LONGEST
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(letter)
        && value.len() <= 8 * 1024
        && !value.contains(|letter: char| letter.is_control())
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
