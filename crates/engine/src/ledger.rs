//! What may still be used up: one ledger for all roles.

use std::time::Duration;

use cofferdam_types::{Limit, ModelFailure, RequestId, ThreadId, Timestamp, Usd};

use crate::run::Run;
use crate::settings::Settings;

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
    let prompt = thread.weight / BYTES_A_TOKEN;
    if let Some(tokens) = budget.tokens {
        let left = tokens.saturating_sub(spent.tokens.total()).saturating_sub(prompt);
        most = at_least(left, Limit::Tokens)?.min(most);
    }
    if let (Some(cost), Some(price)) = (budget.cost, role.price) {
        let left = cost.minus(spent.cost);
        if left == Usd::ZERO && price != cofferdam_types::Price::FREE {
            return Err(Limit::Cost);
        }
        // What the model has read before is cheaper, where its provider says so.
        let cached = thread.last_tokens.cache_read + thread.last_tokens.cache_write > 0;
        let again = if cached { thread.weight_read / BYTES_A_TOKEN } else { 0 };
        let reading =
            price.cache_read.times(again) + price.input.times(prompt.saturating_sub(again));
        if let Some(affordable) = left.minus(reading).nanos().checked_div(price.output.nanos()) {
            most = at_least(affordable, Limit::Cost)?.min(most);
        }
    }
    Ok(u32::try_from(most).unwrap_or(u32::MAX))
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
