//! Drives one job: performs the effects that the engine asks for, and makes
//! every event durable before anyone sees it or anything is done about it.
//!
//! Every wait here has a deadline, and everything that was started is owned by
//! the drive: when it ends, nothing of the job runs on.

mod adopt;
mod ask;
mod changes;
mod check;
mod clock;
mod deliver;
mod door;
mod drive;
mod driver;
mod fail_point;
mod journal;
mod listen;
mod log;
mod memory;
mod outfit;
mod past;
mod place;
mod remember;
mod spans;
mod work;

pub use clock::now;
pub use cofferdam_recall::Embed;
pub use cofferdam_tools::{
    Aide, Desktop, Hands, Held, Size, find_desktop, open_desktop, screenshot,
};
pub use door::{Door, Visit};
pub use drive::drive;
pub use driver::{
    Delivery, DriveError, Driven, Driver, Images, Models, Notice, Opening, Order, OrderKind,
    Origin, Seed,
};
pub use fail_point::fail_point;
pub use journal::{Journal, JournalError};
pub use log::{JournalLog, Log, LogError, TakenOver};
pub use memory::Indexes;
pub use outfit::{Outfit, engine_settings, unpriced};
pub use past::{JournalPast, PAGE, Past, PastError, Replayed, Replaying, Traces, each, replay};
