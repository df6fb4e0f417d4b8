//! A real model in files: what it makes of texts, and what is refused in its place.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod onnx_file;

mod meaning;
mod refused;
mod trust;
