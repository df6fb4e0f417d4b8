//! OpenAI Chat Completions, as many servers speak it, each with its own habits.

mod request;
mod stream;
mod tool_calls;

pub(crate) use request::body;
pub(crate) use stream::Decoder;
