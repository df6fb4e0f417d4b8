//! The project's file, `.cofferdam/config.toml`: from a stranger. It may wish for
//! a model; everything else in it is refused, and said to be.

use crate::known::{KEYS, PROJECT_KEYS};
use crate::origin::shown;
use crate::quantity::MaxOutput;

/// How many keys are named one by one: a hostile file shall not fill the screen.
const NAMED: usize = 8;

/// What a project wishes for.
#[derive(Debug, Default)]
pub(crate) struct ProjectFile {
    pub(crate) name: Option<String>,
    pub(crate) coder: Option<String>,
    pub(crate) max_output: Option<u32>,
}

impl ProjectFile {
    pub(crate) fn parse(text: &str, warnings: &mut Vec<String>) -> Self {
        let mut file = Self::default();
        let table: toml::Table = match toml::from_str(text) {
            Ok(table) => table,
            Err(error) => {
                let before = error.span().and_then(|span| text.get(..span.start));
                let line = before.unwrap_or_default().matches('\n').count() + 1;
                warnings.push(format!(".cofferdam/config.toml is ignored: line {line} is no TOML"));
                return file;
            }
        };
        let mut refused = Vec::new();
        let mut leaves = Vec::new();
        flatten(&table, "", &mut leaves);
        for (path, value) in leaves {
            let taken = match path.as_str() {
                "model.name" => value.as_str().map(|text| file.name = Some(text.to_owned())),
                "model.coder" => value.as_str().map(|text| file.coder = Some(text.to_owned())),
                "model.max_output" => value
                    .as_integer()
                    .and_then(|number| MaxOutput::new(number).ok())
                    .map(|number| file.max_output = Some(number.0)),
                _ => None,
            };
            if taken.is_none() {
                refused.push(path);
            }
        }
        report(&refused, warnings);
        file
    }
}

/// The values of a table with their paths. Tables that are not on the way to a key
/// that counts stay whole: one warning says enough.
fn flatten<'a>(table: &'a toml::Table, above: &str, leaves: &mut Vec<(String, &'a toml::Value)>) {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::Table(inner) if path == "model" => flatten(inner, &path, leaves),
            _ => leaves.push((path, value)),
        }
    }
}

fn report(refused: &[String], warnings: &mut Vec<String>) {
    for path in refused.iter().take(NAMED) {
        let known = KEYS.iter().any(|key| *key == path || key.starts_with(&format!("{path}.")));
        let why = if PROJECT_KEYS.contains(&path.as_str()) {
            "its value makes no sense"
        } else if known {
            "a repository cannot set it; put it into your own config.toml"
        } else {
            "there is no such key"
        };
        warnings.push(format!("{} in .cofferdam/config.toml is ignored: {why}", shown(path)));
    }
    if let Some(more @ 1..) = refused.len().checked_sub(NAMED) {
        warnings.push(format!("{more} more keys in .cofferdam/config.toml are ignored"));
    }
}
