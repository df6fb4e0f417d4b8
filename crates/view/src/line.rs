//! A line of the view before it meets a terminal: tame text in a few tones.

use crate::tame::tame_line;
use crate::text::{cells_of, cut, size};

/// Characters of a long text that are shown of it: a few rows.
const BEGINNING: usize = 500;

/// How a piece of text is meant. Without colours every line still says it all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// The thing that a line is about.
    Strong,
    /// What may be overlooked.
    Faint,
    Good,
    Bad,
    Warning,
}

impl Tone {
    /// What switches it on.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\u{1b}[1m",
            Self::Faint => "\u{1b}[2m",
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[31m",
            Self::Warning => "\u{1b}[33m",
        }
    }
}

/// What switches every tone off.
pub(crate) const RESET: &str = "\u{1b}[m";

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Somebody who asked for quiet wants to know it all the same.
    Problem,
    Ordinary,
}

/// What a line does when it is too long for the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Cut,
    Wrap,
}

/// One line. Its text is tame and holds no line break: the only ways to put text
/// into it are [`Line::own`], for words of ours, and [`Line::foreign`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) indent: usize,
    pub(crate) weight: Weight,
    pub(crate) overflow: Overflow,
    spans: Vec<(Tone, String)>,
}

impl Line {
    /// An empty line at a depth of delegation.
    pub(crate) fn new(depth: usize) -> Self {
        let (weight, overflow) = (Weight::Ordinary, Overflow::Cut);
        Self { indent: 2 * depth, weight, overflow, spans: Vec::new() }
    }

    /// A line below another.
    pub(crate) fn below(depth: usize) -> Self {
        Self::new(depth + 1)
    }

    /// With words of ours.
    pub(crate) fn own(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.spans.push((tone, text.into()));
        self
    }

    /// With text of somebody else.
    pub(crate) fn foreign(self, tone: Tone, text: &str) -> Self {
        self.own(tone, tame_line(text))
    }

    /// With the text of somebody else or, if it is long, its beginning and its size.
    pub(crate) fn beginning(self, tone: Tone, text: &str) -> Self {
        match text.char_indices().nth(BEGINNING).and_then(|(end, _)| text.get(..end)) {
            None => self.foreign(tone, text),
            Some(beginning) => self
                .foreign(tone, beginning)
                .own(Tone::Faint, format!("… ({} in all)", size(text.len() as u64))),
        }
    }

    /// With something after a gap, unless it is empty.
    pub(crate) fn aside(self, tone: Tone, text: &str) -> Self {
        if text.is_empty() { self } else { self.own(tone, format!("  {text}")) }
    }

    /// As a problem.
    pub(crate) fn problem(mut self) -> Self {
        self.weight = Weight::Problem;
        self
    }

    /// Shown whole, over several rows if need be.
    pub(crate) fn wrapped(mut self) -> Self {
        self.overflow = Overflow::Wrap;
        self
    }

    /// Its spans.
    pub(crate) fn spans(&self) -> &[(Tone, String)] {
        &self.spans
    }

    /// Its text, without tones.
    pub(crate) fn text(&self) -> String {
        let text: String = self.spans.iter().map(|(_, text)| text.as_str()).collect();
        format!("{:indent$}{text}", "", indent = self.indent)
    }

    /// Its spans, as much of them as fits into so many cells.
    pub(crate) fn fitting(&self, most: usize) -> Vec<(Tone, String)> {
        let mut left = most;
        let total: usize = self.spans.iter().map(|(_, text)| crate::text::cells(text)).sum();
        if total <= most {
            return self.spans.clone();
        }
        let mut fitting = Vec::new();
        for (tone, text) in &self.spans {
            let width: usize = text.chars().map(cells_of).sum();
            // One cell is kept for the sign that something is missing.
            if width >= left {
                fitting.push((*tone, cut(&format!("{text}…"), left)));
                return fitting;
            }
            left -= width;
            fitting.push((*tone, text.clone()));
        }
        fitting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitting(most: usize) -> String {
        let line = Line::new(0)
            .own(Tone::Good, "✓ ")
            .own(Tone::Strong, "bash")
            .foreign(Tone::Plain, "  make\nall");
        line.fitting(most).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_long_text_is_told_by_its_beginning() {
        let told = |text: &str| Line::new(0).beginning(Tone::Plain, text).text();
        assert_eq!(told("a\nb"), "a ⏎ b");
        let just = "ä".repeat(BEGINNING);
        assert_eq!(told(&just), just);
        assert_eq!(told(&"ä".repeat(500_000)), format!("{just}… (1.0 MB in all)"));
    }

    #[test]
    fn a_line_is_cut_across_its_spans() {
        assert_eq!(fitting(80), "✓ bashmake ⏎ all");
        assert_eq!(fitting(16), "✓ bashmake ⏎ all");
        assert_eq!(fitting(15), "✓ bashmake ⏎ a…");
        assert_eq!(fitting(6), "✓ bas…");
        assert_eq!(fitting(7), "✓ bash…");
        assert_eq!(fitting(1), "…");
    }
}
