//! How much models can read at once.

use cofferdam_types::ModelName;

/// What a model that nobody here knows can read: less than most can, since a question that
/// is too long fails.
const UNKNOWN: u64 = 32_000;

/// Models by what their names begin with, and their tokens. The first that fits counts.
const KNOWN: &[(&str, u64)] = &[
    ("claude", 200_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4", 128_000),
    ("gpt-", 400_000),
    ("codex", 400_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("gemini", 1_000_000),
    ("deepseek", 128_000),
    ("qwen", 128_000),
    ("llama", 128_000),
    ("mistral", 128_000),
    ("codestral", 256_000),
    ("kimi", 256_000),
    ("glm", 128_000),
    ("grok", 256_000),
    ("demo", 200_000),
    ("replay", 200_000),
];

/// Tokens that a model can take in and give out together, as far as its name tells. A local
/// server often has less; then it has to be set.
#[must_use]
pub fn window(name: &ModelName) -> u64 {
    let model = match (name.provider(), name.model()) {
        (provider @ ("demo" | "replay"), _) | (provider, "") => provider,
        (_, model) => model,
    };
    // Local servers read a few thousand tokens unless they were told otherwise.
    if name.provider() == "ollama" {
        return UNKNOWN;
    }
    let last = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    KNOWN.iter().find(|(start, _)| last.starts_with(start)).map_or(UNKNOWN, |(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_model_and_not_its_provider() {
        for (name, tokens) in [
            ("anthropic/claude-sonnet-4-5", 200_000),
            ("openrouter/anthropic/claude-opus-4", 200_000),
            ("openai/gpt-4.1-mini", 1_000_000),
            ("openai/gpt-5.5", 400_000),
            ("ollama/qwen3-coder", UNKNOWN),
            ("openai-compatible/mine", UNKNOWN),
            ("demo", 200_000),
            ("replay/01a1e359", 200_000),
        ] {
            assert_eq!(window(&ModelName(name.to_owned())), tokens, "{name}");
        }
    }
}
