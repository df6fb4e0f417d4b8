//! The contract as others hold it.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod document;
mod shapes;
