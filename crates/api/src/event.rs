//! Events of a job, in pages.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Some events of a job, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events as they are stored: each has `v`, `seq`, `at` (milliseconds
    /// since 1970), `event` (its kind) and what belongs to that kind.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<Box<RawValue>>,
    /// The number of the last event here: ask for what is `after` it.
    pub after: u64,
    /// Whether there are more already.
    pub more: bool,
    /// Whether the job is over, so that none will follow what there is.
    pub over: bool,
}
