//! Which model is used.

use std::path::Path;

use cofferdam_config::{DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL, Embedder, Flags};
use insta::assert_snapshot;

use crate::harness::Case;

fn model(case: &Case) -> String {
    case.check().model.map_or("none".to_owned(), |name| name.0)
}

#[test]
fn a_key_alone_chooses_its_providers_default() {
    for (environment, dotenv, expected) in [
        ("", "", "none"),
        ("ANTHROPIC_API_KEY=k", "", DEFAULT_ANTHROPIC_MODEL),
        ("OPENAI_API_KEY=k", "", DEFAULT_OPENAI_MODEL),
        ("OPENAI_API_KEY=k\nANTHROPIC_API_KEY=k", "", DEFAULT_ANTHROPIC_MODEL),
        ("", "OPENAI_API_KEY=k", DEFAULT_OPENAI_MODEL),
        ("OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k", DEFAULT_OPENAI_MODEL),
        ("OPENAI_API_KEY=", "", "none"),
        ("GROQ_API_KEY=k", "", "none"),
    ] {
        let case = Case::new().environment(environment).dotenv(dotenv);
        assert_eq!(model(&case), expected, "{environment} {dotenv}");
    }
}

#[test]
fn names_without_a_provider_are_completed_where_there_is_no_doubt() {
    for (environment, expected) in [
        ("MODEL=claude-x", "anthropic/claude-x"),
        ("MODEL=gpt-x", "openai/gpt-x"),
        ("MODEL=demo", "demo"),
        ("LLM_MODEL=ollama/qwen", "ollama/qwen"),
        ("MODEL=a/b\nLLM_MODEL=c/d", "a/b"),
        ("MODEL=qwen\nOPENAI_BASE_URL=http://localhost:1/v1", "openai-compatible/qwen"),
        ("LLM_MODEL=qwen\nLLM_BASE_URL=http://localhost:1/v1", "openai-compatible/qwen"),
    ] {
        assert_eq!(model(&Case::new().environment(environment)), expected);
    }
}

#[test]
fn the_workspace_cannot_draw_the_users_wish_to_its_own_server() {
    let case = Case::new().environment("MODEL=qwen").dotenv("OPENAI_BASE_URL=https://w.example");
    assert!(case.try_check().is_err());
}

/// What becomes of a model that the workspace wishes for.
#[test]
fn a_wish_of_the_workspace_counts_where_its_provider_can_be_asked_already() {
    let own = "[model]\nname = \"anthropic/own\"";
    let mut told = String::new();
    for (wish, dotenv) in [
        ("anthropic/wish", ""),
        ("ollama/wish", ""),
        ("openai/wish", ""),
        ("openai/wish", "OPENAI_API_KEY=k"),
        ("openai-compatible/wish", ""),
        ("openai-compatible/wish", "OPENAI_BASE_URL=https://w.example"),
        ("stranger/wish", ""),
        ("demo", ""),
        ("anthropic/", ""),
        ("wish", ""),
        ("ollama/\u{1b}[2J", ""),
    ] {
        let case = Case::new().user(own).environment("ANTHROPIC_API_KEY=k");
        let in_file = case
            .clone()
            .project(&format!("[model]\nname = \"{}\"", wish.replace('\u{1b}', "\\u001b")))
            .dotenv(dotenv);
        let in_dotenv = case.dotenv(&format!("{dotenv}\nMODEL={wish}"));
        assert_eq!(model(&in_file), model(&in_dotenv));
        let warnings = in_dotenv.check().warnings.join("\n  ");
        told.push_str(&format!("{}\n  {warnings}\n", model(&in_dotenv)));
    }
    assert_snapshot!(told, @r#"
    anthropic/wish
      the model is anthropic/wish, as MODEL in .env asks
    ollama/wish
      the model is ollama/wish, as MODEL in .env asks
    anthropic/own
      MODEL in .env ("openai/wish") is ignored: there is no key for openai; set OPENAI_API_KEY
    anthropic/own
      MODEL in .env ("openai/wish") is ignored: its key or address comes from .env, and you have a model of your own; to use it, say --model openai/wish
    anthropic/own
      MODEL in .env ("openai-compatible/wish") is ignored: there is no address for openai-compatible; set OPENAI_BASE_URL
    anthropic/own
      MODEL in .env ("openai-compatible/wish") is ignored: its key or address comes from .env, and you have a model of your own; to use it, say --model openai-compatible/wish
    anthropic/own
      MODEL in .env ("stranger/wish") is ignored: its provider is not known
    anthropic/own
      MODEL in .env ("demo") is ignored: a repository cannot choose a built-in model
    anthropic/own
      MODEL in .env ("anthropic/") is ignored: it names no model
    anthropic/own
      MODEL in .env ("wish") is ignored: it is not PROVIDER/MODEL
    anthropic/own
      MODEL in .env ("ollama/\u{1b}[2J") is ignored: it is not PROVIDER/MODEL
    "#);
}

/// Whoever has no model may keep a whole configuration in `.env`; whoever has one
/// is not sent elsewhere by a repository.
#[test]
fn a_server_of_the_workspace_is_asked_only_where_the_user_has_no_model() {
    let whole = "MODEL=openai/m\nOPENAI_BASE_URL=https://w.example\nOPENAI_API_KEY=k";
    assert_eq!(model(&Case::new().dotenv(whole)), "openai/m");
    for own in [
        Case::new().environment("ANTHROPIC_API_KEY=k"),
        Case::new().environment("OPENAI_API_KEY=k"),
        Case::new().user("[model]\nname = \"ollama/own\""),
    ] {
        let settings = own.dotenv(whole).check();
        let endpoint = settings.endpoint(settings.model.as_ref().unwrap()).unwrap();
        assert!(!endpoint.base_url.as_str().contains("w.example"), "{endpoint:?}");
        assert!(!settings.warnings.is_empty());
    }
    // The user may say so, and then it is done.
    let case = Case::new().environment("ANTHROPIC_API_KEY=k").dotenv(whole).model("openai/m");
    let endpoint = case.endpoint("openai/m").unwrap();
    assert_eq!(endpoint.base_url.as_str(), "https://w.example");
}

#[test]
fn the_coder_is_chosen_by_the_same_rules() {
    let case = Case::new()
        .environment("ANTHROPIC_API_KEY=k")
        .user("[model]\ncoder = \"anthropic/own\"")
        .project("[model]\ncoder = \"openai/wish\"");
    let settings = case.check();
    assert_eq!(settings.coder.unwrap().0, "anthropic/own");
    let settings = case.environment("CODER_MODEL=ollama/c").check();
    assert_eq!(settings.coder.unwrap().0, "ollama/c");
}

#[test]
fn the_summariser_is_the_users_to_choose() {
    let case = Case::new()
        .environment("ANTHROPIC_API_KEY=k")
        .project("[model]\nsummariser = \"anthropic/wish\"")
        .dotenv("SUMMARISER_MODEL=anthropic/other");
    assert_eq!(case.check().summariser, None);
    let case = case.user("[model]\nsummariser = \"anthropic/own\"");
    assert_eq!(case.check().summariser.unwrap().0, "anthropic/own");
    let case = case.environment("SUMMARISER_MODEL=ollama/s");
    assert_eq!(case.check().summariser.unwrap().0, "ollama/s");
    let flags = Flags { summariser: Some("claude-x".to_owned()), ..Flags::default() };
    assert_eq!(case.flags(flags).check().summariser.unwrap().0, "anthropic/claude-x");
    let told = case_of_nonsense("SUMMARISER_MODEL=brief");
    assert!(told.contains("SUMMARISER_MODEL names the model \"brief\""), "{told}");
}

#[test]
fn there_is_no_embedder_unless_the_user_names_one() {
    let case = Case::new().environment("OPENAI_API_KEY=k");
    assert_eq!(case.check().embedder, None);
    let case = case
        .project("[model]\nembedder = \"openai/wish\"")
        .dotenv("COFFERDAM_EMBEDDER=openai/other");
    let settings = case.check();
    assert_eq!(settings.embedder, None);
    assert_snapshot!(settings.warnings.join("\n"), @r#"
    "model.embedder" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    COFFERDAM_EMBEDDER in .env is ignored: a repository cannot set it; set it in your environment
    "#);
    let case = case.user("[model]\nembedder = \"openai/own\"");
    assert_eq!(embedder(&case), "openai/own");
    let case = case.environment("COFFERDAM_EMBEDDER=ollama/nomic-embed-text");
    assert_eq!(embedder(&case), "ollama/nomic-embed-text");
    let told = case_of_nonsense("COFFERDAM_EMBEDDER=vectors");
    assert!(told.contains("COFFERDAM_EMBEDDER names the model \"vectors\""), "{told}");
}

/// The name of the embedder's model.
fn embedder(case: &Case) -> String {
    match case.check().embedder.unwrap() {
        Embedder::Model(name) => name.0,
        file => panic!("{file:?}"),
    }
}

#[test]
fn an_embedder_may_be_a_file_of_the_user_by_its_whole_path() {
    let file = |case: &Case| match case.check().embedder {
        Some(Embedder::File(path)) => path,
        other => panic!("{other:?}"),
    };
    let case = Case::new().user("[model]\nembedder = \"/models/minilm\"");
    assert_eq!(file(&case), Path::new("/models/minilm"));
    let case = case.environment("COFFERDAM_EMBEDDER=/models/other/model.onnx");
    assert_eq!(file(&case), Path::new("/models/other/model.onnx"));
    // A repository's is not looked at, whatever it is.
    let case = Case::new().dotenv("COFFERDAM_EMBEDDER=/models/theirs");
    assert_eq!(case.check().embedder, None);
    for path in ["./minilm", "../minilm", "~/minilm"] {
        let told = case_of_nonsense(&format!("COFFERDAM_EMBEDDER={path}"));
        let wanted = format!("COFFERDAM_EMBEDDER is {path:?}, which is no whole path");
        assert_eq!(told, wanted);
    }
}

/// A server that the workspace names is told of, whatever it is asked for.
#[test]
fn an_embedder_at_an_address_of_the_workspace_is_told() {
    let case = Case::new()
        .environment("ANTHROPIC_API_KEY=k\nCOFFERDAM_EMBEDDER=openai-compatible/vectors")
        .dotenv("OPENAI_BASE_URL=https://w.example");
    let warnings = case.check().warnings.join("\n");
    assert!(warnings.contains("requests go to \"https://w.example\""), "{warnings}");
}

fn case_of_nonsense(environment: &str) -> String {
    Case::new().environment(environment).try_check().unwrap_err().to_string()
}

#[test]
fn local_servers_are_looked_for_where_they_are_and_never_elsewhere() {
    let case = Case::new()
        .environment("OLLAMA_HOST=0.0.0.0:9999")
        .dotenv("VLLM_BASE_URL=https://w.example/v1\nLMSTUDIO_BASE_URL=http://localhost:5/v1");
    let settings = case.check();
    let urls: Vec<String> = settings
        .local_candidates()
        .iter()
        .map(|server| format!("{} {}", server.provider, server.base_url))
        .collect();
    assert_snapshot!(urls.join("\n"), @r"
    ollama http://127.0.0.1:9999/v1
    llamacpp http://127.0.0.1:8080/v1
    vllm http://127.0.0.1:8000/v1
    lmstudio http://localhost:5/v1
    ");
    assert_snapshot!(case.model("vllm/m").check().warnings.join("\n"), @"VLLM_BASE_URL in .env is ignored: vllm runs on this machine; to use another, set it in your environment");
}
