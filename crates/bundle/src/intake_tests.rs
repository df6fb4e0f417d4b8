//! Uploads of every kind, honest and hostile.

use std::collections::BTreeSet;
use std::io::Cursor;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tar::{Archive, Builder, EntryType, Header};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

const LIMITS: IntakeLimits = IntakeLimits { entries: 50, bytes: 10_000, file_bytes: 5_000 };

/// An entry of a tar archive with any name, also one that the library would not
/// write.
fn add(tar: &mut Builder<Vec<u8>>, kind: EntryType, path: &[u8], link: &[u8], content: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_entry_type(kind);
    header.set_mode(0o6755);
    header.set_size(content.len() as u64);
    header.set_mtime(1_000_000_000);
    header.set_cksum();
    tar.append(&header, content).unwrap();
}

fn tar(entries: &[(EntryType, &str, &str, &str)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (kind, path, link, content) in entries {
        add(&mut tar, *kind, path.as_bytes(), link.as_bytes(), content.as_bytes());
    }
    tar.into_inner().unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::DEFAULT
}

fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        if name.ends_with('/') {
            zip.add_directory(*name, options()).unwrap();
        } else {
            zip.start_file(*name, options()).unwrap();
            zip.write_all(content).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

fn taken(bytes: &[u8]) -> (Result<IntakeSummary, IntakeError>, Vec<u8>) {
    let mut out = Vec::new();
    (intake(Cursor::new(bytes), LIMITS, &mut out), out)
}

fn refusal(bytes: &[u8]) -> String {
    let (result, out) = taken(bytes);
    let text = result.unwrap_err().to_string();
    assert_harmless(&out);
    assert!(!is_whole(&out), "what was refused has no end: {text}");
    text
}

fn is_whole(tar: &[u8]) -> bool {
    tar.len() >= 1024 && tar.len().is_multiple_of(512) && tar.ends_with(&[0; 1024])
}

/// Asserts that a tar archive, or its beginning, has nothing in it that it may not
/// have; and gives its paths.
fn assert_harmless(tar: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut leaves = BTreeSet::new();
    let mut all = BTreeSet::new();
    let mut bytes = 0;
    let mut archive = Archive::new(tar);
    for entry in archive.entries().unwrap() {
        // The beginning of an archive may end anywhere.
        let Ok(mut entry) = entry else { break };
        let path = entry.path_bytes().into_owned();
        let path = path.strip_suffix(b"/").unwrap_or(&path).to_vec();
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        assert!(names.iter().all(|name| !matches!(*name, b"" | b"." | b"..")), "{path:?}");
        assert!(!path.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'), "{path:?}");
        assert!(path.get(1) != Some(&b':'), "{path:?}");
        assert!(all.insert(path.clone()), "twice: {path:?}");
        for end in 1..names.len() {
            assert!(!leaves.contains(&names[..end].join(&b'/')), "in a leaf: {path:?}");
        }
        let kind = entry.header().entry_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{kind:?}");
        assert_eq!(entry.header().mode().unwrap() & !0o777, 0);
        if !kind.is_dir() {
            leaves.insert(path.clone());
        }
        if kind.is_symlink() {
            let target = entry.link_name_bytes().unwrap().into_owned();
            assert!(!target.starts_with(b"/") && !target.is_empty(), "{target:?}");
            let up = target.split(|byte| *byte == b'/').filter(|name| *name == b"..").count();
            assert!(up < names.len(), "{path:?} {target:?}");
        }
        bytes += entry.size();
        assert!(entry.size() <= LIMITS.file_bytes && bytes <= LIMITS.bytes);
        if io::copy(&mut entry, &mut io::sink()).is_err() {
            break;
        }
    }
    for path in &all {
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            assert!(!leaves.contains(&path[..end]), "in a leaf: {path:?}");
        }
    }
    assert!(all.len() as u64 <= LIMITS.entries);
    all
}

fn honest_tar() -> Vec<u8> {
    let long = ["directory"; 15].join("/");
    let mut bytes = Builder::new(Vec::new());
    add(&mut bytes, EntryType::Directory, b"./", b"", b"");
    add(&mut bytes, EntryType::Directory, b"./src/", b"", b"");
    add(&mut bytes, EntryType::Regular, b"./src/main.rs", b"", b"fn main() {}");
    add(&mut bytes, EntryType::Symlink, b"src/up", b"../README", b"");
    add(&mut bytes, EntryType::Regular, "na\u{ef}ve".as_bytes(), b"", &[7; 1500]);
    let mut header = Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o444);
    bytes.append_data(&mut header, long, b"ab".as_slice()).unwrap();
    bytes.append_pax_extensions([("path", b"pax/name".as_slice()), ("mtime", b"1.5")]).unwrap();
    add(&mut bytes, EntryType::Regular, b"short", b"", b"xyz");
    bytes.into_inner().unwrap()
}

fn honest_zip() -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_directory("src/", options().unix_permissions(0o700)).unwrap();
    zip.start_file("src/main.rs", options().unix_permissions(0o755)).unwrap();
    zip.write_all(&[b'x'; 3000]).unwrap();
    zip.add_symlink("src/up", "../main", options()).unwrap();
    let stored = options().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("stored", stored).unwrap();
    zip.write_all(b"as it is").unwrap();
    zip.start_file("empty", options()).unwrap();
    zip.start_file("large", options().large_file(true)).unwrap();
    zip.write_all(b"with sizes of 64 bits").unwrap();
    zip.finish().unwrap().into_inner()
}

#[test]
fn honest_archives_are_taken_in_whatever_they_are_packed_with() {
    let plain = honest_tar();
    let zst = zstd::encode_all(plain.as_slice(), 3).unwrap();
    let cases = [
        (UploadFormat::Tar, plain.clone()),
        (UploadFormat::TarGz, gz(&plain)),
        (UploadFormat::TarZst, zst),
    ];
    for (format, bytes) in cases {
        let (result, out) = taken(&bytes);
        let summary = result.unwrap();
        let expected = IntakeSummary { format, entries: 6, files: 4, bytes: 12 + 1500 + 2 + 3 };
        assert_eq!(summary, expected);
        assert!(is_whole(&out));
        let paths = assert_harmless(&out);
        assert!(
            paths.contains(b"src/main.rs".as_slice()) && paths.contains(b"pax/name".as_slice())
        );
        assert_eq!(paths.len(), 6);
    }
    let (result, out) = taken(&honest_zip());
    let summary = result.unwrap();
    assert_eq!((summary.format, summary.entries, summary.files), (UploadFormat::Zip, 6, 4));
    assert_eq!(summary.bytes, 3000 + 8 + 21);
    assert_eq!(assert_harmless(&out).len(), 6);
    let mut archive = Archive::new(out.as_slice());
    let main = archive.entries().unwrap().map(Result::unwrap);
    let main = main.into_iter().find(|entry| entry.path_bytes().ends_with(b"main.rs")).unwrap();
    assert_eq!(main.header().mode().unwrap(), 0o755);
}

#[test]
fn archives_with_nothing_in_them_are_archives() {
    for bytes in [vec![0; 1024], zip_of(&[])] {
        let (result, out) = taken(&bytes);
        assert_eq!(result.unwrap().entries, 0);
        assert!(is_whole(&out));
    }
}

#[test]
fn entries_that_could_do_harm_are_refused_by_name() {
    use EntryType::{Block, Char, Directory, Fifo, Link, Regular, Symlink};
    for (entries, expected) in [
        (vec![(Regular, "/etc/passwd", "", "x")], "\"/etc/passwd\": its path is absolute"),
        (vec![(Regular, "a/../../b", "", "x")], "\"a/../../b\": its path leads up"),
        (vec![(Directory, "..", "", "")], "\"..\": its path leads up"),
        (vec![(Regular, "C:evil", "", "x")], "\"C:evil\": its path names a drive"),
        (vec![(Regular, "..\\evil", "", "x")], "\"..\\\\evil\": it has a backslash in its path"),
        (vec![(Regular, "a\nb", "", "x")], "\"a\\nb\": it has a control character in its path"),
        (
            vec![(Regular, "c1\u{9b}", "", "x")],
            "\"c1\\u{9b}\": it has a control character in its path",
        ),
        (vec![(Regular, ".", "", "x")], "\".\": it has no name"),
        (vec![(Symlink, "l", "/etc", "")], "\"l\": it is a link to an absolute path"),
        (vec![(Symlink, "l", "../x", "")], "\"l\": it is a link that leads out"),
        (vec![(Symlink, "a/l", "../../x", "")], "\"a/l\": it is a link that leads out"),
        (
            vec![(Symlink, "l", "a/../../x", "")],
            "\"l\": it is a link that goes up again on its way",
        ),
        (vec![(Symlink, "l", "", "")], "\"l\": it is a link to no possible name"),
        (vec![(Symlink, "l", "a", "content")], "\"l\": it has content and is no file"),
        (vec![(Directory, "d", "", "content")], "\"d\": it has content and is no file"),
        (vec![(Link, "h", "a", "")], "\"h\": it is a hard link: pack it as a file"),
        (vec![(Char, "c", "", "")], "\"c\": it is a device"),
        (vec![(Block, "b", "", "")], "\"b\": it is a device"),
        (vec![(Fifo, "p", "", "")], "\"p\": it is a pipe"),
        (vec![(EntryType::GNUSparse, "s", "", "")], "\"s\": it is sparse: pack it without that"),
        (vec![(EntryType::new(b'V'), "v", "", "")], "\"v\": it is of the unknown kind V"),
        (vec![(Regular, "a", "", "1"), (Regular, "./a", "", "2")], "\"./a\": it is there twice"),
        (
            vec![(Regular, "a", "", "1"), (Regular, "a/b", "", "2")],
            "\"a/b\": it is in something that is no directory",
        ),
        (
            vec![(Symlink, "a", "b", ""), (Regular, "a/b", "", "2")],
            "\"a/b\": it is in something that is no directory",
        ),
        (
            vec![(Regular, "a/b", "", "2"), (Symlink, "a", ".", "")],
            "\"a\": something is in it, and it is no directory",
        ),
        (vec![(Directory, "a", "", ""), (Regular, "a", "", "")], "\"a\": it is there twice"),
        (vec![(Directory, "a", "", ""), (Directory, "a/", "", "")], "\"a/\": it is there twice"),
    ] {
        let expected = format!("the archive is refused for its entry {expected}");
        assert_eq!(refusal(&tar(&entries)), expected);
    }
}

#[test]
fn too_much_is_refused_however_well_it_is_packed() {
    let bomb = tar(&[(EntryType::Regular, "zeros", "", &"0".repeat(5_001))]);
    let expected = "the archive has more than 5000 bytes in one file: leave something out";
    assert_eq!(refusal(&bomb), expected);
    assert_eq!(refusal(&gz(&bomb)), expected);
    assert_eq!(refusal(&zstd::encode_all(bomb.as_slice(), 3).unwrap()), expected);
    assert_eq!(refusal(&zip_of(&[("zeros", &[0; 5_001])])), expected);
    let third = "0".repeat(4_000);
    let all = [("a", third.as_str()), ("b", &third), ("c", &third)];
    let entries = all.map(|(path, content)| (EntryType::Regular, path, "", content));
    assert!(refusal(&tar(&entries)).contains("more than 10000 bytes in its files"));
    let names: Vec<String> = (0..51).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(refusal(&zip_of(&many)).contains("more than 50 entries"));
    let deep = "d/".repeat(49) + "x";
    assert!(taken(&tar(&[(EntryType::Regular, &deep, "", "")])).0.is_ok());
    let deep = format!("e/{}", "d/".repeat(48) + "x");
    let two = [(EntryType::Regular, "y", "", ""), (EntryType::Regular, &deep, "", "")];
    assert!(refusal(&tar(&two)).contains("more than 50 entries"));
    // What is behind the end is counted too.
    let mut endless = tar(&[]);
    endless.resize(3 << 20, 0);
    assert!(refusal(&gz(&endless)).contains("it is too long for what is in it"));
}

#[test]
fn tar_archives_that_readers_disagree_about_are_refused() {
    let pax = |records: &[(&str, &[u8])], kind: u8| {
        let mut tar = Builder::new(Vec::new());
        tar.append_pax_extensions(records.iter().copied()).unwrap();
        add(&mut tar, EntryType::Regular, b"file", b"", b"content");
        let mut bytes = tar.into_inner().unwrap();
        bytes[156] = kind;
        let sum: u32 = bytes[..512]
            .iter()
            .enumerate()
            .map(|(at, byte)| u32::from(if (148..156).contains(&at) { b' ' } else { *byte }))
            .sum();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes
    };
    assert!(taken(&pax(&[("size", b"7")], b'x')).0.is_ok());
    assert!(taken(&pax(&[("comment", b"a commit")], b'g')).0.is_ok());
    for (bytes, expected) in [
        (pax(&[("size", b"512")], b'x'), "its size is said twice and not the same"),
        (pax(&[("path", b"../up")], b'x'), "its path leads up"),
        (pax(&[("path", b"a\0b")], b'x'), "it has a control character in its path"),
        (pax(&[("GNU.sparse.major", b"1")], b'x'), "it is sparse"),
        (pax(&[("path", b"a")], b'g'), "a global header names or measures entries"),
        (pax(&[("comment", &[b'x'; 70_000])], b'x'), "a header of it is too long"),
    ] {
        let text = refusal(&bytes);
        assert!(text.contains(expected), "{text}");
    }
    // Two names for one entry, and a name for none.
    let mut two = Builder::new(Vec::new());
    add(&mut two, EntryType::GNULongName, b"long", b"", b"one\0");
    two.append_pax_extensions([("path", b"two".as_slice())]).unwrap();
    add(&mut two, EntryType::Regular, b"three", b"", b"");
    let text = refusal(&two.into_inner().unwrap());
    assert!(text.contains("two headers name or measure the same entry"), "{text}");
    let mut none = Builder::new(Vec::new());
    add(&mut none, EntryType::GNULongName, b"long", b"", b"one\0");
    let text = refusal(&none.into_inner().unwrap());
    assert!(text.contains("tells of an entry that is not there"), "{text}");

    let whole = honest_tar();
    let cut = |length: usize| whole.get(..length).unwrap().to_vec();
    assert!(refusal(&cut(whole.len() - 1024)).contains("it has no end"));
    assert!(refusal(&cut(1024 + 512 + 5)).contains("shorter than the archive says"));
    assert!(
        refusal(&[whole.clone(), whole.clone()].concat()).contains("something is behind its end")
    );
    let mut spoilt = whole.clone();
    spoilt[1024] ^= 1;
    assert!(refusal(&spoilt).contains("a header has a wrong checksum"));
    let packed = gz(&whole);
    assert!(refusal(packed.get(..packed.len() - 4).unwrap()).contains("broken"));
}

#[test]
fn zips_that_readers_disagree_about_are_refused() {
    let honest = zip_of(&[("a", b"first"), ("b", b"second")]);
    let row = honest.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut zip = honest.clone();
        zip[at..at + bytes.len()].copy_from_slice(bytes);
        zip
    };
    assert!(taken(&honest).0.is_ok());
    for (bytes, expected) in [
        (with(row + 46, b"x"), "\"x\": the archive says two different things of it"),
        (with(30, b"x"), "\"a\": the archive says two different things of it"),
        (with(row + 8, &[1, 0]), "\"a\": it is encrypted"),
        (with(row + 10, &[12, 0]), "\"a\": the archive says two different things of it"),
        (with(row + 16, &[9]), "\"a\": it has another checksum than the archive says"),
        (with(row + 24, &[99]), "\"a\": the archive says two different things of it"),
        (with(row + 42, &[1]), "\"a\": the archive says two different things of it"),
        (with(row + 46, b"\xff"), "its name is not UTF-8"),
        (with(honest.len() - 12, &[1, 0]), "its directory has more entries"),
        (with(honest.len() - 6, &[0, 0, 0, 1]), "its directory is not where its end says"),
        (with(honest.len() - 2, &[1, 0]), "it has no end"),
        ([honest.as_slice(), b"tail"].concat(), "it has no end"),
    ] {
        let text = refusal(&bytes);
        assert!(text.contains(expected), "{text} instead of {expected}");
    }
    // Something between the entries and their directory, which one reader skips
    // and another takes for an entry.
    let hidden = zip_of(&[("hidden", b"x")]);
    let hidden = &hidden[..hidden.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap()];
    let mut zip = [&honest[..row], hidden, &honest[row..]].concat();
    let at = zip.len() - 6;
    let moved = u32::try_from(row + hidden.len()).unwrap();
    zip[at..at + 4].copy_from_slice(&moved.to_le_bytes());
    assert!(refusal(&zip).contains("something is between two entries"));
    // Two entries that share one content.
    let mut twice = honest.clone();
    let second = row + 47;
    let first_row = honest[row..second].to_vec();
    twice.splice(second.., first_row.iter().chain(&honest[honest.len() - 22..]).copied());
    let text = refusal(&twice);
    assert!(text.contains("it is there twice"), "{text}");
    for (name, why) in [
        ("../up", "its path leads up"),
        ("/abs", "its path is absolute"),
        ("a\\b", "it has a backslash"),
        ("C:/x", "its path names a drive"),
    ] {
        // The library would not write some of them.
        let plain = "x".repeat(name.len());
        let mut zip = zip_of(&[(&plain, b"x")]);
        for at in 0..zip.len() - name.len() {
            if zip[at..].starts_with(plain.as_bytes()) && at != 30 + name.len() {
                zip[at..at + name.len()].copy_from_slice(name.as_bytes());
            }
        }
        let text = refusal(&zip);
        assert!(text.contains(why), "{text}");
    }
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc/passwd", options()).unwrap();
    let text = refusal(&zip.finish().unwrap().into_inner());
    assert!(text.contains("\"link\": it is a link to an absolute path"), "{text}");
}

#[test]
fn what_is_no_archive_is_told_so() {
    for bytes in [b"".as_slice(), b"text", &[9; 4096], b"Rar!\x1a\x07\x01\x00", b"PK"] {
        assert!(matches!(taken(bytes).0, Err(IntakeError::NoArchive)));
    }
}

/// A byte that is set, an end that is cut off, or a part that is doubled.
#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Flip(Index, u8),
    Cut(Index),
    Double(Index, Index),
    Remove(Index, u8),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        4 => (place(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        1 => place().prop_map(Mutation::Cut),
        1 => (place(), place()).prop_map(|(from, to)| Mutation::Double(from, to)),
        1 => (place(), any::<u8>()).prop_map(|(at, count)| Mutation::Remove(at, count)),
    ]
}

fn mutated(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match mutation {
            Mutation::Set(at, byte) => bytes[at.index(length)] = *byte,
            Mutation::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Mutation::Cut(at) => bytes.truncate(at.index(length)),
            Mutation::Double(from, to) => {
                let (from, to) = (from.index(length), to.index(length));
                let part = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.splice(from..from, part);
            }
            Mutation::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + usize::from(*count)).min(length));
            }
        }
    }
    bytes
}

/// Makes the checksums of headers right again, so that what follows is reached.
fn with_right_sums(mut bytes: Vec<u8>) -> Vec<u8> {
    for block in bytes.chunks_mut(512).filter(|block| block.len() == 512) {
        if &block[257..262] == b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn spoilt_archives_are_refused_or_harmless(
        which in 0..4_usize,
        mutations in vec(mutation(), 1..6),
        repaired in any::<bool>(),
    ) {
        let plain = honest_tar();
        let bytes = match which {
            0 => mutated(honest_zip(), &mutations),
            1 => gz(&mutated(plain, &mutations)),
            2 => zstd::encode_all(mutated(plain, &mutations).as_slice(), 1).unwrap(),
            _ => mutated(plain, &mutations),
        };
        let bytes = if repaired && which == 3 { with_right_sums(bytes) } else { bytes };
        let (result, out) = taken(&bytes);
        assert_harmless(&out);
        prop_assert_eq!(result.is_ok(), is_whole(&out));
    }

    #[test]
    fn archives_of_odd_entries_are_refused_or_harmless(
        entries in vec(
            (
                select(&b"0123456\0VSDMNKLxg7"[..]),
                select(&["a", "a/b", "b", "b/", "../c", "/d", "", ".", "a/b/../c", "d/e/f", "x\\y"][..]),
                select(&["", "a", "../a", "/etc", "a/../..", "..", "b/c"][..]),
                select(&["", "x", "11 path=../x", "12 path=/abs\n", "a\0"][..]),
            ),
            0..8,
        ),
    ) {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(kind, path, link, content)| (EntryType::new(kind), path, link, content))
            .collect();
        let (result, out) = taken(&tar(&entries));
        assert_harmless(&out);
        prop_assert_eq!(result.is_ok(), is_whole(&out));
    }
}
