//! What code cells and the page's view of desktops need, installed into a directory of the
//! product's own and found again.
//!
//! A part (Python with ipykernel and JupyterLab; Deno for TypeScript; noVNC) becomes one directory
//! below the prefix, named by what is in it. Sandboxes see it read-only under the same path.
//!
//! A Python environment cannot be moved, so a part is made where it stays, under a lock, and its
//! last file is `.ready`. What has no such file is not there: the next set-up makes it anew. The
//! programs that install hold the lock as well, so a set-up that was killed keeps the next one
//! waiting until what it had started is gone, which is soon: they end with it.
//!
//! Packages come from wherever pip and npm are configured to take them on this machine. Versions
//! are pinned here, and no package may run code while it is installed: wheels only, and no
//! scripts.

pub mod child;
mod error;
mod found;
mod host;
mod install;
mod lock;
mod parts;
mod place;
mod prefix;
mod progress;
mod recipe;

pub use error::SetupError;
pub use found::{Found, Origin, Program, found};
pub use host::Host;
pub use install::{Installed, Planned, Setup, TimeLimits};
pub use lock::{NotLocked, lock};
pub use parts::sounds_unreachable;
pub use prefix::prefix_in;
pub use progress::{Progress, Step};
pub use recipe::{Part, Recipe, UnknownPart};
