//! What goes before a model, as a caller sees it.

mod hostile;
mod job;
mod properties;
mod repairs;
mod snapshots;
