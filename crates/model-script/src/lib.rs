//! Models that answer without a network: [`Demo`], a script that carries out a
//! few sample tasks with real tools, and [`Replay`], which answers from a
//! recorded log.
//!
//! Both are stateless. An answer is computed from the request alone, so that a
//! job can be resumed by another process at any point.

mod deltas;
mod demo;
mod replay;
mod said;

pub use demo::Demo;
pub use replay::Replay;
