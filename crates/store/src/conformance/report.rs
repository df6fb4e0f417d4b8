//! What a run of the suite showed.

use std::fmt;
use std::time::Duration;

/// What a case showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promise is kept.
    Passed,
    /// It is broken, in this way.
    Failed(String),
}

/// One case of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The promise.
    pub name: &'static str,
    /// What was shown.
    pub verdict: Verdict,
    /// How long that took.
    pub took: Duration,
}

/// A run of the suite. It prints as a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its cases, in order.
    pub rows: Vec<Row>,
}

impl Report {
    /// How many promises were broken.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Failed(_))).count()
    }

    /// # Panics
    /// When a promise was broken, with the table.
    pub fn assert_passed(&self) {
        assert!(self.failures() == 0, "{} promises are broken\n{self}", self.failures());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { name, verdict, took } in &self.rows {
            let (word, reason) = match verdict {
                Verdict::Passed => ("pass", ""),
                Verdict::Failed(reason) => ("FAIL", reason.as_str()),
            };
            writeln!(formatter, "{word}  {:>6.2} s  {name}", took.as_secs_f64())?;
            for line in reason.lines() {
                writeln!(formatter, "                {line}")?;
            }
        }
        let failed = self.failures();
        write!(formatter, "{} passed, {failed} failed", self.rows.len() - failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: Vec<Verdict>) -> Report {
        let row = |verdict| Row { name: "a promise", verdict, took: Duration::from_millis(1500) };
        Report { rows: verdicts.into_iter().map(row).collect() }
    }

    #[test]
    fn a_report_prints_each_promise_and_why_it_was_not_kept() {
        let failed = Verdict::Failed("wanted 1\ngot 2".to_owned());
        assert_eq!(
            report(vec![Verdict::Passed, failed]).to_string(),
            "pass    1.50 s  a promise\n\
             FAIL    1.50 s  a promise\n                wanted 1\n                got 2\n\
             1 passed, 1 failed"
        );
    }

    #[test]
    fn kept_promises_pass() {
        report(vec![Verdict::Passed, Verdict::Passed]).assert_passed();
    }

    #[test]
    #[should_panic(expected = "1 promises are broken")]
    fn a_broken_promise_panics() {
        report(vec![Verdict::Failed(String::new())]).assert_passed();
    }
}
