//! The calls of one answer: which of them can begin now.
//!
//! They begin in their order. Calls that only read run side by side; one that
//! may change something runs alone, after those before it.

use cofferdam_types::{Event, ThreadId, ToolOutput, ToolStatus};

use crate::decide::{Judgement, conclude, judge};
use crate::policy::{Access, Meaning, meaning};
use crate::run::Run;
use crate::settings::Settings;
use crate::thread::{CallState, PendingCall, Thread, ThreadState};
use crate::words;

/// Calls that run side by side at most.
const SIDE_BY_SIDE: usize = 8;

/// Calls of one answer that are looked at.
const MOST_CALLS: usize = 128;

/// What can begin, or is decided at once.
pub(crate) fn next(run: &Run, settings: &Settings, id: ThreadId, thread: &Thread) -> Vec<Event> {
    debug_assert_eq!(thread.state, ThreadState::Calling);
    let role = settings.role(thread.role);
    let mut events = Vec::new();
    let mut running = 0;
    for (place, pending) in thread.calls.iter().enumerate() {
        if let CallState::Ended(..) = pending.state {
            continue;
        }
        let meant = match place {
            0..MOST_CALLS => meaning(pending, &role.tools),
            _ => Meaning::Nonsense(words::TOO_MANY_CALLS.to_owned()),
        };
        match pending.state {
            CallState::Running if matches!(meant, Meaning::Tool(Access::Reads)) => {
                running += 1;
                continue;
            }
            CallState::Running => break,
            CallState::Queued | CallState::Ended(..) => {}
        }
        // Whatever began in this round is only read for sure if it reads.
        let alone = running == 0 && events.is_empty();
        match meant {
            Meaning::Nonsense(text) => {
                events.push(end(id, pending, ToolOutput::text(ToolStatus::Refused, text)));
            }
            Meaning::Tool(Access::Reads) if running < SIDE_BY_SIDE => {
                running += 1;
                events.push(start(id, pending));
            }
            Meaning::Tool(Access::Changes) if alone => return vec![start(id, pending)],
            Meaning::Delegate(brief) if alone => {
                let thread = ThreadId(u32::try_from(run.threads.len()).unwrap_or(u32::MAX));
                let (call, reading) = (pending.call, None);
                return vec![Event::Delegated { thread, call, brief, reading }];
            }
            Meaning::Plan(steps, decisions) if alone => {
                let output = ToolOutput::text(ToolStatus::Done, "The plan is noted.");
                return vec![Event::Planned { steps, decisions }, end(id, pending, output)];
            }
            Meaning::Finish { summary, success } if alone => {
                return finish(run, id, thread, pending, &summary, success);
            }
            _ => break,
        }
    }
    events
}

fn finish(
    run: &Run,
    id: ThreadId,
    thread: &Thread,
    pending: &PendingCall,
    summary: &str,
    success: bool,
) -> Vec<Event> {
    if thread.serves.is_some() {
        let status = if success { ToolStatus::Done } else { ToolStatus::Failed };
        return vec![end(id, pending, ToolOutput::text(status, summary))];
    }
    match judge(run, summary, success) {
        Judgement::Check => vec![Event::CheckStarted { attempt: run.hand_ins + 1 }],
        Judgement::Wait => Vec::new(),
        Judgement::End(ending) => conclude(run, ending),
        Judgement::Again(text) => {
            vec![end(id, pending, ToolOutput::text(ToolStatus::Failed, text))]
        }
    }
}

fn start(thread: ThreadId, pending: &PendingCall) -> Event {
    let (call, id, tool) = (pending.call, pending.asked.id.clone(), pending.asked.name.clone());
    Event::ToolStarted { call, thread, id, tool }
}

fn end(thread: ThreadId, pending: &PendingCall, output: ToolOutput) -> Event {
    Event::ToolEnded { call: pending.call, thread, id: pending.asked.id.clone(), output }
}
