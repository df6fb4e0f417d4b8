//! `cofferdam run`: one task here, watched; the result is in the workspace.

mod history;
mod job;
mod models;
pub(crate) mod screen;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_bundle::Reading;
use cofferdam_config::{Flags, Settings, Sources, load};
use cofferdam_runtime::{
    Aide, Delivery, Door, Driven, Driver, Journal, JournalLog, JournalPast, Models, Notice,
    Opening, Order, OrderKind, Origin, Outfit, Past, Size, drive, each, engine_settings, unpriced,
};
use cofferdam_sandbox::{Grade, Lifetime, Sandbox};
use cofferdam_types::{Cancel, JobSpec, error_chain};
use futures_util::future::BoxFuture;
use rustix::fs::Access;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::Product;
use crate::arguments::RunArguments;
use crate::exit as code;
use crate::image::task::{Audience, Making};
use crate::interruption::{Asked, FAREWELL, GRACE, Signals};
use crate::problem::Problem;
use crate::streams;

use screen::{Manner, Screen};

pub(crate) use history::{History, NotFound};
pub use models::{ModelMaker, UnusableFile};
pub(crate) use models::{choose, embedder, written_by_jobs};

/// Notices that wait for the screen; then the job waits.
const WAITING: usize = 256;

/// How long bringing home what earlier sandboxes left may take. What is not home by
/// then keeps its directory closed, so nothing begins from an older state.
const RECONCILING: Duration = Duration::from_secs(600);

/// Bytes that a task may have.
const LONGEST_TASK: usize = 4 << 20;

/// A failure with the exit code that goes with it.
type Failed = (Problem, u8);

/// Does the task; returns the exit code.
pub(crate) async fn run(product: &Product, arguments: RunArguments) -> ExitCode {
    let mut screen = Screen::new(Manner::of(arguments.json, arguments.quiet));
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            screen.failed(&Problem::runtime(&error)).await;
            screen.finish().await;
            return ExitCode::from(code::FAILED);
        }
    };
    let making = Making::default();
    let begun = tokio::select! {
        begun = attempt(product, &arguments, &mut screen, &making) => begun,
        asked = signals.end() => {
            making.end().await;
            Err(interrupted(asked))
        }
    };
    let result = match begun {
        Ok((watched, journal)) => watch(watched, journal, &mut screen, &mut signals).await,
        Err(failed) => Err(failed),
    };
    let code = match &result {
        Ok(code) | Err((_, code)) => *code,
    };
    let told = async {
        if let Err((problem, _)) = &result {
            screen.failed(problem).await;
        }
        screen.finish().await;
    };
    // The sandbox is gone by now. Only readers of ours can still keep us.
    tokio::select! {
        () = told => ExitCode::from(code),
        asked = signals.insistence() => ExitCode::from(asked.map_or(code, Asked::exit_code)),
    }
}

fn interrupted(asked: Asked) -> Failed {
    (Problem::interrupted(asked.number()), asked.exit_code())
}

/// A job with the ends of its channels.
struct Watched {
    driver: Driver,
    orders: mpsc::Sender<Order>,
    notices: mpsc::Receiver<Notice>,
}

/// Everything up to the moment when the job is driven. What cannot be done is
/// found out before a new job begins.
async fn attempt(
    product: &Product,
    arguments: &RunArguments,
    screen: &mut Screen,
    making: &Making,
) -> Result<(Watched, Journal), Failed> {
    let usage = |problem: Problem| (problem, code::USAGE);
    let history = History::of(&product.home);
    let sources = Sources::of_this_process(flags(arguments))
        .map_err(|error| usage(Problem::option(format!("the current directory: {error}"))))?;
    let settings = load(&sources).map_err(|error| usage(Problem::config(&error)))?;
    for warning in &settings.warnings {
        screen.warn(warning).await;
    }
    let words = match &arguments.task {
        Some(words) => Some(read_task(words).await.map_err(usage)?),
        None => None,
    };
    let wanted = match earlier(arguments, &history).map_err(usage)? {
        Some(path) => {
            let job = job::resume(&path, arguments, &settings).map_err(usage)?;
            Wanted::Earlier(Box::new(job))
        }
        None => Wanted::New(new(product, arguments, &settings, words.clone()).await?),
    };
    let spec = wanted.spec();
    let engine = engine(&settings, spec);
    if let Some(name) = unpriced(&engine, spec) {
        return Err(usage(Problem::price(name)));
    }
    let models = models::make(&*product.models, &settings, &history, spec).map_err(usage)?;
    let mut theirs = vec![spec.place.workspace.clone()];
    theirs.extend(written_by_jobs(&product.home));
    let embedder = embedder(&product.models, &settings, theirs).await.map_err(usage)?;
    let required = Grade::required(spec.place.require.as_deref());
    let backend =
        crate::backend(&product.backends, &spec.place.sandbox, required).map_err(usage)?;
    let backend = Arc::clone(backend);
    let out = arguments.out.clone().or_else(|| spec.out.clone());
    if let Some(path) = &out {
        cofferdam_bundle::check_target(path).map_err(|error| usage(Problem::out(&error)))?;
    }
    make_workspace(&spec.place.workspace).map_err(usage)?;
    // What an earlier life left behind is brought home before anybody looks.
    let reconciled = timeout(RECONCILING, backend.reconcile()).await;
    let problem = match reconciled {
        Ok(reconciled) => Problem::remains_of(&reconciled),
        Err(_) => {
            let limit = RECONCILING.as_secs() / 60;
            Some(Problem::remains(format!("it took longer than {limit} minutes")))
        }
    };
    if let Some(problem) = problem {
        screen.warn(&problem.to_string()).await;
    }
    let (job, say) = match wanted {
        Wanted::New(mut spec) => {
            // Its record is to say which image it is.
            if spec.place.wants_task_image() {
                let audience = if arguments.quiet { Audience::Nobody } else { Audience::People };
                let workspace = Some(&*spec.place.workspace);
                let made = making.task_image(&product.home, workspace, audience).await;
                spec.place.image = Some(made.map_err(|problem| (problem, code::SANDBOX))?);
            }
            let moment = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
            let job = job::begin(&history, &moment, *spec);
            (job.map_err(|problem| (problem, code::FAILED))?, None)
        }
        Wanted::Earlier(job) => (*job, words),
    };
    let past = JournalPast::of(job.journal.path());
    match job.created {
        Some(created) => screen.show(&Notice::Record(Box::new(created))).await,
        None => past
            .each(|record| screen.remember(record))
            .map_err(|error| usage(Problem::transcript(&error)))?,
    }
    let directory = product.home.join("jobs").join(job.run.spec().job.to_string());
    let place = job.run.spec().place.clone();
    let (orders, orders_here) = mpsc::channel(WAITING);
    let (notices_there, notices) = mpsc::channel(WAITING);
    let driver = Driver {
        run: job.run,
        traces: job.traces,
        past: Arc::new(past),
        settings: engine,
        models,
        backend,
        place,
        images: None,
        aide: (product.aide)(&product.home).map(|aide| fit_aide(aide, &settings)),
        lifetime: Lifetime::Owned,
        origin: Origin::Directory,
        replant: false,
        directory,
        indexes: Arc::clone(&product.indexes),
        embedder,
        delivery: out.map(|path| Box::new(ZipFile { path }) as Box<dyn Delivery>),
        opening: Opening { say, ..Opening::default() },
        door: Door::default(),
        orders: orders_here,
        notices: notices_there,
    };
    Ok((Watched { driver, orders, notices }, job.journal))
}

/// An aide as the settings want it.
#[must_use]
pub fn fit_aide(aide: Aide, settings: &Settings) -> Aide {
    let (width, height) = settings.sandbox.screen;
    aide.with_idle(settings.sandbox.idle).with_screen(Size { width, height })
}

/// The models of a job, for whoever drives it elsewhere than here.
///
/// # Errors
/// Why they cannot be had, and what would mend that.
pub fn make_models(
    maker: &dyn ModelMaker,
    settings: &Settings,
    home: &Path,
    spec: &JobSpec,
) -> Result<Models, String> {
    let made = models::make(maker, settings, &History::of(home), spec);
    made.map_err(|problem| format!("{} ({})", problem.cause, problem.remedy))
}

/// What the settings say of all jobs.
fn outfit(settings: &Settings) -> Outfit<'_> {
    let Settings { prices, max_output, retries, .. } = settings;
    Outfit { prices, max_output: *max_output, retries: *retries, window: None, recalls: true }
}

/// What the engine needs to know of a job besides what was asked for.
#[must_use]
pub fn engine(settings: &Settings, spec: &JobSpec) -> cofferdam_engine::Settings {
    let mut engine = engine_settings(outfit(settings), spec);
    let summariser = spec.summariser.as_ref().unwrap_or(&spec.orchestrator);
    for (role, name) in [
        (&mut engine.orchestrator, &spec.orchestrator),
        (&mut engine.coder, &spec.coder),
        (&mut engine.summariser, summariser),
    ] {
        if let Some(tokens) = settings.context_window(name) {
            role.window = tokens;
        }
    }
    engine
}

/// The job that is asked for.
enum Wanted {
    New(Box<JobSpec>),
    Earlier(Box<job::Job>),
}

impl Wanted {
    fn spec(&self) -> &JobSpec {
        match self {
            Self::New(spec) => spec,
            Self::Earlier(job) => job.run.spec(),
        }
    }
}

/// The transcript of the job that is to go on, if one is.
fn earlier(arguments: &RunArguments, history: &History) -> Result<Option<PathBuf>, Problem> {
    match (&arguments.resume, arguments.last) {
        (Some(name), _) => history.find(name).map(Some).map_err(|error| Problem::job(name, &error)),
        (None, true) => history.last().map(Some).map_err(|error| Problem::job("", &error)),
        (None, false) => Ok(None),
    }
}

/// A new job.
async fn new(
    product: &Product,
    arguments: &RunArguments,
    settings: &Settings,
    task: Option<String>,
) -> Result<Box<JobSpec>, Failed> {
    let usage = |problem: Problem| (problem, code::USAGE);
    let Some(task) = task else {
        let cause = "no task: say what is to be done, or name a job with --resume";
        return Err(usage(Problem::option(cause.to_owned())));
    };
    let workspace = workspace(arguments, settings).map_err(usage)?;
    let names = models::choose(&*product.models, settings)
        .await
        .map_err(|error| (Problem::config(&error), code::MODEL))?;
    job::spec(arguments, settings, task, names, workspace).map(Box::new).map_err(usage)
}

fn flags(arguments: &RunArguments) -> Flags {
    Flags {
        model: arguments.model.clone(),
        coder: arguments.coder.clone(),
        summariser: arguments.summariser.clone(),
        context_window: arguments.context_window,
        workspace: arguments.workspace.clone(),
        turns: arguments.max_turns,
        tokens: arguments.max_tokens,
        cost: arguments.max_cost,
        time: arguments.timeout,
        sandbox: arguments.sandbox.flags(),
    }
}

/// The task itself, or what stdin says it is.
pub(crate) async fn read_task(text: &str) -> Result<String, Problem> {
    let text = match text {
        "-" => streams::read_all_text(LONGEST_TASK).await.map_err(|error| {
            Problem::option(format!("the task cannot be read from stdin: {error}"))
        })?,
        text => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(Problem::option("the task is empty".to_owned()));
    }
    Ok(text)
}

/// The directory to work in; it need not be there yet.
fn workspace(arguments: &RunArguments, settings: &Settings) -> Result<PathBuf, Problem> {
    let path = settings.workspace.as_deref().unwrap_or(Path::new("."));
    let path = match path.canonicalize() {
        Ok(path) => path,
        Err(_) => std::path::absolute(path).map_err(|error| Problem::no_workspace(path, &error))?,
    };
    // Nobody means all of their files, or the system, unless they say so.
    let home = std::env::var_os("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
    let everything = path == Path::new("/") || Some(&path) == home.as_ref();
    if everything && arguments.workspace.is_none() {
        return Err(Problem::workspace(&path));
    }
    Ok(path)
}

/// Makes the directory to work in, if it is not there, and finds out whether the
/// work can be put there in the end.
fn make_workspace(path: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(path)
        .and_then(|()| Ok(rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK)?))
        .map_err(|error| Problem::no_workspace(path, &error))
}

/// Drives the job, shows it, and passes on what people want.
async fn watch(
    watched: Watched,
    journal: Journal,
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<u8, Failed> {
    let Watched { driver, orders, mut notices } = watched;
    let driving = drive(driver, JournalLog::from(journal));
    tokio::pin!(driving);
    let mut ticks = tokio::time::interval(screen::TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut patience_ends = None;
    let mut ended = None;
    while ended.is_none() || !notices.is_empty() {
        // What is taken while the screen is ready is shown without waiting: a
        // reader of ours that is stuck keeps nobody from interrupting us.
        let next = async {
            screen.ready().await;
            tokio::select! {
                notice = notices.recv() => notice,
                _ = ticks.tick(), if screen.ticks() => None,
            }
        };
        tokio::select! {
            biased;
            asked = signals.next() => match asked {
                Asked::Resize => screen.resize(),
                // Whoever asks twice does not want to wait. The log has all there
                // is, and the sandbox dies with us.
                asked if patience_ends.is_some() => {
                    let (problem, code) = interrupted(asked);
                    // Only if that keeps nobody waiting.
                    timeout(Duration::from_millis(50), screen.failed(&problem)).await.ok();
                    screen.abandon();
                    return Ok(code);
                }
                asked => {
                    screen.hurry().await;
                    patience_ends = Some(Instant::now() + GRACE + FAREWELL);
                    let by = match asked {
                        Asked::Interrupt => Cancel::User,
                        _ => Cancel::System,
                    };
                    // A full queue is one nobody reads: the job is over.
                    orders.try_send(OrderKind::Cancel(by).into()).ok();
                }
            },
            result = &mut driving, if ended.is_none() => ended = Some(result),
            () = until(patience_ends) => {
                patience_ends = Some(Instant::now() + GRACE);
                if timeout(Duration::ZERO, screen.ready()).await.is_err() {
                    screen.abandon();
                }
            }
            notice = next => match notice {
                Some(notice) => screen.show(&notice).await,
                None => screen.tick().await,
            },
        }
    }
    match ended {
        Some(Ok(Driven::Ended(ending))) => Ok(code::of(&ending)),
        Some(Err(error)) => Err((Problem::drive(&error), code::FAILED)),
        // Nobody pauses or leaves a job here.
        Some(Ok(Driven::Resting | Driven::Left)) | None => Ok(code::FAILED),
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The result as a ZIP file.
struct ZipFile {
    path: PathBuf,
}

impl Delivery for ZipFile {
    fn deliver<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        past: &'a dyn Past,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let mut reading: Option<Reading> = None;
            let read = each(past, |record| match &mut reading {
                Some(reading) => reading.take(record),
                None => reading = Reading::begin(record),
            });
            read.await.map_err(|error| error.to_string())?;
            let about = reading.map(Reading::finish).ok_or("the log has no job")?;
            let packed = cofferdam_bundle::zip_file(&sandbox.files(), about, &self.path).await;
            packed.map(drop).map_err(|error| error_chain(&error))
        })
    }
}
