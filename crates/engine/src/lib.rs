//! The agent's loop as a pure state machine: facts in, events and effects out.
//!
//! Nothing here reads a clock, opens a socket or starts a process. A [`Run`] is
//! computed from the events of its job and from nothing else; [`step`] hears one
//! [`Input`], decides what follows and returns the new events, which must be
//! durable before anyone sees them or performs the [`Effect`]s that go with them.
//!
//! What holds whatever comes in, each with a property test:
//! - replaying the events of a run rebuilds the same state;
//! - after a cancel no effect starts work;
//! - a run that is taken up ends in exactly one [`Event::Ended`].
//!
//! [`Event::Ended`]: cofferdam_types::Event::Ended

mod apply;
mod calls;
mod commands;
mod compact;
mod decide;
mod digest;
mod ledger;
mod policy;
mod prompt;
mod repetition;
mod run;
mod settings;
mod step;
mod thread;
mod tools;
mod words;

pub use prompt::Prompt;
pub use run::{ReplayError, Run};
pub use settings::{RoleSettings, Settings};
pub use step::{Effect, Input, Step, step};
pub use tools::{DIGEST, coder_specs, digest_spec, orchestrator_specs};
