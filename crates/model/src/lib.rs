//! The seam to a language model: a request in, a stream of deltas out.
//!
//! An adapter translates one wire protocol and nothing else. Whether to ask
//! again, what to do with an answer and what it may cost is decided elsewhere.

mod assembler;
mod error;
mod family;
mod price;
mod request;
mod window;
mod wire;

pub use assembler::Assembler;
pub use error::ModelError;
pub use family::Family;
pub use price::PriceTable;
pub use request::{Delta, DeltaStream, Model, Request, Which};
pub use window::window;
pub use wire::Wire;
