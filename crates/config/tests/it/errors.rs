//! What people read when something of their own makes no sense.

use std::os::unix::ffi::OsStringExt;

use insta::assert_snapshot;

use crate::harness::{Case, told};

fn of_file(text: &str) -> String {
    told(&Case::new().user(text).try_check().expect_err(text))
}

fn of_environment(text: &str) -> String {
    told(&Case::new().environment(text).try_check().expect_err(text))
}

fn of_endpoint(case: &Case, name: &str) -> String {
    told(&case.endpoint(name).expect_err(name))
}

#[test]
fn mistakes_in_the_users_file_name_their_line() {
    let told = [
        "[model]\nname = \"a/b\"\nretires = 3",
        "coder = \"a/b\"",
        "[providers.acme]\nwire = \"chat\"\nurl_base = \"https://acme.example\"",
        "[whatever]\nx = 1",
        "[model\n",
        "[providers.a]\nkey = \"sk-secret",
        "model = \"anthropic/x\"",
        "[providers]\nanthropic = \"sk-secret\"",
        "[budget]\ntokens = -1",
        "[model]\nretries = \"many\"",
        "[model]\nmax_output = 10",
        "[model]\ncontext_window = 10",
        "[providers.ollama]\ncontext_window = \"lots\"",
        "[model]\nidle_timeout = \"soon\"",
        "[budget]\ncost = \"cheap\"",
        "[sandbox]\nmemory = \"64K\"",
        "[sandbox]\nnetwork = \"some\"",
        "[sandbox]\nscreen = \"1280\"",
        "[providers.acme]\nwire = \"smoke\"",
        "[providers.acme]\nbase_url = \"https://acme.example\"",
        "[providers.acme]\nwire = \"chat\"\nbase_url = \"https://u:secret@acme.example\"",
        "[providers.demo]\nwire = \"chat\"",
        "[prices.large]\ninput = 1\noutput = 2",
        "[prices.\"a/b\"]\ninput = 1",
        "[model]\nname = \"large\"",
    ]
    .map(of_file)
    .join("\n\n");
    assert!(!told.contains("secret"), "{told}");
    assert_snapshot!(told, @r#"
    cause: /config/cofferdam/config.toml, line 3: unknown key "model.retires"
    help:  did you mean model.retries?

    cause: /config/cofferdam/config.toml, line 1: unknown key "coder"
    help:  did you mean model.coder?

    cause: /config/cofferdam/config.toml, line 3: unknown key "providers.acme.url_base"
    help:  remove it; docs/configuration.md lists the keys

    cause: /config/cofferdam/config.toml, line 1: unknown key "whatever"
    help:  remove it; docs/configuration.md lists the keys

    cause: /config/cofferdam/config.toml, line 1, column 7: unclosed table, expected `]`
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 17: invalid basic string, expected `"`
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 1, column 1: model is a table: write [model] and its keys below
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 1: providers.anthropic is a table: write [providers.anthropic] and its keys below
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 10: "-1" is not a whole number
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 11: "many" is not a whole number between 0 and 100
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 14: "10" is not a whole number between 256 and 1000000
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 18: "10" is not a whole number between 8000 and 100000000
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 18: "lots" is not a whole number between 8000 and 100000000
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 16: "soon" is not a time such as 60s, 10m or 500ms
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 8: "cheap" is not an amount of US dollars such as 2 or 0.50
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 10: "64K" is not a size such as 512M or 2G; nothing can run with less than 4M
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 11: "some" is not a network setting; use none, open or allow:HOST[:PORT],…
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 10: "1280" is not WIDTHxHEIGHT, each between 64 and 8192
    help:  see docs/configuration.md

    cause: /config/cofferdam/config.toml, line 2, column 8: unknown variant `smoke`, expected one of `messages`, `responses`, `chat`
    help:  see docs/configuration.md

    cause: [providers.acme] in your config.toml does not say which protocol it speaks
    help:  add wire = "messages", "responses" or "chat"

    cause: providers.acme.base_url in your config.toml holds a user name or password; keys are given apart from addresses
    help:  set it to an address such as https://example.com/v1

    cause: [providers."demo"] in your config.toml is not a name that a provider can have
    help:  use letters, digits, `-`, `_` and `.`, and no built-in model's name

    cause: [prices."large"] in your config.toml does not name a model
    help:  write [prices."PROVIDER/MODEL"]

    cause: /config/cofferdam/config.toml, line 1, column 1: missing field `output`
    help:  see docs/configuration.md

    cause: model.name in your config.toml names the model "large" without its provider
    help:  write PROVIDER/large, such as ollama/large, or one of: demo, replay
    "#);
}

#[test]
fn variables_that_make_no_sense_are_named() {
    let told = [
        "MAX_TOKENS=lots",
        "MAX_TOKENS=5",
        "CONTEXT_WINDOW=lots",
        "CONTEXT_WINDOW=7999",
        "USE_SANDBOX=perhaps",
        "SAFEDIR=~/work",
        "MODEL=large",
        "OPENAI_BASE_URL=example.com",
        "ANTHROPIC_BASE_URL=https://u:secret@example.com",
        "OPENAI_API_KEY=sk secret",
    ]
    .map(of_environment)
    .join("\n\n");
    assert!(!told.contains("secret"), "{told}");
    assert_snapshot!(told, @r#"
    cause: MAX_TOKENS makes no sense: "lots" is not a whole number between 256 and 1000000
    help:  set MAX_TOKENS to how many tokens an answer may have, such as 16384

    cause: MAX_TOKENS makes no sense: "5" is not a whole number between 256 and 1000000
    help:  set MAX_TOKENS to how many tokens an answer may have, such as 16384

    cause: CONTEXT_WINDOW makes no sense: "lots" is not a whole number between 8000 and 100000000
    help:  set CONTEXT_WINDOW to how many tokens the model can read and write, such as 200000

    cause: CONTEXT_WINDOW makes no sense: "7999" is not a whole number between 8000 and 100000000
    help:  set CONTEXT_WINDOW to how many tokens the model can read and write, such as 200000

    cause: USE_SANDBOX is "perhaps", which is neither true nor false
    help:  unset USE_SANDBOX: everything runs in a sandbox

    cause: SAFEDIR is "~/work", and nobody replaces the ~
    help:  set SAFEDIR to the whole path

    cause: MODEL names the model "large" without its provider
    help:  write PROVIDER/large, such as ollama/large, or one of: demo, replay

    cause: OPENAI_BASE_URL is not an address such as https://example.com/v1
    help:  set it to an address such as https://example.com/v1

    cause: ANTHROPIC_BASE_URL holds a user name or password; keys are given apart from addresses
    help:  set it to an address such as https://example.com/v1

    cause: OPENAI_API_KEY holds characters that no key has
    help:  set it to the key alone, without spaces or quotes
    "#);
}

#[test]
fn a_variable_that_is_not_text_is_named() {
    let mut case = Case::new();
    let value = std::ffi::OsString::from_vec(vec![b'k', 0xff]);
    case.0.environment.insert("ANTHROPIC_API_KEY".to_owned(), value);
    let told = told(&case.try_check().unwrap_err());
    assert_snapshot!(told, @r"
    cause: ANTHROPIC_API_KEY is not UTF-8
    help:  set ANTHROPIC_API_KEY to text, or unset it
    ");
}

#[test]
fn endpoints_that_cannot_be_say_what_to_set() {
    let nothing = Case::new();
    let plain = Case::new().environment("OPENAI_API_KEY=k\nOPENAI_BASE_URL=http://far.example/v1");
    let told = [
        of_endpoint(&nothing, "anthropic/m"),
        of_endpoint(&nothing, "openai-compatible/m"),
        of_endpoint(&nothing, "stranger/m"),
        of_endpoint(&nothing, "ollama/"),
        of_endpoint(&nothing, "demo"),
        of_endpoint(&plain, "openai/m"),
        of_endpoint(&Case::new().dotenv("OPENAI_API_KEY=two words"), "openai/m"),
        told(&nothing.check().no_model()),
    ]
    .join("\n\n");
    assert_snapshot!(told, @r#"
    cause: no key for anthropic
    help:  set ANTHROPIC_API_KEY

    cause: no address for openai-compatible
    help:  set OPENAI_BASE_URL to its address, such as http://127.0.0.1:8000/v1

    cause: unknown provider "stranger"
    help:  known are anthropic, deepseek, gemini, groq, llamacpp, lmstudio, mistral, ollama, openai, openai-compatible, openrouter, together, vllm, xai; or add [providers.stranger] with wire and base_url to your config.toml

    cause: ollama names a provider, but no model
    help:  write ollama/MODEL

    cause: demo is built in and has no endpoint
    help:  name a model as PROVIDER/MODEL

    cause: the key of openai would go to far.example unencrypted
    help:  use https, or set allow_plain_http = true in [providers.openai] of your config.toml

    cause: no key for openai
    help:  set OPENAI_API_KEY (OPENAI_API_KEY in .env is ignored: it holds characters that no key has)

    cause: no model is set, and no local model server answers (looked for Ollama at http://127.0.0.1:11434/v1, llama.cpp at http://127.0.0.1:8080/v1, vLLM at http://127.0.0.1:8000/v1, LM Studio at http://127.0.0.1:1234/v1)
    help:  set ANTHROPIC_API_KEY or OPENAI_API_KEY; or name a model with --model PROVIDER/MODEL or MODEL=…; or start a local server such as Ollama; or try --model demo, a built-in script that carries out the sample tasks of the README in a real sandbox without a key or a network
    "#);
}
