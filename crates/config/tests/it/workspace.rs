//! The directory to work in, and what a project's file may say.

use std::path::PathBuf;

use cofferdam_config::Flags;
use insta::assert_snapshot;

use crate::harness::Case;

#[test]
fn a_directory_from_dotenv_lies_beneath_it_and_is_reached_without_a_link() {
    for (value, expected) in [
        ("work", Some("/project/work")),
        ("./a/b", Some("/project/a/b")),
        (".", Some("/project")),
        ("/project/work", Some("/project/work")),
        ("..", None),
        ("a/../../b", None),
        ("/", None),
        ("/projects", None),
        ("/project/../home", None),
        ("~/work", None),
        ("link/away", None),
    ] {
        let settings = Case::new().dotenv(&format!("SAFEDIR={value}")).check();
        assert_eq!(settings.workspace, expected.map(PathBuf::from), "{value}");
        let [warning] = settings.warnings.as_slice() else { panic!("{:?}", settings.warnings) };
        assert_eq!(warning.contains("is ignored"), expected.is_none(), "{value}: {warning}");
    }
}

#[test]
fn the_users_own_directory_is_taken_as_it_is() {
    let case = Case::new().dotenv("SAFEDIR=work").environment("SAFEDIR=/anywhere");
    assert_eq!(case.check().workspace, Some(PathBuf::from("/anywhere")));
    let workspace = Some(PathBuf::from("here"));
    let case = case.flags(Flags { workspace: workspace.clone(), ..Flags::default() });
    assert_eq!(case.check().workspace, workspace);
}

#[test]
fn a_project_can_neither_widen_policy_nor_stop_anything() {
    let text = "\
        surprise = 1\n\
        \"\\u001b[2J\" = 1\n\
        [sandbox]\nnetwork = \"open\"\nmemory = \"1T\"\n\
        [budget]\ncost = 1000\n\
        [model]\nretries = 99\nname = 5\nmax_output = -1\n\
        [prices.\"openai/gpt-5\"]\ninput = 0\noutput = 0\n";
    let settings = Case::new().project(text).check();
    assert_eq!(settings.sandbox, Case::new().check().sandbox);
    assert_eq!(settings.budget, Case::new().check().budget);
    assert_eq!(settings.retries, 6);
    assert_snapshot!(settings.warnings.join("\n"), @r#"
    "\u{1b}[2J" in .cofferdam/config.toml is ignored: there is no such key
    "budget" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    "model.max_output" in .cofferdam/config.toml is ignored: its value makes no sense
    "model.name" in .cofferdam/config.toml is ignored: its value makes no sense
    "model.retries" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    "prices" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    "sandbox" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    "surprise" in .cofferdam/config.toml is ignored: there is no such key
    "#);
}

#[test]
fn a_project_says_neither_who_summarises_nor_how_much_is_read_at_once() {
    let project = "[model]\nsummariser = \"ollama/s\"\ncontext_window = 1000000\n\
        [providers.ollama]\ncontext_window = 1000000\n";
    let case =
        Case::new().project(project).dotenv("SUMMARISER_MODEL=ollama/s\nCONTEXT_WINDOW=1000000");
    let settings = case.check();
    assert_eq!(settings.summariser, None);
    let model = cofferdam_types::ModelName("ollama/m".to_owned());
    assert_eq!(settings.context_window(&model), None);
    assert_snapshot!(settings.warnings.join("\n"), @r#"
    "model.context_window" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    "model.summariser" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    "providers" in .cofferdam/config.toml is ignored: a repository cannot set it; put it into your own config.toml
    SUMMARISER_MODEL in .env is ignored: a repository cannot set it; set it in your environment
    CONTEXT_WINDOW in .env is ignored: a repository cannot set it; set it in your environment
    "#);
}

#[test]
fn a_project_file_that_is_no_toml_is_told_and_ignored() {
    let settings = Case::new().project("[model]\nname = \n").check();
    assert_snapshot!(settings.warnings.join("\n"), @".cofferdam/config.toml is ignored: line 2 is no TOML");
    let many: String = (0..1000).map(|index| format!("key{index} = 1\n")).collect();
    assert_eq!(Case::new().project(&many).check().warnings.len(), 9);
}

#[test]
fn nonsense_in_dotenv_is_told_and_ignored() {
    let dotenv = "nonsense\nMAX_TOKENS=lots\nUSE_SANDBOX=perhaps\nLLM_API_KEY=k\n";
    assert_snapshot!(Case::new().dotenv(dotenv).check().warnings.join("\n"), @r#"
    .env has lines that make no sense (1, the first is line 1); they are ignored
    USE_SANDBOX in .env is ignored: it is neither true nor false
    LLM_API_KEY in .env is ignored: there is no LLM_MODEL=PROVIDER/MODEL beside it to say whose it is
    MAX_TOKENS in .env is ignored: "lots" is not a whole number between 256 and 1000000
    "#);
    let dotenv = "OPENAI_BASE_URL=https://u:secret@h\nOPENAI_API_KEY=two words";
    let case = Case::new().dotenv(dotenv).model("openai/m");
    assert_snapshot!(case.check().warnings.join("\n"), @r"
    OPENAI_API_KEY in .env is ignored: it holds characters that no key has
    OPENAI_BASE_URL in .env is ignored: it holds a user name or password; keys are given apart from addresses
    ");
}

#[test]
fn long_values_of_the_workspace_make_no_long_warnings() {
    let long = "9".repeat(100_000);
    for name in
        ["MODEL", "MAX_TOKENS", "CONTEXT_WINDOW", "SAFEDIR", "USE_SANDBOX", "OPENAI_BASE_URL"]
    {
        // A path that long would be taken; one that leads away is not.
        let case = Case::new().dotenv(&format!("{name}=../{long}")).model("openai/m");
        let warnings = case.check().warnings;
        assert!(warnings.iter().all(|warning| warning.len() < 300), "{name}");
    }
}
