//! Archives: there and back, and those that are out for harm.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use cofferdam_guest_protocol::{FileError, FileReply, FileRequest};
use tar::{Builder, EntryType, Header};

use crate::client::Client;
use crate::guest::Guest;

type Skipped = Vec<(String, String)>;

fn unpack(
    client: &mut Client,
    path: &str,
    archive: &[u8],
) -> Result<(u64, u64, Skipped), FileError> {
    let request = FileRequest::Unpack { path: path.into() };
    archived(client.file_with(request, archive).file()?)
}

fn archived(reply: FileReply) -> Result<(u64, u64, Skipped), FileError> {
    let FileReply::Archived { entries, bytes, skipped } = reply else { panic!("{reply:?}") };
    let text = |(path, reason): (Vec<u8>, String)| {
        (String::from_utf8_lossy(&path).chars().take(60).collect(), reason)
    };
    Ok((entries, bytes, skipped.into_iter().map(text).collect()))
}

/// An entry with any name, also one that the library would not write.
fn entry(archive: &mut Builder<Vec<u8>>, kind: EntryType, path: &str, link: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_mtime(1_000_000_000);
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

#[test]
fn a_tree_survives_packing_and_unpacking() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let long = format!("tree/{}/{}", "d".repeat(120), "f".repeat(150));
    guest.put(&long, "long");
    let program = guest.put("tree/program", vec![7; 300_000]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    guest.put("tree/empty/.keep", "");
    symlink("program", guest.workspace().join("tree/link")).unwrap();
    symlink(format!("{}/x", "l".repeat(150)), guest.workspace().join("tree/long-link")).unwrap();
    guest.give_away();

    let outcome = client.file(FileRequest::Pack { path: b"tree".to_vec(), respect_ignore: false });
    let (entries, bytes, skipped) = archived(outcome.file().unwrap()).unwrap();
    assert_eq!((entries, bytes, skipped), (7, 300_004, vec![]));
    let (entries, bytes, skipped) = unpack(&mut client, "copy", &outcome.output).unwrap();
    assert_eq!((entries, bytes, skipped), (7, 300_004, vec![]));

    let copy = guest.workspace().join("copy");
    assert_eq!(fs::read(copy.join("program")).unwrap(), vec![7; 300_000]);
    assert_eq!(fs::metadata(copy.join("program")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(
        fs::metadata(copy.join("program")).unwrap().mtime(),
        fs::metadata(&program).unwrap().mtime()
    );
    assert_eq!(fs::read_link(copy.join("link")).unwrap().to_str(), Some("program"));
    assert_eq!(fs::read_link(copy.join("long-link")).unwrap().as_os_str().len(), 152);
    assert_eq!(fs::read(guest.workspace().join(long.replace("tree/", "copy/"))).unwrap(), b"long");
}

#[test]
fn packing_leaves_out_what_is_no_file_and_says_so() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("file", "x");
    guest.put("ignored", "x");
    guest.put(".gitignore", "ignored\n");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let pipe = guest.workspace().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(guest.workspace().join("socket")).unwrap();
    let sparse = fs::File::create(guest.workspace().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let locked = guest.put("unreadable", "x");
    guest.give_away();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();

    let outcome = client.file(FileRequest::Pack { path: b".".to_vec(), respect_ignore: true });
    let (_, _, skipped) = archived(outcome.file().unwrap()).unwrap();
    let names: Vec<&str> = skipped.iter().map(|(name, _)| name.as_str()).collect();
    if client.run(crate::client::argv(&["id", "-u"])).text() == "0\n" {
        assert_eq!(names, ["pipe", "socket", "sparse"]);
    } else {
        assert_eq!(names, ["pipe", "socket", "sparse", "unreadable"]);
    }
    assert_eq!(skipped[2].1, "sparse");
    let mut archive = tar::Archive::new(outcome.output.as_slice());
    let packed: Vec<_> =
        archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().into_owned()).collect();
    assert!(packed.iter().any(|path| path.as_os_str() == "file"));
    assert!(packed.iter().all(|path| path.as_os_str() != "ignored"));

    let outcome = client.file(FileRequest::Pack { path: b"file".to_vec(), respect_ignore: true });
    let (entries, bytes, _) = archived(outcome.file().unwrap()).unwrap();
    assert_eq!((entries, bytes), (1, 1));
}

#[test]
fn hostile_entries_are_left_out_with_the_reason() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outside = guest.workspace().parent().unwrap().join("outside");
    let mut archive = Builder::new(Vec::new());
    let outside_path = outside.to_str().unwrap();
    entry(&mut archive, EntryType::Regular, outside_path, "", b"x");
    entry(&mut archive, EntryType::Regular, "../outside", "", b"x");
    entry(&mut archive, EntryType::Regular, "a/../../outside", "", b"x");
    entry(&mut archive, EntryType::Symlink, "absolute", "/etc", b"");
    entry(&mut archive, EntryType::Symlink, "sub/up", "../../..", b"");
    entry(&mut archive, EntryType::Link, "hard", "../outside", b"");
    entry(&mut archive, EntryType::Link, "hard-absolute", "/etc/passwd", b"");
    entry(&mut archive, EntryType::Char, "null", "", b"");
    entry(&mut archive, EntryType::Block, "disk", "", b"");
    entry(&mut archive, EntryType::Fifo, "pipe", "", b"");
    entry(&mut archive, EntryType::Regular, "good", "", b"good");
    let archive = archive.into_inner().unwrap();

    let (entries, bytes, skipped) = unpack(&mut client, "into", &archive).unwrap();

    assert_eq!((entries, bytes), (1, 4));
    assert_eq!(skipped.len(), 10, "{skipped:?}");
    assert!(skipped.iter().all(|(_, reason)| !reason.is_empty()));
    assert!(!outside.exists());
    assert_eq!(fs::read(guest.workspace().join("into/good")).unwrap(), b"good");
    assert_eq!(fs::read_dir(guest.workspace().join("into")).unwrap().count(), 1);
}

#[test]
fn a_link_in_an_archive_cannot_be_written_through_to_the_outside() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outside = guest.workspace().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
    // There before the archive: only the kernel can tell that it leads out.
    symlink(&outside, guest.workspace().join("trap")).unwrap();
    symlink("..", guest.workspace().join("up")).unwrap();
    fs::create_dir(guest.workspace().join("real")).unwrap();
    guest.give_away();
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, EntryType::Regular, "trap/file", "", b"x");
    entry(&mut archive, EntryType::Directory, "trap/directory", "", b"");
    entry(&mut archive, EntryType::Regular, "up/outside/file", "", b"x");
    entry(&mut archive, EntryType::Symlink, "inside", "real", b"");
    entry(&mut archive, EntryType::Regular, "inside/file", "", b"x");
    entry(&mut archive, EntryType::Link, "hard", "inside/file", b"");
    entry(&mut archive, EntryType::Regular, "trap", "", b"replaces the link itself");
    let (entries, _, skipped) = unpack(&mut client, ".", &archive.into_inner().unwrap()).unwrap();
    assert_eq!((entries, skipped.len()), (4, 3), "{skipped:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read(guest.workspace().join("real/file")).unwrap(), b"x");
    assert_eq!(fs::metadata(guest.workspace().join("hard")).unwrap().nlink(), 2);
    assert!(fs::symlink_metadata(guest.workspace().join("trap")).unwrap().is_file());
}

#[test]
fn set_id_bits_do_not_survive() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let mut archive = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_path("program").unwrap();
    header.set_mode(0o6755);
    header.set_size(1);
    header.set_cksum();
    archive.append(&header, b"x".as_slice()).unwrap();
    let (_, _, skipped) = unpack(&mut client, ".", &archive.into_inner().unwrap()).unwrap();
    assert_eq!(skipped.len(), 1);
    let mode = fs::metadata(guest.workspace().join("program")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn a_torn_or_absurd_archive_is_an_error_and_no_more() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, EntryType::Regular, "file", "", &[1; 5_000]);
    let whole = archive.into_inner().unwrap();
    let torn = unpack(&mut client, ".", &whole[..2_000]);
    assert!(matches!(torn, Err(FileError::Archive(_))), "{torn:?}");
    let garbage = unpack(&mut client, ".", &[9; 4_096]);
    assert!(matches!(garbage, Err(FileError::Archive(_))), "{garbage:?}");
    assert_eq!(unpack(&mut client, ".", b""), Ok((0, 0, vec![])));

    // A name that claims to be ten gigabytes long must not be waited for.
    let mut header = Header::new_gnu();
    header.set_path("././@LongLink").unwrap();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(10 << 30);
    header.set_cksum();
    let bomb = [header.as_bytes().as_slice(), &[b'a'; 100_000]].concat();
    let outcome = unpack(&mut client, ".", &bomb);
    assert!(matches!(outcome, Err(FileError::Archive(_))), "{outcome:?}");
}

/// Unpacks over a file what cannot be unpacked: the file stays, and nothing comes beside it.
fn is_kept(archive: &[u8]) -> Result<(u64, u64, Skipped), FileError> {
    // No file may be longer than some kilobytes, as on a disk that is full.
    let guest = Guest::start_after("ulimit -f 8");
    let file = guest.put("file", "before");
    let outcome = unpack(&mut guest.connect(), ".", archive);
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), "before", "{outcome:?}");
    assert_eq!(fs::read_dir(guest.workspace()).unwrap().count(), 1);
    outcome
}

#[test]
fn a_file_is_kept_when_the_archive_ends_early() {
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, EntryType::Regular, "file", "", b"after\n".repeat(1_000).as_slice());
    let torn = is_kept(&archive.into_inner().unwrap()[..2_000]);
    assert!(matches!(torn, Err(FileError::Archive(_))), "{torn:?}");
}

#[test]
fn a_file_is_kept_when_there_is_no_room_for_the_next() {
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, EntryType::Regular, "file", "", &[b'x'; 100_000]);
    let (entries, _, skipped) = is_kept(&archive.into_inner().unwrap()).unwrap();
    assert_eq!((entries, skipped.len()), (0, 1), "{skipped:?}");
}

#[test]
fn a_file_is_kept_when_a_link_cannot_be_made() {
    let mut archive = Builder::new(Vec::new());
    let too_long = "l".repeat(5_000);
    entry(&mut archive, EntryType::GNULongLink, "long", "", too_long.as_bytes());
    entry(&mut archive, EntryType::Symlink, "file", "", b"");
    let (entries, _, skipped) = is_kept(&archive.into_inner().unwrap()).unwrap();
    assert_eq!((entries, skipped.len()), (0, 1), "{skipped:?}");
}

#[test]
fn what_can_be_unpacked_takes_the_place_of_what_is_there() {
    let guest = Guest::start();
    guest.put("file", "before");
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, EntryType::Regular, "file", "", b"after");
    entry(&mut archive, EntryType::Regular, "other", "", b"other");
    entry(&mut archive, EntryType::Link, "linked", "file", b"");
    entry(&mut archive, EntryType::Link, "linked", "other", b"");
    entry(&mut archive, EntryType::Symlink, "other", "file", b"");
    let outcome = unpack(&mut guest.connect(), ".", &archive.into_inner().unwrap());
    assert_eq!(outcome, Ok((5, 10, vec![])));
    assert_eq!(fs::read(guest.workspace().join("linked")).unwrap(), b"other");
    assert_eq!(fs::read_link(guest.workspace().join("other")).unwrap().to_str(), Some("file"));
    assert_eq!(fs::read(guest.workspace().join("file")).unwrap(), b"after");
    assert_eq!(fs::read_dir(guest.workspace()).unwrap().count(), 3);
}

#[test]
fn names_of_other_archivers_are_understood() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let name = "p".repeat(180);
    let record = |key: &str, value: &str| {
        let rest = format!(" {key}={value}\n");
        let length = rest.len() + 3;
        format!("{length}{rest}")
    };
    let content = record("path", &name);
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, EntryType::XHeader, "pax", "", content.as_bytes());
    entry(&mut archive, EntryType::Regular, "short", "", b"x");
    let outcome = unpack(&mut client, ".", &archive.into_inner().unwrap());
    assert_eq!(outcome, Ok((1, 1, vec![])));
    assert!(guest.workspace().join(name).exists());
}
