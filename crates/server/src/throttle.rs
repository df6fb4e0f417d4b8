//! How often an address may show a wrong token.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens in a row that are forgiven.
const BURST: u32 = 30;
/// One more is forgiven after each of these.
const REFILL: Duration = Duration::from_secs(2);
/// Addresses that are remembered.
const MOST: usize = 16_384;

/// Counts wrong tokens by address.
#[derive(Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

struct Failures {
    count: u32,
    /// Since when the count is right.
    at: Instant,
}

impl Failures {
    fn settle(&mut self, now: Instant) {
        let spans = now.saturating_duration_since(self.at).as_nanos() / REFILL.as_nanos();
        let spans = u32::try_from(spans).unwrap_or(u32::MAX);
        if spans > 0 {
            self.count = self.count.saturating_sub(spans);
            self.at = now;
        }
    }
}

impl Throttle {
    /// How many seconds this address must wait before it may show another token
    /// that was never right; `None` if it need not.
    pub(crate) fn wait(&self, address: IpAddr, now: Instant) -> Option<u32> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = failures.get_mut(&group(address))?;
        entry.settle(now);
        let seconds = u32::try_from(REFILL.as_secs()).unwrap_or(u32::MAX);
        (entry.count >= BURST).then(|| (entry.count - BURST + 1).saturating_mul(seconds))
    }

    /// A wrong token came from this address.
    pub(crate) fn failed(&self, address: IpAddr, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MOST {
            failures.retain(|_, entry| {
                entry.settle(now);
                entry.count > 0
            });
        }
        if failures.len() >= MOST {
            // Whoever has so many addresses is not held up by counting them.
            failures.clear();
        }
        let entry = failures.entry(group(address)).or_insert(Failures { count: 0, at: now });
        entry.settle(now);
        // No debt beyond a minute: whoever stops guessing is heard again soon.
        entry.count = entry.count.saturating_add(1).min(2 * BURST);
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
        let throttle = Throttle::default();
        let (address, start) = ("192.0.2.1".parse().unwrap(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(throttle.wait(address, start), None);
            throttle.failed(address, start);
        }
        assert_eq!(throttle.wait(address, start), Some(2));
        assert_eq!(throttle.wait("192.0.2.2".parse().unwrap(), start), None);
        assert_eq!(throttle.wait(address, start + REFILL), None);
        throttle.failed(address, start + REFILL);
        assert!(throttle.wait(address, start + REFILL).is_some());
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
        let throttle = Throttle::default();
        let now = Instant::now();
        for number in 0..u32::try_from(2 * MOST).unwrap() {
            throttle.failed(IpAddr::V4(number.into()), now);
        }
        assert!(throttle.failures.lock().unwrap().len() <= MOST);
    }
}
