//! Drafts of either form, also on file systems that know both.

use std::io::Write;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

const NAME: &str = "out.zip";

fn place(directory: &TempDir) -> Place {
    Place::new(directory.path(), OsStr::new(NAME))
}

fn names(directory: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let name = |entry: io::Result<DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// A draft with a hidden name, and one without a name where there are such.
fn drafts(directory: &TempDir) -> Vec<Draft> {
    let hidden = Form::Hidden(place(directory).hidden().unwrap());
    let nameless = nameless(directory.path()).unwrap().map(Form::Nameless);
    let forms = std::iter::once(hidden).chain(nameless);
    forms.map(|form| Draft { place: place(directory), form }).collect()
}

#[test]
fn a_draft_gets_its_name_and_takes_the_place_of_what_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join(NAME);
    let forms = drafts(&directory).len();
    for before in [None, Some("before")] {
        for number in 0..forms {
            let draft = drafts(&directory).remove(number);
            match before {
                Some(before) => fs::write(&target, before).unwrap(),
                None => drop(fs::remove_file(&target)),
            }
            draft.file().write_all(b"new").unwrap();
            draft.publish(&target).unwrap();
            assert_eq!(fs::read(&target).unwrap(), b"new", "{number} {before:?}");
            assert_eq!(names(&directory), [NAME], "{number} {before:?}");
        }
    }
}

#[test]
fn a_draft_that_is_given_up_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let drafts = drafts(&directory);
    assert_eq!(names(&directory).len(), 1, "the hidden one");
    drop(drafts);
    assert_eq!(names(&directory).len(), 0);
}

#[test]
fn a_draft_without_a_name_is_not_to_be_seen() {
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = nameless(directory.path()).unwrap() else {
        return eprintln!("skipped: this file system knows no files without a name");
    };
    assert_eq!(names(&directory).len(), 0);
    assert_eq!(file.metadata().unwrap().nlink(), 0);
}

#[test]
fn only_drafts_that_nobody_writes_are_tidied_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let stale = ".out.zip.cofferdam-aB3dE6.part";
    fs::write(path(stale), "half").unwrap();
    let others = [
        ".other.zip.cofferdam-aB3dE6.part",
        ".out.zip.backup.part",
        ".out.zip.cofferdam-aB3dE6",
        ".out.zip.cofferdam-aB3dE6.part2",
        ".out.zip.cofferdam-aB3dE67.part",
        ".out.zip.cofferdam-aB3-E6.part",
        "out.zip",
    ];
    for name in others {
        fs::write(path(name), "theirs").unwrap();
    }
    let link = ".out.zip.cofferdam-aaaaaa.part";
    symlink("out.zip", path(link)).unwrap();
    let folder = ".out.zip.cofferdam-bbbbbb.part";
    fs::create_dir(path(folder)).unwrap();
    let pipe = ".out.zip.cofferdam-cccccc.part";
    rustix::fs::mkfifoat(CWD, path(pipe), Mode::from_raw_mode(0o600)).unwrap();
    let live = place(&directory).hidden().unwrap();
    let live_name = live.path().file_name().unwrap().to_str().unwrap();

    let draft = Draft::new(directory.path(), OsStr::new(NAME)).unwrap();

    let left = names(&directory);
    assert!(!left.iter().any(|name| name == stale), "{left:?}");
    for name in others.into_iter().chain([link, folder, pipe, live_name]) {
        assert!(left.iter().any(|left| left == name), "{name}: {left:?}");
    }
    draft.publish(&path(NAME)).unwrap();
}
