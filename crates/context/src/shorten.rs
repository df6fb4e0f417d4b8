//! Cutting a text to its beginning and its end.

use std::borrow::Cow;

/// So many bytes of the end stay, of each hundred that do: errors come last.
const END_SHARE: usize = 40;

/// How what was cut is found again; the number of its event follows.
pub(crate) const BY_ID: &str = "`recall` with id ";

/// Bytes of the line that says what is missing, at most.
pub(crate) const NOTICE: usize = 200;

/// The text cut to about `keep` bytes, with a line in between that says what is missing
/// and how to read it; `None` if it is short enough as it is.
pub(crate) fn shorten(text: &str, keep: u64, id: u64) -> Option<String> {
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    if keep == 0 {
        let short = format!("[{} bytes: {BY_ID}{id} has them]", text.len());
        return (text.len() > NOTICE / 2).then_some(short);
    }
    // One that was cut before is a little longer than this, and stays.
    if text.len() <= keep.saturating_add(keep / 4).saturating_add(NOTICE) {
        return None;
    }
    let end = keep / 100 * END_SHARE;
    let (start, rest) = text.split_at(text.floor_char_boundary(keep - end));
    let end = rest.split_at(rest.ceil_char_boundary(rest.len().saturating_sub(end))).1;
    let (start, end) = (up_to_a_line(start), from_a_line(end));
    let missing = text.len() - start.len() - end.len();
    Some(format!(
        "{start}[about {missing} bytes are left out here; {BY_ID}{id} has all of it]\n{end}"
    ))
}

/// Of which event a line says that something of it is missing; `None` if it is no such line.
pub(crate) fn told_by(line: &str) -> Option<u64> {
    let (what, how) = line.strip_prefix('[')?.strip_suffix(']')?.split_once(BY_ID)?;
    let (id, rest) = how.split_once(' ')?;
    let bytes = |words: &str| words.parse::<usize>().is_ok();
    let ours = match rest {
        "has them" => what.strip_suffix(" bytes: ").is_some_and(bytes),
        "has all of it" => what
            .strip_prefix("about ")
            .and_then(|words| words.strip_suffix(" bytes are left out here; "))
            .is_some_and(bytes),
        "has what was here" => what == "left out: read again below; ",
        "has it" => what == "a picture; ",
        _ => false,
    };
    if ours { id.parse().ok() } else { None }
}

/// The text up to the end of a line, if there is one near its end.
fn up_to_a_line(text: &str) -> Cow<'_, str> {
    match text.rfind('\n') {
        Some(end) if end >= text.len() / 4 * 3 => Cow::Borrowed(text.split_at(end + 1).0),
        _ => Cow::Owned(format!("{text}\n")),
    }
}

/// The text from the beginning of a line on, if there is one near its beginning.
fn from_a_line(text: &str) -> &str {
    match text.find('\n') {
        Some(end) if end <= text.len() / 4 => text.split_at(end + 1).1,
        _ => text,
    }
}

/// Bytes that each of these may have, so that all of them have no more than `room`: short
/// ones stay whole, and long ones share what they leave. Any number, if all fit.
pub(crate) fn share(lengths: impl Iterator<Item = u64>, room: u64) -> u64 {
    let mut lengths: Vec<u64> = lengths.collect();
    lengths.sort_unstable();
    let mut room = room;
    for (place, length) in lengths.iter().enumerate() {
        let each = room / (lengths.len() - place) as u64;
        if *length > each {
            return each;
        }
        room -= length;
    }
    u64::MAX
}

/// The first line of a text, cut to so many characters.
pub(crate) fn first_line(text: &str, longest: usize) -> String {
    beginning(text.trim().lines().next().unwrap_or_default().trim_end(), longest)
}

/// A text in one line, cut to so many characters.
pub(crate) fn one_line(text: &str, longest: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().take(longest).collect();
    beginning(&words.join(" "), longest)
}

fn beginning(line: &str, longest: usize) -> String {
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", line.split_at(end).0),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_stay_and_what_is_missing_is_told() {
        let text: String = (0..2_000).map(|number| format!("line {number}\n")).collect();
        let short = shorten(&text, 1_000, 7).unwrap();
        assert!(short.starts_with("line 0\n") && short.ends_with("line 1999\n"));
        assert!(short.contains("`recall` with id 7") && short.len() < 1_200);
        assert_eq!(shorten("short", 1_000, 7), None);
        assert!(shorten(&"ä".repeat(2_000), 1_001, 7).is_some());
    }

    #[test]
    fn a_text_that_was_cut_before_stays_and_each_cut_shortens() {
        for keep in [8_000, 2_000, 600, 200, 1, 0] {
            for length in [0, 50, 150, 300, 500, 1_000, 9_999, 99_999] {
                let text = "ä".repeat(length / 2);
                let Some(once) = shorten(&text, keep, u64::MAX) else { continue };
                assert!(once.len() < text.len(), "{keep} of {length}");
                assert_eq!(shorten(&once, keep, u64::MAX), None, "{keep} of {length}");
            }
        }
    }

    #[test]
    fn short_texts_leave_their_share_to_long_ones() {
        assert_eq!(share([10, 20, 1_000, 2_000].into_iter(), 1_030), 500);
        assert_eq!(share([10, 20].into_iter(), 30), u64::MAX);
        assert_eq!(share([10, 20].into_iter(), 0), 0);
        assert_eq!(share([].into_iter(), 0), u64::MAX);
    }
}
