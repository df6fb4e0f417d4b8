//! A violation: where a rule is broken, how, and what to do.

use std::fmt;

/// One broken rule. The order is that of files and lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    /// Path from the repository's root.
    pub(super) file: String,
    /// Line, from 1.
    pub(super) line: usize,
    /// What is wrong.
    pub(super) cause: String,
    /// What to do.
    pub(super) remedy: String,
}

impl Violation {
    /// A violation at a line of a file.
    pub(super) fn new(
        file: &str,
        line: usize,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { file: file.to_owned(), line, cause: cause.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, cause, remedy } = self;
        write!(out, "{file}:{line}: {cause}\n    help: {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_place_cause_and_remedy() {
        let violation = Violation::new("a/b.rs", 7, "it is too long", "give it a second file");
        assert_eq!(
            violation.to_string(),
            "a/b.rs:7: it is too long\n    help: give it a second file"
        );
    }

    #[test]
    fn violations_are_ordered_by_file_and_then_by_line_as_a_number() {
        let at = |file: &str, line| Violation::new(file, line, "", "");
        let mut violations = [at("b", 1), at("a", 10), at("a", 9)];
        violations.sort();
        assert_eq!(violations, [at("a", 9), at("a", 10), at("b", 1)]);
    }
}
