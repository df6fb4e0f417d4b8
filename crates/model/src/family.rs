//! Families of models: what those of one family were trained on.

use cofferdam_types::ModelName;

/// Models that edit files in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Trained on patches that change several files at once.
    Patches,
    /// Trained on the exact replacement of text.
    Replacements,
}

impl Family {
    /// The family of a model, by its name.
    #[must_use]
    pub fn of(name: &ModelName) -> Self {
        let model = match name.model() {
            "" => name.provider(),
            model => model,
        };
        let last = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let patches = ["gpt-", "codex", "o1", "o3", "o4"];
        if patches.iter().any(|start| last.starts_with(start)) {
            Self::Patches
        } else {
            Self::Replacements
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_follows_the_model_and_not_its_provider() {
        for (name, family) in [
            ("openai/gpt-5.5", Family::Patches),
            ("openrouter/openai/gpt-5.5", Family::Patches),
            ("openai/codex-mini", Family::Patches),
            ("anthropic/claude-sonnet-4-5", Family::Replacements),
            ("ollama/qwen3-coder", Family::Replacements),
            ("demo", Family::Replacements),
        ] {
            assert_eq!(Family::of(&ModelName(name.to_owned())), family, "{name}");
        }
    }
}
