//! Order: who is measured when, at random but the same for the same seed.
//!
//! Times of a machine drift. What is measured one after the other differs by
//! that drift; what is measured in turns, at random, does not.

/// A source of numbers that look random.
#[derive(Clone, Debug)]
pub(super) struct Order(u64);

impl Order {
    /// Begins from a seed.
    pub(super) fn new(seed: u64) -> Self {
        // The generator below stays at nought once it is there.
        Self(seed.max(1))
    }

    /// Marsaglia's xorshift, with 64 bits.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The turns of some contenders, by their number: each as often as its entry
    /// in `turns` says, in random order.
    pub(super) fn turns(&mut self, turns: &[usize]) -> Vec<usize> {
        let each = turns.iter().enumerate();
        let mut order: Vec<usize> =
            each.flat_map(|(number, turns)| std::iter::repeat_n(number, *turns)).collect();
        for last in (1..order.len()).rev() {
            let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
            let other = usize::try_from(self.next() % bound).unwrap_or(0);
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turns() {
        let order = Order::new(7).turns(&[3, 0, 5]);
        let count = |wanted| order.iter().filter(|number| **number == wanted).count();
        assert_eq!((count(0), count(1), count(2), order.len()), (3, 0, 5, 8));
    }

    #[test]
    fn the_seed_decides_the_order() {
        let turns = |seed| Order::new(seed).turns(&[20, 20]);
        assert_eq!(turns(1), turns(1));
        assert_ne!(turns(1), turns(2));
        assert_ne!(turns(1), [[0; 20], [1; 20]].concat(), "not one after the other");
        assert_eq!(turns(0), turns(1), "nought is no seed");
    }
}
