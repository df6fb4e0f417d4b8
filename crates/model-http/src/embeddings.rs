//! What texts mean, as vectors: the embeddings of a provider, in OpenAI's form.
//!
//! A question is asked once: whoever wants the vectors can do without them. All
//! vectors of an answer are of one length and hold numbers only.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_model::{ModelError, Wire};
use cofferdam_types::FailureKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use crate::endpoint::{Endpoint, EndpointError};
use crate::failure::{Said, garbled};
use crate::transport::Client;

/// Texts that are sent at once.
const AT_ONCE: usize = 64;
/// Characters of a text that are sent.
const LONGEST_TEXT: usize = 4_000;
/// Bytes of an answer.
const LONGEST_ANSWER: usize = 32 << 20;
/// How long all of it may take.
const WITHIN: Duration = Duration::from_secs(10);
/// Sent for a text without any: no provider takes that.
const NO_TEXT: &str = "…";

/// A model that makes vectors of texts, behind HTTP.
#[derive(Debug)]
pub struct HttpEmbedder {
    model: String,
    client: Client,
    within: Duration,
}

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    input: Vec<&'a str>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// Which text it is of; some servers leave it out.
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl HttpEmbedder {
    /// A model by its name at the provider. Nothing is connected yet. An idle
    /// time-out that is shorter than the usual time for an answer counts instead
    /// of it.
    ///
    /// # Errors
    /// When the endpoint makes no sense, or speaks a protocol without embeddings.
    pub fn new(model_id: String, endpoint: &Endpoint) -> Result<Self, EndpointError> {
        if endpoint.wire == Wire::Messages {
            return Err(EndpointError::NoEmbeddings);
        }
        let client = Client::new(endpoint)?;
        Ok(Self { model: model_id, client, within: endpoint.idle_timeout.min(WITHIN) })
    }

    /// One vector for each text, in their order. Of a long text only the beginning
    /// counts.
    ///
    /// # Errors
    /// When there is no good answer in time. Nothing is asked twice.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let asking = async {
            let mut vectors = Vec::with_capacity(texts.len());
            for batch in texts.chunks(AT_ONCE) {
                vectors.extend(self.ask(batch).await?);
            }
            alike(&vectors)?;
            Ok(vectors)
        };
        let answer = timeout(self.within, asking).await.unwrap_or_else(|_| {
            let message = format!("made no embeddings within {:?}", self.within);
            Err(ModelError::new(FailureKind::Stalled, message))
        });
        answer.map_err(|failure| self.client.told(failure))
    }

    async fn ask(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let input = texts.iter().map(|text| beginning(text)).collect();
        let body = serde_json::to_vec(&Asked { model: &self.model, input }).map_err(|error| {
            ModelError::new(FailureKind::Rejected, format!("cannot be asked this: {error}"))
        })?;
        let mut reply = self.client.post_for_json("embeddings", Bytes::from(body)).await?;
        let body = reply.read_to_end(LONGEST_ANSWER + 1).await?;
        if body.len() > LONGEST_ANSWER {
            let most = LONGEST_ANSWER >> 20;
            return Err(garbled(format!("sent more than {most} MiB for {} texts", texts.len())));
        }
        let vectors = vectors(&body, texts.len())?;
        self.client.keep(reply).await;
        Ok(vectors)
    }
}

/// As much of a text as is sent.
fn beginning(text: &str) -> &str {
    if text.trim().is_empty() {
        return NO_TEXT;
    }
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// Reads an answer: so many vectors, each in the place of its text.
fn vectors(body: &[u8], wanted: usize) -> Result<Vec<Vec<f32>>, ModelError> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| {
        // Some servers answer 200 to what they refuse.
        let said = serde_json::from_slice::<Value>(body).ok();
        match said.as_ref().and_then(Said::in_event) {
            Some(said) => said.mid_stream(),
            None => garbled(format!("sent no embeddings: {error}")),
        }
    })?;
    let found = answer.data.len();
    if found != wanted {
        return Err(garbled(format!("sent {found} embeddings for {wanted} texts")));
    }
    let mut places: Vec<Option<Vec<f32>>> = vec![None; wanted];
    for (place, entry) in answer.data.into_iter().enumerate() {
        let place = places.get_mut(entry.index.unwrap_or(place));
        match place.filter(|place| place.is_none()) {
            Some(place) => *place = Some(entry.embedding),
            None => return Err(garbled("sent embeddings that are of no text")),
        }
    }
    // As many as there are places, and no place twice: none is left empty.
    Ok(places.into_iter().flatten().collect())
}

/// Whether vectors can be compared.
fn alike(vectors: &[Vec<f32>]) -> Result<(), ModelError> {
    let length = vectors.first().map_or(0, Vec::len);
    if vectors.iter().any(|vector| vector.is_empty() || vector.len() != length) {
        return Err(garbled("sent embeddings of different lengths, or of none"));
    }
    if vectors.iter().flatten().any(|number| !number.is_finite()) {
        return Err(garbled("sent embeddings with numbers that are none"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_as_long_as_for_a_model() {
        for (idle, within) in [(3600, 10), (60, 10), (4, 4)] {
            let mut endpoint = Endpoint::new(Wire::Responses, "http://127.0.0.1:1");
            endpoint.idle_timeout = Duration::from_secs(idle);
            let embedder = HttpEmbedder::new("vectors".to_owned(), &endpoint).unwrap();
            assert_eq!(embedder.within, Duration::from_secs(within));
        }
    }
}
