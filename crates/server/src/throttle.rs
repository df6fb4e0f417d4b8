//! How often an address may show a wrong token.
//!
//! What looks like a token may be a guess, and few of those are forgiven. What
//! cannot be one is only a nuisance: more of it is. Neither holds up a right token
//! of the same address, which may be a proxy's: only a flood does, for a moment.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Addresses that are remembered.
const MOST: usize = 16_384;

/// How much is forgiven.
#[derive(Clone, Copy)]
pub(crate) struct Measure {
    /// So many in a row.
    burst: u32,
    /// One more after each of these.
    refill: Duration,
}

/// For what looks like a token.
pub(crate) const GUESSES: Measure = Measure { burst: 30, refill: Duration::from_secs(2) };
/// For what does not.
pub(crate) const NUISANCES: Measure = Measure { burst: 300, refill: Duration::from_millis(50) };
/// For what looks like a token, before the store is asked about it.
pub(crate) const FLOOD: Measure = Measure { burst: 1000, refill: Duration::from_millis(1) };

/// Counts wrong tokens by address.
pub(crate) struct Throttle {
    measure: Measure,
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

struct Failures {
    count: u32,
    /// Since when the count is right.
    at: Instant,
}

impl Failures {
    fn settle(&mut self, refill: Duration, now: Instant) {
        let spans = now.saturating_duration_since(self.at).as_nanos() / refill.as_nanos();
        let spans = u32::try_from(spans).unwrap_or(u32::MAX);
        if spans > 0 {
            self.count = self.count.saturating_sub(spans);
            self.at = now;
        }
    }
}

impl Throttle {
    pub(crate) fn new(measure: Measure) -> Self {
        Self { measure, failures: Mutex::default() }
    }

    /// How many seconds this address must wait until its wrong tokens are forgiven;
    /// `None` if it need not.
    pub(crate) fn wait(&self, address: IpAddr, now: Instant) -> Option<u32> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = failures.get_mut(&group(address))?;
        let Measure { burst, refill } = self.measure;
        entry.settle(refill, now);
        let over = entry.count.checked_sub(burst)?.saturating_add(1);
        let seconds = refill.saturating_mul(over).as_secs_f64().ceil();
        Some(seconds as u32)
    }

    /// A wrong token came from this address.
    pub(crate) fn failed(&self, address: IpAddr, now: Instant) {
        let Measure { burst, refill } = self.measure;
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MOST {
            failures.retain(|_, entry| {
                entry.settle(refill, now);
                entry.count > 0
            });
        }
        if failures.len() >= MOST {
            // Whoever has so many addresses is not held up by counting them.
            failures.clear();
        }
        let entry = failures.entry(group(address)).or_insert(Failures { count: 0, at: now });
        entry.settle(refill, now);
        // The debt has a bound: whoever stops is heard again soon.
        entry.count = entry.count.saturating_add(1).min(2 * burst);
    }
}

/// Whoever has one IPv6 address has all of its /64.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_is_slowed_down_and_forgiven() {
        let throttle = Throttle::new(GUESSES);
        let (address, start) = ("192.0.2.1".parse().unwrap(), Instant::now());
        let Measure { burst, refill } = GUESSES;
        for _ in 0..burst {
            assert_eq!(throttle.wait(address, start), None);
            throttle.failed(address, start);
        }
        assert_eq!(throttle.wait(address, start), Some(2));
        assert_eq!(throttle.wait("192.0.2.2".parse().unwrap(), start), None);
        assert_eq!(throttle.wait(address, start + refill), None);
        throttle.failed(address, start + refill);
        assert!(throttle.wait(address, start + refill).is_some());
        assert_eq!(throttle.wait(address, start + Duration::from_secs(600)), None);
    }

    #[test]
    fn the_addresses_of_one_network_count_as_one() {
        assert_eq!(group("2001:db8::1".parse().unwrap()), group("2001:db8::ffff".parse().unwrap()));
        assert_ne!(group("2001:db8::1".parse().unwrap()), group("2001:db9::1".parse().unwrap()));
        assert_eq!(group("::ffff:192.0.2.1".parse().unwrap()), group("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn the_table_does_not_grow_without_bound() {
        let throttle = Throttle::new(GUESSES);
        let now = Instant::now();
        for number in 0..u32::try_from(2 * MOST).unwrap() {
            throttle.failed(IpAddr::V4(number.into()), now);
        }
        assert!(throttle.failures.lock().unwrap().len() <= MOST);
    }
}
