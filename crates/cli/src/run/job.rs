//! The job that the command line asks for: a new one, or an earlier one that is
//! to go on.

use std::path::{Path, PathBuf};

use cofferdam_config::Settings;
use cofferdam_engine::Run;
use cofferdam_runtime::{Journal, Replayed, Replaying, Traces, now};
use cofferdam_sandbox::Grade;
use cofferdam_types::{Budget, Ending, Event, JobId, JobSpec, ModelName, Place, Record};

use super::history::History;
use crate::arguments::RunArguments;
use crate::problem::Problem;

/// How often work may be handed in and fail a check.
const ATTEMPTS: u32 = 5;

/// A job with its log, ready to be driven.
pub(crate) struct Job {
    pub(crate) journal: Journal,
    pub(crate) run: Run,
    pub(crate) traces: Traces,
    /// The first record of one that is new.
    pub(crate) created: Option<Record>,
}

/// Begins a new job.
pub(crate) fn begin(history: &History, moment: &str, spec: JobSpec) -> Result<Job, Problem> {
    let mut journal = history.begin(moment).map_err(|error| Problem::transcript(&error))?;
    let at = now();
    let created = Event::Created { spec: Box::new(spec.clone()) };
    let mut records = journal.append(at, vec![created]).map_err(|error| {
        // A transcript without a job is of no use to anybody.
        std::fs::remove_file(journal.path()).ok();
        Problem::transcript(&error)
    })?;
    let created = records.pop();
    Ok(Job { journal, run: Run::new(spec, at), traces: Traces::default(), created })
}

/// The models that the command line asks for, if they are others than the job's.
fn models(arguments: &RunArguments, settings: &Settings, spec: &JobSpec) -> Option<Event> {
    let asked = |given: bool, name: &Option<ModelName>, old: &ModelName| match name {
        Some(name) if given => name.clone(),
        _ => old.clone(),
    };
    let orchestrator = asked(arguments.model.is_some(), &settings.model, &spec.orchestrator);
    // A coder that was the same model stays the same.
    let old_coder = if spec.coder == spec.orchestrator { &orchestrator } else { &spec.coder };
    let coder = asked(arguments.coder.is_some(), &settings.coder, old_coder);
    let summariser = settings.summariser.clone().filter(|_| arguments.summariser.is_some());
    let summariser = summariser.filter(|name| Some(name) != spec.summariser.as_ref());
    let changed = orchestrator != spec.orchestrator || coder != spec.coder || summariser.is_some();
    changed.then_some(Event::ModelsChanged { orchestrator, coder, summariser })
}

/// Takes up an earlier job, with the models and limits asked for now.
pub(crate) fn resume(
    path: &Path,
    arguments: &RunArguments,
    settings: &Settings,
) -> Result<Job, Problem> {
    let mut replaying = Replaying::default();
    let mut problem = None;
    let journal = Journal::open(path, |record| {
        if problem.is_none() {
            problem = replaying.take(record).err();
        }
    });
    let mut journal = journal.map_err(|error| Problem::transcript(&error))?;
    let replayed = problem.map_or_else(|| replaying.finish(), Err);
    let Replayed { mut run, traces } =
        replayed.map_err(|error| Problem::unusable(path, &error.to_string()))?;
    let complete = matches!(run.ended(), Some(Ending::Complete { .. }));
    if complete && arguments.task.is_none() {
        return Err(Problem::complete(run.spec().job));
    }
    let old = &run.spec().budget;
    let budget = Budget {
        turns: arguments.max_turns.unwrap_or(old.turns),
        tokens: arguments.max_tokens.or(old.tokens),
        cost: arguments.max_cost.or(old.cost),
        time: arguments.timeout.or(old.time),
    };
    let mut changes = Vec::new();
    if budget != *old {
        changes.push(Event::BudgetChanged { budget });
    }
    changes.extend(models(arguments, settings, run.spec()));
    let at = now().max(run.last_event());
    for change in &changes {
        run.apply(at, change);
    }
    journal.append(at, changes).map_err(|error| Problem::transcript(&error))?;
    Ok(Job { journal, run, traces, created: None })
}

/// A job, complete, from options and settings.
pub(crate) fn spec(
    arguments: &RunArguments,
    settings: &Settings,
    task: String,
    (orchestrator, coder): (ModelName, ModelName),
    workspace: PathBuf,
) -> Result<JobSpec, Problem> {
    let variables = arguments.sandbox.variables(|name| std::env::var_os(name));
    let variables = variables.map_err(Problem::option)?;
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes)
            .map_err(|_| Problem::option("--env: a job's variables are text".to_owned()))
    };
    let mut named = Vec::new();
    for (name, value) in variables {
        named.push((text(name)?, text(value)?));
    }
    let (readable, image) = (arguments.sandbox.readable(), settings.sandbox.image.clone());
    if image.is_some() && !readable.is_empty() {
        let cause = "--read is for this machine's programs, and sandbox.image says otherwise";
        return Err(Problem::option(cause.to_owned()));
    }
    let require = settings.sandbox.require.clone();
    if let Some(grade) = require.as_deref()
        && Grade::named(grade).is_none()
    {
        let known = Grade::ALL.map(|grade| grade.to_string()).join(", ");
        return Err(Problem::option(format!("sandbox.require is {grade:?}, not one of: {known}")));
    }
    Ok(JobSpec {
        job: JobId::generate(),
        task,
        orchestrator,
        coder,
        summariser: settings.summariser.clone(),
        budget: settings.budget.clone(),
        checks: arguments.check.clone(),
        attempts: arguments.attempts.unwrap_or(ATTEMPTS),
        place: Place {
            workspace,
            sandbox: settings.sandbox.backend.clone(),
            require,
            network: settings.sandbox.network.clone(),
            limits: settings.sandbox.limits.clone(),
            readable,
            image,
            variables: named,
        },
        out: arguments
            .out
            .as_deref()
            .map(std::path::absolute)
            .transpose()
            .map_err(|error| Problem::option(format!("--out: {error}")))?,
    })
}
