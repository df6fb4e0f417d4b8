//! What may still be used up: one ledger for all roles.

use std::time::Duration;

use cofferdam_types::{Limit, ModelFailure, Price, RequestId, Span, ThreadId, Timestamp, Usd};

use crate::compact;
use crate::run::Run;
use crate::settings::{RoleSettings, Settings};
use crate::thread::{Thread, ThreadState};

/// An answer that may have fewer tokens than this is not worth asking for.
pub(crate) const SMALLEST: u32 = 256;

/// The longest wait before a question is put again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A provider that wants a longer wait than this has no answer for us today.
const PATIENCE: Duration = Duration::from_secs(300);

/// Bytes of text in a token, about.
pub(crate) const BYTES_A_TOKEN: u64 = 4;

/// Bytes of a question for a summary besides what is summarised, about.
const SUMMARY_FRAME: u64 = 4_000;

/// How many tokens the next answer of a conversation may have, or which limit
/// stands in its way.
pub(crate) fn allowance(run: &Run, settings: &Settings, thread: ThreadId) -> Result<u32, Limit> {
    let Some(thread) = run.thread(thread) else { return Ok(SMALLEST) };
    if let ThreadState::Summarising { span, attempt, .. } = thread.state {
        return summary_allowance(run, settings, thread, (attempt, span));
    }
    let room = compact::room(run, settings, thread);
    if let Some(digest) = &thread.digest {
        let most = digest.longest(settings.summariser.window);
        let reads = Reading { again: 0, cached: false, new: settings.summariser.window / 2 };
        return affordable(run, &settings.summariser, most, reads);
    }
    // What the model has read before, by its own count, and what is new.
    let now = thread.context.tokens(room.preface, room.counting);
    let counted = thread.context.counted().unwrap_or_default();
    let before = counted.total().min(now);
    let cached = counted.cache_read + counted.cache_write > 0;
    let reads = Reading { again: before, cached, new: now - before };
    affordable(run, settings.role(thread.role), room.output, reads)
}

/// The same for a summary of a part of it.
pub(crate) fn summary_allowance(
    run: &Run,
    settings: &Settings,
    thread: &Thread,
    (attempt, span): (u32, Span),
) -> Result<u32, Limit> {
    // A summary that takes the last turn is of no use to anybody.
    if run.spent.turns + 1 >= run.spec.budget.turns {
        return Err(Limit::Turns);
    }
    let room = compact::room(run, settings, thread);
    let text = thread.context.to_summarise(span, room, attempt);
    let new = (text.len() as u64 + SUMMARY_FRAME) / BYTES_A_TOKEN;
    // Room to think and to be a little too long; how long it may be is told and judged.
    let Settings { summariser, .. } = settings;
    let most = u64::from(summariser.max_output).min(summariser.window / 4);
    let most = most.min(room.summary() * 4);
    affordable(run, &settings.summariser, most, Reading { again: 0, cached: false, new })
}

/// What a model is about to read, in tokens.
struct Reading {
    again: u64,
    /// Whether the provider has kept what is read again.
    cached: bool,
    new: u64,
}

fn affordable(run: &Run, role: &RoleSettings, most: u64, reads: Reading) -> Result<u32, Limit> {
    let (budget, spent) = (&run.spec.budget, &run.spent);
    if spent.turns >= budget.turns {
        return Err(Limit::Turns);
    }
    let mut most = most;
    let Reading { again, cached, new } = reads;
    if let Some(tokens) = budget.tokens {
        let left = tokens.saturating_sub(spent.tokens.total()).saturating_sub(again + new);
        most = at_least(left, Limit::Tokens)?.min(most);
    }
    if let (Some(cost), Some(price)) = (budget.cost, role.price) {
        let left = cost.minus(spent.cost);
        // Reading again is cheaper where the provider has kept what it read.
        let rate = if cached { price.cache_read } else { price.input };
        let reading = rate.times(again) + price.input.max(price.cache_write).times(new);
        if let Some(affordable) = left.minus(reading).nanos().checked_div(price.output.nanos()) {
            most = at_least(affordable, Limit::Cost)?.min(most);
        } else if left.minus(reading) == Usd::ZERO && price != Price::FREE {
            // Writing is free, but not reading.
            return Err(Limit::Cost);
        }
    }
    Ok(u32::try_from(most).unwrap_or(u32::MAX))
}

/// Bytes of what goes before a conversation: instructions and tools.
pub(crate) fn preface(run: &Run, settings: &Settings, thread: &Thread) -> u64 {
    let tools = settings.role(thread.role).tools.bytes();
    (tools + run.system(settings, thread.role).len()) as u64
}

fn at_least(tokens: u64, limit: Limit) -> Result<u64, Limit> {
    if tokens < u64::from(SMALLEST) { Err(limit) } else { Ok(tokens) }
}

/// When the job's time is up.
pub(crate) fn deadline(run: &Run, now: Timestamp) -> Option<Timestamp> {
    let time = run.spec.budget.time?;
    Some(now.after(time.saturating_sub(run.elapsed(now))))
}

/// Whether the job's time is up.
pub(crate) fn time_is_up(run: &Run, now: Timestamp) -> bool {
    run.spec.budget.time.is_some_and(|time| run.elapsed(now) >= time)
}

/// How long to wait before a question is put again; `None`: it is not.
pub(crate) fn retry(
    settings: &Settings,
    request: RequestId,
    attempt: u32,
    failure: &ModelFailure,
) -> Option<Duration> {
    if !failure.kind.passes() || attempt > settings.retries {
        return None;
    }
    if let Some(wanted) = failure.retry_after {
        return (wanted <= PATIENCE).then_some(wanted);
    }
    let doubled = settings.backoff.saturating_mul(1 << attempt.saturating_sub(1).min(16));
    // Many jobs that failed together do not come back together.
    let spread = 85 + request.0.wrapping_mul(2_654_435_761) % 31;
    Some(doubled.min(LONGEST_WAIT).saturating_mul(spread) / 100)
}
