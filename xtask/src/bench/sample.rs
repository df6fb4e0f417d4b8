//! Samples: times that were taken of the same thing, and what they come to.

use std::time::Duration;

/// Times of one thing, sorted. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    /// Sorts times; `None` if there are none.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Self(times))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The shortest.
    pub(super) fn min(&self) -> Duration {
        self.0.first().copied().unwrap_or_default()
    }

    /// The longest.
    pub(super) fn longest(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }

    /// The one in the middle, or what lies between the two that are.
    pub(super) fn median(&self) -> Duration {
        let middle = self.0.len() / 2;
        let upper = self.0.get(middle).copied().unwrap_or_default();
        if self.0.len() % 2 == 1 {
            return upper;
        }
        let lower = self.0.get(middle.saturating_sub(1)).copied().unwrap_or_default();
        (lower + upper) / 2
    }

    /// The shortest that at least 95 of 100 do not exceed.
    pub(super) fn p95(&self) -> Duration {
        let rank = (self.0.len() * 95).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// The median as a multiple of another's.
    pub(super) fn times(&self, other: &Self) -> f64 {
        self.median().as_secs_f64() / other.median().as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: impl IntoIterator<Item = u64>) -> Samples {
        Samples::of(times.into_iter().map(Duration::from_millis).collect()).unwrap()
    }

    #[test]
    fn no_times_are_no_samples() {
        assert_eq!(Samples::of(Vec::new()), None);
    }

    #[test]
    fn the_order_of_the_times_is_of_no_matter() {
        assert_eq!(samples([3, 1, 2]), samples([1, 2, 3]));
        assert_eq!(samples([3, 1, 2]).min(), Duration::from_millis(1));
        assert_eq!(samples([3, 1, 2]).count(), 3);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert_eq!(samples([7]).median(), Duration::from_millis(7));
        assert_eq!(samples([1, 2, 9]).median(), Duration::from_millis(2));
        assert_eq!(samples([1, 2, 4, 9]).median(), Duration::from_millis(3));
    }

    #[test]
    fn five_of_a_hundred_exceed_the_95th_percentile() {
        assert_eq!(samples(1..=100).p95(), Duration::from_millis(95));
        assert_eq!(samples(1..=40).p95(), Duration::from_millis(38));
        assert_eq!(samples(1..=10).p95(), Duration::from_millis(10));
        assert_eq!(samples([5]).p95(), Duration::from_millis(5));
    }

    #[test]
    fn a_ratio_is_that_of_the_medians() {
        let ratio = samples([2, 6, 100]).times(&samples([1, 3, 4]));
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    }
}
