//! A desktop that runs, found without starting one, and let go of.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_aide_protocol::{DeskFailureKind, DeskPiece, Desktop};
use cofferdam_sandbox::Sandbox;
use cofferdam_types::CallId;

use super::shown::bounded;
use crate::aide::{Aide, Running};

/// How long it may take to look.
const PATIENCE: Duration = Duration::from_secs(20);

/// Finds the desktop of a sandbox; `None` if none runs. Looking is no use of it: it may
/// end for idleness all the same.
///
/// # Errors
/// Why it is not known, in words.
pub async fn find_desktop(
    sandbox: &Sandbox,
    aide: &Aide,
    call: CallId,
) -> Result<Option<Desktop>, String> {
    let command = aide.command(sandbox, &["desk", "find"]).timeout(Some(PATIENCE));
    let look = async {
        let started = Running::<DeskPiece>::start(sandbox, call, command, Bytes::new()).await;
        let mut running = started.map_err(|error| error.to_string())?;
        let said = running.next().await?;
        let how = running.end(sandbox).await;
        match said {
            Some(DeskPiece::Ready(desktop)) => Ok(Some(desktop)),
            Some(DeskPiece::Failed(failure)) if failure.kind == DeskFailureKind::NotRunning => {
                Ok(None)
            }
            Some(DeskPiece::Failed(failure)) => Err(bounded(failure.why)),
            _ => Err(how),
        }
    };
    let found = tokio::time::timeout(2 * PATIENCE, look).await;
    sandbox.acknowledge(call);
    found.unwrap_or_else(|_| Err("the sandbox did not answer".to_owned()))
}

/// Lets go of what a person held on the desktop of a sandbox when the process before us
/// died, if one runs.
///
/// # Errors
/// Why it is not known, in words.
pub async fn release_desktop(sandbox: &Sandbox, aide: &Aide) -> Result<(), String> {
    let command = aide.command(sandbox, &["desk", "release"]).timeout(Some(PATIENCE));
    let call = sandbox.next_call_id();
    let release = async {
        let started = Running::<DeskPiece>::start(sandbox, call, command, Bytes::new()).await;
        let mut running = started.map_err(|error| error.to_string())?;
        let said = running.next().await?;
        let how = running.end(sandbox).await;
        match said {
            Some(DeskPiece::Done) => Ok(()),
            Some(DeskPiece::Failed(failure)) if failure.kind == DeskFailureKind::NotRunning => {
                Ok(())
            }
            Some(DeskPiece::Failed(failure)) => Err(bounded(failure.why)),
            _ => Err(how),
        }
    };
    let released = tokio::time::timeout(PATIENCE, release).await;
    sandbox.acknowledge(call);
    released.unwrap_or_else(|_| Err("the sandbox did not answer".to_owned()))
}
