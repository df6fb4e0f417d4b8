//! Going round in circles: the same calls with the same results, again and again,
//! also when two or three of them take turns.

/// The longest circle that is noticed.
const LONGEST: usize = 3;

/// So often a circle may be gone round before the model is told.
const WARNING: usize = 3;

/// So often before the job ends as stuck.
const END: usize = 6;

/// The last rounds of calls, each as a number made of its calls and results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repetition {
    rounds: Vec<u64>,
}

impl Repetition {
    /// Takes note of a round.
    pub(crate) fn push(&mut self, round: u64) {
        self.rounds.push(round);
        if self.rounds.len() > LONGEST * END {
            self.rounds.remove(0);
        }
    }

    /// Whether the model should be told just now.
    pub(crate) fn warns(&self) -> bool {
        // Told once for each circle, not in each of its rounds.
        (1..=LONGEST).any(|length| self.times(length) == WARNING && !self.fits(length, WARNING + 1))
            && !self.is_stuck()
    }

    /// Whether this goes nowhere.
    pub(crate) fn is_stuck(&self) -> bool {
        (1..=LONGEST).any(|length| self.times(length) >= END)
    }

    /// How often the last rounds repeat a circle of this length.
    fn times(&self, length: usize) -> usize {
        (1..=END).take_while(|times| self.fits(length, *times)).last().unwrap_or(0)
    }

    /// Whether the last rounds are so many times the same circle.
    fn fits(&self, length: usize, times: usize) -> bool {
        let Some(start) = self.rounds.len().checked_sub(length * times) else { return false };
        let rounds = self.rounds.get(start..).unwrap_or_default();
        rounds.iter().zip(rounds.iter().skip(length)).all(|(one, next)| one == next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rounds: &[u64]) -> Repetition {
        let mut repetition = Repetition::default();
        for round in rounds {
            repetition.push(*round);
        }
        repetition
    }

    #[test]
    fn a_circle_of_one_two_or_three_is_noticed() {
        assert!(after(&[1; 6]).is_stuck() && !after(&[1; 5]).is_stuck());
        assert!(after(&[1, 2].repeat(6)).is_stuck() && !after(&[1, 2].repeat(5)).is_stuck());
        assert!(after(&[1, 2, 3].repeat(6)).is_stuck());
        assert!(!after(&[1, 2, 3, 4].repeat(6)).is_stuck());
    }

    #[test]
    fn the_model_is_told_before() {
        assert!(after(&[1, 1, 1]).warns() && !after(&[1, 1]).warns());
        assert!(after(&[9, 1, 2, 1, 2, 1, 2]).warns());
        assert!(!after(&[1, 2, 3, 4, 5, 6, 7]).warns());
    }

    #[test]
    fn another_result_ends_a_circle() {
        assert!(!after(&[1, 1, 1, 1, 1, 2]).is_stuck());
        assert!(!after(&[1, 1, 1, 1, 1, 2]).warns());
    }
}
