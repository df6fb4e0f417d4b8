//! No combination of layers brings a key of the user's to an address of the
//! workspace's.

use proptest::prelude::*;

use crate::harness::Case;

const NAMES: &[&str] = &["OPENAI", "ANTHROPIC", "OLLAMA", "LLM", "ACME", "GROQ", "VLLM"];
const MODELS: &[&str] = &[
    "openai/m",
    "anthropic/m",
    "ollama/m",
    "acme/m",
    "openai-compatible/m",
    "groq/m",
    "m",
    "claude-m",
];

const VARIABLES: &[&str] = &[
    "MODEL",
    "LLM_MODEL",
    "CODER_MODEL",
    "MAX_TOKENS",
    "SUMMARISER_MODEL",
    "COFFERDAM_EMBEDDER",
    "CONTEXT_WINDOW",
    "SAFEDIR",
    "USE_SANDBOX",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OLLAMA_HOST",
    "LLM_API_KEY",
    "LLM_BASE_URL",
];

/// Lines that set keys, addresses and models, all marked with their owner.
fn variables(owner: &'static str) -> impl Strategy<Value = String> {
    let line = prop_oneof![
        prop::sample::select(NAMES).prop_map(move |name| format!("{name}_API_KEY={owner}-key")),
        prop::sample::select(NAMES)
            .prop_map(move |name| format!("{name}_BASE_URL=https://{owner}.example")),
        Just(format!("OLLAMA_HOST={owner}.example")),
        prop::sample::select(MODELS).prop_map(|model| format!("MODEL={model}")),
        prop::sample::select(MODELS).prop_map(|model| format!("LLM_MODEL={model}")),
        prop::sample::select(MODELS).prop_map(|model| format!("CODER_MODEL={model}")),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

/// Sections of providers, marked with their owner.
fn sections(owner: &'static str) -> impl Strategy<Value = String> {
    let names = &["openai", "anthropic", "acme", "ollama", "openai-compatible"];
    let section = move |(name, [key, url, plain]): (&str, [bool; 3])| {
        let start = format!("[providers.{name}]\nwire = \"chat\"\nallow_plain_http = {plain}\n");
        let key = if key { format!("key = \"{owner}-key\"\n") } else { String::new() };
        let url =
            if url { format!("base_url = \"https://{owner}.example\"\n") } else { String::new() };
        format!("{start}{key}{url}")
    };
    prop::collection::btree_map(prop::sample::select(names), any::<[bool; 3]>(), 0..4)
        .prop_map(move |found| found.into_iter().map(section).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_key_of_the_user_never_meets_an_address_of_the_workspace(
        environment in variables("user"),
        dotenv in variables("workspace"),
        user in sections("user"),
        project in sections("workspace"),
        flag in prop::option::of(prop::sample::select(MODELS)),
    ) {
        let mut case = Case::new()
            .environment(&environment)
            .dotenv(&dotenv)
            .user(&user)
            .project(&project);
        if let Some(flag) = flag {
            case = case.model(flag);
        }
        // A name of the user's that cannot be completed is an error, and sends nothing.
        let Ok(settings) = case.try_check() else { return Ok(()) };
        for (name, provider) in &settings.providers {
            let Some(key) = provider.key() else { continue };
            let Some(url) = provider.base_url() else { continue };
            let leaked = key.reveal() == "user-key" && url.as_str().contains("workspace");
            prop_assert!(!leaked, "{name}: {url}");
        }
        // Nor is any of it said.
        let said = format!("{settings:?}");
        prop_assert!(!said.contains("user-key") && !said.contains("workspace-key"), "{said}");
    }

    #[test]
    fn nothing_in_the_workspace_stops_the_product(
        names in prop::collection::vec(prop::sample::select(VARIABLES), 0..6),
        values in prop::collection::vec("\\PC{0,40}", 6),
        project in prop_oneof!["\\PC{0,200}", "[a-z.]{1,20} = [a-z0-9\"]{1,20}"],
    ) {
        let lines = names.iter().zip(&values).map(|(name, value)| format!("{name}={value}\n"));
        let settings = Case::new().dotenv(&lines.collect::<String>()).project(&project).check();
        prop_assert!(settings.warnings.len() < 30);
        prop_assert!(settings.warnings.iter().all(|warning| !warning.contains(char::is_control)));
    }
}
