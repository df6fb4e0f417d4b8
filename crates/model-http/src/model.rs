//! The models: a request is posted, and its events become deltas as they come.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use cofferdam_model::{Delta, DeltaStream, Model, ModelError, Request};
use cofferdam_types::{FailureKind, ModelName};
use futures_util::{StreamExt, stream};
use http::header::CONTENT_TYPE;
use tokio::time::Instant;

use crate::endpoint::{Endpoint, EndpointError, resource};
use crate::failure::{Said, garbled};
use crate::sse;
use crate::transport::{Client, Reply};
use crate::wire::{Decode, Flow, Options, body, decoder};
use cofferdam_model::Wire;

/// How many idle time-outs a provider may only show signs of life.
const MOST_IDLE: u32 = 5;
/// Bytes of an answer that is no stream which are read to find out why.
const LONGEST_EXCUSE: usize = 64 << 10;

/// A model behind HTTP.
#[derive(Clone, Debug)]
pub struct HttpModel {
    name: ModelName,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wire: Wire,
    options: Options,
    client: Client,
}

impl HttpModel {
    /// A model with its name here, its name at the provider, and the provider.
    /// Nothing is connected yet, and no certificate read.
    ///
    /// # Errors
    /// When the endpoint makes no sense.
    pub fn new(
        name: ModelName,
        model_id: String,
        endpoint: &Endpoint,
    ) -> Result<Self, EndpointError> {
        let client = Client::new(endpoint)?;
        let host = client.host().to_owned();
        let options = Options { model: model_id, host, thinking: endpoint.thinking };
        let shared = Shared { wire: endpoint.wire, options, client };
        Ok(Self { name, shared: Arc::new(shared) })
    }
}

impl Model for HttpModel {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn ask(&self, request: Request) -> DeltaStream {
        let answer = Answer::to(Arc::clone(&self.shared), &request);
        let steps = stream::unfold(Some(answer), |answer| async move {
            let mut answer = answer?;
            match answer.next().await {
                Ok(Some(delta)) => Some((Ok(delta), Some(answer))),
                Ok(None) => None,
                Err(failure) => Some((Err(answer.shared.client.told(failure)), None)),
            }
        });
        steps.boxed()
    }
}

impl Shared {
    /// Posts a request and waits for its stream to begin.
    async fn ask(&self, body: Result<Bytes, serde_json::Error>) -> Result<Reply, ModelError> {
        let body = body.map_err(|error| {
            ModelError::new(FailureKind::Rejected, format!("cannot be asked this: {error}"))
        })?;
        let mut reply = self.client.post(resource(self.wire), body).await?;
        let kind = reply.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        // Servers that name no type at all, or a wrong one, are believed; those that
        // say it is something else are asked what.
        let other = ["application/json", "text/html"];
        let Some(other) = kind.and_then(|kind| other.into_iter().find(|o| kind.starts_with(o)))
        else {
            return Ok(reply);
        };
        let excuse = reply.read_to_end(LONGEST_EXCUSE).await?;
        let failure = Said::in_body(&excuse).mid_stream();
        let message = format!("answered with {other} in place of a stream; {}", failure.message);
        Err(ModelError { message, ..failure })
    }
}

/// One answer on its way.
struct Answer {
    shared: Arc<Shared>,
    phase: Phase,
    events: sse::Decoder,
    decoder: Box<dyn Decode>,
    /// Deltas that have come and were not yet taken.
    ready: VecDeque<Delta>,
}

enum Phase {
    Asking(Result<Bytes, serde_json::Error>),
    /// Reading, and when the last delta came: pings are signs of life, no answer.
    Reading(Reply, Instant),
    /// All has come; the connection can be kept.
    Ended(Reply),
    Over,
}

impl Answer {
    fn to(shared: Arc<Shared>, request: &Request) -> Self {
        let body = body(shared.wire, request, &shared.options).map(Bytes::from);
        Self {
            decoder: decoder(shared.wire, request),
            phase: Phase::Asking(body),
            events: sse::Decoder::default(),
            ready: VecDeque::new(),
            shared,
        }
    }

    /// The next delta; nothing after the last.
    async fn next(&mut self) -> Result<Option<Delta>, ModelError> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Ok(Some(delta));
            }
            self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Asking(body) => Phase::Reading(self.shared.ask(body).await?, Instant::now()),
                Phase::Reading(reply, since) => self.read(reply, since).await?,
                Phase::Ended(reply) => {
                    self.shared.client.keep(reply).await;
                    Phase::Over
                }
                Phase::Over => return Ok(None),
            };
        }
    }

    async fn read(&mut self, mut reply: Reply, since: Instant) -> Result<Phase, ModelError> {
        let idle = self.shared.client.idle_timeout();
        let patience = since + idle * MOST_IDLE;
        let next = reply.next(patience.min(Instant::now() + idle)).await;
        let Some(bytes) = next.map_err(|failure| {
            if failure.kind == FailureKind::Stalled && Instant::now() >= patience {
                let message = format!("showed only signs of life for {:?}", idle * MOST_IDLE);
                return ModelError { message, ..failure };
            }
            failure
        })?
        else {
            self.finish()?;
            return Ok(Phase::Ended(reply));
        };
        self.events.push(&bytes).map_err(|error| garbled(format!("makes no sense: {error}")))?;
        let mut progress = since;
        while let Some(event) = self.events.next() {
            let before = self.ready.len();
            if self.take(&event)? == Flow::Ended {
                self.finish()?;
                return Ok(Phase::Ended(reply));
            }
            if self.ready.len() > before {
                progress = Instant::now();
            }
        }
        Ok(Phase::Reading(reply, progress))
    }

    fn take(&mut self, event: &sse::Event) -> Result<Flow, ModelError> {
        let mut deltas = Vec::new();
        let flow = self.decoder.event(event, &mut deltas)?;
        let to_be_shown =
            |delta: &Delta| matches!(delta, Delta::Text(_) | Delta::Thinking(_) | Delta::Used(_));
        if event.lossy && !deltas.iter().all(to_be_shown) {
            return Err(garbled("sent a call that is not UTF-8"));
        }
        self.ready.extend(deltas);
        Ok(flow)
    }

    fn finish(&mut self) -> Result<(), ModelError> {
        let stop = self.decoder.finish()?;
        self.ready.push_back(Delta::Stop(stop));
        Ok(())
    }
}
