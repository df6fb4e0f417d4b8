//! Why there is no configuration, or no endpoint.

use std::path::PathBuf;

use crate::known::{BUILT_IN_MODELS, LocalServer};
use crate::origin::shown;

/// Why there is no configuration, or no endpoint: what is wrong, and with
/// [`ConfigError::remedy`] what to do. Neither holds a key.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    /// The user's file cannot be read.
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    /// The user's file is no TOML, or a value in it is of the wrong kind.
    #[error("{}, line {line}, column {column}: {message}", file.display())]
    File { file: PathBuf, line: usize, column: usize, message: String },
    /// The user's file has a key that there is none of.
    #[error("{}, line {line}: unknown key {}", file.display(), shown(key))]
    UnknownKey { file: PathBuf, line: usize, key: String, nearest: Option<&'static str> },
    /// A value of the user's own makes no sense.
    #[error("{place} {cause}")]
    Value { place: String, cause: String, remedy: String },
    /// A model is named without its provider.
    #[error("{place} names the model {} without its provider", shown(name))]
    NoProvider { place: String, name: String },
    /// Nobody knows this provider.
    #[error("unknown provider {}", shown(provider))]
    UnknownProvider { provider: String, known: Vec<String> },
    /// A provider without the key it needs.
    #[error("no key for {provider}")]
    NoKey { provider: String, variable: String, notes: Vec<String> },
    /// A provider without an address.
    #[error("no address for {provider}")]
    NoUrl { provider: String, variable: String },
    /// A key would travel where anyone can read it.
    #[error("the key of {provider} would go to {host} unencrypted")]
    PlainHttp { provider: String, host: String },
    /// A model's name is only its provider's.
    #[error("{provider} names a provider, but no model")]
    NoModelName { provider: String },
    /// A model of the product's own was asked for its endpoint.
    #[error("{name} is built in and has no endpoint")]
    BuiltIn { name: String },
    /// No model is set, and no local server has answered.
    #[error("no model is set, and no local model server answers{}", looked_for(looked))]
    NoModel { looked: Vec<LocalServer> },
}

impl ConfigError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Read { .. } => "make the file readable, or move it away".to_owned(),
            Self::File { .. } => "see docs/configuration.md".to_owned(),
            Self::UnknownKey { nearest: Some(nearest), .. } => {
                format!("did you mean {nearest}?")
            }
            Self::UnknownKey { nearest: None, .. } => {
                "remove it; docs/configuration.md lists the keys".to_owned()
            }
            Self::Value { remedy, .. } => remedy.clone(),
            Self::NoProvider { name, .. } => format!(
                "write PROVIDER/{}, such as ollama/{0}, or one of: {}",
                plain(name),
                BUILT_IN_MODELS.join(", ")
            ),
            Self::UnknownProvider { provider, known } => format!(
                "known are {}; or add [providers.{}] with wire and base_url to your config.toml",
                known.join(", "),
                plain(provider)
            ),
            Self::NoKey { variable, notes, .. } => {
                let notes: String = notes.iter().map(|note| format!(" ({note})")).collect();
                format!("set {variable}{notes}")
            }
            Self::NoUrl { variable, .. } => {
                format!("set {variable} to its address, such as http://127.0.0.1:8000/v1")
            }
            Self::PlainHttp { provider, .. } => format!(
                "use https, or set allow_plain_http = true in [providers.{provider}] of your \
                 config.toml"
            ),
            Self::NoModelName { provider } => format!("write {provider}/MODEL"),
            Self::BuiltIn { .. } => "name a model as PROVIDER/MODEL".to_owned(),
            Self::NoModel { .. } => NO_MODEL_REMEDY.to_owned(),
        }
    }
}

const NO_MODEL_REMEDY: &str = "\
set ANTHROPIC_API_KEY or OPENAI_API_KEY; or name a model with --model PROVIDER/MODEL or MODEL=…; or \
start a local server such as Ollama; or try --model demo, a built-in script that carries out the \
sample tasks of the README in a real sandbox without a key or a network";

fn looked_for(looked: &[LocalServer]) -> String {
    if looked.is_empty() {
        return String::new();
    }
    let places: Vec<String> =
        looked.iter().map(|server| format!("{} at {}", server.label, server.base_url)).collect();
    format!(" (looked for {})", places.join(", "))
}

/// A name for an example that is to be copied; nothing that needs quotes.
fn plain(name: &str) -> &str {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-._:/".contains(c);
    if !name.is_empty() && name.chars().all(harmless) { name } else { "NAME" }
}
