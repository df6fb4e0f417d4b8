//! What texts mean, by a model in a file on this machine.
//!
//! The model is an ONNX file of BERT's family (all-MiniLM-L6-v2 and the like) with its
//! `tokenizer.json` beside it. ONNX Runtime, a library that the user has, runs it; what
//! texts are made of never reaches that library, only the numbers of word pieces do.
//! Nothing is loaded before somebody opens a model, and nothing leaves the machine.
//! Whatever is wrong with the files is told when they are opened. What fails later
//! costs an opinion and nothing else.

mod error;

mod characters;
mod words;

mod trust;

mod files;
mod library;
mod model;

mod embedder;

pub use embedder::OnnxEmbedder;
pub use error::OpenError;
