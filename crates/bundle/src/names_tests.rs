//! Names: a table of tricks, and properties of whatever comes.

use proptest::prelude::*;

use super::*;

fn names(paths: &[(&[u8], Kind)]) -> Vec<Named> {
    let mut names = Names::default();
    paths.iter().map(|(path, kind)| names.name(path, *kind)).collect()
}

fn leaves(paths: &[&str]) -> Vec<String> {
    let mut names = Names::default();
    let name = |path: &&str| match names.name(path.as_bytes(), Kind::Leaf) {
        Named::Entry { path, .. } => path,
        other => format!("{other:?}"),
    };
    paths.iter().map(name).collect()
}

#[test]
fn names_that_are_the_same_somewhere_are_told_apart() {
    assert_eq!(
        leaves(&["Makefile", "makefile", "MAKEFILE", "makefile_2"]),
        ["Makefile", "makefile_2", "MAKEFILE_3", "makefile_2_2"]
    );
    assert_eq!(leaves(&["a.txt", "A.TXT", "a.TXT"]), ["a.txt", "A_2.TXT", "a_3.TXT"]);
    assert_eq!(leaves(&["\u{e9}", "e\u{301}"]), ["\u{e9}", "e\u{301}_2"]);
    assert_eq!(leaves(&["a:b", "a?b", "a_b"]), ["a_b", "a_b_2", "a_b_3"]);
}

#[test]
fn what_is_in_a_renamed_directory_goes_with_it() {
    let found = names(&[
        (b"Src", Kind::Directory),
        (b"Src/main.rs", Kind::Leaf),
        (b"src", Kind::Directory),
        (b"src/main.rs", Kind::Leaf),
        (b"src/con", Kind::Directory),
        (b"src/con/x", Kind::Leaf),
        (b"src/last", Kind::Leaf),
    ]);
    let paths: Vec<&str> = found
        .iter()
        .map(|named| match named {
            Named::Entry { path, .. } => path.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        paths,
        [
            "Src",
            "Src/main.rs",
            "src_2",
            "src_2/main.rs",
            "src_2/_con",
            "src_2/_con/x",
            "src_2/last"
        ]
    );
}

#[test]
fn paths_that_lead_out_are_led_back_in() {
    assert_eq!(
        leaves(&["/etc/passwd", "../../evil", "a/../b", "./c", "d//e"]),
        ["etc/passwd", "__/__/evil", "a/__/b", "c", "d/e"]
    );
    let found = names(&[(b".", Kind::Directory), (b"/", Kind::Directory), (b"", Kind::Leaf)]);
    assert_eq!(found, [Named::Known, Named::Known, Named::Known]);
}

#[test]
fn nothing_is_ever_beneath_a_file_or_a_link() {
    let found = names(&[(b"x", Kind::Leaf), (b"x/y", Kind::Leaf), (b"X/z", Kind::Leaf)]);
    let entry = |path: &str| Named::Entry { path: path.to_owned(), changed: path != "x" };
    assert_eq!(found, [entry("x"), entry("x_2/y"), entry("X_3/z")]);
}

#[test]
fn only_a_changed_name_counts_as_changed() {
    let found = names(&[(b"dir", Kind::Directory), (b"dir/file", Kind::Leaf)]);
    assert!(found.iter().all(|named| matches!(named, Named::Entry { changed: false, .. })));
    let found = names(&[(b"dir.", Kind::Directory), (b"dir./file", Kind::Leaf)]);
    assert!(found.iter().all(|named| matches!(named, Named::Entry { changed: true, .. })));
}

#[test]
fn endless_paths_are_no_names() {
    let deep = vec![b"d".as_slice(); 500].join(&b'/');
    assert!(matches!(names(&[(&deep, Kind::Leaf)])[..], [Named::Entry { .. }]));
    let deeper = vec![[b'd'; 200].as_slice(); 30].join(&b'/');
    assert_eq!(names(&[(&deeper, Kind::Leaf)]), [Named::TooLong]);
}

#[test]
fn the_manifest_takes_no_file_s_name() {
    let mut names = Names::default();
    assert_eq!(names.own("MANIFEST.json", "MANIFEST.cofferdam.json"), "MANIFEST.json");
    let mut names = Names::default();
    names.name(b"manifest.JSON", Kind::Leaf);
    assert_eq!(names.own("MANIFEST.json", "MANIFEST.cofferdam.json"), "MANIFEST.cofferdam.json");
    let mut names = Names::default();
    names.name(b"MANIFEST.json/x", Kind::Leaf);
    names.name(b"MANIFEST.cofferdam.json", Kind::Leaf);
    assert_eq!(names.own("MANIFEST.json", "MANIFEST.cofferdam.json"), "MANIFEST.cofferdam_2.json");
}

#[test]
fn many_names_for_one_place_are_told_apart_quickly() {
    // Each of them becomes `_`, at the end of a name that is as long as can be.
    let mut names = Names::default();
    let mut given = HashSet::new();
    for number in 0..10_000_u32 {
        let controls: Vec<u8> =
            (0..4).map(|place| 1 + (number >> (place * 4) & 15) as u8).collect();
        let path = [&[b'x'; 251], controls.as_slice()].concat();
        let Named::Entry { path, .. } = names.name(&path, Kind::Leaf) else { panic!("{number}") };
        assert!(path.len() <= 255);
        assert!(given.insert(path));
    }
    let tried: u32 = names.numbers.values().sum();
    assert!(tried <= 10_001, "{tried} numbers were tried");
}

/// Whether any system could take a name for more than a name.
fn is_harmless(path: &str) -> bool {
    path.len() <= LONGEST_PATH
        && path.split('/').all(|part| {
            let stem = part.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
            let reserved = ["CON", "PRN", "AUX", "NUL", "COM1", "LPT9"].contains(&stem.as_str());
            !part.is_empty()
                && part.len() <= 255
                && !part.ends_with(['.', ' '])
                && !part.contains(['\\', ':', '<', '>', '"', '|', '?', '*', '\u{202e}'])
                && !part.chars().any(char::is_control)
                && !part.eq_ignore_ascii_case(".git")
                && !reserved
        })
}

/// Paths of parts that are likely to collide or to do harm.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::collection::vec(
            any::<u8>().prop_filter("a path has parts", |byte| *byte != b'/'),
            0..6
        ),
        prop::sample::select(vec![
            "a",
            "A",
            "b",
            "a_2",
            "A_2",
            "..",
            ".",
            "",
            "CON",
            "con.txt",
            "_con",
            "a.",
            "a ",
            "a_",
            "\u{e9}",
            "e\u{301}",
            "E\u{301}",
            "ß",
            "ss",
            "SS",
            "a\\b",
            "C:",
            "C_",
            ".git",
            ".GIT",
            "a\u{202e}",
            "a\u{200d}",
            "ſ",
            "s",
            "İ",
            "i\u{307}",
        ])
        .prop_map(|part| part.as_bytes().to_vec()),
        (250..300_usize).prop_map(|length| vec![b'l'; length]),
    ];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join(&b'/'))
}

proptest! {
    #[test]
    fn no_name_does_harm_and_no_two_are_the_same(
        paths in prop::collection::vec((path(), any::<bool>()), 1..60)
    ) {
        let mut names = Names::default();
        let mut directories = HashSet::new();
        let mut leaves = HashSet::new();
        for (path, directory) in &paths {
            let kind = if *directory { Kind::Directory } else { Kind::Leaf };
            let Named::Entry { path, .. } = names.name(path, kind) else { continue };
            prop_assert!(is_harmless(&path), "{path:?}");
            let key: String = folded(&path);
            prop_assert!(!leaves.contains(&key) && !directories.contains(&key), "{path:?}");
            for (at, _) in key.match_indices('/') {
                let above = key.get(..at).unwrap().to_owned();
                prop_assert!(!leaves.contains(&above), "{path:?} is beneath a file");
                directories.insert(above);
            }
            if *directory { directories.insert(key); } else { leaves.insert(key); }
        }
    }

    #[test]
    fn the_same_paths_get_the_same_names(paths in prop::collection::vec(path(), 1..30)) {
        let all = || {
            let mut names = Names::default();
            paths.iter().map(|path| names.name(path, Kind::Leaf)).collect::<Vec<_>>()
        };
        prop_assert_eq!(all(), all());
    }
}
