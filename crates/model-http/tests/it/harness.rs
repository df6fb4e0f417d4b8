//! How the tests ask a model.

use std::time::Duration;

use cofferdam_model::Wire;
use cofferdam_model::{Assembler, Delta, Model, ModelError, Request};
use cofferdam_model_http::{Endpoint, HttpModel};
use cofferdam_testkit::{Dialect, ScriptedServer};
use cofferdam_types::{Answer, Message, ModelName, Redacted, Toolbox};
use futures_util::StreamExt;

/// A key that must never be seen.
pub(crate) const KEY: &str = "sk-geheim-0123456789";
/// The idle time-out of tests: short, and long enough for a busy machine to
/// answer within it.
pub(crate) const IDLE: Duration = Duration::from_millis(400);
/// What hangs for so long hangs for ever.
const FOR_EVER: Duration = Duration::from_secs(60);

pub(crate) fn wire(dialect: Dialect) -> Wire {
    match dialect {
        Dialect::Messages => Wire::Messages,
        Dialect::Responses => Wire::Responses,
        Dialect::Chat => Wire::Chat,
    }
}

/// An endpoint at a server, patient as the product is.
pub(crate) fn endpoint(server: &ScriptedServer, dialect: Dialect) -> Endpoint {
    let mut endpoint = Endpoint::new(wire(dialect), server.base_url());
    endpoint.key = Some(Redacted::new(KEY.to_owned()));
    endpoint
}

pub(crate) fn model(endpoint: &Endpoint) -> HttpModel {
    HttpModel::new(ModelName("test/scripted".to_owned()), "scripted".to_owned(), endpoint).unwrap()
}

pub(crate) fn request(text: &str) -> Request {
    Request {
        system: "Be brief.".to_owned(),
        messages: vec![Message::user(text)],
        tools: Toolbox::default(),
        max_output: 1000,
        cache_key: "key".to_owned(),
        which: cofferdam_model::Which::FIRST,
    }
}

/// Asks, and gives all deltas up to the first error.
pub(crate) async fn deltas(model: &HttpModel, request: Request) -> Vec<Result<Delta, ModelError>> {
    let all = model.ask(request).collect();
    tokio::time::timeout(FOR_EVER, all).await.unwrap()
}

/// Asks, and puts the answer together.
pub(crate) async fn ask(model: &HttpModel, request: Request) -> Result<Answer, ModelError> {
    let mut assembler = Assembler::default();
    for delta in deltas(model, request).await {
        assembler.push(delta?)?;
    }
    assembler.finish()
}
