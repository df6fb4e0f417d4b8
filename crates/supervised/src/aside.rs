//! What may wait for a disk or a process.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does it at once, and keeps nobody else waiting: a server's other tasks go on in another
/// thread meanwhile. A program with one thread has nobody else.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
