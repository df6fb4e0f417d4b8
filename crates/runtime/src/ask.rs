//! One question to a model, from its first byte to its last.

use std::sync::Arc;

use cofferdam_engine::Input;
use cofferdam_model::{Assembler, Model, ModelError, Request};
use cofferdam_types::{Answer, RequestId, ThreadId, Tokens};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use crate::drive::Notice;

/// Asks, and passes on what comes as it comes.
pub(crate) async fn ask(
    model: Arc<dyn Model>,
    question: Request,
    (request, thread): (RequestId, ThreadId),
    notices: mpsc::Sender<Notice>,
) -> Input {
    let mut used = Tokens::default();
    match listen(&*model, question, thread, &notices, &mut used).await {
        Ok(answer) => Input::ModelAnswered { request, answer },
        Err(error) => Input::ModelFailed { request, failure: error.into(), tokens: used },
    }
}

async fn listen(
    model: &dyn Model,
    question: Request,
    thread: ThreadId,
    notices: &mpsc::Sender<Notice>,
    used: &mut Tokens,
) -> Result<Answer, ModelError> {
    let mut assembler = Assembler::default();
    let mut deltas = model.ask(question);
    while let Some(delta) = deltas.next().await {
        let delta = delta?;
        // Nobody may be watching.
        notices.send(Notice::Delta { thread, delta: delta.clone() }).await.ok();
        assembler.push(delta)?;
        *used = assembler.tokens();
    }
    assembler.finish()
}
