//! Archives of entries that no honest file system has, and of streams that end
//! badly.

use std::io::Cursor;

use cofferdam_sandbox::{Archived, FilesError};
use cofferdam_types::{JobId, Spent};
use serde_json::Value;
use tar::{Builder, EntryType, Header};
use zip::ZipArchive;

use super::*;
use crate::about::Status;
use crate::source;

fn about() -> About {
    About {
        job: JobId::generate(),
        task: Some("make it".to_owned()),
        status: Status::Running,
        verified: false,
        ending: None,
        at: None,
        isolation: None,
        models: vec![],
        spent: Spent::default(),
        checks: vec![],
        commands: vec![],
    }
}

fn archived(skipped: &[(&str, &str)]) -> Option<Result<Archived, FilesError>> {
    let skipped = skipped.iter().map(|(path, why)| (path.as_bytes().to_vec(), (*why).to_owned()));
    Some(Ok(Archived { entries: 0, bytes: 0, skipped: skipped.collect() }))
}

/// An entry with any name, also one that the library would not write.
fn entry(
    archive: &mut Builder<Vec<u8>>,
    kind: EntryType,
    path: &[u8],
    link: &[u8],
    content: &[u8],
) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_entry_type(kind);
    header.set_mode(0o6751);
    header.set_size(content.len() as u64);
    header.set_mtime(1_000_000_000);
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

fn hostile() -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    entry(&mut tar, EntryType::Regular, b"/etc/passwd", b"", b"absolute");
    entry(&mut tar, EntryType::Regular, b"../../evil", b"", b"up");
    entry(&mut tar, EntryType::Regular, b"..\\..\\evil", b"", b"backslash");
    entry(&mut tar, EntryType::Symlink, b"out", b"../out", b"");
    entry(&mut tar, EntryType::Regular, b"out/through", b"", b"through a link");
    entry(&mut tar, EntryType::Symlink, b"in", b"etc/passwd", b"");
    entry(&mut tar, EntryType::Regular, b"in/through", b"", b"through another");
    entry(&mut tar, EntryType::Link, b"hard", b"/etc/shadow", b"");
    entry(&mut tar, EntryType::Char, b"null", b"", b"");
    entry(&mut tar, EntryType::Regular, b"\xff", b"", b"no text");
    entry(&mut tar, EntryType::Directory, b"empty/", b"", b"");
    entry(&mut tar, EntryType::Regular, b"same", b"", b"1");
    entry(&mut tar, EntryType::Regular, b"same", b"", b"2");
    entry(&mut tar, EntryType::Regular, b"MANIFEST.json", b"", b"{}");
    tar.into_inner().unwrap()
}

fn manifest(zip: &[u8], name: &str) -> Value {
    let mut zip = ZipArchive::new(Cursor::new(zip)).unwrap();
    let last = zip.len() - 1;
    assert_eq!(zip.by_index(last).unwrap().name().unwrap(), name, "the manifest is last");
    serde_json::from_reader(zip.by_name(name).unwrap()).unwrap()
}

#[test]
fn entries_that_no_file_system_has_do_no_harm() {
    let source = source::of(&hostile(), archived(&[("pipe", "a pipe")]));
    let (summary, out) =
        bundle(source, &about(), &IgnoredPart::default(), Format::Zip, Vec::new()).unwrap();

    let mut zip = ZipArchive::new(Cursor::new(&out)).unwrap();
    let mut found = Vec::new();
    for index in 0..zip.len() {
        let mut file = zip.by_index(index).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let mode = file.unix_mode().unwrap();
        found.push((file.name().unwrap().into_owned(), mode, text));
    }
    let shown: Vec<(&str, u32, &str)> =
        found.iter().map(|(name, mode, text)| (name.as_str(), *mode, text.as_str())).collect();
    let file = 0o100_751;
    assert_eq!(
        shown[..shown.len() - 1],
        [
            ("etc/passwd", file, "absolute"),
            ("__/__/evil", file, "up"),
            (".._.._evil", file, "backslash"),
            ("out/through", file, "through a link"),
            ("in_2/through", file, "through another"),
            ("_", file, "no text"),
            ("empty/", 0o040_751, ""),
            ("same", file, "1"),
            ("same_2", file, "2"),
            ("MANIFEST.json", file, "{}"),
            ("in", 0o120_777, "etc/passwd"),
        ]
    );
    let manifest = manifest(&out, "MANIFEST.cofferdam.json");
    assert!(manifest["note"].as_str().unwrap().contains("a file of the workspace"));
    let left_out: Vec<&str> = manifest["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["path"].as_str().unwrap())
        .collect();
    assert_eq!(left_out, ["out", "hard", "null", "pipe"]);
    assert_eq!(manifest["left_out_is_complete"], true);
    let odd = manifest["files"].as_array().unwrap().iter().find(|row| row["path"] == "_").unwrap();
    assert_eq!((&odd["original"], &odd["original_hex"]), (&"\u{fffd}".into(), &"ff".into()));
    assert_eq!(odd["sha256"], hexadecimal(&Sha256::digest(b"no text")));
    assert_eq!((summary.entries, summary.files, summary.left_out), (11, 9, 4));
    assert_eq!(summary.archive_bytes, out.len() as u64);
    assert_eq!(summary.renamed, 6);
}

#[test]
fn an_empty_workspace_is_an_archive_with_a_manifest_alone() {
    let empty = Builder::new(Vec::new()).into_inner().unwrap();
    let (summary, out) = bundle(
        source::of(&empty, archived(&[])),
        &about(),
        &IgnoredPart::default(),
        Format::Zip,
        Vec::new(),
    )
    .unwrap();
    assert_eq!((summary.entries, summary.manifest.as_str()), (0, "MANIFEST.json"));
    let manifest = manifest(&out, "MANIFEST.json");
    assert_eq!(manifest["version"], 1);
    assert_eq!(manifest["task"], "make it");
    assert_eq!(manifest["status"], "running");
    assert_eq!(manifest["cost"], "$0.00");
    assert_eq!(manifest["files"], Value::Array(vec![]));
}

#[test]
fn a_list_that_the_sandbox_has_cut_is_said_to_be() {
    let skipped = vec![("pipe", "a pipe"); NAMED_BY_SANDBOX];
    let source = source::of(&[0; 1024], archived(&skipped));
    let (_, out) =
        bundle(source, &about(), &IgnoredPart::default(), Format::Zip, Vec::new()).unwrap();
    assert_eq!(manifest(&out, "MANIFEST.json")["left_out_is_complete"], false);
}

#[test]
fn a_source_that_ends_badly_makes_no_whole_archive() {
    let tar = hostile();
    let lost = || Some(Err(FilesError::TooMuch { limit: 7 }));
    let half = tar.get(..2000).unwrap();
    type Expected = fn(&BundleError) -> bool;
    let cases: [(&[u8], _, Expected); 5] = [
        (half, lost(), |error| matches!(error, BundleError::Workspace(_))),
        (&tar, lost(), |error| matches!(error, BundleError::Workspace(_))),
        (half, None, |error| matches!(error, BundleError::Abandoned)),
        (&tar, None, |error| matches!(error, BundleError::Abandoned)),
        (half, archived(&[]), |error| matches!(error, BundleError::Broken { .. })),
    ];
    for (bytes, end, expected) in cases {
        let mut out = Vec::new();
        let error = bundle(
            source::of(bytes, end),
            &about(),
            &IgnoredPart::default(),
            Format::Zip,
            &mut out,
        )
        .unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert!(ZipArchive::new(Cursor::new(&out)).is_err(), "{error:?}");
    }
}

#[test]
fn a_workspace_with_too_much_in_it_is_refused_in_words() {
    let mut bundle = Bundle::new(Archive::new(Format::Zip, Vec::new()).unwrap());
    bundle.seen = MOST_ENTRIES;
    let error = bundle.take_all(&mut source::of(&hostile(), archived(&[]))).unwrap_err();
    assert!(error.to_string().starts_with("the workspace has more than 1000000 files"), "{error}");
    let mut bundle = Bundle::new(Archive::new(Format::Zip, Vec::new()).unwrap());
    bundle.name_bytes = MOST_NAMES - 5;
    let error = bundle.take_all(&mut source::of(&hostile(), archived(&[]))).unwrap_err();
    assert!(matches!(error, BundleError::TooMuch { what: "bytes of file names", .. }), "{error}");
}
