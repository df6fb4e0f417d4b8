//! `cofferdam serve`: jobs over HTTP, for a team.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use cofferdam_config::{Flags, Settings, Sources, load};
use cofferdam_runtime::Embed;
use cofferdam_sandbox::Backend;
use cofferdam_types::{ModelName, error_chain, parse_duration};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::interruption::Signals;
use crate::problem::Problem;
use crate::run::{choose, embedder, written_by_jobs};
use crate::sandbox_options::SandboxOptions;
use crate::{Product, streams};

/// The options of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000")]
    pub listen: SocketAddr,
    /// Where this server keeps jobs, workspaces and sandboxes [default: the
    /// product's home]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A PostgreSQL database that several servers share: postgres://… [default: a
    /// SQLite file in the data directory]
    #[arg(long, value_name = "URL", env = "COFFERDAM_DATABASE", hide_env_values = true)]
    pub database: Option<String>,
    /// Where archives are kept: s3://BUCKET/PREFIX, with the usual AWS_… variables
    /// [default: the data directory]
    #[arg(long, value_name = "URL")]
    pub artifacts: Option<String>,
    /// A name that the server is reached by; requests for others are refused. Can be
    /// given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    pub allow_host: Vec<String>,
    /// The certificate for TLS, with its chain
    #[arg(long, value_name = "FILE.pem", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE.pem", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Listen where other machines can reach it without TLS: for a proxy in front
    /// that speaks it
    #[arg(long)]
    pub insecure_public: bool,
    /// Show previews of jobs' web servers below this domain, all names below which lead
    /// to this server [default: localhost, for people on this machine]
    #[arg(long, value_name = "NAME[:PORT]", env = "COFFERDAM_PREVIEW_DOMAIN")]
    pub preview_domain: Option<String>,
    /// Show /metrics without a token
    #[arg(long)]
    pub public_metrics: bool,
    /// Jobs that run at once [default: by the machine's CPUs and memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Jobs of one user that run at once [default: the same]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs_per_user: Option<u32>,
    /// Jobs that may wait and run, of all users
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub queue: u32,
    /// Jobs that may wait and run, of one user
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub queue_per_user: u32,
    /// How soon another server takes over the jobs of one that died
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    pub lease: Duration,
    /// How long sandboxes wait for a server that died
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub linger: Duration,
    /// How long answers that are being paid for are waited for when the server stops
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub grace: Duration,
    /// The model of jobs that name none: PROVIDER/NAME, or demo
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The model that writes code in jobs that name none [default: the same]
    #[arg(long, value_name = "MODEL")]
    pub coder: Option<String>,
    /// The model that writes summaries in jobs that name no model [default: the one
    /// that plans]
    #[arg(long, value_name = "MODEL")]
    pub summariser: Option<String>,
    /// How many tokens the models of jobs take in and give out together [default: as
    /// known by their names]
    #[arg(long, value_name = "N")]
    pub context_window: Option<u64>,
    /// Let jobs ask for the network `open`, and for addresses of this network
    #[arg(long)]
    pub allow_open_network: bool,
    /// Send traces to an OpenTelemetry collector: http://HOST:4318
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// What to log: error, warn, info, debug, or a filter such as info,cofferdam_fleet=debug
    #[arg(long, value_name = "FILTER", env = "COFFERDAM_LOG", default_value = "info")]
    pub log: String,
    /// Log one JSON object a line
    #[arg(long)]
    pub log_json: bool,
    /// What a job gets that asks for nothing else, and the most it can ask for
    #[command(flatten)]
    pub(crate) sandbox: SandboxOptions,
}

/// A server as it was asked for.
pub struct ServeOrder {
    /// The options.
    pub arguments: ServeArguments,
    /// Where it keeps its files.
    pub data: PathBuf,
    /// The settings of jobs.
    pub settings: Settings,
    /// The models of jobs that name none, if there are any.
    pub models: Option<(ModelName, ModelName)>,
    /// Who says what texts mean, if anybody does.
    pub embedder: Option<Arc<dyn Embed>>,
    /// Told when it is to stop.
    pub stop: CancellationToken,
}

/// Why there is no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeFailure {
    /// What cannot be used.
    pub what: Unusable,
    /// Why.
    pub cause: String,
    /// What would mend that.
    pub remedy: String,
}

/// What a server cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Its directory.
    Data,
    /// Its database, or the place for archives.
    Store,
    /// Its address or certificate.
    Address,
}

/// Runs servers; the binary, which alone knows the adapters, provides it.
pub trait Serve: Send + Sync {
    /// Runs a server until it is told to stop. `say` prints a line for people and
    /// scripts: where it listens, and the first token.
    fn serve<'a>(
        &'a self,
        order: ServeOrder,
        say: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), ServeFailure>>;

    /// The back ends of a server that keeps its sandboxes below this directory.
    fn backends(&self, data: &std::path::Path) -> Vec<Arc<dyn Backend>>;
}

/// Serves until a signal comes; returns the exit code.
pub(crate) async fn run(product: &Product, arguments: ServeArguments) -> ExitCode {
    match attempt(product, arguments).await {
        Ok(code) => code,
        Err((problem, code)) => {
            streams::tell(&problem.to_string());
            ExitCode::from(code)
        }
    }
}

async fn attempt(product: &Product, arguments: ServeArguments) -> Result<ExitCode, (Problem, u8)> {
    let usage = |problem: Problem| (problem, 2);
    let mut signals = Signals::listen().map_err(|error| (Problem::runtime(&error), 1))?;
    let flags = Flags {
        model: arguments.model.clone(),
        coder: arguments.coder.clone(),
        summariser: arguments.summariser.clone(),
        context_window: arguments.context_window,
        workspace: None,
        turns: None,
        tokens: None,
        cost: None,
        time: None,
        sandbox: arguments.sandbox.flags(),
    };
    let data = arguments.data.clone().unwrap_or_else(|| product.home.clone());
    let data = std::path::absolute(&data)
        .map_err(|error| usage(Problem::option(format!("--data: {error}"))))?;
    let mut sources = Sources::of_this_process(flags)
        .map_err(|error| usage(Problem::option(format!("the current directory: {error}"))))?;
    // A server works for many projects: the one it happens to be started in says nothing.
    sources.project = data.clone();
    let settings = load(&sources).map_err(|error| usage(Problem::config(&error)))?;
    for warning in &settings.warnings {
        streams::tell(warning);
    }
    let theirs = written_by_jobs(&data).chain(written_by_jobs(&product.home)).collect();
    let embedder = tokio::select! {
        opened = embedder(&product.models, &settings, theirs) => opened.map_err(usage)?,
        // Nothing has begun that would have to end well.
        asked = signals.end() => return Ok(ExitCode::from(asked.exit_code())),
    };
    let models = choose(&*product.models, &settings).await;
    if let Err(error) = &models {
        let cause = error_chain(error);
        streams::tell(&format!("jobs have to name their model: {cause}"));
    }
    let stop = CancellationToken::new();
    let order =
        ServeOrder { arguments, data, settings, models: models.ok(), embedder, stop: stop.clone() };
    let say = |line: &str| streams::print(format!("{line}\n").as_bytes());
    let serving = product.server.serve(order, &say);
    tokio::pin!(serving);
    loop {
        tokio::select! {
            served = &mut serving => return match served {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(failure) => Err((Problem::server(&failure), 1)),
            },
            asked = signals.end() => {
                // Whoever asks twice does not want to wait. Everything acknowledged
                // is durable, and the sandboxes wait for the next life.
                if stop.is_cancelled() {
                    return Ok(ExitCode::from(asked.exit_code()));
                }
                streams::tell("stopping; once more to stop at once");
                stop.cancel();
            }
        }
    }
}
