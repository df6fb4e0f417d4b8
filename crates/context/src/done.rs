//! What was done, in as many words as there is room for.
//!
//! Each thing stands by itself as long as there is room for that. Else the latest do, and
//! the others stand together: files by their directory, commands by their program, each
//! group with its events and as many names as fit. Where even that is too much, groups
//! become wider. So whatever was done is in a line that leads to it.

use std::collections::BTreeMap;

use crate::shorten::{one_line, share};

/// Characters of a program's name.
const PROGRAM: usize = 24;

/// Characters of a command among others.
const COMMAND: usize = 48;

/// So much of the room, in percent, the latest have by themselves.
const LATEST: usize = 40;

/// Under what files stand that are in no directory, and files of the whole system.
const HERE: &str = "./";
const SYSTEM: &str = "/";

/// Under what commands and other things stand.
const COMMANDS: &str = "$";
const COMMAND_OF: &str = "$ ";
const DELEGATED: &str = "delegated:";
const CHECKS: &str = "check";

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) seq: u64,
    /// What the line of it says.
    pub(crate) line: String,
    /// What it stands under.
    label: String,
    /// What it is called there.
    name: String,
}

impl Item {
    /// A file that was changed.
    pub(crate) fn file(path: &str, seq: u64) -> Self {
        let (label, name) = of_file(path);
        Self { seq, line: format!("changed {path}"), label, name: name.to_owned() }
    }

    /// A deed, with the line that says how it went.
    pub(crate) fn deed(what: &str, seq: u64, line: String) -> Self {
        let (label, rest) = of_deed(what);
        Self { seq, line, label, name: one_line(rest, COMMAND) }
    }
}

/// What a file stands under, and its name there.
fn of_file(path: &str) -> (String, &str) {
    match path.rfind('/') {
        Some(end) => {
            let (directory, name) = path.split_at(end + 1);
            (directory.to_owned(), name)
        }
        None => (HERE.to_owned(), path),
    }
}

/// What a deed stands under, and the rest of it.
fn of_deed(what: &str) -> (String, &str) {
    if let Some(rest) = what.strip_prefix(DELEGATED) {
        return (DELEGATED.to_owned(), rest.trim_start());
    }
    match what.strip_prefix(COMMAND_OF) {
        Some(command) => {
            let command = command.trim_start();
            let program: String =
                command.chars().take_while(|c| !c.is_whitespace()).take(PROGRAM).collect();
            (format!("{COMMAND_OF}{program}"), command)
        }
        None => (CHECKS.to_owned(), what),
    }
}

/// What a label stands under in turn.
fn wider(label: &str) -> Option<String> {
    match label {
        HERE | SYSTEM | COMMANDS | DELEGATED | CHECKS => None,
        _ if label.starts_with(COMMAND_OF) => Some(COMMANDS.to_owned()),
        _ => {
            let directory = label.strip_suffix('/').unwrap_or(label);
            Some(of_file(directory).0)
        }
    }
}

fn depth(label: &str) -> usize {
    match label {
        HERE | SYSTEM | COMMANDS | DELEGATED | CHECKS => 0,
        _ if label.starts_with(COMMAND_OF) => 1,
        _ => label.matches('/').count(),
    }
}

/// Several things that were done, by what they stand under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups(BTreeMap<String, Group>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    count: u64,
    first: u64,
    last: u64,
    /// The names that are known, the latest last.
    names: Vec<(u64, String)>,
}

impl Groups {
    /// Takes a file in, without its name.
    pub(crate) fn add_file(&mut self, path: &str, seq: u64) {
        self.add(of_file(path).0, seq, None);
    }

    /// Takes a deed in, without its name.
    pub(crate) fn add_deed(&mut self, what: &str, seq: u64) {
        self.add(of_deed(what).0, seq, None);
    }

    fn add(&mut self, label: String, seq: u64, name: Option<String>) {
        let names = name.map(|name| (seq, name)).into_iter().collect();
        self.merge(label, Group { count: 1, first: seq, last: seq, names });
    }

    fn merge(&mut self, label: String, other: Group) {
        let group = self.0.entry(label).or_default();
        group.first = if group.count == 0 { other.first } else { group.first.min(other.first) };
        group.last = group.last.max(other.last);
        group.count += other.count;
        group.names.extend(other.names);
    }

    /// Makes the deepest groups wider; whether there were any.
    fn widen(&mut self) -> bool {
        let deepest = self.0.keys().map(|label| depth(label)).max().unwrap_or(0);
        if deepest == 0 {
            return false;
        }
        for (label, group) in std::mem::take(&mut self.0) {
            let label = if depth(&label) == deepest { wider(&label) } else { Some(label) };
            if let Some(label) = label {
                self.merge(label, group);
            }
        }
        true
    }

    /// Has no more groups than this, if wider ones can be had.
    pub(crate) fn at_most(&mut self, most: usize) {
        while self.0.len() > most && self.widen() {}
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn count(&self) -> u64 {
        self.0.values().map(|group| group.count).sum()
    }

    /// A line for each, within the room; `None` if there is not room enough.
    fn write(&self, room: usize) -> Option<String> {
        let shortest = |(label, group): (&String, &Group)| group.what(label).len() + 1;
        let left = room.checked_sub(self.0.iter().map(shortest).sum())?;
        let keep = share(self.0.values().map(Group::length), left as u64);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let lines = self
            .0
            .iter()
            .map(|(label, group)| format!("{}{}\n", group.what(label), group.named(keep)));
        Some(lines.collect())
    }
}

impl Group {
    fn what(&self, label: &str) -> String {
        let Self { count, first, last, .. } = self;
        let events = match first == last {
            true => format!("#{first}"),
            false => format!("#{first} to #{last}"),
        };
        let what = match label {
            COMMANDS => format!("ran {count} commands"),
            DELEGATED => format!("delegated {count} pieces of work"),
            CHECKS => format!("{count} checks"),
            _ if label.starts_with(COMMAND_OF) => format!("ran {count} × {label}"),
            // Of those without a name one may be another, or one that has a name: these are
            // times, not files.
            _ if self.names.len() as u64 != *count => format!("changed {count} × files in {label}"),
            _ => format!("changed {count} files in {label}"),
        };
        format!("{events}: {what}")
    }

    /// Bytes of all names.
    fn length(&self) -> u64 {
        self.names.iter().map(|(_, name)| name.len() as u64 + 2).sum()
    }

    /// The latest names, as many as fit, and how many there are besides.
    fn named(&self, room: usize) -> String {
        let mut names: Vec<&(u64, String)> = self.names.iter().collect();
        names.sort();
        let all = |names: &[&(u64, String)]| -> String {
            names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join("; ")
        };
        let rest = |shown: usize| self.count - shown as u64;
        let whole = format!(": {}", all(&names));
        if rest(names.len()) == 0 && whole.len() <= room {
            return whole;
        }
        let more = format!(" and {} more", self.count).len() + 2;
        let mut left = room.saturating_sub(more);
        let fits = |name: &&&(u64, String)| {
            let more = left.checked_sub(name.1.len() + 2);
            left = more.unwrap_or(0);
            more.is_some()
        };
        let shown = names.iter().rev().take_while(fits).count();
        if shown == 0 {
            return String::new();
        }
        let latest = names.split_off(names.len() - shown);
        format!(": {} and {} more", all(&latest), rest(shown))
    }
}

/// A part with its title, never longer than the room. `older`: what is not known one by one
/// any more.
pub(crate) fn section(title: &str, mut items: Vec<Item>, older: &Groups, room: usize) -> String {
    if items.is_empty() && older.is_empty() {
        return String::new();
    }
    items.sort();
    let title = format!("\n## {title}\n");
    let lines: Vec<String> = items.iter().map(|item| line(item.seq, &item.line)).collect();
    let all: usize = lines.iter().map(String::len).sum();
    if older.is_empty() && title.len() + all <= room {
        return title + &lines.concat();
    }
    let left = room.saturating_sub(title.len());
    for latest in [left / 100 * LATEST, 0] {
        let mut for_latest = latest;
        let fits = |line: &&String| {
            let rest = for_latest.checked_sub(line.len());
            for_latest = rest.unwrap_or(0);
            rest.is_some()
        };
        let shown = lines.iter().rev().take_while(fits).count();
        let (together, _) = items.split_at(items.len() - shown);
        let mut groups = older.clone();
        for Item { seq, label, name, .. } in together {
            groups.add(label.clone(), *seq, Some(name.clone()));
        }
        let shown = lines.split_at(lines.len() - shown).1.concat();
        loop {
            if let Some(text) = groups.write(left.saturating_sub(shown.len())) {
                return title + &text + &shown;
            }
            if !groups.widen() {
                break;
            }
        }
    }
    let count = items.len() as u64 + older.count();
    let short = format!("{title}({count} things)\n");
    if short.len() > room { String::new() } else { short }
}

fn line(seq: u64, words: &str) -> String {
    format!("#{seq}: {words}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(count: u64) -> Vec<Item> {
        (0..count)
            .map(|seq| match seq % 4 {
                0 => Item::file(&format!("src/deep/{}/file{seq}.rs", seq % 3), seq),
                1 => Item::file(&format!("top{seq}.md"), seq),
                2 => {
                    let what = format!("$ cargo test -p part{seq}");
                    Item::deed(&what, seq, what.clone())
                }
                _ => Item::deed("delegated: write it", seq, "delegated: write it".to_owned()),
            })
            .collect()
    }

    fn done(count: u64, room: usize) -> String {
        section("Done", items(count), &Groups::default(), room)
    }

    #[test]
    fn little_stands_by_itself() {
        insta::assert_snapshot!(done(4, 400), @r"

        ## Done
        #0: changed src/deep/0/file0.rs
        #1: changed top1.md
        #2: $ cargo test -p part2
        #3: delegated: write it
        ");
    }

    #[test]
    fn much_stands_together_and_names_what_it_can() {
        insta::assert_snapshot!(done(40, 700), @r"

        ## Done
        #2 to #30: ran 8 × $ cargo: cargo test -p part30 and 7 more
        #1 to #29: changed 8 files in ./: top17.md; top21.md; top25.md; top29.md and 4 more
        #3 to #31: delegated 8 pieces of work: write it; write it; write it; write it and 4 more
        #0 to #24: changed 3 files in src/deep/0/: file0.rs; file12.rs; file24.rs
        #4 to #28: changed 3 files in src/deep/1/: file4.rs; file16.rs; file28.rs
        #8 to #20: changed 2 files in src/deep/2/: file8.rs; file20.rs
        #32: changed src/deep/2/file32.rs
        #33: changed top33.md
        #34: $ cargo test -p part34
        #35: delegated: write it
        #36: changed src/deep/0/file36.rs
        #37: changed top37.md
        #38: $ cargo test -p part38
        #39: delegated: write it
        ");
    }

    #[test]
    fn more_stands_in_wider_groups() {
        insta::assert_snapshot!(done(400, 200), @r"

        ## Done
        #2 to #398: ran 100 × $ cargo
        #1 to #397: changed 100 files in ./
        #3 to #395: delegated 99 pieces of work
        #0 to #396: changed 100 files in src/deep/
        #399: delegated: write it
        ");
    }

    #[test]
    fn no_room_is_ever_exceeded_and_nothing_is_left_out_of_the_count() {
        for count in [1, 3, 10, 50, 500] {
            for room in (0..2_000).step_by(7) {
                let text = done(count, room);
                assert!(text.len() <= room, "{count} in {room}: {text}");
                if room >= 200 {
                    assert_eq!(told(&text), count, "{text}");
                }
            }
        }
    }

    /// How many things a text tells of.
    fn told(text: &str) -> u64 {
        let lines = text.lines().filter(|line| line.starts_with('#') && !line.starts_with("##"));
        lines
            .map(|line| {
                let words = line.split_once(": ").unwrap().1;
                let mut numbers = words.split(' ').skip(1).take(1);
                numbers.find_map(|number| number.parse::<u64>().ok()).unwrap_or(1)
            })
            .sum()
    }

    #[test]
    fn what_is_no_longer_known_one_by_one_still_counts_where_it_was() {
        let mut older = Groups::default();
        older.add_file("docs/a.md", 1);
        older.add_file("docs/b.md", 2);
        older.add_deed("$ git commit -m x", 3);
        let text = section("Done", vec![Item::file("docs/c.md", 9)], &older, 300);
        insta::assert_snapshot!(text, @r"

        ## Done
        #3: ran 1 × $ git
        #1 to #2: changed 2 × files in docs/
        #9: changed docs/c.md
        ");
        for number in 0..2_000 {
            older.add_file(&format!("data/{number}/x"), 10 + number);
        }
        older.at_most(100);
        assert!(older.0.len() <= 100 && older.count() == 2_003);
    }
    #[test]
    fn a_directory_with_the_sign_of_commands_in_its_name_is_a_directory() {
        let mut groups = Groups::default();
        groups.add_file("$lib/a.ts", 1);
        groups.add_file("$lib/deep/b.ts", 2);
        groups.add_deed("$ make", 3);
        insta::assert_snapshot!(groups.write(200).unwrap(), @r"
        #3: ran 1 × $ make
        #1: changed 1 × files in $lib/
        #2: changed 1 × files in $lib/deep/
        ");
        while groups.widen() {}
        insta::assert_snapshot!(groups.write(200).unwrap(), @r"
        #3: ran 1 commands
        #1 to #2: changed 2 × files in ./
        ");
    }
}
