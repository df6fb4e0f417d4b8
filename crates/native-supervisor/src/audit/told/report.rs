//! One line of the Sentry's about a system call, taken apart.
//!
//! `strace.go:567] [  11:  13] NAME E mkdir(0x7f1200 sub, 0o777)` says that thread 13 of
//! process 11 begins a call; with `X` in place of `E` it ends one, and ` = 0 (0x0) (12µs)`
//! follows. What comes before the name the Sentry writes; the name is the process's own to
//! choose, up to 15 bytes of it, and so are paths.
//!
//! A name may read like the rest of a line, so where it ends has to be proven. The true mark,
//! ` E ` or ` X ` with a call and its parenthesis behind it, is within the first 15
//! characters. Of several such marks the last is the true one, because no path begins that
//! early: the shortest way to one is ` E open(0x10000 `, 16 characters, since nothing is
//! mapped below that address; or, of a descriptor, ` E openat(0x3 /`, whose `/` is followed
//! by what somebody put into the root, which is read-only. Where the host's kernel maps lower
//! addresses, down to the second page, a report that could be of either is in doubt.

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report<'a> {
    pub(super) process: u32,
    pub(super) thread: u32,
    /// What the process calls itself.
    pub(super) name: &'a str,
    pub(super) phase: Phase,
    pub(super) call: &'a str,
    /// Between the parentheses.
    pub(super) arguments: &'a str,
    /// There is more of those.
    pub(super) cut: bool,
    /// It may be another call of this thread's, whose path reads like this one.
    pub(super) in_doubt: bool,
}

/// Which end of a call it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Begins,
    /// With what it returned, unless it failed.
    Ends(Option<u64>),
}

/// The longest name of a process.
const LONGEST_NAME: usize = 15;

/// Nothing is mapped below it, whatever the host's settings are.
const LOWEST_ADDRESS: u64 = 0x1000;

impl<'a> Report<'a> {
    /// Reads a message that is one; others are not.
    pub(super) fn read(text: &'a str, cut: bool) -> Option<Self> {
        let (place, rest) = text.strip_prefix("strace.go:")?.split_once("] [")?;
        place.parse::<u32>().ok()?;
        let (numbers, rest) = rest.split_once("] ")?;
        let (process, thread) = numbers.split_once(':')?;
        let number = |text: &str| text.trim_start().parse().ok();
        let (process, thread) = (number(process)?, number(thread)?);
        let places = rest.char_indices().take(LONGEST_NAME + 1);
        let mut marks = places.filter_map(|(at, _)| mark(rest, at));
        let first = marks.next()?;
        let last = marks.last();
        let in_doubt = last.is_some_and(|last| reaches_path(first, last.0));
        let (at, ends, call, body) = last.unwrap_or(first);
        let (arguments, phase) = match ends {
            false if cut => (body, Phase::Begins),
            false => (body.strip_suffix(')')?, Phase::Begins),
            true => {
                // No path comes after this.
                let (arguments, result) = body.rsplit_once(") = ")?;
                (arguments, Phase::Ends(returned(result)))
            }
        };
        Some(Self { process, thread, name: rest.get(..at)?, phase, call, arguments, cut, in_doubt })
    }
}

/// A mark: where it is, whether it is that of an end, the call, and the rest.
type Mark<'a> = (usize, bool, &'a str, &'a str);

/// The mark at a place, if there is one.
fn mark(line: &str, at: usize) -> Option<Mark<'_>> {
    let rest = line.get(at..)?;
    let (ends, rest) = match rest.strip_prefix(" E ") {
        Some(rest) => (false, rest),
        None => (true, rest.strip_prefix(" X ")?),
    };
    let (call, body) = rest.split_once('(')?;
    let is_call = !call.is_empty()
        && call
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_call.then_some((at, ends, call, body))
}

/// Whether the path of a call with this mark may have begun before a place.
fn reaches_path((at, _, call, body): Mark<'_>, before: usize) -> bool {
    let begins = at + " E (".len() + call.len();
    let head = before.checked_sub(begins).and_then(|length| body.get(..length));
    let Some((address, _)) = head.and_then(|head| head.split_once(' ')) else { return false };
    let address = address.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    address.is_some_and(|address| address >= LOWEST_ADDRESS)
}

fn returned(result: &str) -> Option<u64> {
    if result.contains(" errno=") {
        return None;
    }
    result.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<Report<'_>> {
        Report::read(text, false)
    }

    #[test]
    fn both_ends_of_a_call_are_read() {
        let begins = read("strace.go:564] [  11:  13] python3 E mkdir(0x7ea3c51c5a00 thr, 0o777)");
        let report = Report {
            process: 11,
            thread: 13,
            name: "python3",
            phase: Phase::Begins,
            call: "mkdir",
            arguments: "0x7ea3c51c5a00 thr, 0o777",
            cut: false,
            in_doubt: false,
        };
        assert_eq!(begins, Some(report));
        let ends = read("strace.go:596] [1011:1011] a b X vfork() = 14 (0xe) (122.869µs)").unwrap();
        assert_eq!((ends.process, ends.name, ends.phase), (1011, "a b", Phase::Ends(Some(14))));
        let failed = "strace.go:599] [   1:   1]  X chdir(0x1200000 /) = 9 (0x9) (1µs)) = 0 (0x0) \
                      errno=2 (no such file or directory) (12.664µs)";
        let failed = read(failed).unwrap();
        assert_eq!((failed.name, failed.phase), ("", Phase::Ends(None)));
        assert_eq!(failed.arguments, "0x1200000 /) = 9 (0x9) (1µs)");
    }

    #[test]
    fn other_messages_are_none() {
        for other in [
            "",
            "main.go:222] Exiting with status: 0",
            "loader.go:9] [   1:   1] x E unlink(0x120000 /etc/passwd)",
            "strace.go:561] x E unlink(0x120000 /etc/passwd)",
            "strace.go:561] [   1:   1] x E unlink(0x120000 /etc/pass",
            "strace.go:561] [   1:   1] a name that is too long E unlink(0x120000 /etc/passwd)",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_reads_like_a_call_is_a_name() {
        for name in ["x E rmdir(0x1 /", " E exit_group()", " X vfork() = 7 ", "", " E "] {
            let line =
                format!("strace.go:564] [  11:  11] {name} E mkdir(0x7ea3c51c5c70 d, 0o777)");
            let report = read(&line).unwrap();
            assert_eq!((report.name, report.call, report.in_doubt), (name, "mkdir", false));
        }
    }

    #[test]
    fn what_may_be_a_path_or_a_name_is_in_doubt() {
        // Both are possible where addresses begin with the second page.
        let line =
            "strace.go:561] [  11:  11]  E open(0x1000  E unlink(0x120000 /x, O_RDONLY, 0o0)";
        assert!(read(line).unwrap().in_doubt);
    }

    proptest! {
        #[test]
        fn neither_names_nor_paths_change_whose_and_what_call_it_is(
            name in "([EX(=0-9, \u{fffd}]| E | X | E open\\(|[a-zé]){0,15}"
                .prop_filter("no longer name", |name| name.chars().count() <= LONGEST_NAME),
            path in "([EX(),=0-9/ ]| E rmdir\\(0x10000 |\\) = 7 \\(0x7\\)|\\PC){0,40}",
            ends in any::<bool>(),
        ) {
            let arguments = format!("0x10000 {path}");
            let line = match ends {
                false => format!("strace.go:9] [   3:   4] {name} E open({arguments})"),
                true => format!("strace.go:9] [   3:   4] {name} X open({arguments}) = 5 (0x5) (1s)"),
            };
            let phase = if ends { Phase::Ends(Some(5)) } else { Phase::Begins };
            let expected = Report {
                process: 3, thread: 4, name: &name, phase, call: "open", arguments: &arguments,
                cut: false,
            in_doubt: false,
            };
            prop_assert_eq!(read(&line), Some(expected));
        }

        #[test]
        fn any_text_is_read_or_not(text in "\\PC{0,60}", cut in any::<bool>()) {
            Report::read(&text, cut);
            Report::read(&format!("strace.go:1] [1:1] {text}"), cut);
        }
    }
}
