//! Keys and addresses: who may meet whom.

use insta::assert_snapshot;

use crate::harness::{Case, shown};

/// Places that a value may be in, alone or together.
const PLACES: [&str; 4] = ["-", "env", "file", ".env"];

/// Layers with the key and the address of a provider in these places.
fn layers(key: &str, url: &str) -> Case {
    let mut environment = String::new();
    let mut dotenv = String::new();
    let mut file = String::new();
    match key {
        "env" => environment.push_str("OPENAI_API_KEY=user-key\n"),
        "file" => file.push_str("key = \"user-key\"\n"),
        ".env" => dotenv.push_str("OPENAI_API_KEY=workspace-key\n"),
        _ => {}
    }
    match url {
        "env" => environment.push_str("OPENAI_BASE_URL=https://user.example\n"),
        "file" => file.push_str("base_url = \"https://user.example\"\n"),
        ".env" => dotenv.push_str("OPENAI_BASE_URL=https://workspace.example\n"),
        _ => {}
    }
    let file = format!("[providers.openai]\n{file}[providers.openai-compatible]\n{file}");
    Case::new().environment(&environment).dotenv(&dotenv).user(&file)
}

fn table(model: &str) -> String {
    let mut rows = String::from("key   address  result\n");
    for key in PLACES {
        for url in PLACES {
            let endpoint = shown(&layers(key, url).endpoint(model));
            rows.push_str(&format!("{key:<5} {url:<8} {endpoint}\n"));
        }
    }
    rows
}

#[test]
fn a_key_meets_only_addresses_that_are_trusted_as_much() {
    assert_snapshot!(table("openai/m"), @r"
    key   address  result
    -     -        error: no key for openai
    -     env      https://user.example with no key
    -     file     https://user.example with no key
    -     .env     https://workspace.example with no key
    env   -        https://api.openai.com/v1 with user-key
    env   env      https://user.example with user-key
    env   file     https://user.example with user-key
    env   .env     https://api.openai.com/v1 with user-key
    file  -        https://api.openai.com/v1 with user-key
    file  env      https://user.example with user-key
    file  file     https://user.example with user-key
    file  .env     https://api.openai.com/v1 with user-key
    .env  -        https://api.openai.com/v1 with workspace-key
    .env  env      https://user.example with workspace-key
    .env  file     https://user.example with workspace-key
    .env  .env     https://workspace.example with workspace-key
    ");
}

#[test]
fn a_provider_without_an_address_of_its_own_is_asked_without_the_users_key() {
    assert_snapshot!(table("openai-compatible/m"), @r"
    key   address  result
    -     -        error: no address for openai-compatible
    -     env      https://user.example with no key
    -     file     https://user.example with no key
    -     .env     https://workspace.example with no key
    env   -        error: no address for openai-compatible
    env   env      https://user.example with user-key
    env   file     https://user.example with user-key
    env   .env     https://workspace.example with no key
    file  -        error: no address for openai-compatible
    file  env      https://user.example with user-key
    file  file     https://user.example with user-key
    file  .env     https://workspace.example with no key
    .env  -        error: no address for openai-compatible
    .env  env      https://user.example with workspace-key
    .env  file     https://user.example with workspace-key
    .env  .env     https://workspace.example with workspace-key
    ");
}

/// What is said when the user's key and the workspace's address come together.
#[test]
fn an_address_that_is_not_used_is_told() {
    let case = layers("env", ".env").model("openai/m");
    assert_snapshot!(case.check().warnings.join("\n"), @"OPENAI_BASE_URL in .env is ignored: your own key or address is set, and an address from the workspace never replaces or receives it; to use it, set it in your environment");
}

#[test]
fn a_key_that_is_withheld_is_told() {
    let case = layers("env", ".env").model("openai-compatible/m");
    assert_snapshot!(case.check().warnings.join("\n"), @r#"
    OPENAI_API_KEY is not sent to "https://workspace.example": a key never follows an address from the workspace; to send it there, set the address in your environment
    requests go to "https://workspace.example", as OPENAI_BASE_URL in .env asks
    "#);
}

#[test]
fn an_address_and_a_key_from_the_workspace_are_used_together_and_told() {
    let dotenv = "OPENAI_BASE_URL=https://workspace.example\nOPENAI_API_KEY=workspace-key";
    let case = Case::new().dotenv(dotenv).model("openai/m");
    assert_eq!(shown(&case.endpoint("openai/m")), "https://workspace.example with workspace-key");
    assert_snapshot!(case.check().warnings.join("\n"), @r#"
    requests go to "https://workspace.example", as OPENAI_BASE_URL in .env asks
    requests carry the key of OPENAI_API_KEY in .env
    "#);
}

#[test]
fn the_workspace_cannot_replace_the_users_key_by_its_own() {
    let dotenv = "ANTHROPIC_API_KEY=workspace-key";
    for case in [
        Case::new().environment("ANTHROPIC_API_KEY=user-key"),
        Case::new().user("[providers.anthropic]\nkey = \"user-key\""),
    ] {
        let case = case.dotenv(dotenv).model("anthropic/m");
        let endpoint = case.endpoint("anthropic/m");
        assert_eq!(shown(&endpoint), "https://api.anthropic.com with user-key");
        let warnings = case.check().warnings.join("\n");
        assert!(warnings.starts_with("ANTHROPIC_API_KEY in .env is ignored"), "{warnings}");
    }
}

#[test]
fn nothing_is_said_of_providers_that_are_not_used() {
    let case = layers("env", ".env").environment("ANTHROPIC_API_KEY=k").model("anthropic/m");
    assert_eq!(case.check().warnings, Vec::<String>::new());
}

#[test]
fn a_variable_is_not_replaced_inside_an_address_of_the_workspace() {
    let dotenv = "OPENAI_BASE_URL=https://workspace.example/${ANTHROPIC_API_KEY}";
    let case = Case::new().environment("ANTHROPIC_API_KEY=user-key").dotenv(dotenv);
    let endpoint = shown(&case.endpoint("openai-compatible/m"));
    assert!(!endpoint.contains("user-key"), "{endpoint}");
}

#[test]
fn the_project_file_sets_no_address_and_no_key() {
    let text = "[providers.anthropic]\nbase_url = \"https://workspace.example\"\nkey = \"w\"";
    let case = Case::new().environment("ANTHROPIC_API_KEY=user-key").project(text);
    let endpoint = case.endpoint("anthropic/m");
    assert_eq!(shown(&endpoint), "https://api.anthropic.com with user-key");
    assert_snapshot!(case.check().warnings.join("\n"), @r#""providers" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml"#);
}

#[test]
fn a_key_without_a_providers_name_stays_with_the_model_beside_it() {
    let generic = "LLM_MODEL=anthropic/m\nLLM_API_KEY=user-key";
    let case = Case::new().environment(generic);
    assert_eq!(shown(&case.endpoint("anthropic/m")), "https://api.anthropic.com with user-key");
    // Neither an option nor the workspace takes it to another provider.
    let case = case.dotenv("MODEL=openai/x\nLLM_BASE_URL=https://workspace.example");
    assert_eq!(shown(&case.endpoint("anthropic/m")), "https://api.anthropic.com with user-key");
    let openai = shown(&case.model("openai/x").endpoint("openai/x"));
    assert_eq!(openai, "https://workspace.example with no key");
}

#[test]
fn a_key_goes_unencrypted_only_to_this_machine_and_its_network() {
    for (url, allow, expected) in [
        ("http://127.0.0.1:9", "false", "http://127.0.0.1:9 with k"),
        ("http://192.168.1.5:9", "false", "http://192.168.1.5:9 with k"),
        ("http://far.example", "true", "http://far.example with k"),
        ("https://far.example", "false", "https://far.example with k"),
        (
            "http://far.example",
            "false",
            "error: the key of mine would go to far.example unencrypted",
        ),
    ] {
        let file = format!(
            "[providers.mine]\nwire = \"chat\"\nbase_url = \"{url}\"\nallow_plain_http = {allow}"
        );
        let case = Case::new().user(&file).environment("MINE_API_KEY=k");
        assert_eq!(shown(&case.endpoint("mine/m")), expected);
    }
    let case = Case::new().environment("OPENAI_BASE_URL=http://far.example");
    let endpoint = shown(&case.endpoint("openai-compatible/m"));
    assert_eq!(endpoint, "http://far.example with no key");
}

#[test]
fn nothing_switches_the_sandbox_off() {
    for value in ["false", "0", "no", "OFF"] {
        let line = format!("USE_SANDBOX={value}");
        for case in [Case::new().environment(&line), Case::new().dotenv(&line)] {
            let warnings = case.check().warnings;
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].contains("nothing switches that off"), "{warnings:?}");
        }
    }
    assert!(Case::new().environment("USE_SANDBOX=true").check().warnings.is_empty());
}
