//! Chance that can be repeated.

use std::time::Duration;

/// Numbers that look random and follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A time between these, in milliseconds.
    pub(super) fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.roll() % (most - least + 1))
    }

    /// Whether it is the one case in so many.
    pub(super) fn one_in(&mut self, cases: u64) -> bool {
        self.roll().is_multiple_of(cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_chance() {
        let throw = |seed| {
            let mut dice = Dice(seed);
            (0..20).map(|_| dice.between(10, 20)).collect::<Vec<_>>()
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        let range = Duration::from_millis(10)..=Duration::from_millis(20);
        assert!(throw(7).iter().all(|time| range.contains(time)));
    }
}
