//! How many files this process may have open: as many as it is allowed to ask for.
//!
//! A sandbox takes some, and so does each of its connections; a server has many of both. What
//! runs inside has limits of its own.

use rustix::io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to its maximum.
///
/// # Errors
/// When the kernel refuses.
pub fn raise() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
}
