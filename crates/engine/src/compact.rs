//! Keeping conversations within what their models can read.

use cofferdam_context::{Need, Room, judge};
use cofferdam_types::{Cut, Ending, Event, Role, Span, Summariser, ThreadId};

use crate::decide::{asked, conclude};
use crate::ledger;
use crate::run::Run;
use crate::settings::Settings;
use crate::thread::{Offer, Thread};
use crate::words;

/// So often a summary is asked for before one is made by rule.
const ATTEMPTS: u32 = 3;

/// What is to be done before a model is asked.
pub(crate) enum First {
    /// Nothing.
    Ask,
    /// It is being done.
    Wait,
    /// This.
    Do(Vec<Event>),
}

/// What is to be done before a model is asked.
pub(crate) fn first(run: &Run, settings: &Settings, id: ThreadId, thread: &Thread) -> First {
    let room = room(run, settings, thread);
    match thread.context.need(room) {
        Need::Nothing => offer(run, settings, id, thread),
        Need::Prune { through, keep } => {
            First::Do(vec![cut(run, id, thread, room, Cut::Pruned { through, keep })])
        }
        Need::Summarise { span } => First::Do(summarise(run, settings, id, thread, (1, span))),
        Need::Hopeless => {
            let reason = words::model_failed(run.model(thread.role), words::TOO_LONG, 1);
            First::Do(conclude(run, Ending::ModelUnavailable { reason }))
        }
    }
}

/// After a cut, what was let go and may be needed is looked for, once.
fn offer(run: &Run, settings: &Settings, id: ThreadId, thread: &Thread) -> First {
    match thread.offer {
        Offer::Awaited => First::Wait,
        Offer::Due if settings.recalls => {
            let words = thread.context.at_hand(&run.plan);
            let found_nothing = words.trim().is_empty();
            First::Do(vec![match found_nothing {
                true => Event::Offered { thread: id, text: String::new() },
                false => Event::RecallAsked { thread: id, words },
            }])
        }
        Offer::Due | Offer::Nothing => First::Ask,
    }
}

/// Has a part summarised, by a model if there is still something to pay it with.
fn summarise(
    run: &Run,
    settings: &Settings,
    id: ThreadId,
    thread: &Thread,
    (attempt, span): (u32, Span),
) -> Vec<Event> {
    let room = room(run, settings, thread);
    let affordable = ledger::summary_allowance(run, settings, thread, (attempt, span)).is_ok();
    if attempt > ATTEMPTS || !affordable {
        let summary = thread.context.spoken().rule_summary(span, room);
        let by = Summariser::Rule;
        return vec![cut(run, id, thread, room, Cut::Summarised { span, summary, by })];
    }
    vec![asked(run, id, Role::Summariser, attempt, Some(span))]
}

/// Judges a summary that has come, or none.
pub(crate) fn judged(
    run: &Run,
    settings: &Settings,
    id: ThreadId,
    thread: &Thread,
    (attempt, span, text): (u32, Span, Option<&str>),
) -> Vec<Event> {
    let room = room(run, settings, thread);
    let fault = match text {
        Some(text) => {
            let context = &thread.context;
            let longest = context.longest_summary(span, room);
            let names = context.names(span, room);
            match judge(text, context.replaced(span), longest, &names) {
                Ok(()) => {
                    let (summary, by) = (text.trim().to_owned(), Summariser::Model);
                    return vec![cut(run, id, thread, room, Cut::Summarised { span, summary, by })];
                }
                Err(fault) => fault.to_string(),
            }
        }
        None => "it did not come".to_owned(),
    };
    let next = summarise(run, settings, id, thread, (attempt + 1, span));
    let told = match next.first() {
        Some(Event::ContextCut { .. }) => "one was made by rule",
        _ => "it is asked for again",
    };
    let note = Event::Noted { text: format!("a summary was not accepted: {fault}; {told}") };
    [note].into_iter().chain(next).collect()
}

fn cut(run: &Run, id: ThreadId, thread: &Thread, room: Room, cut: Cut) -> Event {
    let pinned = thread.context.pinned(room);
    let before = thread.context.tokens(room.preface, room.counting);
    let mut after = thread.context.clone();
    after.cut(&cut, &run.plan, pinned);
    Event::ContextCut {
        thread: id,
        cut,
        pinned,
        tokens: (before, after.tokens(room.preface, room.counting)),
    }
}

/// What a conversation may have.
pub(crate) fn room(run: &Run, settings: &Settings, thread: &Thread) -> Room {
    let role = settings.role(thread.role);
    Room {
        window: role.window,
        output: u64::from(role.max_output).min(role.window / 4),
        preface: ledger::preface(run, settings, thread) / ledger::BYTES_A_TOKEN,
        summariser: settings.summariser.window,
        counting: run.counting(thread.role),
    }
}
