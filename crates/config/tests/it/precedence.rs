//! Stronger layers win.

use std::path::Path;
use std::time::Duration;

use cofferdam_config::{Embedder, Flags, SandboxFlags};
use cofferdam_types::{ModelName, Network, Usd};

use crate::harness::Case;

#[test]
fn each_layer_wins_over_those_before_it() {
    let mut case = Case::new().environment("ANTHROPIC_API_KEY=k");
    let mut expect = |change: &dyn Fn(Case) -> Case, name: &str, max_output: u32| {
        case = change(case.clone());
        let settings = case.check();
        assert_eq!(settings.model, Some(ModelName(name.to_owned())));
        assert_eq!(settings.max_output, max_output, "{name}");
    };
    expect(&|case| case, "anthropic/claude-sonnet-4-5", 16_384);
    let user = "[model]\nname = \"anthropic/user\"\nmax_output = 1001";
    expect(&|case| case.user(user), "anthropic/user", 1001);
    let project = "[model]\nname = \"anthropic/project\"\nmax_output = 1002";
    expect(&|case| case.project(project), "anthropic/project", 1002);
    let dotenv = "MODEL=anthropic/dotenv\nMAX_TOKENS=1003";
    expect(&|case| case.dotenv(dotenv), "anthropic/dotenv", 1003);
    let environment = "MODEL=anthropic/environment\nMAX_TOKENS=1004";
    expect(&|case| case.environment(environment), "anthropic/environment", 1004);
    expect(&|case| case.model("anthropic/flag"), "anthropic/flag", 1004);
}

#[test]
fn a_window_is_that_of_the_strongest_layer_that_says_so() {
    let name = |name: &str| ModelName(name.to_owned());
    let windows = |case: &Case| {
        let settings = case.check();
        [name("ollama/qwen"), name("openai/gpt-5")].map(|name| settings.context_window(&name))
    };
    let case = Case::new();
    assert_eq!(windows(&case), [None, None]);
    let case = case.user("[model]\ncontext_window = 100000");
    assert_eq!(windows(&case), [Some(100_000), Some(100_000)]);
    let own = "[model]\ncontext_window = 100000\n[providers.ollama]\ncontext_window = 16384";
    let case = case.user(own);
    assert_eq!(windows(&case), [Some(16_384), Some(100_000)]);
    let case = case.environment("CONTEXT_WINDOW=50000");
    assert_eq!(windows(&case), [Some(50_000), Some(50_000)]);
    let flags = Flags { context_window: Some(8_000), ..Flags::default() };
    assert_eq!(windows(&case.flags(flags)), [Some(8_000), Some(8_000)]);
}

const WHOLE: &str = r#"
[model]
name = "acme/large"
coder = "acme/small"
summariser = "acme/brief"
embedder = "acme/vectors"
max_output = 4096
context_window = 64000
thinking = 1024
idle_timeout = "90s"
retries = 2
[budget]
turns = 50
tokens = 1000000
cost = 2.5
time = "1h"
[sandbox]
backend = "native"
require = "bounded"
image = "agent"
memory = "512M"
cpus = 0.5
pids = 100
disk = "1G"
inodes = 1000
open_files = 64
timeout = 30
network = "allow:example.com"
idle = "5m"
screen = "1024x768"
[providers.acme]
wire = "messages"
base_url = "https://acme.example/"
key_env = "ACME_TOKEN"
context_window = 32000
[prices."acme/large"]
input = 3.0
output = 15
cache_read = "0.30"
cache_write = 3.75
[prices."acme/small"]
input = 0.0375
output = 1
"#;

#[test]
fn a_whole_file_is_understood() {
    let settings = Case::new().user(WHOLE).environment("ACME_TOKEN=k").check();
    assert_eq!(settings.idle_timeout, Duration::from_secs(90));
    assert_eq!((settings.retries, settings.thinking, settings.max_output), (2, 1024, 4096));
    let summariser = settings.summariser.as_ref().unwrap();
    assert_eq!(summariser.0, "acme/brief");
    let embedder = Embedder::Model(ModelName("acme/vectors".to_owned()));
    assert_eq!(settings.embedder.as_ref(), Some(&embedder));
    assert_eq!(settings.context_window(summariser), Some(32_000));
    assert_eq!(settings.context_window(&ModelName("ollama/x".to_owned())), Some(64_000));
    let budget = &settings.budget;
    assert_eq!((budget.turns, budget.tokens), (50, Some(1_000_000)));
    assert_eq!(budget.cost, Some("2.50".parse::<Usd>().unwrap()));
    assert_eq!(budget.time, Some(Duration::from_secs(3600)));
    let limits = &settings.sandbox.limits;
    assert_eq!((limits.memory, limits.milli_cpus, limits.pids), (512 << 20, 500, 100));
    assert_eq!((limits.disk, limits.inodes, limits.open_files), (1 << 30, 1000, 64));
    assert_eq!(limits.wall_time, Some(Duration::from_secs(30)));
    assert_eq!(settings.sandbox.idle, Duration::from_secs(300));
    assert_eq!(settings.sandbox.screen, (1024, 768));
    assert_eq!(settings.sandbox.backend, "native");
    assert_eq!(settings.sandbox.require.as_deref(), Some("bounded"));
    assert_eq!(settings.sandbox.image.as_deref(), Some(Path::new("agent")));
    assert_eq!(settings.sandbox.network, "allow:example.com".parse::<Network>().unwrap());

    let price = settings.prices.price(settings.model.as_ref().unwrap()).unwrap();
    let nanos = [price.input, price.output, price.cache_read, price.cache_write].map(Usd::nanos);
    assert_eq!(nanos, [3000, 15_000, 300, 3750]);
    // Rounded up, and what is not said is taken for the most it may be.
    let price = settings.prices.price(settings.coder.as_ref().unwrap()).unwrap();
    let nanos = [price.input, price.output, price.cache_read, price.cache_write].map(Usd::nanos);
    assert_eq!(nanos, [38, 1000, 38, 47]);

    let endpoint = settings.endpoint(settings.model.as_ref().unwrap()).unwrap();
    assert_eq!(endpoint.base_url.as_str(), "https://acme.example");
    assert_eq!(endpoint.key.unwrap().reveal(), "k");
}

#[test]
fn options_win_over_the_file() {
    let sandbox = SandboxFlags {
        backend: Some("docker".to_owned()),
        require: Some("virtual".to_owned()),
        image: Some("./own".into()),
        memory: Some(1 << 30),
        milli_cpus: Some(1000),
        pids: Some(7),
        disk: Some(8),
        inodes: Some(9),
        open_files: Some(40),
        wall_time: Some(Duration::from_secs(10)),
        network: Some(Network::Open),
    };
    let flags = Flags {
        turns: Some(1),
        tokens: Some(2),
        cost: Some(Usd::from_nanos(3)),
        time: Some(Duration::from_secs(4)),
        sandbox,
        ..Flags::default()
    };
    let settings = Case::new().user(WHOLE).flags(flags).check();
    let budget = &settings.budget;
    assert_eq!((budget.turns, budget.tokens, budget.cost), (1, Some(2), Some(Usd::from_nanos(3))));
    assert_eq!(budget.time, Some(Duration::from_secs(4)));
    let limits = &settings.sandbox.limits;
    assert_eq!((limits.memory, limits.milli_cpus, limits.pids), (1 << 30, 1000, 7));
    assert_eq!((limits.disk, limits.inodes, limits.open_files), (8, 9, 40));
    assert_eq!(limits.wall_time, Some(Duration::from_secs(10)));
    assert_eq!(settings.sandbox.backend, "docker");
    assert_eq!(settings.sandbox.require.as_deref(), Some("virtual"));
    assert_eq!(settings.sandbox.image.as_deref(), Some(Path::new("./own")));
    assert_eq!(settings.sandbox.network, Network::Open);
}

#[test]
fn with_nothing_set_the_settings_are_complete_and_strict() {
    let settings = Case::new().check();
    assert_eq!(settings.sandbox.network, Network::None);
    assert_eq!(settings.sandbox.backend, "auto");
    assert_eq!(settings.sandbox.limits, cofferdam_types::Limits::default());
    assert_eq!(settings.sandbox.idle, Duration::from_secs(900));
    assert_eq!(settings.sandbox.screen, (1280, 800));
    assert_eq!((settings.retries, settings.max_output), (6, 16_384));
    assert_eq!(settings.idle_timeout, Duration::from_secs(60));
    assert!(settings.model.is_none() && settings.workspace.is_none());
    assert!(settings.warnings.is_empty());
}
