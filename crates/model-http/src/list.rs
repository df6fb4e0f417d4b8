//! Which models a server has.

use std::time::Duration;

use cofferdam_model::ModelError;
use cofferdam_types::FailureKind;
use serde::Deserialize;
use tokio::time::timeout;

use crate::endpoint::Endpoint;
use crate::failure::garbled;
use crate::transport::Client;

/// The longest list that is read.
const LONGEST: usize = 8 << 20;

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

/// Asks a server for the names of its models, within a time. Also the way to
/// find out whether there is a server at all.
///
/// # Errors
/// When it cannot be reached in time, or does not answer with a list.
pub async fn list_models(endpoint: &Endpoint, within: Duration) -> Result<Vec<String>, ModelError> {
    let client = Client::new(endpoint)
        .map_err(|error| ModelError::new(FailureKind::Rejected, error.to_string()))?;
    let answer = async {
        let mut reply = client.get("models").await?;
        let body = reply.read_to_end(LONGEST).await?;
        let list: List = serde_json::from_slice(&body)
            .map_err(|error| garbled(format!("has no list of models: {error}")))?;
        Ok(list.data.into_iter().map(|entry| entry.id).collect())
    };
    match timeout(within, answer).await {
        Ok(answer) => answer.map_err(|failure| client.told(failure)),
        Err(_) => {
            let message = format!("did not list its models within {within:?}");
            Err(client.told(ModelError::new(FailureKind::Unreachable, message)))
        }
    }
}
