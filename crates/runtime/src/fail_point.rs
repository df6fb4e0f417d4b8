//! Points at which a test has the process killed, to see what is made of it after
//! a restart. They do nothing unless asked to, and nothing at all in a release.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names the point, and the how manieth time it is reached: `tool-running` or
/// `tool-running:3`.
const VARIABLE: &str = "COFFERDAM_FAIL_AT";

/// The process is killed here if a test wants that.
pub fn fail_point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static REACHED: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        match text.split_once(':') {
            Some((name, time)) => Some((name.to_owned(), time.parse().ok()?)),
            None => Some((text, 1)),
        }
    });
    if let Some((point, time)) = wanted
        && point == name
        && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == *time
    {
        let killed =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // Death comes from outside, but it comes.
        while killed.is_ok() {
            std::thread::park();
        }
    }
}
