//! Plain data shared by every part of Cofferdam. No I/O, no async, no clock.

mod audit;
mod ids;
mod limits;
mod network;
mod outcome;
mod quantity;

pub use audit::{AuditAct, AuditRecord};
pub use ids::{CallId, SandboxId};
pub use limits::Limits;
pub use network::{HostPattern, HostRule, Network, NetworkError};
pub use outcome::{Outcome, Usage};
pub use quantity::{QuantityError, parse_bytes, parse_cpus, parse_duration};
