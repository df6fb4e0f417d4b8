//! OpenAI Responses. Nothing is stored at the provider: what the model thought
//! comes sealed, and is sent back.

mod request;
mod stream;

pub(crate) use request::body;
pub(crate) use stream::Decoder;
