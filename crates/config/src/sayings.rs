//! What all layers say of one provider: its keys and addresses, each with its
//! place. [`crate::provider`] decides which of them come together.

use cofferdam_model::Wire;
use cofferdam_types::Redacted;

use crate::error::ConfigError;
use crate::known::{BuiltInProvider, KeyNeed, OLLAMA_HOST};
use crate::layers::Variables;
use crate::origin::{Origin, Sourced};
use crate::provider::{Parts, PlainHttp, Provider, Terms};
use crate::url::{BaseUrl, UrlError};
use crate::user_file::RawProvider;

/// Which providers the variables without a provider's name (`LLM_API_KEY`,
/// `LLM_BASE_URL`) are for. Those of a place are for the model that this place
/// names: a key never moves to a provider because someone else chose a model.
#[derive(Debug, Default)]
pub(crate) struct Generic {
    pub(crate) user: Option<String>,
    pub(crate) workspace: Option<String>,
}

/// What is said of one provider, all layers.
pub(crate) struct Sayings<'a> {
    pub(crate) name: &'a str,
    pub(crate) built_in: Option<&'a BuiltInProvider>,
    pub(crate) raw: Option<&'a RawProvider>,
    pub(crate) variables: &'a Variables<'a>,
    pub(crate) generic: &'a Generic,
}

impl Sayings<'_> {
    /// Makes the provider.
    pub(crate) fn provider(&self) -> Result<Provider, ConfigError> {
        let upper = self.name.to_ascii_uppercase().replace(['-', '.'], "_");
        let own_key_variable = self.raw.and_then(|raw| raw.key_env.clone());
        let listed = self.built_in.and_then(|provider| provider.key);
        let key_variable = own_key_variable
            .clone()
            .or_else(|| listed.map(|(variable, _)| variable.to_owned()))
            .unwrap_or_else(|| format!("{upper}_API_KEY"));
        let url_variables: Vec<String> = match self.built_in {
            Some(provider) => provider.url_variables.iter().map(ToString::to_string).collect(),
            None => vec![format!("{upper}_BASE_URL")],
        };
        let Some(wire) = self.wire() else {
            return Err(ConfigError::Value {
                place: format!("[providers.{}] in your config.toml", self.name),
                cause: "does not say which protocol it speaks".to_owned(),
                remedy: "add wire = \"messages\", \"responses\" or \"chat\"".to_owned(),
            });
        };

        let mut notes = Vec::new();
        let parts = Parts {
            user_key: self.user_key(&key_variable)?,
            workspace_key: self.workspace_key(&key_variable, &mut notes),
            user_url: self.user_url(&url_variables)?,
            workspace_url: self.workspace_url(&url_variables, &mut notes),
            built_in_url: self.built_in_url(),
        };
        // Someone's own server in a provider's place may well ask for no key.
        let (key_need, key_need_at_home) = match (own_key_variable, listed) {
            (Some(_), _) => (KeyNeed::Needed, KeyNeed::Needed),
            (None, Some((_, need))) => (KeyNeed::Optional, need),
            (None, None) => (KeyNeed::Optional, KeyNeed::Optional),
        };
        let plain_http = match self.raw {
            Some(raw) if raw.allow_plain_http => PlainHttp::Allowed,
            _ => PlainHttp::Refused,
        };
        let url_variable = url_variables.into_iter().next().unwrap_or_default();
        let context_window = self.raw.and_then(|raw| raw.context_window.as_ref());
        let terms = Terms {
            wire,
            key_need,
            key_need_at_home,
            key_variable,
            url_variable,
            plain_http,
            context_window: context_window.map(|tokens| u64::from(tokens.0.0)),
        };
        Ok(Provider::new(parts, terms, notes))
    }

    fn wire(&self) -> Option<Wire> {
        let own = self.raw.and_then(|raw| raw.wire);
        own.or_else(|| self.built_in.map(|provider| provider.wire))
    }

    fn built_in_url(&self) -> Option<Sourced<BaseUrl>> {
        let url = self.built_in?.url?.parse().ok()?;
        Some(Sourced::new(url, Origin::BuiltIn))
    }

    fn is_local(&self) -> bool {
        self.built_in_url().is_some_and(|url| url.value.is_on_this_machine())
    }

    fn user_key(&self, variable: &str) -> Result<Option<Sourced<Redacted<String>>>, ConfigError> {
        let mut found = self.variables.user(variable)?;
        if found.is_none() && self.generic.user.as_deref() == Some(self.name) {
            found = self.variables.user("LLM_API_KEY")?;
        }
        let found = found.or_else(|| {
            let key = self.raw?.key.as_deref()?.trim();
            let origin = Origin::UserFile(format!("providers.{}.key", self.name));
            (!key.is_empty()).then(|| Sourced::new(key.to_owned(), origin))
        });
        match found {
            Some(key) if !can_be_sent(&key.value) => Err(ConfigError::Value {
                place: key.origin.to_string(),
                cause: "holds characters that no key has".to_owned(),
                remedy: "set it to the key alone, without spaces or quotes".to_owned(),
            }),
            found => Ok(found.map(redacted)),
        }
    }

    fn workspace_key(
        &self,
        variable: &str,
        notes: &mut Vec<String>,
    ) -> Option<Sourced<Redacted<String>>> {
        let mut found = self.variables.workspace(variable);
        if found.is_none() && self.generic.workspace.as_deref() == Some(self.name) {
            found = self.variables.workspace("LLM_API_KEY");
        }
        let key = found?;
        if !can_be_sent(&key.value) {
            notes.push(format!("{} is ignored: it holds characters that no key has", key.origin));
            return None;
        }
        Some(redacted(key))
    }

    fn user_url(&self, variables: &[String]) -> Result<Option<Sourced<BaseUrl>>, ConfigError> {
        let mut found = None;
        for variable in variables {
            if found.is_none() {
                found = self.variables.user(variable)?;
            }
        }
        if found.is_none() && self.generic.user.as_deref() == Some(self.name) {
            found = self.variables.user("LLM_BASE_URL")?;
        }
        let found = found.or_else(|| {
            let origin = Origin::UserFile(format!("providers.{}.base_url", self.name));
            Some(Sourced::new(self.raw?.base_url.clone()?, origin))
        });
        let Some(found) = found else { return Ok(None) };
        match parse_url(&found) {
            Ok(url) => Ok(Some(Sourced::new(url, found.origin))),
            Err(error) => Err(ConfigError::Value {
                place: found.origin.to_string(),
                cause: error.to_string(),
                remedy: "set it to an address such as https://example.com/v1".to_owned(),
            }),
        }
    }

    fn workspace_url(
        &self,
        variables: &[String],
        notes: &mut Vec<String>,
    ) -> Option<Sourced<BaseUrl>> {
        let mut found = variables.iter().find_map(|variable| self.variables.workspace(variable));
        if found.is_none() && self.generic.workspace.as_deref() == Some(self.name) {
            found = self.variables.workspace("LLM_BASE_URL");
        }
        let found = found?;
        let reason = match parse_url(&found) {
            // Whoever names a local server means that nothing leaves the machine.
            Ok(url) if self.is_local() && !url.is_on_this_machine() => {
                format!(
                    "{} runs on this machine; to use another, set it in your environment",
                    self.name
                )
            }
            Ok(url) => return Some(Sourced::new(url, found.origin)),
            Err(error) => format!("it {error}"),
        };
        notes.push(format!("{} is ignored: {reason}", found.origin));
        None
    }
}

fn redacted(key: Sourced<String>) -> Sourced<Redacted<String>> {
    Sourced::new(Redacted::new(key.value), key.origin)
}

/// A key is sent in a header: visible characters only.
fn can_be_sent(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_graphic())
}

fn parse_url(found: &Sourced<String>) -> Result<BaseUrl, UrlError> {
    match &found.origin {
        Origin::Environment(name) | Origin::DotEnv(name) if name == OLLAMA_HOST => {
            ollama_host(&found.value).parse()
        }
        _ => found.value.parse(),
    }
}

/// Ollama's variable tells its server where to listen; clients take it for the
/// address to ask.
fn ollama_host(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (rest, "11434"),
    };
    let host = if matches!(host, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { host };
    format!("{scheme}://{host}:{port}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollamas_variable_is_read_as_its_own_client_reads_it() {
        for (text, url) in [
            ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            (":5000", "http://127.0.0.1:5000/v1"),
            ("box", "http://box:11434/v1"),
            ("https://box:443/", "https://box:443/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
        ] {
            assert_eq!(ollama_host(text), url);
        }
    }
}
