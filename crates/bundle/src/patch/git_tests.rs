//! Patches of made-up trees, applied by git itself.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

type Tree = BTreeMap<Vec<u8>, Version>;

fn version(mode: Mode, content: &[u8]) -> Version {
    Version { mode, content: Bytes::copy_from_slice(content) }
}

/// The patch between two trees.
fn patch(before: &Tree, after: &Tree, patience: Duration) -> Vec<u8> {
    let mut paths: Vec<&Vec<u8>> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let changed = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    let until = Instant::now() + patience;
    changed.flat_map(|path| change(path, before.get(path), after.get(path), until)).collect()
}

fn write_tree(root: &Path, tree: &Tree) {
    for (path, version) in tree {
        let path = root.join(OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if version.mode == Mode::Link {
            symlink(OsStr::from_bytes(&version.content), &path).unwrap();
            continue;
        }
        fs::write(&path, &version.content).unwrap();
        let bits = if version.mode == Mode::Program { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
    }
}

fn read_tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut directories: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            if about.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            let found = if about.is_symlink() {
                version(Mode::Link, fs::read_link(&path).unwrap().as_os_str().as_bytes())
            } else if about.permissions().mode() & 0o100 != 0 {
                version(Mode::Program, &fs::read(&path).unwrap())
            } else {
                version(Mode::Plain, &fs::read(&path).unwrap())
            };
            tree.insert(name, found);
        }
    }
    tree
}

/// What git makes of a tree with a patch.
#[expect(clippy::disallowed_methods, reason = "a test starts git")]
fn applied(before: &Tree, patch: &[u8], arguments: &[&str]) -> Tree {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("tree");
    fs::create_dir(&root).unwrap();
    write_tree(&root, before);
    let file = home.path().join("patch");
    fs::write(&file, patch).unwrap();
    let mut git = Command::new("git");
    git.args(["apply", "--binary", "--whitespace=nowarn"]).args(arguments).arg(&file);
    git.current_dir(&root).env("GIT_CEILING_DIRECTORIES", home.path());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = git.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", patch.escape_ascii());
    read_tree(&root)
}

fn assert_applies(before: &Tree, after: &Tree) {
    for patience in [Duration::ZERO, Duration::from_secs(1)] {
        let patch = patch(before, after, patience);
        if patch.is_empty() {
            assert_eq!(before, after);
            continue;
        }
        assert_same(&applied(before, &patch, &[]), after, &patch);
        // Backwards git forgets what a deleted file was (2.47), also with its own
        // patches, so only the contents are the same.
        let plain = |tree: &Tree| -> Tree {
            tree.iter().map(|(path, v)| (path.clone(), version(Mode::Plain, &v.content))).collect()
        };
        let back = applied(after, &patch, &["--reverse"]);
        assert_same(&plain(&back), &plain(before), &patch);
    }
}

fn assert_same(found: &Tree, expected: &Tree, patch: &[u8]) {
    let paths = found.keys().chain(expected.keys());
    let wrong: Vec<String> = paths
        .filter(|path| found.get(*path) != expected.get(*path))
        .map(|path| format!("{}", path.escape_ascii()))
        .collect();
    let start: Vec<u8> = patch.iter().take(5_000).copied().collect();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", String::from_utf8_lossy(&start));
}

fn tree(files: &[(&str, Version)]) -> Tree {
    files.iter().map(|(path, version)| (path.as_bytes().to_vec(), version.clone())).collect()
}

#[test]
fn kinds_change_into_each_other() {
    let plain = || version(Mode::Plain, b"a\nb\n");
    let before = tree(&[
        ("to-link", plain()),
        ("to-file", version(Mode::Link, b"elsewhere")),
        ("to-directory", plain()),
        ("to-leaf/x", plain()),
        ("link-to-directory", version(Mode::Link, b"to-leaf")),
        ("program", plain()),
        ("binary", version(Mode::Plain, &[0, 1, 2])),
        ("to-binary", plain()),
        ("empty", version(Mode::Plain, b"")),
        ("gone", version(Mode::Program, b"")),
        ("big", version(Mode::Plain, &vec![b'\n'; LONGEST_TEXT + 1])),
    ]);
    let after = tree(&[
        ("to-link", version(Mode::Link, b"a\nb")),
        ("to-file", plain()),
        ("to-directory/x", plain()),
        ("to-leaf", plain()),
        ("link-to-directory/y", plain()),
        ("program", version(Mode::Program, b"a\nb\n")),
        ("binary", version(Mode::Program, &[0, 1, 3])),
        ("to-binary", version(Mode::Plain, &[0; 100_000])),
        ("empty", version(Mode::Plain, b"no end")),
        ("new-empty", version(Mode::Plain, b"")),
        ("new binary", version(Mode::Plain, &[255, 0])),
        ("big", version(Mode::Plain, b"")),
    ]);
    assert_applies(&before, &after);
    assert_applies(&after, &before);
}

#[test]
fn a_text_change_reads_as_git_writes_it() {
    let before = tree(&[("a b", version(Mode::Plain, b"1\n2\n3\n4\n5\n6\n7\n8\n9"))]);
    let after = tree(&[("a b", version(Mode::Plain, b"1\n2\n3\n4\nfive\n6\n7\n8\n9\n"))]);
    let patch = String::from_utf8(patch(&before, &after, Duration::from_secs(1))).unwrap();
    let expected = "diff --git a/a b b/a b\n\
        index a44664c6f3f2ff83ae65c2ffe5e5bef1d3e7a8a4..0000 100644\n\
        --- a/a b\t\n+++ b/a b\t\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n\
        \\ No newline at end of file\n+9\n";
    let without_index = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("index ")).map(str::to_owned).collect()
    };
    assert_eq!(without_index(&patch), without_index(expected));
    assert!(patch.contains(" 100644\n--- a/a b\t\n"));
}

#[test]
fn a_comparison_whose_time_is_up_is_right_all_the_same() {
    // The library counts lines wrongly then.
    let before = b"\xff\xfe\nGIT\n--- a/x\ntwo\ndiff\n\n--- a/x\n";
    let after = b"\\ No\ntrailing  \n-- \n\n-- \n\n";
    let before = tree(&[("b", version(Mode::Plain, before))]);
    assert_applies(&before, &tree(&[("b", version(Mode::Plain, after))]));
}

#[test]
fn names_that_git_refuses_are_known() {
    for name in [".git/x", "a/.GIT/x", "git~1", ".git ", ".git...", ".git::$DATA", ".git\\x"] {
        assert!(refused(name.as_bytes(), false).is_some(), "{name}");
    }
    for name in [".gitignore", ".github/x", "git", "a.git", ".gitmodules"] {
        assert!(refused(name.as_bytes(), false).is_none(), "{name}");
    }
    assert!(refused(b".gitmodules", true).is_some());
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<&'static [u8]> = vec![
        b"a",
        b"b c",
        b" lead",
        b"trail ",
        b"tab\there",
        b"line\nbreak",
        b"quote\"",
        b"back\\slash",
        b"\xc3\xbc",
        b"\xff\xfe",
        b"-rf",
        b"b",
        b"dev",
        b"null",
        b"\x1b]0;x\x07",
        b"diff --git a",
        b"C:x",
        b"\x7f",
    ];
    vec(select(names), 1..3).prop_map(|names| names.join(&b'/'))
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<&'static [u8]> = vec![
        b"one\n",
        b"two\n",
        b"\n",
        b"\r\n",
        b"--- a/x\n",
        b"+++ b/x\n",
        b"@@ -1 +1 @@\n",
        b"\\ No newline at end of file\n",
        b"diff --git a/x b/x\n",
        b"-- \n",
        b"\xff\xfe\n",
        b"no end",
        b"GIT binary patch\n",
        b"trailing  \n",
    ];
    let text = vec(select(lines), 0..30).prop_map(|lines| lines.concat());
    prop_oneof![5 => text, 1 => vec(any::<u8>(), 0..300)]
}

fn any_version() -> impl Strategy<Value = Version> {
    // None leads in a circle: git makes no directory in the place of such a link.
    let link = select(vec!["x", "x y", "../x", "deep/er"]);
    prop_oneof![
        4 => content().prop_map(|content| version(Mode::Plain, &content)),
        1 => content().prop_map(|content| version(Mode::Program, &content)),
        1 => link.prop_map(|link| version(Mode::Link, link.as_bytes())),
    ]
}

/// A tree in which nothing is both a leaf and a directory.
fn any_tree() -> impl Strategy<Value = Tree> {
    vec((path(), any_version()), 0..8).prop_map(|files| {
        let mut tree = Tree::new();
        for (path, version) in files {
            let above = |one: &[u8], other: &[u8]| {
                one.strip_prefix(other).is_some_and(|rest| rest.starts_with(b"/"))
            };
            if !tree.keys().any(|known: &Vec<u8>| above(known, &path) || above(&path, known)) {
                tree.insert(path, version);
            }
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn git_makes_the_one_tree_out_of_the_other(before in any_tree(), after in any_tree()) {
        assert_applies(&before, &after);
    }

    #[test]
    fn lines_that_change_here_and_there_come_out_right(
        lines in vec(0..12_u8, 0..120),
        edits in vec((0..120_usize, 0..3_u8, 0..12_u8), 0..12),
    ) {
        let text = |lines: &[u8]| -> Vec<u8> {
            lines.iter().flat_map(|line| format!("line {line}\n").into_bytes()).collect()
        };
        let mut edited = lines.clone();
        for (place, what, line) in edits {
            let place = place.min(edited.len());
            match what {
                0 => edited.insert(place, line),
                1 if place < edited.len() => drop(edited.remove(place)),
                _ if place < edited.len() => edited[place] = line,
                _ => {}
            }
        }
        let before = tree(&[("f", version(Mode::Plain, &text(&lines)))]);
        let after = tree(&[("f", version(Mode::Plain, &text(&edited)))]);
        assert_applies(&before, &after);
    }
}
