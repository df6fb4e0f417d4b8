//! The fence: how it is known that all a cell gave has arrived.
//!
//! A kernel says `idle` when a cell is done, but some publish output after that: Deno
//! all of it, ipykernel what programs that the cell started wrote to their standard
//! output. So after a cell the kernel runs one more, hidden piece of code, which prints
//! a mark along each of these ways; what comes before the marks is all there is. A
//! kernel of which nothing is known is asked something harmless instead, and then has
//! to be silent for a while.

use super::state::Dialect;

/// The form of a value that is a mark.
pub(super) const MARK_MIME: &str = "application/x-cofferdam-fence";

/// What a kernel has to run, if its ways are known.
pub(super) fn code(dialect: Dialect, mark: &str) -> Option<String> {
    match dialect {
        Dialect::Python => {
            Some(format!("exec('import os\\nfor n in 1, 2: os.write(n, b\"{mark}\")', {{}})"))
        }
        Dialect::Deno => Some(format!(
            "Deno[Deno.internal].core.print('{mark}', false); \
             Deno[Deno.internal].core.print('{mark}', true); \
             await Deno.jupyter.broadcast('display_data', \
             {{data: {{'{MARK_MIME}': '{mark}'}}, metadata: {{}}, transient: {{}}}})"
        )),
        Dialect::Other => None,
    }
}

/// Code that makes a kernel fit for cells, run once after its start.
pub(super) fn prelude(dialect: Dialect) -> Option<String> {
    match dialect {
        // Of plain letters, so that Rust and Python quote them alike.
        Dialect::Python => Some(format!("exec({:?}, {{}})", include_str!("prelude.py"))),
        Dialect::Deno => Some(include_str!("prelude.js").to_owned()),
        Dialect::Other => None,
    }
}

/// Takes the mark out of printed text, however it is cut.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    /// The end of the text so far that may be the beginning of the mark.
    held: String,
    seen: bool,
}

impl Sieve {
    /// Takes in text; gives what is certainly not of the mark.
    pub(super) fn push(&mut self, text: &str, mark: &str) -> String {
        self.held.push_str(text);
        if let Some((before, after)) = self.held.split_once(mark) {
            self.seen = true;
            let out = format!("{before}{after}");
            self.held.clear();
            return out;
        }
        let mut keep = mark.len().min(self.held.len());
        while !self.held.is_char_boundary(self.held.len() - keep)
            || !mark.starts_with(self.held.get(self.held.len() - keep..).unwrap_or_default())
        {
            keep -= 1;
        }
        let rest = self.held.split_off(self.held.len() - keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// Whether the mark has come.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// What was held back.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_goes_and_all_else_stays_however_it_is_cut() {
        let mark = "<<fence>>";
        let whole = "ä<<fence<<fence>>\nlate<<";
        let cuts: Vec<usize> = whole.char_indices().map(|(at, _)| at).collect();
        for first in &cuts {
            for second in cuts.iter().filter(|second| *second >= first) {
                let (a, rest) = whole.split_at(*first);
                let (b, c) = rest.split_at(second - first);
                let mut sieve = Sieve::default();
                let mut out = String::new();
                for part in [a, b, c] {
                    out += &sieve.push(part, mark);
                }
                assert!(sieve.seen());
                out += &sieve.finish();
                assert_eq!(out, "ä<<fence\nlate<<", "{a:?} {b:?} {c:?}");
            }
        }
    }

    #[test]
    fn text_without_a_mark_passes() {
        let mut sieve = Sieve::default();
        assert_eq!(sieve.push("a<b<", "<<"), "a<b");
        assert_eq!(sieve.push("c", "<<"), "<c");
        assert!(!sieve.seen());
    }
}
