//! What comes out: the settings, complete and checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cofferdam_model::{PriceTable, Wire};
use cofferdam_types::{Budget, Limits, ModelName, Network, Redacted};

use crate::error::ConfigError;
use crate::known::{BUILT_IN_MODELS, LOCAL_SERVERS, LocalServer};
use crate::provider::Provider;
use crate::url::BaseUrl;

/// The product's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model that plans, directs and judges; `None` when nothing says which:
    /// then look for one of the [`Settings::local_candidates`].
    pub model: Option<ModelName>,
    /// The model that writes code; `None` is the same one.
    pub coder: Option<ModelName>,
    /// The model that writes summaries; `None` is the one that plans.
    pub summariser: Option<ModelName>,
    /// Who says what texts mean, for what is recalled; `None` is nobody.
    pub embedder: Option<Embedder>,
    /// How many tokens models take in and give out together.
    pub context_window: ContextWindows,
    /// The providers that are known, by their names.
    pub providers: BTreeMap<String, Provider>,
    /// What models cost.
    pub prices: PriceTable,
    /// What a job may use up.
    pub budget: Budget,
    /// The sandbox of a job.
    pub sandbox: SandboxSettings,
    /// How often a request that failed for a reason that may pass is made again.
    pub retries: u32,
    /// How long a model may be silent.
    pub idle_timeout: Duration,
    /// How many tokens an answer may have.
    pub max_output: u32,
    /// How many of them a model may think with, where that has to be asked for;
    /// 0 is not at all.
    pub thinking: u32,
    /// The directory to work in, if one was named. One that `.env` named lies
    /// beneath the directory of `.env`.
    pub workspace: Option<PathBuf>,
    /// What the user should be told: whatever of the workspace's decides where
    /// requests go or where the work happens, and whatever of it was not used.
    pub warnings: Vec<String>,
}

/// Who says what texts mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Embedder {
    /// A model of a provider.
    Model(ModelName),
    /// A model in a file of this machine, or in a directory, by its whole path.
    File(PathBuf),
}

/// How many tokens models take in and give out together, as far as somebody has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextWindows {
    /// Whatever the model: the command line or the environment says so.
    pub(crate) all: Option<u64>,
    /// Where its provider has no number of its own: the user's file says so.
    pub(crate) usual: Option<u64>,
}

/// The sandbox of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    /// The back end's name, or `auto`. Not checked here: only the binary knows
    /// the back ends.
    pub backend: String,
    /// The least isolation that will do, by its name; not checked here either.
    pub require: Option<String>,
    /// The image whose programs are used in place of the host's: its name, or a directory if there
    /// is a slash in it. Looked for where the sandbox is made.
    pub image: Option<PathBuf>,
    /// What may be reached from inside.
    pub network: Network,
    /// What may be used inside.
    pub limits: Limits,
    /// How long interpreters and desktops stay that nobody uses.
    pub idle: Duration,
    /// Width and height of a desktop's screen.
    pub screen: (u32, u32),
}

/// All that is needed to ask one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The model's whole name.
    pub name: ModelName,
    /// The wire protocol.
    pub wire: Wire,
    /// The address that the protocol's paths are put behind.
    pub base_url: BaseUrl,
    /// The key that may be sent there.
    pub key: Option<Redacted<String>>,
    /// How long the model may be silent.
    pub idle_timeout: Duration,
    /// How many tokens the model may think with; 0 is not at all.
    pub thinking: u32,
}

impl Settings {
    /// What is needed to ask a model.
    ///
    /// # Errors
    /// When its provider is not known, lacks its key or its address, or when a key
    /// would travel unencrypted.
    pub fn endpoint(&self, name: &ModelName) -> Result<EndpointSettings, ConfigError> {
        let provider_name = name.provider().to_owned();
        if BUILT_IN_MODELS.contains(&provider_name.as_str()) {
            return Err(ConfigError::BuiltIn { name: provider_name });
        }
        let Some(provider) = self.providers.get(&provider_name) else {
            let known = self.providers.keys().cloned().collect();
            return Err(ConfigError::UnknownProvider { provider: provider_name, known });
        };
        if name.model().is_empty() {
            return Err(ConfigError::NoModelName { provider: provider_name });
        }
        let Some(base_url) = provider.base_url() else {
            let variable = provider.url_variable().to_owned();
            return Err(ConfigError::NoUrl { provider: provider_name, variable });
        };
        if provider.lacks_key() {
            return Err(ConfigError::NoKey {
                provider: provider_name,
                variable: provider.key_variable().to_owned(),
                notes: provider.notes().to_vec(),
            });
        }
        if provider.key().is_some() && !provider.may_send_key_to(base_url) {
            let host = base_url.host().to_owned();
            return Err(ConfigError::PlainHttp { provider: provider_name, host });
        }
        Ok(EndpointSettings {
            name: name.clone(),
            wire: provider.wire(),
            base_url: base_url.clone(),
            key: provider.key().cloned(),
            idle_timeout: self.idle_timeout,
            thinking: self.thinking,
        })
    }

    /// Tokens that a model takes in and gives out together, if that is set; else it is
    /// known by the model's name.
    #[must_use]
    pub fn context_window(&self, name: &ModelName) -> Option<u64> {
        let ContextWindows { all, usual } = self.context_window;
        let provider = self.providers.get(name.provider());
        all.or_else(|| provider.and_then(Provider::context_window)).or(usual)
    }

    /// The model servers to look for when no model is set: on this machine, or
    /// where the user has said they are.
    #[must_use]
    pub fn local_candidates(&self) -> Vec<LocalServer> {
        let candidate = |(name, label): &(&str, &'static str)| {
            let provider = self.providers.get(*name)?;
            let (wire, base_url) = (provider.wire(), provider.base_url()?.clone());
            Some(LocalServer { provider: (*name).to_owned(), label, wire, base_url })
        };
        LOCAL_SERVERS.iter().filter_map(candidate).collect()
    }

    /// The error when no model is set and none of the local servers has answered.
    #[must_use]
    pub fn no_model(&self) -> ConfigError {
        ConfigError::NoModel { looked: self.local_candidates() }
    }
}
