//! Stand-ins for what a job needs and this server does not have: they say why, so
//! that the job ends with the reason.

use cofferdam_model::{DeltaStream, Model, ModelError, Request};
use cofferdam_sandbox::{Backend, Capabilities, OpenError, Reconciled, Room, RoomError, Spec};
use cofferdam_types::{FailureKind, ModelName, SandboxId};
use futures_util::future::BoxFuture;
use futures_util::stream;

/// A model that cannot be had.
pub(crate) struct NoModel {
    name: ModelName,
    cause: String,
}

impl NoModel {
    pub(crate) fn new(name: ModelName, cause: String) -> Self {
        Self { name, cause }
    }
}

impl Model for NoModel {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn ask(&self, _: Request) -> DeltaStream {
        let error = ModelError::new(FailureKind::NoSuchModel, self.cause.clone());
        Box::pin(stream::iter([Err(error)]))
    }
}

/// A back end that cannot be had.
pub(crate) struct NoBackend {
    pub(crate) cause: String,
}

impl NoBackend {
    fn error(&self) -> OpenError {
        let remedy = "run `cofferdam doctor` on the server".to_owned();
        OpenError::Unusable { cause: self.cause.clone(), remedy }
    }
}

impl Backend for NoBackend {
    fn name(&self) -> &'static str {
        "none"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn open(&self, _: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        Box::pin(async { Err(self.error()) })
    }

    fn reattach(&self, _: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        Box::pin(async { Err(self.error()) })
    }

    fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
        Box::pin(async { Ok(Reconciled::default()) })
    }
}
