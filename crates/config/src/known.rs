//! What is built in: providers, their addresses and variables, default models, and
//! the keys that a file may hold. All constants that age are here.

use cofferdam_model::Wire;

/// The model used when nothing but a key for Anthropic is set.
pub const DEFAULT_ANTHROPIC_MODEL: &str = "anthropic/claude-sonnet-4-5";
/// The model used when nothing but a key for OpenAI is set.
pub const DEFAULT_OPENAI_MODEL: &str = "openai/gpt-5";

/// Models of the product's own, which have no provider and no endpoint.
pub const BUILT_IN_MODELS: &[&str] = &["demo", "replay"];

/// Default models by the provider whose key is set, the first one first.
pub(crate) const DEFAULT_MODELS: &[(&str, &str)] =
    &[("anthropic", DEFAULT_ANTHROPIC_MODEL), ("openai", DEFAULT_OPENAI_MODEL)];

/// How names without a provider begin, and whose they are.
pub(crate) const NAME_STARTS: &[(&str, &str)] = &[
    ("claude", "anthropic"),
    ("gpt-", "openai"),
    ("codex", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
];

/// The provider of names without one, where an address for it is set.
pub(crate) const COMPATIBLE: &str = "openai-compatible";

/// A provider that is known without any configuration.
#[derive(Debug)]
pub(crate) struct BuiltInProvider {
    pub(crate) name: &'static str,
    pub(crate) wire: Wire,
    pub(crate) url: Option<&'static str>,
    /// The variable of its key, and whether it answers without one.
    pub(crate) key: Option<(&'static str, KeyNeed)>,
    /// Variables of its address, the first one first.
    pub(crate) url_variables: &'static [&'static str],
}

/// Whether a provider answers without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyNeed {
    Needed,
    Optional,
}

const fn hosted(
    name: &'static str,
    url: &'static str,
    key: &'static str,
    url_variables: &'static [&'static str],
) -> BuiltInProvider {
    let key = Some((key, KeyNeed::Needed));
    BuiltInProvider { name, wire: Wire::Chat, url: Some(url), key, url_variables }
}

const fn local(
    name: &'static str,
    url: &'static str,
    url_variables: &'static [&'static str],
) -> BuiltInProvider {
    BuiltInProvider { name, wire: Wire::Chat, url: Some(url), key: None, url_variables }
}

/// The providers that are known without any configuration.
pub(crate) const PROVIDERS: &[BuiltInProvider] = &[
    BuiltInProvider {
        wire: Wire::Messages,
        ..hosted(
            "anthropic",
            "https://api.anthropic.com",
            "ANTHROPIC_API_KEY",
            &["ANTHROPIC_BASE_URL"],
        )
    },
    BuiltInProvider {
        wire: Wire::Responses,
        ..hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", &["OPENAI_BASE_URL"])
    },
    BuiltInProvider {
        name: COMPATIBLE,
        wire: Wire::Chat,
        url: None,
        key: Some(("OPENAI_API_KEY", KeyNeed::Optional)),
        url_variables: &["OPENAI_BASE_URL"],
    },
    local("ollama", "http://127.0.0.1:11434/v1", &["OLLAMA_BASE_URL", OLLAMA_HOST]),
    local("llamacpp", "http://127.0.0.1:8080/v1", &["LLAMACPP_BASE_URL"]),
    local("vllm", "http://127.0.0.1:8000/v1", &["VLLM_BASE_URL"]),
    local("lmstudio", "http://127.0.0.1:1234/v1", &["LMSTUDIO_BASE_URL"]),
    hosted(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        &["OPENROUTER_BASE_URL"],
    ),
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", &["GROQ_BASE_URL"]),
    hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", &["MISTRAL_BASE_URL"]),
    hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", &["DEEPSEEK_BASE_URL"]),
    hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", &["TOGETHER_BASE_URL"]),
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", &["XAI_BASE_URL"]),
    hosted(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        &["GEMINI_BASE_URL"],
    ),
];

/// Ollama's own variable, whose value is a host rather than a URL.
pub(crate) const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// A kind of model server that people run on their own machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// The provider's name.
    pub provider: String,
    /// What people call it.
    pub label: &'static str,
    /// What it speaks.
    pub wire: Wire,
    /// Where to look for it.
    pub base_url: crate::BaseUrl,
}

/// The local servers to look for, with what people call them.
pub(crate) const LOCAL_SERVERS: &[(&str, &str)] =
    &[("ollama", "Ollama"), ("llamacpp", "llama.cpp"), ("vllm", "vLLM"), ("lmstudio", "LM Studio")];

/// The keys that the user's file may hold; `*` is a name. They are the fields of
/// [`crate::user_file::UserFile`].
pub(crate) const KEYS: &[&str] = &[
    "model.name",
    "model.coder",
    "model.summariser",
    "model.embedder",
    "model.max_output",
    "model.context_window",
    "model.thinking",
    "model.idle_timeout",
    "model.retries",
    "budget.turns",
    "budget.tokens",
    "budget.cost",
    "budget.time",
    "sandbox.backend",
    "sandbox.require",
    "sandbox.image",
    "sandbox.memory",
    "sandbox.cpus",
    "sandbox.pids",
    "sandbox.disk",
    "sandbox.inodes",
    "sandbox.open_files",
    "sandbox.timeout",
    "sandbox.network",
    "sandbox.idle",
    "sandbox.screen",
    "providers.*.wire",
    "providers.*.base_url",
    "providers.*.key",
    "providers.*.key_env",
    "providers.*.allow_plain_http",
    "providers.*.context_window",
    "prices.*.input",
    "prices.*.output",
    "prices.*.cache_read",
    "prices.*.cache_write",
];

/// What a repository may set: which model suits it and how much that may write.
/// Whether a model is taken from it is decided in [`crate::choice`].
pub(crate) const PROJECT_KEYS: [&str; 3] = ["model.name", "model.coder", "model.max_output"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BaseUrl;

    #[test]
    fn built_in_addresses_are_addresses_that_keys_may_go_to() {
        for provider in PROVIDERS {
            let Some(url) = provider.url else { continue };
            assert!(url.parse::<BaseUrl>().unwrap().is_confidential(), "{url}");
        }
    }

    #[test]
    fn constants_name_only_what_there_is() {
        let known = |name: &str| PROVIDERS.iter().any(|provider| provider.name == name);
        assert!(LOCAL_SERVERS.iter().all(|(name, _)| known(name)));
        assert!(NAME_STARTS.iter().all(|(_, name)| known(name)));
        for (provider, model) in DEFAULT_MODELS {
            assert!(known(provider));
            assert_eq!(model.split_once('/').unwrap().0, *provider);
        }
        assert!(PROJECT_KEYS.iter().all(|key| KEYS.contains(key)));
    }
}
