//! Listings, patterns, searches.

use std::fs;
use std::os::unix::fs::symlink;

use cofferdam_guest_protocol::{Entry, EntryKind, FileError, FileReply, FileRequest, Match};

use crate::client::{Client, Outcome};
use crate::guest::Guest;

fn names(outcome: &Outcome) -> Vec<String> {
    let entries: Vec<Entry> = outcome.records();
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}

fn list(client: &mut Client, path: &str, depth: u32, limit: u32) -> Outcome {
    client.file(FileRequest::List { path: path.into(), depth, limit })
}

fn glob(client: &mut Client, path: &str, pattern: &str, respect_ignore: bool) -> Outcome {
    let pattern = pattern.to_owned();
    client.file(FileRequest::Glob { path: path.into(), pattern, respect_ignore, limit: 1000 })
}

fn search(path: &str, pattern: &str) -> FileRequest {
    FileRequest::Search {
        path: path.into(),
        pattern: pattern.to_owned(),
        literal: false,
        ignore_case: false,
        glob: None,
        respect_ignore: true,
        context: 0,
        limit: 1000,
    }
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let matches: Vec<Match> = outcome.records();
    let line = |found: &Match| {
        let separator = if found.matched { ':' } else { '-' };
        let path = String::from_utf8_lossy(&found.path).into_owned();
        format!(
            "{path}{separator}{}{separator}{}",
            found.line,
            String::from_utf8_lossy(&found.text)
        )
    };
    matches.iter().map(line).collect()
}

#[test]
fn a_directory_is_listed_in_order_and_to_the_depth_asked() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("b/inner/deep", "1");
    guest.put("b/file", "12");
    guest.put("a", "123");
    guest.put("outside", "");
    symlink("../outside", guest.workspace().join("b/link")).unwrap();
    symlink("b", guest.workspace().join("c")).unwrap();
    guest.give_away();

    let outcome = list(&mut client, ".", 1, 100);
    assert_eq!(names(&outcome), ["a", "b", "c", "outside"]);
    assert_eq!(
        names(&list(&mut client, ".", 9, 100)),
        ["a", "b", "b/file", "b/inner", "b/inner/deep", "b/link", "c", "outside"]
    );
    assert_eq!(names(&list(&mut client, "b", 1, 100)), ["b/file", "b/inner", "b/link"]);
    assert_eq!(names(&list(&mut client, "c", 1, 1)), ["c/file"], "through a link inside");
    let outcome = list(&mut client, "b", 2, 100);
    let entries: Vec<Entry> = outcome.records();
    assert_eq!(entries[3].link.as_deref(), Some(b"../outside".as_slice()));
    assert_eq!(entries[3].stat.kind, EntryKind::Link);
    assert_eq!((entries[0].stat.kind, entries[0].stat.size), (EntryKind::File, 2));

    let outcome = list(&mut client, ".", 9, 3);
    assert_eq!(names(&outcome), ["a", "b", "b/file"]);
    let listed = FileReply::Listed { records: 3, more: true, unreadable: vec![] };
    assert_eq!(outcome.file(), Ok(listed));
    assert_eq!(list(&mut client, "a", 1, 3).file(), Err(FileError::NotDirectory));
    assert_eq!(list(&mut client, "none", 1, 3).file(), Err(FileError::NotFound));
}

#[test]
fn names_that_are_no_text_are_listed_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let guest = Guest::start();
    let mut client = guest.connect();
    let name = std::ffi::OsStr::from_bytes(b"\xff\n\x01");
    fs::write(guest.workspace().join(name), "").unwrap();
    let entries: Vec<Entry> = list(&mut client, ".", 1, 10).records();
    assert_eq!(entries[0].path, b"\xff\n\x01");
}

#[test]
fn patterns_match_paths() {
    let guest = Guest::start();
    let mut client = guest.connect();
    for path in ["src/a.rs", "src/deep/er/b.rs", "src/c.txt", "d.rs", ".hidden/e.rs"] {
        guest.put(path, "");
    }
    symlink("src", guest.workspace().join("again")).unwrap();
    let mut found = |path, pattern| names(&glob(&mut client, path, pattern, true));
    let every = [".hidden/e.rs", "d.rs", "src/a.rs", "src/deep/er/b.rs"];
    assert_eq!(found(".", "**/*.rs"), every);
    assert_eq!(found(".", "*.rs"), ["d.rs"]);
    assert_eq!(found("src", "**/*.rs"), ["src/a.rs", "src/deep/er/b.rs"]);
    assert_eq!(found(".", "src/*.{rs,txt}"), ["src/a.rs", "src/c.txt"]);
    assert_eq!(found(".", "again"), ["again"]);
    assert_eq!(found(".", "again/*"), Vec::<String>::new());
    let outcome = glob(&mut client, ".", "a[", true);
    assert!(matches!(outcome.file(), Err(FileError::Pattern(_))));
}

#[test]
fn ignore_files_are_respected_or_not() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put(".gitignore", "*.log\n/target/\n!keep.log\n");
    guest.put(".git/info/exclude", "private\n");
    guest.put(".git/HEAD", "");
    guest.put("sub/.gitignore", "local\n!again.log\n");
    guest.put("sub/.ignore", "other\n");
    for path in [
        "a.log",
        "keep.log",
        "target/x",
        "sub/target/y",
        "sub/again.log",
        "sub/b.log",
        "sub/local",
        "sub/other",
        "local",
        "private",
        "plain",
    ] {
        guest.put(path, "needle\n");
    }
    let seen = ["keep.log", "local", "plain", "sub/again.log", "sub/target/y"];
    let no_dots = |names: Vec<String>| -> Vec<String> {
        names.into_iter().filter(|name| !name.contains("ignore")).collect()
    };
    assert_eq!(no_dots(names(&glob(&mut client, ".", "**", true))), seen);
    assert_eq!(
        no_dots(names(&glob(&mut client, "sub", "**", true))),
        ["sub/again.log", "sub/target/y"],
        "rules from above hold below"
    );
    assert_eq!(names(&glob(&mut client, ".", "**", false)).len(), 11 + 5);
    let found = lines(&client.file(search(".", "needle")));
    assert_eq!(found, seen.map(|path| format!("{path}:1:needle")));
}

#[test]
fn an_ignore_file_that_is_a_trap_does_no_harm() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let pipe = guest.workspace().join(".gitignore");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    guest.put("sub/file", "");
    symlink("/etc/passwd", guest.workspace().join("sub/.gitignore")).unwrap();
    guest.give_away();
    assert_eq!(names(&glob(&mut client, ".", "**/file", true)), ["sub/file"]);
}

#[test]
fn ignore_files_that_are_too_much_together_are_left_out_and_named() {
    let guest = Guest::start();
    let mut client = guest.connect();
    // Each costs as much as the first, however often it is the same.
    let rules: String = (0..20_000).map(|line| format!("name-{line}\n")).collect();
    let first = guest.put("d00/.gitignore", format!("{rules}plain\n"));
    guest.put("d00/plain", "");
    for directory in 1..60 {
        let directory = guest.workspace().join(format!("d{directory:02}"));
        fs::create_dir(&directory).unwrap();
        fs::hard_link(&first, directory.join(".gitignore")).unwrap();
        fs::write(directory.join("plain"), "").unwrap();
    }
    guest.give_away();
    let outcome = glob(&mut client, ".", "*/plain", true);
    assert_eq!(names(&outcome).len(), 58, "only the first two are heeded");
    let Ok(FileReply::Listed { unreadable, .. }) = outcome.file() else { panic!() };
    assert_eq!(unreadable.len(), 58);
    assert_eq!(unreadable[0].0, b"d02/.gitignore");
    assert!(unreadable[0].1.contains("not heeded"), "{unreadable:?}");

    // Those that are long, and no rules at all.
    fs::write(&first, "#".repeat(1_000_000)).unwrap();
    let outcome = glob(&mut client, ".", "*/plain", true);
    let Ok(FileReply::Listed { unreadable, .. }) = outcome.file() else { panic!() };
    assert_eq!(unreadable.len(), 56);
}

#[test]
fn an_ignore_file_that_is_too_long_is_heeded_as_far_as_it_is_read() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let beginning = "first\n".to_owned() + &"#\n".repeat((1 << 19) - 10);
    // The line that the bound is in would be `/`, or `/a`, or the like.
    guest.put(".gitignore", format!("{beginning}{}\nlast\n", "/aaaaaaaaaaa".repeat(40)));
    guest.put("first", "");
    guest.put("last", "");
    let outcome = glob(&mut client, ".", "*t", true);
    assert_eq!(names(&outcome), ["last"]);
    let Ok(FileReply::Listed { unreadable, .. }) = outcome.file() else { panic!() };
    assert_eq!((unreadable.len(), unreadable[0].0.as_slice()), (1, b".gitignore".as_slice()));
}

#[test]
fn an_absurd_line_of_an_ignore_file_does_not_end_the_walk() {
    let guest = Guest::start();
    let mut client = guest.connect();
    for depth in [300, 200_000] {
        let nested = format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        guest.put(".gitignore", format!("{nested}\nignored\n"));
        guest.put("ignored", "");
        guest.put("file", "");
        let outcome = glob(&mut client, ".", "[a-z]*", true);
        assert_eq!(names(&outcome), ["file"], "{:?}", outcome.file());
    }
}

#[test]
fn matching_lines_come_with_their_numbers_and_context() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("a.txt", "one\ntwo\r\nthree\nfour\nfive\ntwo again");
    guest.put("b/c.rs", "let two = 2;\n");
    let mut run = |request| lines(&client.file(request));
    assert_eq!(
        run(search(".", "two")),
        ["a.txt:2:two", "a.txt:6:two again", "b/c.rs:1:let two = 2;"]
    );
    let FileRequest::Search { path, pattern, literal, .. } = search(".", "t.o") else { panic!() };
    let with = |ignore_case, glob: Option<&str>, context, limit| FileRequest::Search {
        path: path.clone(),
        pattern: pattern.clone(),
        literal,
        ignore_case,
        glob: glob.map(str::to_owned),
        respect_ignore: false,
        context,
        limit,
    };
    assert_eq!(
        run(with(false, Some("*.txt"), 1, 1)),
        ["a.txt-1-one", "a.txt:2:two", "a.txt-3-three"]
    );
    assert_eq!(run(with(true, Some("b/**"), 0, 9)), ["b/c.rs:1:let two = 2;"]);
    assert_eq!(run(search("a.txt", "^f...$")), ["a.txt:4:four", "a.txt:5:five"]);
    assert_eq!(run(search("b", "let")), ["b/c.rs:1:let two = 2;"]);
}

#[test]
fn a_literal_is_no_expression_and_case_can_be_ignored() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("file", b"a.b\nA.B\naxb\n\xff\n");
    let with = |literal, ignore_case| FileRequest::Search {
        path: b"file".to_vec(),
        pattern: "a.b".to_owned(),
        literal,
        ignore_case,
        glob: None,
        respect_ignore: false,
        context: 0,
        limit: 10,
    };
    assert_eq!(lines(&client.file(with(true, false))), ["file:1:a.b"]);
    assert_eq!(lines(&client.file(with(true, true))), ["file:1:a.b", "file:2:A.B"]);
    assert_eq!(lines(&client.file(with(false, false))), ["file:1:a.b", "file:3:axb"]);
}

#[test]
fn limits_binary_files_long_lines_and_bad_patterns_are_minded() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("binary", b"needle\n\0needle\n");
    guest.put("late-binary", [b"needle\n".repeat(100_000).as_slice(), b"\0"].concat());
    guest.put("long", [b"needle".as_slice(), &vec![b'x'; 300_000]].concat());
    guest.put("many", "needle\n".repeat(50));
    let FileRequest::Search { path, pattern, .. } = search(".", "needle") else { panic!() };
    let request = FileRequest::Search {
        path,
        pattern,
        literal: false,
        ignore_case: false,
        glob: None,
        respect_ignore: false,
        context: 0,
        limit: 20,
    };
    let outcome = client.file(request);
    let matches: Vec<Match> = outcome.records();
    let late: Vec<&Match> = matches.iter().filter(|m| m.path == b"late-binary").collect();
    assert!(late.len() == 20 || late.is_empty(), "its end was not reached: {}", late.len());
    assert!(matches.iter().all(|m| m.path != b"binary"));
    assert_eq!(matches.len(), 20);
    assert!(matches!(outcome.file(), Ok(FileReply::Listed { records: 20, more: true, .. })));

    let outcome = client.file(search("long", "needle"));
    let matches: Vec<Match> = outcome.records();
    assert_eq!(matches[0].text.len(), 64 << 10);
    let bad = client.file(search(".", "a("));
    assert!(matches!(bad.file(), Err(FileError::Pattern(_))));
    let absurd = client.file(search(".", "((a{1000}){1000}){1000}"));
    assert!(matches!(absurd.file(), Err(FileError::Pattern(_))));
}

#[test]
fn patterns_that_ask_too_much_are_told_from_requests_that_were_ended() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("file", "needle\n");
    for depth in [300, 100_000] {
        let nested = format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        let outcome = glob(&mut client, ".", &nested, true).file();
        assert!(matches!(outcome, Err(FileError::Pattern(_))), "{outcome:?}");
        let FileRequest::Search { path, pattern, .. } = search(".", "needle") else { panic!() };
        let request = FileRequest::Search {
            path,
            pattern,
            literal: false,
            ignore_case: false,
            glob: Some(nested),
            respect_ignore: true,
            context: 0,
            limit: 10,
        };
        let outcome = client.file(request).file();
        assert!(matches!(outcome, Err(FileError::Pattern(_))), "{outcome:?}");
    }
}

#[test]
fn unreadable_places_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let guest = Guest::start();
    let mut client = guest.connect();
    if client.run(crate::client::argv(&["id", "-u"])).text() == "0\n" {
        return; // Everything is readable to this user.
    }
    guest.put("locked/file", "");
    guest.put("open/file", "");
    let locked = guest.workspace().join("locked");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let outcome = list(&mut client, ".", 5, 100);
    assert_eq!(names(&outcome), ["locked", "open", "open/file"]);
    let Ok(FileReply::Listed { unreadable, .. }) = outcome.file() else { panic!() };
    assert_eq!(unreadable.len(), 1);
    assert_eq!(unreadable[0].0, b"locked");
}

#[test]
fn a_very_deep_tree_is_listed() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put_deep(500);
    let outcome = list(&mut client, ".", u32::MAX, 10_000);
    let names = names(&outcome);
    assert_eq!(names.len(), 1000);
    assert!(names.iter().any(|name| name.len() > 5_000 && name.ends_with("/directory-499/file")));
    let outcome = glob(&mut client, ".", "**/directory-499/*", true);
    assert_eq!(outcome.records::<Entry>().len(), 1);
}
