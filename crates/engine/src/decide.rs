//! What follows from the state, one decision at a time.

use cofferdam_types::{
    CheckResult, Ending, Event, FailureKind, Limit, ModelFailure, RequestId, Role, Span, ThreadId,
    Timestamp, Tokens, ToolOutput, ToolStatus,
};

use crate::calls;
use crate::compact::{self, First};
use crate::ledger;
use crate::run::{Checks, Run, Stage};
use crate::settings::Settings;
use crate::thread::{CallState, PendingCall, Thread, ThreadState};
use crate::tools;
use crate::words;

/// The next decision; nothing when all there is to do is wait. Each decision
/// changes the state so that it is not the next one again.
pub(crate) fn next(run: &Run, settings: &Settings, now: Timestamp) -> Vec<Event> {
    if run.stage != Stage::Working {
        return Vec::new();
    }
    if let Some(ending) = verdict(run, now) {
        return conclude(run, ending);
    }
    if run.sandbox.is_none() || run.prepared.is_none() || run.paused || run.held {
        return Vec::new();
    }
    for (id, thread) in run.numbered_threads() {
        let events = match &thread.state {
            ThreadState::Ready { attempt, not_before } if *not_before <= now => {
                ask(run, settings, id, thread, *attempt)
            }
            ThreadState::Summarised { attempt, span, text, not_before } if *not_before <= now => {
                compact::judged(run, settings, id, thread, (*attempt, *span, text.as_deref()))
            }
            ThreadState::Calling => calls::next(run, settings, id, thread),
            ThreadState::HandedIn { summary, success } => hand_in(run, thread, summary, *success),
            ThreadState::Refused { text } => {
                let text = format!("{} {text}", words::CODER_REFUSED);
                report(run, thread, ToolStatus::Failed, text)
            }
            ThreadState::Broken { failure, .. } if thread.digest.is_some() => {
                let text = format!("It could not be read: {}", failure.message);
                report(run, thread, ToolStatus::Failed, text)
            }
            ThreadState::Ready { .. }
            | ThreadState::Asked { .. }
            | ThreadState::Summarising { .. }
            | ThreadState::Summarised { .. }
            | ThreadState::Broken { .. }
            | ThreadState::Done => Vec::new(),
        };
        if !events.is_empty() {
            return events;
        }
    }
    Vec::new()
}

/// Whether something ends the job, whatever its conversations are about.
fn verdict(run: &Run, now: Timestamp) -> Option<Ending> {
    if let Some(by) = run.cancelled {
        return Some(Ending::Cancelled { by });
    }
    if ledger::time_is_up(run, now) {
        return Some(Ending::LimitReached { limit: Limit::Time });
    }
    run.threads.iter().find_map(|thread| match &thread.state {
        ThreadState::Done => None,
        // Whoever wanted it read is told.
        ThreadState::Broken { .. } | ThreadState::Refused { .. } if thread.digest.is_some() => None,
        ThreadState::Broken { failure, attempts } => {
            let model = run.model(thread.role);
            let reason = words::model_failed(model, &failure.message, *attempts);
            Some(Ending::ModelUnavailable { reason })
        }
        ThreadState::Refused { text } if thread.role == Role::Orchestrator => {
            let model = run.model(thread.role);
            let reason = words::model_failed(model, &format!("it declined to answer. {text}"), 1);
            Some(Ending::ModelUnavailable { reason })
        }
        _ if thread.fruitless >= words::FRUITLESS_ANSWERS => {
            let reason = "the model's answers were empty or cut, several times in a row";
            Some(Ending::ModelUnavailable { reason: reason.to_owned() })
        }
        _ if thread.repetition.is_stuck() => {
            let reason = "stuck: the model kept making the same call with the same result";
            Some(Ending::Failed { reason: reason.to_owned() })
        }
        _ => None,
    })
}

fn ask(run: &Run, settings: &Settings, id: ThreadId, thread: &Thread, attempt: u32) -> Vec<Event> {
    match compact::first(run, settings, id, thread) {
        // Nothing is said twice there.
        _ if thread.digest.is_some() => {}
        First::Ask => {}
        First::Wait => return Vec::new(),
        First::Do(events) => return events,
    }
    if let Err(limit) = ledger::allowance(run, settings, id) {
        return conclude(run, Ending::LimitReached { limit });
    }
    vec![asked(run, id, thread.role, attempt, None)]
}

/// The question that is put next.
pub(crate) fn asked(
    run: &Run,
    thread: ThreadId,
    role: Role,
    attempt: u32,
    span: Option<Span>,
) -> Event {
    let request = RequestId(run.requests_made);
    Event::ModelAsked { thread, request, role, model: run.model(role).clone(), attempt, span }
}

/// A conversation has come to its end: the coder's result goes to whoever asked
/// for it, the orchestrator's is judged.
fn hand_in(run: &Run, thread: &Thread, summary: &str, success: bool) -> Vec<Event> {
    if thread.serves.is_some() {
        let status = if success { ToolStatus::Done } else { ToolStatus::Failed };
        return report(run, thread, status, summary.to_owned());
    }
    match judge(run, summary, success) {
        Judgement::Check => vec![Event::CheckStarted { attempt: run.hand_ins + 1 }],
        Judgement::End(ending) => conclude(run, ending),
        // A last word is not accepted where the user has spoken or a check has
        // failed; both put the conversation on before it comes here.
        Judgement::Wait | Judgement::Again(_) => Vec::new(),
    }
}

/// What a hand-in leads to.
pub(crate) enum Judgement {
    /// The checks are to be run.
    Check,
    /// They run.
    Wait,
    /// The job ends.
    End(Ending),
    /// It is not accepted, and this is why.
    Again(String),
}

/// Judges a hand-in of the orchestrator.
pub(crate) fn judge(run: &Run, summary: &str, success: bool) -> Judgement {
    if !success {
        return Judgement::End(Ending::Failed { reason: summary.to_owned() });
    }
    let user_waits = run.thread(ThreadId(0)).is_some_and(|thread| thread.user_waits);
    let summary = summary.to_owned();
    match &run.checks {
        Checks::Running => Judgement::Wait,
        _ if user_waits => Judgement::Again(words::USER_SPOKE.to_owned()),
        _ if run.spec.checks.is_empty() => {
            Judgement::End(Ending::Complete { summary, verified: false })
        }
        Checks::Idle => Judgement::Check,
        Checks::Ended(results) if all_passed(run, results) => {
            Judgement::End(Ending::Complete { summary, verified: true })
        }
        Checks::Ended(_) if run.hand_ins >= run.spec.attempts => {
            Judgement::End(Ending::Unverified { summary })
        }
        Checks::Ended(results) => {
            Judgement::Again(words::checks_failed(results, run.hand_ins, run.spec.attempts))
        }
    }
}

/// All checks were run and passed: fewer results than checks prove nothing.
pub(crate) fn all_passed(run: &Run, results: &[CheckResult]) -> bool {
    results.len() == run.spec.checks.len() && results.iter().all(CheckResult::passed)
}

/// Gives a coder's result to the call that waits for it.
fn report(run: &Run, coder: &Thread, status: ToolStatus, text: String) -> Vec<Event> {
    for (thread, asking) in run.numbered_threads() {
        let waits = |pending: &&PendingCall| Some(pending.call) == coder.serves;
        if let Some(pending) = asking.calls.iter().find(waits) {
            let output = ToolOutput::text(status, text);
            return vec![Event::ToolEnded {
                call: pending.call,
                thread,
                id: pending.asked.id.clone(),
                output,
            }];
        }
    }
    Vec::new()
}

/// Ends the job: everything under way is given up, and every call gets its
/// result, so that the conversation can go on if somebody takes the job up again.
pub(crate) fn conclude(run: &Run, ending: Ending) -> Vec<Event> {
    let mut events = Vec::new();
    for (id, thread) in run.numbered_threads().collect::<Vec<_>>().into_iter().rev() {
        if let Some((request, ..)) = thread.question() {
            events.push(abandon(request, "the job ended before the answer came", None));
        }
        for pending in &thread.calls {
            if !matches!(pending.state, CallState::Ended(..)) {
                events.push(Event::ToolEnded {
                    call: pending.call,
                    thread: id,
                    id: pending.asked.id.clone(),
                    output: last_output(thread, pending, &ending),
                });
            }
        }
    }
    events.push(Event::Ending { ending });
    events
}

/// A question that nobody waits for any more.
pub(crate) fn abandon(request: RequestId, why: &str, retry_at: Option<Timestamp>) -> Event {
    let kind = FailureKind::Abandoned;
    Event::ModelFailed {
        request,
        failure: ModelFailure { kind, message: why.to_owned(), retry_after: None },
        tokens: Tokens::default(),
        cost: None,
        retry_at,
    }
}

fn last_output(thread: &Thread, pending: &PendingCall, ending: &Ending) -> ToolOutput {
    let finishes = thread.role == Role::Orchestrator && pending.asked.name == tools::FINISH;
    match (ending, &pending.state) {
        (Ending::Complete { .. }, _) if finishes => {
            ToolOutput::text(ToolStatus::Done, words::ACCEPTED)
        }
        (_, CallState::Queued) => ToolOutput::text(ToolStatus::Cancelled, words::NOT_RUN),
        _ => ToolOutput::text(ToolStatus::Cancelled, words::JOB_ENDED),
    }
}
