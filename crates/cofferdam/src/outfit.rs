//! What jobs of a server are done with, as its configuration has it.

use std::path::PathBuf;
use std::sync::Arc;

use cofferdam_cli::{ModelMaker, engine, fit_aide, make_models};
use cofferdam_config::{BUILT_IN_MODELS, Settings};
use cofferdam_fleet::{Beginning, Outfit, Wish, WishError};
use cofferdam_images::Store;
use cofferdam_runtime::{Aide, Embed, Indexes, Models, unpriced};
use cofferdam_sandbox::{Backend, Grade, NoSuchBackend, choose};
use cofferdam_types::{
    Budget, HostPattern, JobId, JobSpec, Limits, ModelName, Network, Place, error_chain,
};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::aide::Shelf;
use crate::indexes::SqliteIndexes;
use crate::task_image;

/// How often work may be handed in and fail a check, if nobody says otherwise.
const ATTEMPTS: u32 = 5;

/// What jobs are done with.
pub(crate) struct Settled {
    pub(crate) maker: Arc<dyn ModelMaker>,
    pub(crate) settings: Settings,
    /// The models of jobs that name none.
    pub(crate) defaults: Option<(ModelName, ModelName)>,
    /// Who says what texts mean, if anybody does.
    pub(crate) embedder: Option<Arc<dyn Embed>>,
    pub(crate) backends: Vec<Arc<dyn Backend>>,
    pub(crate) home: PathBuf,
    /// The images that the back ends know.
    pub(crate) images: Store,
    pub(crate) aide: Option<Shelf>,
    /// Whether jobs may ask for any network.
    pub(crate) open_network: bool,
}

fn refused(cause: impl Into<String>, remedy: impl Into<String>) -> WishError {
    WishError { cause: cause.into(), remedy: remedy.into() }
}

impl Settled {
    fn models_of(&self, wish: &Wish) -> Result<(ModelName, ModelName), WishError> {
        let default = self.defaults.as_ref();
        let orchestrator = match (&wish.model, default) {
            (Some(name), _) => self.known(name)?,
            (None, Some((orchestrator, _))) => orchestrator.clone(),
            (None, None) => {
                let error = self.settings.no_model();
                let remedy = "name a model that the server knows, or \"demo\" for a sample task";
                return Err(refused(error_chain(&error), remedy));
            }
        };
        let coder = match (&wish.coder, &wish.model, default) {
            (Some(name), ..) => self.known(name)?,
            (None, None, Some((_, coder))) => coder.clone(),
            _ => orchestrator.clone(),
        };
        Ok((orchestrator, coder))
    }

    /// Who writes a job's summaries: whoever plans, where that is another model than
    /// the server's own.
    fn summariser_of(&self, wish: &Wish) -> Result<Option<ModelName>, WishError> {
        match (&wish.summariser, &wish.model) {
            (Some(name), _) => self.known(name).map(Some),
            (None, None) => Ok(self.settings.summariser.clone()),
            (None, Some(_)) => Ok(None),
        }
    }

    /// A model that can be asked.
    fn known(&self, name: &str) -> Result<ModelName, WishError> {
        let name = ModelName(name.to_owned());
        // A replay reads transcripts of whoever runs the server.
        if name.0 == "demo" {
            return Ok(name);
        }
        if BUILT_IN_MODELS.contains(&name.provider()) {
            return Err(refused(format!("{name} is not for jobs of a server"), "use demo"));
        }
        let found = self.settings.endpoint(&name);
        found.map_err(|error| refused(error_chain(&error), error.remedy()))?;
        Ok(name)
    }

    /// The stronger of what the server's owner and the job ask for.
    fn grade(&self, wish: &Wish) -> Result<Option<Grade>, WishError> {
        let both = [&self.settings.sandbox.require, &wish.require].into_iter().flatten();
        let known = |name: &String| {
            Grade::named(name).ok_or_else(|| {
                let remedy =
                    format!("use one of: {}", Grade::ALL.map(|grade| grade.to_string()).join(", "));
                refused(format!("require: {name:?} is no grade"), remedy)
            })
        };
        let both: Vec<Grade> = both.map(known).collect::<Result<_, _>>()?;
        Ok(both.into_iter().max())
    }

    fn network(&self, wish: &Wish) -> Result<Network, WishError> {
        let network = wish.network.as_ref().unwrap_or(&self.settings.sandbox.network);
        let remedy = "name the hosts that are needed: allow:HOST[:PORT],…, or have the server \
                      started with --allow-open-network";
        match network {
            _ if self.open_network => {}
            // What the server's owner has set is theirs to allow.
            network if *network == self.settings.sandbox.network => {}
            Network::Open => return Err(refused("this server keeps jobs off the network", remedy)),
            Network::Allow(rules) => {
                let addresses =
                    rules.iter().any(|rule| matches!(rule.host, HostPattern::Address(_)));
                if addresses {
                    let cause = "this server lets jobs reach names, not addresses";
                    return Err(refused(cause, remedy));
                }
            }
            Network::None => {}
        }
        Ok(network.clone())
    }

    fn limits(&self, wish: &Wish) -> Result<Limits, WishError> {
        let most = &self.settings.sandbox.limits;
        Ok(Limits {
            memory: at_most("memory", wish.memory, most.memory)?,
            milli_cpus: at_most("cpus", wish.milli_cpus, most.milli_cpus)?,
            pids: at_most("pids", wish.pids, most.pids)?,
            disk: at_most("disk", wish.disk, most.disk)?,
            ..most.clone()
        })
    }
}

/// The smaller of what a job asks for and what the server's owner allows.
fn least<N: Ord>(wanted: Option<N>, allowed: Option<N>) -> Option<N> {
    match (wanted, allowed) {
        (Some(wanted), Some(allowed)) => Some(wanted.min(allowed)),
        (wanted, allowed) => wanted.or(allowed),
    }
}

fn at_most<N: Copy + PartialOrd + std::fmt::Display>(
    what: &str,
    wanted: Option<N>,
    most: N,
) -> Result<N, WishError> {
    match wanted {
        Some(wanted) if wanted > most => Err(refused(
            format!("{what}: {wanted} is more than this server gives a job"),
            format!("ask for at most {most}"),
        )),
        Some(wanted) => Ok(wanted),
        None => Ok(most),
    }
}

impl Outfit for Settled {
    fn spec(&self, wish: &Wish, job: JobId, workspace: PathBuf) -> Result<JobSpec, WishError> {
        if wish.task.trim().is_empty() {
            return Err(refused("the task is empty", "say what is to be done"));
        }
        let (orchestrator, coder) = self.models_of(wish)?;
        let sandbox = wish.sandbox.clone();
        let sandbox = sandbox.unwrap_or_else(|| self.settings.sandbox.backend.clone());
        let require = self.grade(wish)?;
        let backend = self.backend(&sandbox, require.unwrap_or(Grade::Contained));
        backend.map_err(|none| refused(none.to_string(), "leave `sandbox` out"))?;
        let usual = &self.settings.budget;
        let spec = JobSpec {
            job,
            task: wish.task.clone(),
            orchestrator,
            coder,
            summariser: self.summariser_of(wish)?,
            budget: Budget {
                turns: wish.turns.unwrap_or(usual.turns),
                tokens: least(wish.tokens, usual.tokens),
                cost: least(wish.cost, usual.cost),
                time: least(wish.time, usual.time),
            },
            checks: wish.checks.clone(),
            attempts: wish.attempts.unwrap_or(ATTEMPTS),
            place: Place {
                workspace,
                sandbox,
                require: require.map(|grade| grade.to_string()),
                network: self.network(wish)?,
                limits: self.limits(wish)?,
                readable: Vec::new(),
                image: self.settings.sandbox.image.clone(),
                variables: wish.variables.clone(),
            },
            out: None,
        };
        if spec.budget.cost.is_none() {
            return Ok(spec);
        }
        match unpriced(&self.engine(&spec), &spec) {
            Some(name) => Err(refused(
                format!("what {name} costs is not known, so the cost cannot be limited"),
                "leave the limit on cost out, or have its price set in the server's configuration",
            )),
            None => Ok(spec),
        }
    }

    fn engine(&self, spec: &JobSpec) -> cofferdam_engine::Settings {
        engine(&self.settings, spec)
    }

    fn models(&self, spec: &JobSpec) -> Result<Models, String> {
        make_models(&*self.maker, &self.settings, &self.home, spec)
    }

    fn indexes(&self) -> Arc<dyn Indexes> {
        Arc::new(SqliteIndexes)
    }

    fn aide(&self) -> Option<Aide> {
        self.aide.as_ref().map(|shelf| fit_aide(shelf.aide(), &self.settings))
    }

    fn embedder(&self) -> Option<Arc<dyn Embed>> {
        self.embedder.clone()
    }

    fn backend(&self, name: &str, required: Grade) -> Result<Arc<dyn Backend>, NoSuchBackend> {
        choose(&self.backends, name, required).cloned()
    }

    fn backends(&self) -> Vec<Arc<dyn Backend>> {
        self.backends.clone()
    }

    fn make_image<'a>(
        &'a self,
        files: &'a dyn Beginning,
        known: Option<String>,
        tell: mpsc::Sender<String>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(task_image::make(&self.images, files, known, tell))
    }

    fn model_names(&self) -> Vec<String> {
        let mut names = vec!["demo".to_owned()];
        if let Some((orchestrator, coder)) = &self.defaults {
            names.extend([orchestrator.0.clone(), coder.0.clone()]);
        }
        names.extend(self.settings.summariser.as_ref().map(|name| name.0.clone()));
        names.sort();
        names.dedup();
        names
    }
}
