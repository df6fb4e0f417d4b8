//! The user's file: trusted, so every mistake in it is an error with its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_model::Wire;
use cofferdam_types::{Network, Usd};
use serde::Deserialize;
use toml::de::DeTable;

use crate::error::ConfigError;
use crate::known::KEYS;
use crate::quantity::{
    Bounded, ContextWindow, MaxOutput, Memory, MilliCpus, Quantity, Screen, Size,
};

/// The file as it is written. What is left out is decided by [`crate::check`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UserFile {
    pub(crate) model: RawModel,
    pub(crate) budget: RawBudget,
    pub(crate) sandbox: RawSandbox,
    pub(crate) providers: BTreeMap<String, RawProvider>,
    pub(crate) prices: BTreeMap<String, RawPrice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawModel {
    pub(crate) name: Option<String>,
    pub(crate) coder: Option<String>,
    pub(crate) summariser: Option<String>,
    pub(crate) embedder: Option<String>,
    pub(crate) max_output: Option<Quantity<MaxOutput>>,
    pub(crate) context_window: Option<Quantity<ContextWindow>>,
    pub(crate) thinking: Option<Quantity<Bounded<0, 1_000_000>>>,
    pub(crate) idle_timeout: Option<Quantity<Duration>>,
    pub(crate) retries: Option<Quantity<Bounded<0, 100>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawBudget {
    pub(crate) turns: Option<Quantity<Bounded<1, { u32::MAX }>>>,
    pub(crate) tokens: Option<Quantity<u64>>,
    pub(crate) cost: Option<Quantity<Usd>>,
    pub(crate) time: Option<Quantity<Duration>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawSandbox {
    pub(crate) backend: Option<String>,
    pub(crate) require: Option<String>,
    pub(crate) image: Option<PathBuf>,
    pub(crate) memory: Option<Quantity<Memory>>,
    pub(crate) cpus: Option<Quantity<MilliCpus>>,
    pub(crate) pids: Option<Quantity<Bounded<4, { u32::MAX }>>>,
    pub(crate) disk: Option<Quantity<Size>>,
    pub(crate) inodes: Option<Quantity<u64>>,
    pub(crate) open_files: Option<Quantity<Bounded<32, { u32::MAX }>>>,
    pub(crate) timeout: Option<Quantity<Duration>>,
    pub(crate) network: Option<Quantity<Network>>,
    pub(crate) idle: Option<Quantity<Duration>>,
    pub(crate) screen: Option<Quantity<Screen>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawProvider {
    pub(crate) wire: Option<Wire>,
    pub(crate) base_url: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) key_env: Option<String>,
    pub(crate) allow_plain_http: bool,
    pub(crate) context_window: Option<Quantity<ContextWindow>>,
}

impl std::fmt::Debug for RawProvider {
    /// Without the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RawProvider").field("wire", &self.wire).finish_non_exhaustive()
    }
}

/// US dollars for a million tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrice {
    pub(crate) input: Quantity<Usd>,
    pub(crate) output: Quantity<Usd>,
    pub(crate) cache_read: Option<Quantity<Usd>>,
    pub(crate) cache_write: Option<Quantity<Usd>>,
}

impl UserFile {
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        // The message alone: the parser's own report quotes the line, which may
        // hold a key.
        let failure = |error: toml::de::Error| {
            let (line, column) = position(text, error.span().unwrap_or_default());
            let message = error.message().to_owned();
            ConfigError::File { file: file.to_owned(), line, column, message }
        };
        let table = DeTable::parse(text).map_err(failure)?;
        match odd_key(table.get_ref(), "", "") {
            Some(OddKey { path, span, oddity: Oddity::Unknown }) => {
                let (file, (line, _)) = (file.to_owned(), position(text, span));
                let nearest = nearest(&path);
                Err(ConfigError::UnknownKey { file, line, key: path, nearest })
            }
            Some(OddKey { path, span, oddity: Oddity::NotATable }) => {
                let (file, (line, column)) = (file.to_owned(), position(text, span));
                let message = format!("{path} is a table: write [{path}] and its keys below");
                Err(ConfigError::File { file, line, column, message })
            }
            None => Self::deserialize(toml::de::Deserializer::from(table)).map_err(failure),
        }
    }
}

/// A key that cannot be where it is.
struct OddKey {
    path: String,
    span: Range<usize>,
    oddity: Oddity,
}

enum Oddity {
    Unknown,
    /// Checked here because the struct's own error would quote the value, and in
    /// the place of `[providers.NAME]` that is most likely a key.
    NotATable,
}

/// The first key of a table that is odd. `pattern` is the table's path with `*`
/// for each name of the user's own.
fn odd_key(table: &DeTable<'_>, path: &str, pattern: &str) -> Option<OddKey> {
    let below = |above: &str, key: &str| {
        if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") }
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries.into_iter().find_map(|(key, value)| {
        let named = matches!(pattern, "providers" | "prices");
        let pattern = below(pattern, if named { "*" } else { key.get_ref() });
        let path = below(path, key.get_ref());
        let begins = format!("{pattern}.");
        if KEYS.contains(&pattern.as_str()) {
            return None;
        }
        let leads_on = KEYS.iter().any(|known| known.starts_with(&begins));
        match value.get_ref().as_table() {
            Some(inner) if leads_on => odd_key(inner, &path, &pattern),
            None if leads_on => Some(OddKey { path, span: key.span(), oddity: Oddity::NotATable }),
            _ => Some(OddKey { path, span: key.span(), oddity: Oddity::Unknown }),
        }
    })
}

/// The known key that someone who wrote `key` most likely meant.
pub(crate) fn nearest(key: &str) -> Option<&'static str> {
    /// Below this two keys have little in common.
    const ALIKE: f64 = 0.75;
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let alike = |known: &str| {
        let whole = strsim::normalized_damerau_levenshtein(known, key);
        // The right key in the wrong table, such as `coder` at the top.
        let own = strsim::normalized_damerau_levenshtein(&last(known), &last(key));
        whole.max(own)
    };
    KEYS.iter()
        .map(|known| (*known, alike(known)))
        .filter(|(_, likeness)| *likeness >= ALIKE)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(known, _)| known)
}

/// Line and column of a place in a text, from one.
fn position(text: &str, span: Range<usize>) -> (usize, usize) {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that no key takes, so that each is told apart from an unknown one.
    #[test]
    fn the_keys_that_are_listed_are_the_keys_that_are_read() {
        for key in KEYS {
            let (table, name) = key.rsplit_once('.').unwrap();
            let text = format!("[{}]\n{name} = 1979-05-27", table.replace('*', "x"));
            match UserFile::parse(Path::new("f"), &text) {
                Err(ConfigError::File { line: 2, message, .. }) => {
                    assert!(!message.contains("unknown"), "{key}: {message}");
                }
                other => panic!("{key}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_reference_names_every_key() {
        let reference = include_str!("../../../docs/configuration.md");
        for key in KEYS {
            let row = format!("| `{}` |", key.replace('*', "NAME"));
            assert!(reference.contains(&row), "{row}");
        }
    }
}
