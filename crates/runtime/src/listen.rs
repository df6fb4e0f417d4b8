//! What can be connected to in the sandbox, noticed while a job works there.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_sandbox::{Sandbox, listening};
use cofferdam_tools::Tools;

/// Between two looks: at first, and by how much longer after each that shows nothing new.
const LOOK: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(15);

/// After each so many changes the looks begin later: a program that opens and closes
/// ports all day does not fill the log.
const CHANGES: u32 = 16;

/// How long a look may take.
const ANSWER: Duration = Duration::from_secs(10);

/// The ports, in order, once they are others than these, which were the result of so many
/// changes. A sandbox in which no tool has left anything running is not asked.
pub(crate) async fn changed(
    sandbox: Arc<Sandbox>,
    tools: Arc<Tools>,
    known: Vec<u16>,
    changes: u32,
) -> Vec<u16> {
    let mut wait = LOOK * (1 + changes / CHANGES);
    loop {
        tokio::time::sleep(wait).await;
        if !tools.may_listen() {
            continue;
        }
        let look = listening(&sandbox, sandbox.next_call_id());
        // One that cannot be looked at now is looked at again.
        match tokio::time::timeout(ANSWER, look).await {
            Ok(Ok(ports)) if ports != known => return ports,
            _ => wait = wait.max(LONGEST.min(wait + LOOK)),
        }
    }
}
