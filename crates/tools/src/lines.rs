//! Lines of bytes, and how they are shown.

/// Characters shown of one line.
const LONGEST: usize = 2_000;

/// How many lines there are; a last one without an end counts.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count() as u64;
    ends + u64::from(!bytes.is_empty() && !bytes.ends_with(b"\n"))
}

/// The lines, without their ends.
pub(crate) fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}

/// A line with its number. What is too long is cut, and says so.
pub(crate) fn numbered(number: u64, line: &str) -> String {
    format!("{number:>6}\t{}\n", shortened(line, LONGEST))
}

/// The line, cut to so many characters; a cut says how much is missing.
pub(crate) fn shortened(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        None => line.to_owned(),
        Some((at, _)) => {
            let head = line.get(..at).unwrap_or(line);
            let missing = line.len() - at;
            format!("{head}[… {missing} more bytes in this line]")
        }
    }
}

/// A number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 3] = ["KB", "MB", "GB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (bytes / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths /= 1_000;
        unit += 1;
    }
    let name = UNITS.get(unit).unwrap_or(&"GB");
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_line_without_an_end_counts() {
        for (text, count) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(count_lines(text.as_bytes()), count, "{text:?}");
            assert_eq!(split(text.as_bytes()).len() as u64, count, "{text:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_says_so() {
        assert_eq!(shortened("ééé", 2), "éé[… 2 more bytes in this line]");
        assert_eq!(shortened("éé", 2), "éé");
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 KB"),
            (1_234_567, "1.2 MB"),
            (12_345_678_900, "12.3 GB"),
            (5_000_000_000_000, "5000.0 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
