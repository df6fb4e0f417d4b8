//! The command line: what people type and what they see.
//!
//! Data goes to stdout, everything else to stderr. Every failure is told with
//! its code, its cause and its remedy, and has an exit code that a script can
//! rely on.

mod arguments;
mod context;
mod doctor;
mod events;
mod exec;
mod exit;
mod image;
mod interruption;
mod problem;
mod provisions;
mod remote;
mod run;
mod sandbox_options;
mod serve;
mod setup;
mod show;
mod streams;
mod taps;
mod terminal;
mod trail;
mod whose;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cofferdam_runtime::{Aide, Indexes};
use cofferdam_sandbox::{Backend, Grade, choose};
use rustix::event::{EventfdFlags, eventfd};
use tokio::runtime::{Builder, Runtime};

use crate::arguments::{Arguments, ExecProgram, Verb};
use crate::problem::Problem;

pub use run::{ModelMaker, UnusableFile, engine, fit_aide, make_models};
pub use serve::{Serve, ServeArguments, ServeFailure, ServeOrder, Unusable};

/// What the command line works with; the binary fills it in.
pub struct Product {
    /// The back ends, in order of preference.
    pub backends: Vec<Arc<dyn Backend>>,
    /// What makes models.
    pub models: Arc<dyn ModelMaker>,
    /// What opens the indexes of what jobs have let go.
    pub indexes: Arc<dyn Indexes>,
    /// What runs servers.
    pub server: Box<dyn Serve>,
    /// Gets what runs code cells in sandboxes ready in a home, if it can.
    pub aide: fn(&Path) -> Option<Aide>,
    /// Where the product keeps its files.
    pub home: PathBuf,
}

/// The back end of this name; `auto` is one that can be as strong as required.
fn backend<'a>(
    backends: &'a [Arc<dyn Backend>],
    name: &str,
    required: Grade,
) -> Result<&'a Arc<dyn Backend>, Problem> {
    choose(backends, name, required).map_err(|none| Problem::backend(&none))
}

/// Descriptors that a run-time begins with: six, and one or two in case another release of it
/// takes more. A sandbox takes more than these in any case.
const RUNTIME_DESCRIPTORS: usize = 8;

/// Runs the command line and returns the exit code.
pub fn main(product: impl FnOnce() -> Result<Product, String>) -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let arguments = match Arguments::read(&words) {
        Ok(arguments) => arguments,
        Err(error) => return tell_usage(&error, &words),
    };
    let product = match product() {
        Ok(product) => product,
        Err(cause) => return fail(&arguments.verb, &Problem::home(cause), 2),
    };
    // A job needs one thread; a server has many jobs.
    let mut builder = match arguments.verb {
        Verb::Serve(_) => {
            let mut builder = Builder::new_multi_thread();
            // Twice the CPUs: making a sandbox's files waits for the disk now and then, and
            // nobody else is to wait for that.
            let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            builder.worker_threads(cpus * 2);
            builder
        }
        _ => Builder::new_current_thread(),
    };
    let runtime = match start(&mut builder) {
        Ok(runtime) => runtime,
        Err(error) => {
            let code = match arguments.verb {
                Verb::Exec(_) => exec::NO_SANDBOX,
                _ => exit::FAILED,
            };
            return fail(&arguments.verb, &Problem::runtime(&error), code);
        }
    };
    let code = runtime.block_on(async {
        match arguments.verb {
            Verb::Run(arguments) => run::run(&product, *arguments).await,
            Verb::Exec(arguments) => exec::run(&product.backends, &product.home, *arguments).await,
            Verb::Serve(arguments) => serve::run(&product, *arguments).await,
            Verb::Remote(verb) => remote::run(&product, verb).await,
            Verb::Setup(arguments) => setup::run(&product, arguments).await,
            Verb::Image(verb) => image::run(&product, verb).await,
            Verb::Doctor(arguments) => doctor::run(&product, &arguments).await,
        }
    });
    // A thread may still wait for input that nobody will type any more.
    runtime.shutdown_background();
    code
}

/// Runs the command line of a program that is nothing but `exec`, with these back ends and where
/// the product keeps its files; returns the exit code.
pub fn exec(place: impl FnOnce() -> Result<(Vec<Arc<dyn Backend>>, PathBuf), String>) -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let arguments = match ExecProgram::read(&words) {
        Ok(arguments) => arguments,
        Err(error) => return tell_usage(&error, &words),
    };
    let json = arguments.json;
    let (backends, home) = match place() {
        Ok(place) => place,
        Err(cause) => return told(json, &Problem::home(cause), 2),
    };
    match start(&mut Builder::new_current_thread()) {
        Ok(runtime) => {
            let code = runtime.block_on(exec::run(&backends, &home, arguments));
            runtime.shutdown_background();
            code
        }
        Err(error) => told(json, &Problem::runtime(&error), exec::NO_SANDBOX),
    }
}

/// Tells what is wrong with the words, or what was asked about them.
fn tell_usage(error: &clap::Error, words: &[OsString]) -> ExitCode {
    // What follows `--` is said to somebody else.
    let mut ours = words.iter().take_while(|word| *word != "--");
    // Help and version go to stdout and are no failure.
    if error.exit_code() != 0 && ours.any(|word| word == "--json") {
        told_as_json(&Problem::option(error.to_string()));
    } else {
        drop(error.print());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Starts a run-time, if there are descriptors for it: with too few for its signals it panics.
fn start(builder: &mut Builder) -> io::Result<Runtime> {
    let tried = (0..RUNTIME_DESCRIPTORS).map(|_| eventfd(0, EventfdFlags::CLOEXEC));
    drop(tried.collect::<Result<Vec<_>, _>>()?);
    builder.enable_all().build()
}

/// Tells a failure that came before anything could begin.
fn fail(verb: &Verb, problem: &Problem, code: u8) -> ExitCode {
    let json = match verb {
        Verb::Exec(arguments) => arguments.json,
        Verb::Run(arguments) => arguments.json,
        Verb::Setup(arguments) => arguments.json,
        Verb::Image(verb) => verb.json(),
        Verb::Remote(verb) => verb.json(),
        Verb::Doctor(arguments) => arguments.json,
        Verb::Serve(_) => false,
    };
    told(json, problem, code)
}

fn told(json: bool, problem: &Problem, code: u8) -> ExitCode {
    if json {
        told_as_json(problem);
    } else {
        streams::tell(&problem.to_string());
    }
    ExitCode::from(code)
}

fn told_as_json(problem: &Problem) {
    streams::print(&events::Event::Failed { problem }.line());
}
