//! The arguments of a call as the Sentry prints them, taken apart.
//!
//! They stand in a row with `, ` between them, and so may what is in a path. So a row is read
//! in every way in which it can be one of the call's, and counts only if that is one way: then
//! it is the true one, which is always among them.

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The address of a path, and the path: `0x7f1200 sub/file`.
    Path,
    /// A descriptor, and where it leads: `AT_FDCWD /workspace`, `0x3 /tmp`; or only `0x3`.
    Place,
    /// An address of a socket's: `0x7f1200 {Family: AF_INET, Addr: 127.0.0.1, Port: 9}`.
    Socket,
    /// Something without spaces.
    Word,
}

use Kind::{Path, Place, Socket, Word};

/// The most arguments a call has.
const MOST: usize = 6;

/// How often the text of a path may read as if the path ended.
const MOST_ENDS: usize = 16;

impl Kind {
    /// Whether an argument of this kind may begin with this piece, and go on after it.
    fn begins(self, piece: &str) -> Option<Extent> {
        let text = |after: &str| match after.split_once(' ') {
            Some((number, _)) if is_hexadecimal(number) => Some(Extent::Text),
            None if self == Place && is_hexadecimal(after) => Some(Extent::Piece),
            _ => None,
        };
        match self {
            Word => (!piece.is_empty() && !piece.contains(' ')).then_some(Extent::Piece),
            Path | Socket if piece == NULL || piece == "null" => Some(Extent::Piece),
            Path => text(piece),
            Place if piece.starts_with("AT_FDCWD ") => Some(Extent::Text),
            Place => text(piece),
            Socket => text(piece).filter(|_| piece.contains(" {")),
        }
    }
}

/// In place of a path that has no address.
const NULL: &str = "<null>";

/// How far an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// It is this piece.
    Piece,
    /// It may go on with the next one.
    Text,
}

fn is_hexadecimal(number: &str) -> bool {
    number.strip_prefix("0x").is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// The ways so far in which the pieces can be arguments up to a certain one.
#[derive(Clone, Copy, Debug, Default)]
struct Ways {
    /// None, one, or more.
    count: u8,
    /// If it is one: where each argument begins, and how far the last goes.
    begins: [usize; MOST],
    extent: Option<Extent>,
}

impl Ways {
    fn add(&mut self, other: Self) {
        let count = self.count.saturating_add(other.count);
        if self.count == 0 {
            *self = other;
        }
        self.count = count;
    }
}

/// The arguments, if they can be told apart in one way.
pub(super) fn split<const N: usize>(text: &str, kinds: [Kind; N]) -> Option<[&str; N]> {
    let mut ways = [Ways::default(); N];
    let mut at = 0;
    for (index, piece) in text.split(", ").enumerate() {
        let mut next = [Ways::default(); N];
        for (number, kind) in kinds.into_iter().enumerate() {
            let Some(here) = next.get_mut(number) else { continue };
            // The argument goes on.
            if let Some(same) = ways.get(number).filter(|ways| ways.extent == Some(Extent::Text)) {
                here.add(*same);
            }
            // Or it begins, after the one before it.
            let before = match number.checked_sub(1) {
                None if index == 0 => Some(Ways { count: 1, ..Ways::default() }),
                None => None,
                Some(before) => ways.get(before).copied().filter(|ways| ways.count > 0),
            };
            if let (Some(mut before), Some(extent)) = (before, kind.begins(piece)) {
                before.extent = Some(extent);
                if let Some(begin) = before.begins.get_mut(number) {
                    *begin = at;
                }
                here.add(before);
            }
        }
        ways = next;
        at += piece.len() + ", ".len();
    }
    let only = ways.last().filter(|ways| ways.count == 1)?;
    let mut arguments = [""; N];
    for (number, argument) in arguments.iter_mut().enumerate() {
        let begin = only.begins.get(number).copied()?;
        *argument = match only.begins.get(number + 1) {
            Some(next) if number + 1 < N => text.get(begin..next.checked_sub(", ".len())?)?,
            _ => text.get(begin..)?,
        };
    }
    Some(arguments)
}

/// The path of an argument.
pub(super) fn path(argument: &str) -> &str {
    if argument == NULL {
        return "";
    }
    argument.split_once(' ').map_or(argument, |(_, path)| path)
}

/// What comes before the two lists of texts of a program to be executed and `words` more
/// arguments, if that can be told in one way. The lists may be longer than what was kept.
pub(super) fn before_lists(text: &str, cut: bool, words: usize) -> Option<&str> {
    if cut && words > 0 {
        return None; // a directory that is not kept to its end may have hidden the lists
    }
    let ends = text.match_indices(", 0x").map(|(at, _)| at).filter(|at| {
        let list = text.get(at + ", ".len()..).and_then(|list| list.split_once(' '));
        list.is_some_and(|(number, list)| is_hexadecimal(number) && list.starts_with(['[', '{']))
    });
    let mut found = None;
    for (count, at) in ends.enumerate() {
        let are_lists = match lists(text.get(at..)?, words) {
            Reading::Rest(rest) => rest.is_empty(),
            Reading::Cut => cut,
            Reading::Wrong => false,
        };
        if count == MOST_ENDS || are_lists && found.replace(at).is_some() {
            return None;
        }
    }
    text.get(..found?)
}

/// What is left once something was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading<'a> {
    Rest(&'a str),
    /// The text is over before it is.
    Cut,
    /// It is not there.
    Wrong,
}

impl<'a> Reading<'a> {
    fn then(self, next: impl FnOnce(&'a str) -> Reading<'a>) -> Self {
        match self {
            Self::Rest(rest) => next(rest),
            other => other,
        }
    }

    fn token(self, token: &str) -> Self {
        self.then(|text| match text.strip_prefix(token) {
            Some(rest) => Self::Rest(rest),
            None if token.starts_with(text) => Self::Cut,
            None => Self::Wrong,
        })
    }

    fn hexadecimal(self) -> Self {
        self.token("0x").then(|text| {
            let rest = text.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
            match rest.len() < text.len() {
                true => Self::Rest(rest),
                false if text.is_empty() => Self::Cut,
                false => Self::Wrong,
            }
        })
    }

    fn list(self) -> Self {
        self.token(", ").hexadecimal().token(" ").then(|text| {
            if let Some(reason) = text.strip_prefix('{') {
                return reason.split_once('}').map_or(Self::Cut, |(_, rest)| Self::Rest(rest));
            }
            let mut texts = Self::Rest(text).token("[");
            if let Self::Rest(text) = texts
                && let Some(rest) = text.strip_prefix(']')
            {
                return Self::Rest(rest);
            }
            loop {
                texts = texts.quoted();
                let Self::Rest(text) = texts else { return texts };
                match text.strip_prefix(']') {
                    Some(rest) => return Self::Rest(rest),
                    None => texts = texts.token(", "),
                }
            }
        })
    }

    fn quoted(self) -> Self {
        self.token("\"").then(|text| {
            let mut escaped = false;
            for (at, byte) in text.bytes().enumerate() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => return text.get(at + 1..).map_or(Self::Wrong, Self::Rest),
                    _ => {}
                }
            }
            Self::Cut
        })
    }
}

fn lists(text: &str, words: usize) -> Reading<'_> {
    let lists = Reading::Rest(text).list().list();
    (0..words).fold(lists, |rest, _| rest.token(", ").hexadecimal())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_told_apart() {
        let openat = [Place, Path, Word, Word];
        assert_eq!(
            split("AT_FDCWD /a, b, 0x7f10 c, d, O_RDWR|O_CREAT, 0o600", openat),
            Some(["AT_FDCWD /a, b", "0x7f10 c, d", "O_RDWR|O_CREAT", "0o600"])
        );
        assert_eq!(
            split("0x4d (bad FD), <null>, O_WRONLY|0x0, 0o0", openat),
            Some(["0x4d (bad FD)", "<null>", "O_WRONLY|0x0", "0o0"])
        );
        let renameat = [Place, Path, Place, Path];
        assert_eq!(
            split("0x3 /d, 0x7f10 a, 0x5, 0xffffff9c, 0x7f20 b", renameat),
            Some(["0x3 /d", "0x7f10 a, 0x5", "0xffffff9c", "0x7f20 b"])
        );
        assert_eq!(split("0x7f10 ", [Path]), Some(["0x7f10 "]));
        assert_eq!(split("", [Path]), None);
        assert_eq!(split("0x7f10 a", [Path, Word]), None);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_not_told_apart() {
        let openat = [Place, Path, Word, Word];
        assert_eq!(split("AT_FDCWD /a, 0x1 b, 0x7f10 c, O_RDWR, 0o600", openat), None);
        assert_eq!(split("0x7f10 a, 0x1 b, 0x7f20 c", [Path, Path]), None);
        // One path alone may have anything in it.
        assert_eq!(split("0x7f10 , 0x1 b, 0o777", [Path, Word]), Some(["0x7f10 , 0x1 b", "0o777"]));
    }

    #[test]
    fn a_program_is_what_comes_before_the_lists() {
        let lists = r#", 0x7f20 ["ls", ", 0x1 [\"a\""], 0x7f30 ["A=, 0x2 [", "B={"]"#;
        let text = format!("0x7f10 /bin/ls{lists}");
        assert_eq!(before_lists(&text, false, 0), Some("0x7f10 /bin/ls"));
        let hostile = format!("0x7f10 /bin/x, 0x1 [], 0x2 []{lists}");
        assert_eq!(before_lists(&hostile, false, 0), hostile.strip_suffix(lists));
        let failed = "0x7f10 a, 0x0 [], 0x1 {error copying vector: bad address}, 0x1000";
        assert_eq!(before_lists(failed, false, 1), Some("0x7f10 a"));
        assert_eq!(before_lists(failed, false, 0), None);
    }

    #[test]
    fn lists_that_were_cut_are_enough_if_nothing_else_is_possible() {
        let text = r#"0x7f10 /bin/ls, 0x7f20 ["ls", "a"#;
        assert_eq!(before_lists(text, true, 0), Some("0x7f10 /bin/ls"));
        assert_eq!(before_lists(text, false, 0), None);
        let hostile = r#"0x7f10 /bin/true, 0x1 [], 0x2 ["#.to_owned() + text;
        assert_eq!(
            before_lists(&hostile, true, 0).filter(|path| *path == "0x7f10 /bin/true"),
            None
        );
        let many = "0x7f10 ".to_owned() + &", 0x1 [".repeat(20) + text;
        assert_eq!(before_lists(&many, true, 0), None);
    }

    /// What somebody may call a file who knows how lines look.
    const NAME: &str =
        "([, 0x1af\\[\\]{}\"|]|, 0x1 |, 0x1 \\[|\\], |AT_FDCWD |O_RDWR|<null>|é|\u{fffd}){0,12}";

    proptest! {
        #[test]
        fn no_name_is_taken_for_another(
            directory in NAME, from in NAME, to in NAME, number in 0u32..20, shown in any::<bool>()
        ) {
            let place = match shown {
                true => format!("AT_FDCWD /{directory}"),
                false => format!("0x{number:x} /{directory}"),
            };
            let [from, to] = [from, to].map(|name| format!("0x7f10 {name}"));
            let number = format!("0x{number:x}");
            let is = |found: Option<&str>, true_one: &str| found.is_none_or(|found| found == true_one);
            let text = format!("{place}, {from}, O_RDWR, 0o0");
            let found = split(&text, [Place, Path, Word, Word]);
            prop_assert!(is(found.map(|all| all[0]), &place) && is(found.map(|all| all[1]), &from));
            let text = format!("{place}, {from}, {number}, {to}, 0x1");
            let found = split(&text, [Place, Path, Place, Path, Word]);
            prop_assert!(is(found.map(|all| all[0]), &place) && is(found.map(|all| all[1]), &from));
            prop_assert!(is(found.map(|all| all[2]), &number) && is(found.map(|all| all[3]), &to));
            let text = format!("{from}, {place}, {to}");
            let found = split(&text, [Path, Place, Path]);
            prop_assert!(is(found.map(|all| all[1]), &place) && is(found.map(|all| all[2]), &to));
            let text = format!("{from}, 0o777");
            prop_assert_eq!(split(&text, [Path, Word]), Some([from.as_str(), "0o777"]));
        }

        #[test]
        fn no_program_is_taken_for_another(
            path in NAME, texts in prop::collection::vec(NAME, 0..4), kept in 0usize..200
        ) {
            let list = format!("0x7f20 {texts:?}");
            let path = format!("0x7f10 {path}");
            let text = format!("{path}, {list}, {list}");
            // A few ways of being hostile are found out, and the path is known all the same.
            prop_assert!(before_lists(&text, false, 0).is_none_or(|found| found == path));
            let kept = (path.len() + ", 0x7f20 [".len() + kept).min(text.len());
            let kept = (kept..=text.len()).find_map(|end| text.get(..end)).unwrap();
            let cut = kept.len() < text.len();
            prop_assert!(before_lists(kept, cut, 0).is_none_or(|found| found == path));
            let text = text + ", 0x1000";
            prop_assert!(before_lists(&text, false, 1).is_none_or(|found| found == path));
        }

        #[test]
        fn any_text_is_split_or_not(text in "\\PC{0,60}") {
            split(&text, [Path, Place, Socket, Word, Path, Path]);
            before_lists(&text, true, 0);
            before_lists(&text, false, 1);
        }
    }
}
