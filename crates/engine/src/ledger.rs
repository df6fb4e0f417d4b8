//! What may still be used up: one ledger for all roles.

use std::time::Duration;

use cofferdam_types::{Limit, ModelFailure, Price, RequestId, ThreadId, Timestamp, Usd};

use crate::run::Run;
use crate::settings::Settings;
use crate::thread::Thread;

/// An answer that may have fewer tokens than this is not worth asking for.
pub(crate) const SMALLEST: u32 = 256;

/// The longest wait before a question is put again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A provider that wants a longer wait than this has no answer for us today.
const PATIENCE: Duration = Duration::from_secs(300);

/// Bytes of text in a token, about.
const BYTES_A_TOKEN: u64 = 4;

/// How many tokens the next answer of a conversation may have, or which limit
/// stands in its way.
pub(crate) fn allowance(run: &Run, settings: &Settings, thread: ThreadId) -> Result<u32, Limit> {
    let (budget, spent) = (&run.spec.budget, &run.spent);
    let Some(thread) = run.thread(thread) else { return Ok(SMALLEST) };
    let role = settings.role(thread.role);
    if spent.turns >= budget.turns {
        return Err(Limit::Turns);
    }
    let mut most = u64::from(role.max_output);
    // What the model has read before, by its own count, and what is new.
    let before = thread.last_tokens.total();
    let new = match before {
        0 => (thread.weight + preface(run, settings, thread)) / BYTES_A_TOKEN,
        _ => (thread.weight - thread.weight_read) / BYTES_A_TOKEN,
    };
    if let Some(tokens) = budget.tokens {
        let left = tokens.saturating_sub(spent.tokens.total()).saturating_sub(before + new);
        most = at_least(left, Limit::Tokens)?.min(most);
    }
    if let (Some(cost), Some(price)) = (budget.cost, role.price) {
        let left = cost.minus(spent.cost);
        // Reading again is cheaper where the provider has kept what it read.
        let cached = thread.last_tokens.cache_read + thread.last_tokens.cache_write > 0;
        let again = if cached { price.cache_read } else { price.input };
        let reading = again.times(before) + price.input.max(price.cache_write).times(new);
        if let Some(affordable) = left.minus(reading).nanos().checked_div(price.output.nanos()) {
            most = at_least(affordable, Limit::Cost)?.min(most);
        } else if left == Usd::ZERO && price != Price::FREE {
            return Err(Limit::Cost);
        }
    }
    Ok(u32::try_from(most).unwrap_or(u32::MAX))
}

/// Bytes of what goes before a conversation: instructions and tools.
fn preface(run: &Run, settings: &Settings, thread: &Thread) -> u64 {
    let tools = settings
        .role(thread.role)
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len());
    (tools.sum::<usize>() + run.system(thread.role).len()) as u64
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
