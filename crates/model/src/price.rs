//! What models cost. A price that is not known is never taken for nothing.

use std::collections::BTreeMap;

use cofferdam_types::{ModelName, Price, Usd};

/// The prices that are known.
#[derive(Clone, Debug, Default)]
pub struct PriceTable {
    own: BTreeMap<ModelName, Price>,
}

impl PriceTable {
    /// Sets the price of a model; it wins over what is built in.
    pub fn set(&mut self, name: ModelName, price: Price) {
        self.own.insert(name, price);
    }

    /// The price of a model, if it is known.
    #[must_use]
    pub fn price(&self, name: &ModelName) -> Option<Price> {
        if let Some(price) = self.own.get(name) {
            return Some(*price);
        }
        if LOCAL.contains(&name.provider()) {
            return Some(Price::FREE);
        }
        let listed = |(provider, model, price): &(&str, &str, Price)| {
            (*provider == name.provider() && is_release_of(name.model(), model)).then_some(*price)
        };
        LISTED.iter().find_map(listed)
    }
}

/// Whether a name is a model's own, or that with a release: `-latest`, `-20250929`
/// or `-2025-09-29`. Anything else is another model, however alike its name:
/// `gpt-50` is none of `gpt-5`, `claude-sonnet-4-9` none of `claude-sonnet-4`.
fn is_release_of(name: &str, model: &str) -> bool {
    let Some(rest) = name.strip_prefix(model) else { return false };
    let shape: String = rest
        .chars()
        .map(|character| if character.is_ascii_digit() { '0' } else { character })
        .collect();
    matches!(shape.as_str(), "" | "-00000000" | "-0000-00-00") || rest == "-latest"
}

/// Providers whose models run on the user's own machine, or nowhere.
const LOCAL: &[&str] = &["demo", "replay", "ollama", "llamacpp", "lmstudio", "vllm"];

/// Thousandths of a dollar for a million tokens are as many billionths for one.
const fn listed(input: u64, cache_read: u64, cache_write: u64, output: u64) -> Price {
    Price {
        input: Usd::from_nanos(input),
        cache_read: Usd::from_nanos(cache_read),
        cache_write: Usd::from_nanos(cache_write),
        output: Usd::from_nanos(output),
    }
}

/// Prices that the providers publish, in thousandths of a dollar for a million
/// tokens. They change; `[prices]` in the user's configuration wins.
const LISTED: &[(&str, &str, Price)] = &[
    ("anthropic", "claude-opus-4-5", listed(5_000, 500, 6_250, 25_000)),
    ("anthropic", "claude-opus-4-1", listed(15_000, 1_500, 18_750, 75_000)),
    ("anthropic", "claude-opus-4", listed(15_000, 1_500, 18_750, 75_000)),
    ("anthropic", "claude-sonnet-4-5", listed(3_000, 300, 3_750, 15_000)),
    ("anthropic", "claude-sonnet-4", listed(3_000, 300, 3_750, 15_000)),
    ("anthropic", "claude-haiku-4-5", listed(1_000, 100, 1_250, 5_000)),
    ("anthropic", "claude-3-5-haiku", listed(800, 80, 1_000, 4_000)),
    ("openai", "gpt-5", listed(1_250, 125, 1_250, 10_000)),
    ("openai", "gpt-5-codex", listed(1_250, 125, 1_250, 10_000)),
    ("openai", "gpt-5-mini", listed(250, 25, 250, 2_000)),
    ("openai", "gpt-5-nano", listed(50, 5, 50, 400)),
    ("openai", "gpt-4.1", listed(2_000, 500, 2_000, 8_000)),
    ("openai", "gpt-4.1-mini", listed(400, 100, 400, 1_600)),
    ("openai", "gpt-4.1-nano", listed(100, 25, 100, 400)),
    ("openai", "gpt-4o", listed(2_500, 1_250, 2_500, 10_000)),
    ("openai", "gpt-4o-mini", listed(150, 75, 150, 600)),
    ("openai", "o3", listed(2_000, 500, 2_000, 8_000)),
    ("openai", "o4-mini", listed(1_100, 275, 1_100, 4_400)),
];

#[cfg(test)]
mod tests {
    use cofferdam_types::Tokens;

    use super::*;

    fn price(name: &str) -> Option<Price> {
        PriceTable::default().price(&ModelName(name.to_owned()))
    }

    #[test]
    fn a_release_has_the_price_of_its_model() {
        let sonnet = price("anthropic/claude-sonnet-4-5").unwrap();
        assert_eq!(price("anthropic/claude-sonnet-4-5-20250929"), Some(sonnet));
        assert_eq!(price("anthropic/claude-sonnet-4-5-latest"), Some(sonnet));
        let small = price("openai/gpt-5-mini").unwrap();
        assert_eq!(price("openai/gpt-5-mini-2025-08-07"), Some(small));
        let tokens =
            Tokens { input: 1_000_000, cache_read: 1_000_000, cache_write: 0, output: 100_000 };
        assert_eq!(sonnet.of(tokens).to_string(), "$4.80");
    }

    #[test]
    fn a_model_that_is_not_listed_has_no_price_and_local_ones_are_free() {
        for name in [
            "openai/gpt-5.5",
            "openai/gpt-5-pro",
            "openai/gpt-50",
            "openai/gpt-4.12",
            "openai/gpt-5-",
            "openai/gpt-5latest",
            "openai/gpt-520250807",
            "openai/gpt-5-2025",
            "openai/gpt-5-2025-8-7",
            "openai/gpt-5-20250807-2",
            "openai/gpt-5-٢٠٢٥٠٨٠٧",
            "openrouter/openai/gpt-5",
            "anthropic/claude-opus-4-6",
            "anthropic/claude-sonnet-4-9",
            "anthropic/claude-haiku-4-5-latest-20251001",
        ] {
            assert_eq!(price(name), None, "{name}");
        }
        assert_eq!(price("ollama/qwen3-coder"), Some(Price::FREE));
    }

    #[test]
    fn the_users_own_price_wins() {
        let name = ModelName("anthropic/claude-sonnet-4-5".to_owned());
        let mut table = PriceTable::default();
        table.set(name.clone(), Price::FREE);
        assert_eq!(table.price(&name), Some(Price::FREE));
    }
}
