//! The host's side of sandboxes that have a supervisor, whoever starts their first process:
//! the supervisor itself, or an [`Engine`].
//!
//! This crate starts one supervisor a sandbox (a small
//! program carried in memory), speaks with it, runs the egress proxy, and cleans
//! up after processes that died. What a sandbox is made of is the business of
//! `cofferdam-native-supervisor`.

mod aside;
mod backend;
mod claim;
mod control;
mod describe;
mod egress;
mod engine;
mod examine;
mod explain;
mod homes;
mod launch;
mod program;
mod reaper;
mod reconcile;
mod room;
mod starter;
mod state;
mod stream;
mod trail;
mod warm;

pub use backend::{Supervised, Weakness};
pub use cofferdam_native_supervisor::heed_children;
pub use cofferdam_native_supervisor::wire::{FirstPlan, Hire, Sentry};
pub use engine::Engine;
