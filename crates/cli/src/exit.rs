//! Exit codes of jobs, wherever they ran.

use cofferdam_types::{Cancel, Ending};

use crate::interruption::Asked;

/// The task failed, or what was asked for could not be done.
pub(crate) const FAILED: u8 = 1;
/// What was asked for makes no sense.
pub(crate) const USAGE: u8 = 2;
/// The work is done, and a check fails.
pub(crate) const UNVERIFIED: u8 = 3;
/// A limit was reached.
pub(crate) const LIMIT: u8 = 4;
/// The model could not be reached or refused.
pub(crate) const MODEL: u8 = 5;
/// The sandbox could not be made.
pub(crate) const SANDBOX: u8 = 6;

/// The exit code of an ending.
pub(crate) fn of(ending: &Ending) -> u8 {
    match ending {
        Ending::Complete { .. } => 0,
        Ending::Failed { .. } => FAILED,
        Ending::Unverified { .. } => UNVERIFIED,
        Ending::LimitReached { .. } => LIMIT,
        Ending::ModelUnavailable { .. } => MODEL,
        Ending::SandboxUnavailable { .. } => SANDBOX,
        Ending::Cancelled { by: Cancel::User } => Asked::Interrupt.exit_code(),
        Ending::Cancelled { by: Cancel::System } => Asked::Terminate.exit_code(),
    }
}

/// The exit code of an ending that a server tells; nothing has gone wrong with a
/// job that has none yet.
pub(crate) fn told(ending: Option<cofferdam_api::Ending>) -> u8 {
    use cofferdam_api::Ending;
    match ending {
        None | Some(Ending::Complete) => 0,
        Some(Ending::Failed) => FAILED,
        Some(Ending::Unverified) => UNVERIFIED,
        Some(Ending::LimitReached) => LIMIT,
        Some(Ending::ModelUnavailable) => MODEL,
        Some(Ending::SandboxUnavailable) => SANDBOX,
        Some(Ending::Cancelled) => Asked::Interrupt.exit_code(),
    }
}
