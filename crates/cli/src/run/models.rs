//! Which models a job is done with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_config::{ConfigError, Embedder, EndpointSettings, LocalServer, Settings};
use cofferdam_model::Model;
use cofferdam_runtime::{Embed, Models};
use cofferdam_types::{JobSpec, ModelName, Record};
use futures_util::future::{BoxFuture, join_all};

use super::history::History;
use crate::problem::Problem;

/// How long a local server may take to say which models it has. It is on this
/// machine.
const LOOKING: Duration = Duration::from_millis(500);

/// Makes models; the binary, which alone knows the adapters, provides it.
pub trait ModelMaker: Send + Sync {
    /// A model behind an endpoint.
    ///
    /// # Errors
    /// When the endpoint cannot be used.
    fn remote(&self, endpoint: EndpointSettings) -> Result<Arc<dyn Model>, String>;

    /// A model behind an endpoint that makes vectors of texts.
    ///
    /// # Errors
    /// When the endpoint cannot be used, or makes none.
    fn embedder(&self, endpoint: EndpointSettings) -> Result<Arc<dyn Embed>, String>;

    /// A model in a file, or in a directory, that makes vectors of texts.
    ///
    /// # Errors
    /// When it cannot be used: why, and what to do about it.
    fn embedder_of_file(&self, path: &Path) -> Result<Arc<dyn Embed>, UnusableFile>;

    /// The built-in demonstration.
    fn demo(&self) -> Arc<dyn Model>;

    /// A model that answers from a job's log.
    fn replay(&self, name: ModelName, records: Vec<Record>) -> Arc<dyn Model>;

    /// The models of a server, if one answers in time.
    fn list<'a>(
        &'a self,
        server: &'a LocalServer,
        within: Duration,
    ) -> BoxFuture<'a, Option<Vec<String>>>;
}

/// Why a model in a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableFile {
    /// What is wrong with it.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
}

/// The names of the models to be used: those that are set, else the first model
/// of a server on this machine.
pub(crate) async fn choose(
    maker: &dyn ModelMaker,
    settings: &Settings,
) -> Result<(ModelName, ModelName), ConfigError> {
    let orchestrator = match &settings.model {
        Some(name) => name.clone(),
        None => find_local(maker, settings).await.ok_or_else(|| settings.no_model())?,
    };
    let coder = settings.coder.clone().unwrap_or_else(|| orchestrator.clone());
    Ok((orchestrator, coder))
}

async fn find_local(maker: &dyn ModelMaker, settings: &Settings) -> Option<ModelName> {
    let servers = settings.local_candidates();
    let found = join_all(servers.iter().map(|server| maker.list(server, LOOKING))).await;
    servers.iter().zip(found).find_map(|(server, models)| {
        let first = models?.into_iter().next()?;
        Some(ModelName(format!("{}/{first}", server.provider)))
    })
}

/// The models of a job.
pub(crate) fn make(
    maker: &dyn ModelMaker,
    settings: &Settings,
    history: &History,
    spec: &JobSpec,
) -> Result<Models, Problem> {
    let one = |name: &ModelName| -> Result<Arc<dyn Model>, Problem> {
        match name.provider() {
            "demo" => Ok(maker.demo()),
            "replay" => {
                let path = history.find(name.model());
                let path = path.map_err(|error| Problem::job(name.model(), &error))?;
                let records = cofferdam_runtime::Journal::read(&path);
                let records = records.map_err(|error| Problem::transcript(&error))?;
                Ok(maker.replay(name.clone(), records))
            }
            _ => {
                let endpoint = settings.endpoint(name).map_err(|error| Problem::config(&error))?;
                maker.remote(endpoint).map_err(|cause| Problem::model(name, cause))
            }
        }
    };
    let orchestrator = one(&spec.orchestrator)?;
    let other = |name: &ModelName| match name == &spec.orchestrator {
        true => Ok(Arc::clone(&orchestrator)),
        false => one(name),
    };
    let coder = other(&spec.coder)?;
    let summariser = other(spec.summariser.as_ref().unwrap_or(&spec.orchestrator))?;
    Ok(Models { orchestrator, coder, summariser })
}

/// Who says what texts mean, if the settings name anybody.
pub(crate) fn embedder(
    maker: &dyn ModelMaker,
    settings: &Settings,
) -> Result<Option<Arc<dyn Embed>>, Problem> {
    match &settings.embedder {
        None => Ok(None),
        Some(Embedder::Model(name)) => {
            let endpoint = settings.endpoint(name).map_err(|error| Problem::config(&error))?;
            maker.embedder(endpoint).map(Some).map_err(|cause| Problem::model(name, cause))
        }
        Some(Embedder::File(path)) => {
            let opened = maker.embedder_of_file(path);
            opened.map(Some).map_err(|error| Problem::model_file(path, &error))
        }
    }
}
