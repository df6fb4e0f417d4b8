//! The adapters to models, as the command line asks for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cofferdam_cli::{ModelMaker, UnusableFile};
use cofferdam_config::{EndpointSettings, LocalServer};
use cofferdam_embed_onnx::OnnxEmbedder;
use cofferdam_model::Model;
use cofferdam_model_http::{Endpoint, HttpEmbedder, HttpModel, list_models};
use cofferdam_model_script::{Demo, Replay};
use cofferdam_recall::{Embed, RecallError};
use cofferdam_types::{ModelName, Record};
use futures_util::future::BoxFuture;

/// Every adapter there is.
pub(crate) struct Adapters;

impl ModelMaker for Adapters {
    fn remote(&self, settings: EndpointSettings) -> Result<Arc<dyn Model>, String> {
        let id = settings.name.model().to_owned();
        let endpoint = Endpoint {
            key: settings.key,
            idle_timeout: settings.idle_timeout,
            thinking: (settings.thinking > 0).then_some(settings.thinking),
            ..Endpoint::new(settings.wire, settings.base_url.as_str())
        };
        let model = HttpModel::new(settings.name, id, &endpoint);
        Ok(Arc::new(model.map_err(|error| error.to_string())?))
    }

    fn embedder(&self, settings: EndpointSettings) -> Result<Arc<dyn Embed>, String> {
        let endpoint = Endpoint {
            key: settings.key,
            idle_timeout: settings.idle_timeout,
            ..Endpoint::new(settings.wire, settings.base_url.as_str())
        };
        let embedder = HttpEmbedder::new(settings.name.model().to_owned(), &endpoint);
        Ok(Arc::new(Embedder(embedder.map_err(|error| error.to_string())?)))
    }

    fn embedder_of_file(
        &self,
        path: &Path,
        theirs: &[PathBuf],
    ) -> Result<Arc<dyn Embed>, UnusableFile> {
        let opened = OnnxEmbedder::open(path, theirs).map_err(|error| {
            let remedy = error.remedy().to_owned();
            UnusableFile { cause: error.to_string(), remedy }
        });
        Ok(Arc::new(opened?))
    }

    fn demo(&self) -> Arc<dyn Model> {
        Arc::new(Demo::new())
    }

    fn replay(&self, name: ModelName, records: Vec<Record>) -> Arc<dyn Model> {
        Arc::new(Replay::from_records(name, records))
    }

    fn list<'a>(
        &'a self,
        server: &'a LocalServer,
        within: Duration,
    ) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let endpoint = Endpoint::new(server.wire, server.base_url.as_str());
            list_models(&endpoint, within).await.ok()
        })
    }
}

/// Says what texts mean, as those who recall ask for it.
struct Embedder(HttpEmbedder);

impl Embed for Embedder {
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, RecallError>> {
        Box::pin(async move {
            let vectors = self.0.embed(&texts).await;
            vectors.map_err(|failure| RecallError::Embedder(failure.to_string()))
        })
    }
}
