//! Long output, folded: its first lines and its last, and how much is between
//! them.

use crate::tame::Tamer;
use crate::text;

/// Lines shown of the beginning, and of the end.
pub(crate) const HEAD: usize = 4;
pub(crate) const TAIL: usize = 4;

/// The last lines of a text, with a line before them that says what is missing.
pub(crate) fn tail<'a>(lines: &[&'a str], most: usize) -> (u64, Vec<&'a str>) {
    let hidden = lines.len().saturating_sub(most);
    (hidden as u64, lines.get(hidden..).unwrap_or_default().to_vec())
}

/// `… 123 more lines`
pub(crate) fn more(lines: u64) -> String {
    format!("… {}", text::count(lines, "more line"))
}

/// What a call has printed while it runs: its first lines are kept, the others
/// are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    tamer: Tamer,
    /// A line that is not ended yet; cut, since no more of it is ever shown.
    open: String,
    head: Vec<String>,
    /// Lines that have ended.
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
    /// How many of the first lines have been shown.
    pub(crate) shown: usize,
}

/// Characters kept of a line: more than any terminal is wide.
const LONGEST_LINE: usize = 1_000;

impl Stream {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for character in self.tamer.bytes(bytes).chars() {
            if character == '\n' {
                self.lines += 1;
                let line = std::mem::take(&mut self.open);
                if self.head.len() < HEAD {
                    self.head.push(line);
                }
            } else if self.open.len() < LONGEST_LINE {
                self.open.push(character);
            }
        }
    }

    /// The first lines that are whole and have not been shown.
    pub(crate) fn unseen(&mut self) -> Vec<String> {
        let unseen = self.head.get(self.shown..).unwrap_or_default().to_vec();
        self.shown = self.head.len();
        unseen
    }

    /// Lines in all, if this many bytes are all there was.
    pub(crate) fn lines_of(&self, bytes: u64) -> Option<u64> {
        (self.bytes == bytes).then(|| self.lines + u64::from(!self.open.is_empty()))
    }
}

/// What is left to be shown of an output at its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Folded {
    pub(crate) head: Vec<String>,
    /// What is said of the lines between.
    pub(crate) between: Option<String>,
    pub(crate) tail: Vec<String>,
}

/// Folds the tame text of an output of which `stream` was shown already. `whole`
/// is the size of all of it, where the text is not all.
pub(crate) fn fold(output: &str, whole: Option<u64>, stream: &Stream) -> Folded {
    let lines: Vec<&str> = output.lines().collect();
    let shown = stream.head.get(..stream.shown).unwrap_or_default();
    let begins_so = lines.len() >= shown.len()
        && shown.iter().zip(&lines).all(|(shown, line)| line.starts_with(shown.as_str()));
    let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    if !begins_so {
        // Pieces were left out while it ran. What was shown is true all the same.
        let (_, tail) = tail(&lines, TAIL);
        return Folded { head: Vec::new(), between: Some("…".to_owned()), tail: own(&tail) };
    }
    let unseen = lines.get(shown.len()..).unwrap_or_default();
    if whole.is_none() && lines.len() <= HEAD + TAIL {
        return Folded { head: own(unseen), between: None, tail: Vec::new() };
    }
    let head = own(unseen.get(..HEAD.saturating_sub(shown.len())).unwrap_or(unseen));
    let after_head = lines.get(shown.len() + head.len()..).unwrap_or_default();
    let (mut hidden, tail) = tail(after_head, TAIL);
    if let Some(bytes) = whole {
        let all = stream.lines_of(bytes);
        let Some(all) = all else {
            let between = Some(format!("… more lines, {} in all", text::size(bytes)));
            return Folded { head, between, tail: own(&tail) };
        };
        hidden = all.saturating_sub((shown.len() + head.len() + tail.len()) as u64);
    }
    Folded { head, between: Some(more(hidden)), tail: own(&tail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(lines: u64) -> String {
        (1..=lines).map(|line| format!("line {line}\n")).collect()
    }

    #[test]
    fn a_short_output_is_shown_whole() {
        let folded = fold(&numbered(8), None, &Stream::default());
        assert_eq!((folded.head.len(), folded.between, folded.tail.len()), (8, None, 0));
    }

    #[test]
    fn a_long_output_shows_both_ends_and_counts_the_rest() {
        let folded = fold(&numbered(131), None, &Stream::default());
        assert_eq!(folded.head, ["line 1", "line 2", "line 3", "line 4"]);
        assert_eq!(folded.between.unwrap(), "… 123 more lines");
        assert_eq!(folded.tail, ["line 128", "line 129", "line 130", "line 131"]);
    }

    #[test]
    fn what_was_shown_while_it_ran_is_not_shown_again() {
        let mut stream = Stream::default();
        stream.push(b"line 1\nline 2\nli");
        assert_eq!(stream.unseen(), ["line 1", "line 2"]);
        let folded = fold(&numbered(10), None, &stream);
        assert_eq!(folded.head, ["line 3", "line 4"]);
        assert_eq!(folded.between.unwrap(), "… 2 more lines");
    }

    #[test]
    fn an_output_that_was_cut_is_counted_only_if_all_of_it_was_seen() {
        let whole = numbered(5_000);
        let shown = format!("{}[… cut …]\n{}", numbered(20), "line 4999\nline 5000\n");
        let mut stream = Stream::default();
        let bytes = Some(whole.len() as u64);
        let folded = fold(&shown, bytes, &stream);
        assert_eq!(folded.between.unwrap(), "… more lines, 48.9 kB in all");
        stream.push(whole.as_bytes());
        let folded = fold(&shown, bytes, &stream);
        assert_eq!(folded.between.unwrap(), "… 4,992 more lines");
    }

    #[test]
    fn an_output_with_gaps_shows_its_end() {
        let mut stream = Stream::default();
        stream.push(b"line 7\n");
        assert_eq!(stream.unseen().len(), 1);
        let folded = fold(&numbered(9), None, &stream);
        assert_eq!((folded.head.len(), folded.between.as_deref()), (0, Some("…")));
        assert_eq!(folded.tail.len(), 4);
    }
}
