//! Which models a job is done with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cofferdam_config::{ConfigError, Embedder, EndpointSettings, LocalServer, Settings};
use cofferdam_model::Model;
use cofferdam_runtime::{Embed, Models};
use cofferdam_types::{JobSpec, ModelName, Record};
use futures_util::future::{BoxFuture, join_all};
use tokio::task::spawn_blocking;

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

    /// A model in a file, or in a directory, that makes vectors of texts. It becomes
    /// part of this process, so nothing of it may be in `theirs`, the directories that
    /// sandboxes write to. May take a minute, and waits for it.
    ///
    /// # Errors
    /// When it cannot be used: why, and what to do about it.
    fn embedder_of_file(
        &self,
        path: &Path,
        theirs: &[PathBuf],
    ) -> Result<Arc<dyn Embed>, UnusableFile>;

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

/// The directories of the product that hold what sandboxes wrote.
pub(crate) fn written_by_jobs(home: &Path) -> impl Iterator<Item = PathBuf> {
    ["blobs", "jobs", "sandboxes", "spool"].into_iter().map(|name| home.join(name))
}

/// Who says what texts mean, if the settings name anybody. `theirs` are the directories
/// that sandboxes write to.
pub(crate) async fn embedder(
    maker: &Arc<dyn ModelMaker>,
    settings: &Settings,
    theirs: Vec<PathBuf>,
) -> Result<Option<Arc<dyn Embed>>, Problem> {
    match &settings.embedder {
        None => Ok(None),
        Some(Embedder::Model(name)) => {
            let endpoint = settings.endpoint(name).map_err(|error| Problem::config(&error))?;
            maker.embedder(endpoint).map(Some).map_err(|cause| Problem::model(name, cause))
        }
        Some(Embedder::File(path)) => {
            let (maker, file) = (Arc::clone(maker), path.clone());
            let opening = spawn_blocking(move || maker.embedder_of_file(&file, &theirs));
            let opened = opening.await.unwrap_or_else(|error| {
                let remedy = "leave the embedder out, and report it".to_owned();
                Err(UnusableFile { cause: error.to_string(), remedy })
            });
            opened.map(Some).map_err(|error| Problem::model_file(path, &error))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};

    use cofferdam_config::{Flags, Sources, load};

    use super::*;

    /// Opens no file before somebody has said so.
    struct Patient(Mutex<Receiver<()>>);

    impl ModelMaker for Patient {
        fn remote(&self, _: EndpointSettings) -> Result<Arc<dyn Model>, String> {
            Err("nobody asks for it".to_owned())
        }

        fn embedder(&self, _: EndpointSettings) -> Result<Arc<dyn Embed>, String> {
            Err("nobody asks for it".to_owned())
        }

        fn embedder_of_file(
            &self,
            path: &Path,
            theirs: &[PathBuf],
        ) -> Result<Arc<dyn Embed>, UnusableFile> {
            let said = self.0.lock().unwrap().recv_timeout(Duration::from_secs(30));
            let cause = format!("{said:?}: {} of {theirs:?}", path.display());
            Err(UnusableFile { cause, remedy: String::new() })
        }

        fn demo(&self) -> Arc<dyn Model> {
            panic!("nobody asks for it")
        }

        fn replay(&self, _: ModelName, _: Vec<Record>) -> Arc<dyn Model> {
            panic!("nobody asks for it")
        }

        fn list<'a>(
            &'a self,
            _: &'a LocalServer,
            _: Duration,
        ) -> BoxFuture<'a, Option<Vec<String>>> {
            Box::pin(async { None })
        }
    }

    #[tokio::test]
    async fn everything_else_goes_on_while_a_model_is_opened() {
        let project = tempfile::tempdir().unwrap();
        let environment = [("COFFERDAM_EMBEDDER".to_owned(), "/a/model".into())].into();
        let (project, flags) = (project.path().to_owned(), Flags::default());
        let settings = load(&Sources { environment, project, flags }).unwrap();
        let (say, said) = channel();
        let maker: Arc<dyn ModelMaker> = Arc::new(Patient(Mutex::new(said)));
        let opening = embedder(&maker, &settings, vec!["/work".into()]);
        // The one thread there is gets as far as saying so.
        let (opened, ()) = tokio::join!(opening, async { say.send(()).unwrap() });
        let Err(problem) = opened else { panic!("there is no such model") };
        assert_eq!(problem.cause, "Ok(()): /a/model of [\"/work\"]");
    }
}
