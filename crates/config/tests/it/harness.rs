//! The one place that touches the crate: layers as data, and settings as text.

use std::path::{Path, PathBuf};

use cofferdam_config::{ConfigError, EndpointSettings, Flags, Layers, Settings, Text, check};
use cofferdam_types::ModelName;

/// Layers under construction.
#[derive(Clone, Default)]
pub(crate) struct Case(pub(crate) Layers);

impl Case {
    pub(crate) fn new() -> Self {
        Self(Layers { project: PathBuf::from("/project"), ..Layers::default() })
    }

    pub(crate) fn user(mut self, text: &str) -> Self {
        let path = PathBuf::from("/config/cofferdam/config.toml");
        self.0.user_file = Some(Text { path, text: text.to_owned() });
        self
    }

    pub(crate) fn project(mut self, text: &str) -> Self {
        self.0.project_file = Some(text.to_owned());
        self
    }

    /// Variables as lines, here and for the environment alike.
    pub(crate) fn dotenv(mut self, text: &str) -> Self {
        self.0.dotenv = Some(text.to_owned());
        self
    }

    pub(crate) fn environment(mut self, text: &str) -> Self {
        for (name, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
            self.0.environment.insert(name.to_owned(), value.into());
        }
        self
    }

    pub(crate) fn flags(mut self, flags: Flags) -> Self {
        self.0.flags = flags;
        self
    }

    pub(crate) fn model(self, name: &str) -> Self {
        self.flags(Flags { model: Some(name.to_owned()), ..Flags::default() })
    }

    pub(crate) fn try_check(&self) -> Result<Settings, ConfigError> {
        check(&self.0, |path: &Path| !path.starts_with("link"))
    }

    pub(crate) fn check(&self) -> Settings {
        self.try_check().unwrap_or_else(|error| panic!("{}", told(&error)))
    }

    pub(crate) fn endpoint(&self, name: &str) -> Result<EndpointSettings, ConfigError> {
        self.try_check()?.endpoint(&ModelName(name.to_owned()))
    }
}

/// An error as the command line tells it.
pub(crate) fn told(error: &ConfigError) -> String {
    format!("cause: {error}\nhelp:  {}", error.remedy())
}

/// Address and key of an endpoint, on one line.
pub(crate) fn shown(endpoint: &Result<EndpointSettings, ConfigError>) -> String {
    match endpoint {
        Ok(endpoint) => {
            let key = endpoint.key.as_ref().map_or("no key", |key| key.reveal());
            format!("{} with {key}", endpoint.base_url)
        }
        Err(error) => format!("error: {error}"),
    }
}
