//! Models behind HTTP, on three wire protocols: Anthropic Messages, OpenAI
//! Responses, and OpenAI Chat Completions as most other servers speak it.
//!
//! What is kept true:
//!
//! * Translation is pure: a request becomes a body, an event becomes deltas. Only
//!   `transport` and `model` touch a socket.
//! * What a model said is sent back as it was: the text of its arguments, its
//!   seals, its order. What cannot be sent back is left out, never made up.
//! * A stream without a reason for its end is an answer that was cut off.
//! * Every wait has an end, every buffer a size.
//! * A key is in the header it belongs to, and nowhere else: redirects are not
//!   followed, and no message or log holds it.

mod endpoint;

mod calls;
mod ids;
mod turns;

mod failure;
mod sse;
mod wire;

mod chat;
mod messages;
mod responses;

mod transport;

mod embeddings;
mod list;
mod model;

pub use embeddings::HttpEmbedder;
pub use endpoint::{Endpoint, EndpointError};
pub use list::list_models;
pub use model::HttpModel;
