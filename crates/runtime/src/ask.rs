//! One question to a model, from its first byte to its last.

use std::sync::{Arc, Mutex, PoisonError};

use cofferdam_engine::Input;
use cofferdam_model::{Assembler, Model, ModelError, Request};
use cofferdam_types::{Answer, RequestId, ThreadId, Tokens};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use crate::driver::Notice;
use crate::fail_point::fail_point;

/// What an answer has used so far: also known when nobody waits for the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Mutex<Tokens>>);

impl Meter {
    pub(crate) fn read(&self) -> Tokens {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, tokens: Tokens) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
    }
}

/// Asks, and passes on what comes as it comes.
pub(crate) async fn ask(
    model: Arc<dyn Model>,
    question: Request,
    (request, thread): (RequestId, ThreadId),
    meter: Meter,
    notices: mpsc::Sender<Notice>,
) -> Input {
    match listen(&*model, question, thread, &notices, &meter).await {
        Ok(answer) => Input::ModelAnswered { request, answer },
        Err(error) => Input::ModelFailed { request, failure: error.into(), tokens: meter.read() },
    }
}

async fn listen(
    model: &dyn Model,
    question: Request,
    thread: ThreadId,
    notices: &mpsc::Sender<Notice>,
    meter: &Meter,
) -> Result<Answer, ModelError> {
    let mut assembler = Assembler::default();
    let mut deltas = model.ask(question);
    fail_point("model-asked");
    while let Some(delta) = deltas.next().await {
        let delta = delta?;
        fail_point("model-answering");
        // Nobody may be watching.
        notices.send(Notice::Delta { thread, delta: delta.clone() }).await.ok();
        assembler.push(delta)?;
        meter.set(assembler.tokens());
    }
    assembler.finish()
}
