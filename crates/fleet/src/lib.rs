//! Many jobs on one machine, and on several that share a database: who works on
//! what, how much at once, and what happens when a server dies.
//!
//! A job is worked on by whoever holds its lease. Everything acknowledged is in
//! the store before the answer; everything a dead server had under way is taken
//! up by its next life, or by another server, from the job's log.

mod bounds;
mod data;
mod delivery;
mod feed;
mod fleet;
mod follow;
mod image;
mod job;
mod log;
mod machine;
mod missing;
mod outfit;
mod output;
mod paced;
mod reconcile;
mod running;
mod scheduler;
mod seed;
mod submit;
mod visit;

pub use bounds::Bounds;
pub use cofferdam_runtime::{Aide, Desktop, Hands, Held, find_desktop, open_desktop, screenshot};
pub use data::Data;
pub use fleet::{Fleet, FleetError, Load, Setup};
pub use follow::Follower;
pub use machine::capacity;
pub use outfit::{Beginning, Outfit, Wish, WishError};
pub use output::{Format, Output, OutputError};
pub use submit::{IntakeFailure, SubmitError};
pub use visit::{Look, Visit, VisitError};
