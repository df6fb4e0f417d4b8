//! What the loop itself says to a model, in one place.

use cofferdam_types::{CheckResult, ModelName};

/// So many answers in a row may bring nothing.
pub(crate) const FRUITLESS_ANSWERS: u32 = 4;

pub(crate) const EMPTY_ANSWER: &str = "Your last answer was empty. Go on with the task; when it \
     is done, call `finish` with a summary.";

pub(crate) const CUT_ANSWER: &str = "Your last answer reached the output limit and was cut. Go on \
     where you stopped, in smaller pieces.";

pub(crate) const REPEATING: &str = "You have made the same call with the same result several \
     times. Do something else: look at the cause, try another way, or call `finish` with \
     success=false and say what is in the way.";

pub(crate) const TOO_MANY_CALLS: &str = "Not run: one answer may have 128 calls. Make the rest in the \
     next.";

pub(crate) const CUT_CALL: &str = "Not run: your answer reached the output limit, so this call may \
     be incomplete. Send it again, in smaller pieces if it is long.";

pub(crate) const JOB_ENDED: &str =
    "Stopped because the job ended. What it had done by then is done.";

pub(crate) const NOT_RUN: &str = "Not run: the job ended first.";

pub(crate) const UNKNOWN_END: &str = "The process that watched this call was stopped before the \
     call's result was stored. Whether it ran, and how far, is not known. Look at the state of \
     things before you repeat it.";

pub(crate) const IN_A_NEW_SANDBOX: &str = "The run was interrupted here and has been taken up again \
     in a new sandbox. /workspace is as it was left; background processes, files elsewhere, and \
     the shell's directory and variables are gone.";

pub(crate) const IN_THE_SAME_SANDBOX: &str = "The run was interrupted here and has been taken up \
     again in the same sandbox. Files everywhere, and the shell's directory and variables, are as \
     they were left, and what has not ended meanwhile still runs. Only the names of background \
     processes (p1, …) are forgotten, so that their output cannot be read any more: find them with \
     `ps`, end them with `kill`.";

pub(crate) const TOO_LONG: &str = "the conversation does not fit into what the model can read, and \
     nothing is left that could be cut. Use a model with a larger window";

pub(crate) const USER_SPOKE: &str = "Not accepted yet: the user has said something meanwhile. Read \
     it first.";

pub(crate) const ACCEPTED: &str = "Accepted.";

pub(crate) const CODER_REFUSED: &str = "The coder declined:";

/// What a hand-in that failed its checks is answered with.
pub(crate) fn checks_failed(results: &[CheckResult], attempt: u32, attempts: u32) -> String {
    // One more than there were, where the user had something to say to the last.
    let attempts = attempts.max(attempt);
    let mut text = format!(
        "The work is not accepted (hand-in {attempt} of {attempts}): a check failed in a clean \
         copy of /workspace without network.\n"
    );
    for result in results.iter().filter(|result| !result.passed()) {
        text.push_str(&format!("\n$ {}\n", result.command));
        text.push_str(result.output.trim_end());
        text.push_str(&format!("\n({})\n", result.outcome));
    }
    if results.iter().all(CheckResult::passed) {
        text.push_str("\nNot every check was run to its end.\n");
    }
    text.push_str("\nRepair the cause, then hand in again.");
    text
}

/// Why a model that could not be asked ends the job.
pub(crate) fn model_failed(model: &ModelName, message: &str, attempts: u32) -> String {
    match attempts {
        0 | 1 => format!("{model}: {message}"),
        _ => format!("{model} failed {attempts} times in a row, last: {message}"),
    }
}
