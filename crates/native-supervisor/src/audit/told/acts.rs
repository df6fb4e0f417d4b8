//! What a call does, from its arguments.
//!
//! A certain path begins with `/`. After `?/` comes a name in a directory that is not known,
//! and after `? ` the arguments of a call that can be read in more than one way.

use std::net::{Ipv4Addr, Ipv6Addr};

use cofferdam_types::AuditAct;

use super::arguments::Kind::{Path, Place, Socket, Word};
use super::arguments::{before_lists, path, split};
use super::report::Report;

/// The most characters of a directory, and of what can be read in more than one way.
const LONGEST: usize = 4096;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Execute,
    Open,
    Create,
    Rename,
    Delete,
    Connect,
}

fn verb(call: &str) -> Option<Verb> {
    Some(match call {
        "execve" | "execveat" => Verb::Execute,
        "open" | "openat" | "creat" | "truncate" => Verb::Open,
        "mkdir" | "mkdirat" | "mknod" | "mknodat" | "link" | "linkat" | "symlink" | "symlinkat" => {
            Verb::Create
        }
        "rename" | "renameat" | "renameat2" => Verb::Rename,
        "unlink" | "unlinkat" | "rmdir" => Verb::Delete,
        "connect" => Verb::Connect,
        _ => return None,
    })
}

/// Where a name is meant from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From<'a> {
    /// The working directory, and which that is if it is told.
    Here(Option<&'a str>),
    /// A descriptor, and where it leads if that is told.
    Descriptor(u32, Option<&'a str>),
}

impl<'a> From<'a> {
    /// From an argument that is one.
    pub(super) fn of(argument: &'a str) -> Self {
        if let Some(here) = argument.strip_prefix("AT_FDCWD ") {
            return Self::Here(Some(here));
        }
        let (number, leads) = match argument.split_once(' ') {
            Some((number, leads)) => (number, Some(leads)),
            None => (argument, None),
        };
        let number = u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap_or(u64::MAX);
        // A descriptor is a number of 32 bits; what is above them says nothing.
        match number as u32 {
            here if here == libc::AT_FDCWD as u32 => Self::Here(leads),
            descriptor => Self::Descriptor(descriptor, leads),
        }
    }

    /// Where it leads, if that is told of this one or of another of the same call's.
    fn told_by(self, other: Self) -> Self {
        match (self, other) {
            (Self::Here(None), Self::Here(_)) => other,
            (Self::Descriptor(one, None), Self::Descriptor(two, _)) if one == two => other,
            _ => self,
        }
    }

    /// The directory, if it is known.
    pub(super) fn directory(self, working: Option<&'a str>) -> Option<&'a str> {
        let directory = match self {
            Self::Here(here) => here.or(working),
            Self::Descriptor(_, leads) => leads,
        };
        // Sockets and what is no descriptor lead nowhere.
        let leads = |path: &&str| path.starts_with('/') && path.chars().count() <= LONGEST;
        directory.filter(leads)
    }
}

/// A name, as a call has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named<'a> {
    from: From<'a>,
    name: &'a str,
}

impl Named<'_> {
    fn path(self, working: Option<&str>) -> String {
        let Self { from, name } = self;
        if name.starts_with('/') {
            return name.to_owned();
        }
        // In place of a path that cannot be read, or the name of a file.
        let is_known = !name.starts_with("(error decoding path: ");
        join(from.directory(working).filter(|_| is_known), name)
    }
}

/// A name that is meant from a directory.
pub(super) fn join(directory: Option<&str>, name: &str) -> String {
    let Some(directory) = directory else { return format!("?/{name}") };
    match (name, directory.strip_suffix('/')) {
        ("", _) => directory.to_owned(),
        (_, Some(short)) => format!("{short}/{name}"),
        (_, None) => format!("{directory}/{name}"),
    }
}

/// What a call is about.
#[derive(Debug, PartialEq, Eq)]
enum About<'a> {
    One(Named<'a>),
    Two(Named<'a>, Named<'a>),
    Address(String),
    /// Nothing that leads anywhere.
    Nothing,
}

/// A call of those that are written down.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Doing<'a> {
    verb: Verb,
    /// Nothing where it can be read in more than one way.
    about: Option<About<'a>>,
    arguments: &'a str,
    /// It opens a file, and only to read it.
    only_reads: bool,
    /// The working directory, where it is told.
    pub(super) here: Option<&'a str>,
}

impl<'a> Doing<'a> {
    /// Reads a report; nothing where it is none of such a call.
    pub(super) fn read(report: &Report<'a>) -> Option<Self> {
        let Report { call, arguments, cut, in_doubt, .. } = *report;
        // The flags can be told from the end, whatever the path is, where there are flags and an end.
        let has_flags = matches!(call, "open" | "openat") && !cut;
        let only_reads = has_flags && only_reads(arguments);
        let unclear = Self { verb: verb(call)?, about: None, arguments, only_reads, here: None };
        let about = if in_doubt { None } else { about(call, arguments, cut) };
        let Some((about, from)) = about else { return Some(unclear) };
        let here = match from {
            From::Here(here) => here,
            From::Descriptor(..) => None,
        };
        Some(Self { about: Some(about), here, ..unclear })
    }

    /// What is written down of it, done by a process with this working directory.
    pub(super) fn act(&self, working: Option<&str>) -> Option<AuditAct> {
        if self.only_reads {
            return None;
        }
        let unclear = || {
            let text: String = self.arguments.chars().take(LONGEST).collect();
            format!("? {text}")
        };
        let (path, to) = match &self.about {
            Some(About::One(named)) => (named.path(working), None),
            Some(About::Two(from, to)) => (from.path(working), Some(to.path(working))),
            Some(About::Address(address)) => (address.clone(), None),
            Some(About::Nothing) => return None,
            None => (unclear(), None),
        };
        Some(match self.verb {
            Verb::Execute => AuditAct::Executed { path },
            Verb::Open => AuditAct::OpenedForWriting { path },
            Verb::Create => AuditAct::Created { path },
            Verb::Rename => {
                AuditAct::Renamed { from: path, to: to.unwrap_or_else(|| "?".to_owned()) }
            }
            Verb::Delete => AuditAct::Deleted { path },
            Verb::Connect => AuditAct::Connected { address: path },
        })
    }
}

fn only_reads(arguments: &str) -> bool {
    let mut words = arguments.rsplit(", ");
    let flags = words.nth(1).unwrap_or_default();
    let mut flags = flags.split('|');
    flags.next() == Some("O_RDONLY") && !flags.any(|flag| matches!(flag, "O_CREAT" | "O_TRUNC"))
}

/// What a call is about, and where its first name is meant from, if that can be told.
fn about<'a>(call: &str, arguments: &'a str, cut: bool) -> Option<(About<'a>, From<'a>)> {
    const HERE: From<'_> = From::Here(None);
    let one = |from, name: &'a str| (About::One(Named { from, name: path(name) }), from);
    let two = |(from, name): (From<'a>, &'a str), (into, new): (From<'a>, &'a str)| {
        let named = Named { from, name: path(name) };
        (About::Two(named, Named { from: into.told_by(from), name: path(new) }), from)
    };
    // Of two names of one thing the new one is made.
    let new = |(about, from)| match about {
        About::Two(_, new) => (About::One(new), from),
        other => (other, from),
    };
    let whole = |arguments| if cut { None } else { Some(arguments) };
    Some(match call {
        "execve" => {
            let [name] = split(before_lists(arguments, cut, 0)?, [Path])?;
            one(HERE, name)
        }
        "execveat" => {
            let [place, name] = split(before_lists(arguments, cut, 1)?, [Place, Path])?;
            one(From::of(place), name)
        }
        "unlink" | "rmdir" => {
            let [name] = split(whole(arguments)?, [Path])?;
            one(HERE, name)
        }
        "creat" | "truncate" | "mkdir" => {
            let [name, _] = split(whole(arguments)?, [Path, Word])?;
            one(HERE, name)
        }
        "open" | "mknod" => {
            let [name, _, _] = split(whole(arguments)?, [Path, Word, Word])?;
            one(HERE, name)
        }
        "mkdirat" | "unlinkat" => {
            let [place, name, _] = split(whole(arguments)?, [Place, Path, Word])?;
            one(From::of(place), name)
        }
        "openat" | "mknodat" => {
            let [place, name, _, _] = split(whole(arguments)?, [Place, Path, Word, Word])?;
            one(From::of(place), name)
        }
        "rename" | "link" | "symlink" => {
            let [old, name] = split(whole(arguments)?, [Path, Path])?;
            let both = two((HERE, old), (HERE, name));
            if call == "rename" { both } else { new(both) }
        }
        "renameat" => {
            let [from, old, to, name] = split(whole(arguments)?, [Place, Path, Place, Path])?;
            two((From::of(from), old), (From::of(to), name))
        }
        "renameat2" | "linkat" => {
            let kinds = [Place, Path, Place, Path, Word];
            let [from, old, to, name, _] = split(whole(arguments)?, kinds)?;
            let both = two((From::of(from), old), (From::of(to), name));
            if call == "linkat" { new(both) } else { both }
        }
        "symlinkat" => {
            let [_, place, name] = split(whole(arguments)?, [Path, Place, Path])?;
            one(From::of(place), name)
        }
        "connect" => {
            let [_, socket, _] = split(whole(arguments)?, [Place, Socket, Word])?;
            (address(socket)?, HERE)
        }
        _ => return None,
    })
}

/// The address of a socket; nothing where this is not understood.
fn address(socket: &str) -> Option<About<'_>> {
    let Some((_, inside)) = socket.split_once(" {Family: ") else { return Some(About::Nothing) };
    let inside = inside.strip_suffix('}')?;
    let (family, rest) = inside.split_once(", ").unwrap_or((inside, ""));
    if family == "AF_UNIX" {
        // The Sentry does not tell which.
        return Some(About::Address("unix:?".to_owned()));
    }
    if !matches!(family, "AF_INET" | "AF_INET6") || rest.starts_with("error ") {
        return Some(About::Nothing);
    }
    let (host, port) = rest.strip_prefix("Addr: ")?.split_once(", Port: ")?;
    let port: u16 = port.parse().ok()?;
    Some(About::Address(match host.parse::<Ipv4Addr>() {
        Ok(host) => format!("{host}:{port}"),
        Err(_) => format!("[{}]:{port}", host.parse::<Ipv6Addr>().ok()?),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::report::Phase;
    use super::*;

    fn report<'a>(call: &'a str, arguments: &'a str) -> Report<'a> {
        let (process, thread, phase) = (7, 8, Phase::Begins);
        let (cut, in_doubt) = (false, false);
        Report { process, thread, name: "x", phase, call, arguments, cut, in_doubt }
    }

    fn act(call: &str, arguments: &str) -> Option<AuditAct> {
        Doing::read(&report(call, arguments))?.act(Some("/here"))
    }

    fn opened(path: &str) -> Option<AuditAct> {
        Some(AuditAct::OpenedForWriting { path: path.to_owned() })
    }

    fn created(path: &str) -> Option<AuditAct> {
        Some(AuditAct::Created { path: path.to_owned() })
    }

    #[test]
    fn only_what_may_write_is_written_down() {
        assert_eq!(act("open", "0x7f10 a, O_RDONLY|O_CLOEXEC, 0o0"), None);
        for flags in ["O_WRONLY", "O_RDWR|O_CLOEXEC", "O_RDONLY|O_CREAT", "O_RDONLY|O_TRUNC", "0x3"]
        {
            assert_eq!(
                act("open", &format!("0x7f10 a, {flags}, 0o0")),
                opened("/here/a"),
                "{flags}"
            );
        }
        assert_eq!(act("openat", "AT_FDCWD /a, 0x1 b, 0x7f10 c, O_RDONLY, 0o0"), None);
        assert_eq!(act("creat", "0x7f10 /a/b, 0o644"), opened("/a/b"));
        assert_eq!(act("truncate", "0x7f10 b, 0x3"), opened("/here/b"));
        assert_eq!(act("read", "0x3, 0x7f10, 0x3"), None);
    }

    #[test]
    fn a_name_is_not_taken_for_flags() {
        for call in ["creat", "truncate"] {
            assert!(act(call, "0x7f10 l, O_RDONLY, 0x0").is_some(), "{call}");
        }
        // The end of what is left of a line is somewhere in it.
        let cut = Report { cut: true, ..report("openat", "0x3 /d, O_RDONLY, aaa") };
        assert!(Doing::read(&cut).unwrap().act(None).is_some());
    }

    #[test]
    fn names_are_meant_from_the_directory_that_is_told() {
        assert_eq!(act("openat", "AT_FDCWD /there, 0x7f10 c, O_RDWR, 0o0"), opened("/there/c"));
        assert_eq!(act("openat", "AT_FDCWD /, 0x7f10 c, O_RDWR, 0o0"), opened("/c"));
        assert_eq!(act("openat", "0x3 /d, 0x7f10 c, O_RDWR, 0o0"), opened("/d/c"));
        assert_eq!(act("openat", "0x3 (bad FD), 0x7f10 c, O_RDWR, 0o0"), opened("?/c"));
        assert_eq!(act("openat", "0x3 socket:[1], <null>, O_RDWR, 0o0"), opened("?/"));
        assert_eq!(act("mkdirat", "0x3 /d, 0x7f10 /c, 0o777"), created("/c"));
        let unread = "(error decoding path: bad address)";
        let unread = (format!("0x1 {unread}, 0o777"), format!("?/{unread}"));
        assert_eq!(act("mkdir", &unread.0), created(&unread.1));
        assert_eq!(act("symlinkat", "0x7f10 /target, 0x3 /d, 0x7f20 l"), created("/d/l"));
        assert_eq!(
            act("linkat", "0x3 /d, 0x7f10 a, 0xffffff9c, 0x7f20 l, 0x0"),
            created("/here/l")
        );
        assert_eq!(act("link", "0x7f10 a, 0x7f20 l"), created("/here/l"));
        let deep = format!("AT_FDCWD /{}, 0x7f10 c, O_RDWR, 0o0", "d/".repeat(3000));
        assert_eq!(act("openat", &deep), opened("?/c"));
    }

    #[test]
    fn the_second_directory_of_a_renaming_may_be_the_first() {
        let renamed = |from: &str, to: &str| {
            Some(AuditAct::Renamed { from: from.to_owned(), to: to.to_owned() })
        };
        let act = |arguments: &str| act("renameat", arguments);
        assert_eq!(act("0x3 /d, 0x7f10 a, 0x3, 0x7f20 b"), renamed("/d/a", "/d/b"));
        assert_eq!(act("0x3 /d, 0x7f10 a, 0x4, 0x7f20 b"), renamed("/d/a", "?/b"));
        assert_eq!(act("0x3 /d, 0x7f10 a, 0x4 /e, 0x7f20 b"), renamed("/d/a", "/e/b"));
        let here = "AT_FDCWD /e, 0x7f10 a, 0xffffffffffffff9c, 0x7f20 b";
        assert_eq!(act(here), renamed("/e/a", "/e/b"));
        let twofold = "0x3 /d, 0x1 x, 0x7f10 a, 0x3, 0x7f20 b";
        assert_eq!(act(twofold), renamed(&format!("? {twofold}"), "?"));
    }

    #[test]
    fn what_is_not_certain_says_so() {
        let twofold = "AT_FDCWD /a, 0x1 b, 0x7f10 c, O_RDWR, 0o0";
        assert_eq!(act("openat", twofold), opened(&format!("? {twofold}")));
        let long = "x".repeat(40_000);
        let doing = Doing::read(&Report { cut: true, ..report("unlink", &long) }).unwrap();
        let Some(AuditAct::Deleted { path }) = doing.act(None) else { panic!() };
        assert!(path.starts_with("? xxx") && path.len() == 2 + LONGEST);
        let doubted = Report { in_doubt: true, ..report("unlink", "0x7f10 /a") };
        assert_eq!(
            Doing::read(&doubted).unwrap().act(None),
            Some(AuditAct::Deleted { path: "? 0x7f10 /a".to_owned() })
        );
    }

    #[test]
    fn connections_are_written_as_people_read_them() {
        let connected =
            |inside: &str| match act("connect", &format!("0x3 socket:[3], {inside}, 0x10"))? {
                AuditAct::Connected { address } => Some(address),
                _ => None,
            };
        let four = "0x7f10 {Family: AF_INET, Addr: 127.0.0.1, Port: 9}";
        assert_eq!(connected(four).as_deref(), Some("127.0.0.1:9"));
        let six = "0x7f10 {Family: AF_INET6, Addr: ::1, Port: 80}";
        assert_eq!(connected(six).as_deref(), Some("[::1]:80"));
        let unix = "0x7f10 {Family: AF_UNIX, error extracting address: not supported}";
        assert_eq!(connected(unix).as_deref(), Some("unix:?"));
        assert_eq!(connected("0x7f10 {Family: AF_NETLINK}"), None);
        assert_eq!(connected("0x7f10 {Family: AF_INET, error extracting address: x}"), None);
        assert_eq!(connected("null"), None);
        let new = connected("0x7f10 {Family: AF_INET, Host: 127.0.0.1}").unwrap();
        assert!(new.starts_with("? "), "{new}");
    }

    #[test]
    fn programs_are_told_from_their_lists() {
        let executed = |path: &str| Some(AuditAct::Executed { path: path.to_owned() });
        let lists = r#"0x7f20 ["ls", ", 0x1 ["], 0x7f30 []"#;
        assert_eq!(act("execve", &format!("0x7f10 ls, {lists}")), executed("/here/ls"));
        let at = format!("0x3 /bin/ls, 0x7f10 , {lists}, 0x1000");
        assert_eq!(act("execveat", &at), executed("/bin/ls"));
    }
}
