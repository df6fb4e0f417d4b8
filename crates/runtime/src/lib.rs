//! Drives one job: performs the effects that the engine asks for, and makes
//! every event durable before anyone sees it or anything is done about it.
//!
//! Every wait here has a deadline, and everything that was started is owned by
//! the drive: when it ends, nothing of the job runs on.

mod ask;
mod changes;
mod check;
mod clock;
mod drive;
mod journal;
mod place;
mod work;

pub use clock::now;
pub use drive::{Delivery, DriveError, Driver, Models, Notice, Order, drive};
pub use journal::{Journal, JournalError};
