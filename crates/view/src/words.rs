//! What the view says in words of its own.

use std::time::Duration;

use cofferdam_types::{Cancel, Ending, FailureKind, Limit, Outcome, ToolStatus};

/// Why a model has not answered.
pub(crate) fn failure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::RateLimited => "the model gets too many requests",
        FailureKind::Unavailable => "the model is overloaded or out of order",
        FailureKind::Unreachable => "the model cannot be reached",
        FailureKind::Interrupted => "the model's answer broke off",
        FailureKind::Stalled => "nothing came from the model for too long",
        FailureKind::Garbled => "the model's answer made no sense",
        FailureKind::Abandoned => "the model's answer was not waited for",
        FailureKind::Unauthorised => "the key for the model is missing, wrong or not sufficient",
        FailureKind::NoSuchModel => "there is no such model",
        FailureKind::TooLong => "the conversation is too long for the model",
        FailureKind::Rejected => "the model's provider will not take the request",
    }
}

/// `now`, `in 2 s`, `in 1.5 s`, `in 3 min`
pub(crate) fn wait(span: Duration) -> String {
    let tenths = span.as_millis().div_ceil(100);
    match (tenths / 10, tenths % 10) {
        (0, 0) => "now".to_owned(),
        (seconds @ 0..10, tenth @ 1..) => format!("in {seconds}.{tenth} s"),
        (seconds @ 0..120, _) => format!("in {seconds} s"),
        (seconds, _) => format!("in {} min", seconds.div_ceil(60)),
    }
}

/// How a check's command ended, if not well.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { exit_code } => format!("exit code {exit_code}"),
        Outcome::Signaled { signal } => format!("ended by signal {signal}"),
        Outcome::TimedOut => "its time was up".to_owned(),
        Outcome::OutOfMemory => "the sandbox's memory was used up".to_owned(),
        Outcome::Lost { reason } => format!("its end is not known: {reason}"),
    }
}

/// What became of a call that did not do what it was meant to.
pub(crate) fn status(status: ToolStatus, begun: bool) -> &'static str {
    match (status, begun) {
        (ToolStatus::Done, _) => "",
        (ToolStatus::Failed, _) => "failed",
        (ToolStatus::Refused, _) => "refused",
        (ToolStatus::Unknown, _) => "what became of it is not known",
        (ToolStatus::Cancelled, true) => "stopped",
        (ToolStatus::Cancelled, false) => "not run",
    }
}

/// A job is to rest, as its own words.
/// What can be connected to, in words.
pub(crate) fn listening(ports: &[u16]) -> String {
    match ports {
        [] => "nothing listens in the sandbox any more".to_owned(),
        [port] => format!("something listens in the sandbox on port {port}"),
        ports => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("something listens in the sandbox on ports {}", ports.join(", "))
        }
    }
}

pub(crate) const PAUSED: &str = "pausing, as you asked; nothing new is begun until it is resumed";

/// A job is not to rest after all, as its own words.
pub(crate) const RESUMED: &str = "going on, as you asked";

/// Who wants a job to stop, as the job's own words.
pub(crate) fn stopping(by: Cancel) -> &'static str {
    match by {
        Cancel::User => "stopping, as you asked; what is done is kept",
        Cancel::System => "stopping, as the system asked; what is done is kept",
    }
}

/// How a job ended, in a sentence without what is foreign.
pub(crate) fn ending(ending: &Ending, checks: usize) -> String {
    match ending {
        Ending::Complete { verified: true, .. } if checks == 1 => {
            "Done and verified: the check passed.".to_owned()
        }
        Ending::Complete { verified: true, .. } => {
            format!("Done and verified: all {checks} checks passed.")
        }
        Ending::Complete { verified: false, .. } => {
            "Done, but not verified: there was no check (--check COMMAND).".to_owned()
        }
        Ending::Unverified { .. } => {
            "Not verified: the model says that it is done, the checks say that it is not."
                .to_owned()
        }
        Ending::Failed { .. } => "Failed.".to_owned(),
        Ending::LimitReached { limit } => {
            let limit = match limit {
                Limit::Turns => "all turns are used",
                Limit::Tokens => "all tokens are used",
                Limit::Cost => "the money is spent",
                Limit::Time => "the time is up",
            };
            format!("Not finished: {limit}.")
        }
        Ending::ModelUnavailable { .. } => "Not finished: the model could not be used.".to_owned(),
        Ending::SandboxUnavailable { .. } => {
            "Not finished: there is no sandbox to work in.".to_owned()
        }
        Ending::Cancelled { by: Cancel::User } => "Stopped, as you asked.".to_owned(),
        Ending::Cancelled { by: Cancel::System } => "Stopped, as the system asked.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up_so_that_none_seems_shorter() {
        let told = [0, 40, 1_500, 2_000, 61_000, 300_000].map(|ms| wait(Duration::from_millis(ms)));
        assert_eq!(told, ["now", "in 0.1 s", "in 1.5 s", "in 2 s", "in 61 s", "in 5 min"]);
    }
}
