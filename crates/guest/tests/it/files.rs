//! Files: reading, writing, replacing, moving, deleting.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use cofferdam_guest_protocol::{
    Control, EntryKind, Exec, FileError, FileReply, FileRequest, Request, WINDOW, WriteMode,
};
use sha2::{Digest, Sha256};

use crate::client::{Client, Outcome, argv, shell};
use crate::guest::{Guest, descendants, wait_until};

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn read(path: &str) -> FileRequest {
    FileRequest::Read { path: path.into(), offset: 0, limit: u64::MAX }
}

fn write(path: &str, mode: WriteMode) -> FileRequest {
    FileRequest::Write { path: path.into(), mode, permissions: 0o644 }
}

fn put(client: &mut Client, path: &str, mode: WriteMode, content: &[u8]) -> Outcome {
    client.file_with(write(path, mode), content)
}

#[test]
fn a_file_is_read_whole_with_its_digest_or_in_part_without() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let content: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
    let path = guest.put("dir/file", &content);
    let outcome = client.file(read("dir/file"));
    assert!(outcome.output == content);
    let Ok(FileReply::Read { stat, sha256: digest }) = outcome.file() else { panic!() };
    assert_eq!(digest, Some(sha256(&content)));
    assert_eq!((stat.kind, stat.size), (EntryKind::File, content.len() as u64));
    assert_eq!(stat.modified_ns / 1_000_000_000, fs::metadata(&path).unwrap().mtime());

    let part = |offset, limit| FileRequest::Read { path: b"dir/file".to_vec(), offset, limit };
    let outcome = client.file(part(1_000, 500));
    assert_eq!(outcome.output, content[1_000..1_500]);
    assert!(matches!(outcome.file(), Ok(FileReply::Read { sha256: None, .. })));
    let outcome = client.file(part(0, content.len() as u64));
    assert!(matches!(outcome.file(), Ok(FileReply::Read { sha256: Some(_), .. })));
    let outcome = client.file(part(0, 10));
    assert!(matches!(outcome.file(), Ok(FileReply::Read { sha256: None, .. })));
    let outcome = client.file(part(1 << 40, 10));
    assert_eq!(outcome.output, b"");
    assert_eq!(client.file(read(path.to_str().unwrap())).output.len(), content.len());
}

#[test]
fn what_is_no_regular_file_is_not_read() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let pipe = guest.workspace().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(guest.workspace().join("socket")).unwrap();
    fs::create_dir(guest.workspace().join("directory")).unwrap();
    guest.give_away();
    for path in ["pipe", "socket", "directory", "."] {
        assert_eq!(client.file(read(path)).file(), Err(FileError::NotFile), "{path}");
    }
    for path in ["pipe", "socket", "directory"] {
        for mode in [WriteMode::Replace, WriteMode::Append, WriteMode::ReplaceIf([0; 32])] {
            let outcome = put(&mut client, path, mode, b"x");
            assert_eq!(outcome.file(), Err(FileError::NotFile), "{path} {mode:?}");
        }
    }
    assert_eq!(client.file(read("none")).file(), Err(FileError::NotFound));
    guest.put("file", "");
    assert_eq!(client.file(read("file/below")).file(), Err(FileError::NotDirectory));
    let with_nul = client.file(read("fi\0le")).file();
    assert!(matches!(with_nul, Err(FileError::Io { errno: 22, .. })));
}

#[test]
fn permissions_are_the_users_own() {
    let guest = Guest::start();
    let mut client = guest.connect();
    if client.run(argv(&["id", "-u"])).text() == "0\n" {
        return; // Everything is allowed to this user.
    }
    let secret = guest.put("secret", "x");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(client.file(read("secret")).file(), Err(FileError::Denied));
}

#[test]
fn a_file_is_written_with_its_parents() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let content = vec![42; 5 << 20];
    let outcome = put(&mut client, "a/b/c/file", WriteMode::Create, &content);
    let written = FileReply::Written {
        size: content.len() as u64,
        sha256: Some(sha256(&content)),
        replaced: 0,
    };
    assert_eq!(outcome.file(), Ok(written));
    let path = guest.workspace().join("a/b/c/file");
    assert!(fs::read(&path).unwrap() == content);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o644);
    let others: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(others.len(), 1, "no temporary file is left");
}

#[test]
fn what_is_changed_while_its_next_content_comes_is_not_overwritten() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let path = guest.put("file", "old");
    let call = client.request(Request::File(write("file", WriteMode::ReplaceIf(sha256(b"old")))));
    // More than is taken before the old content was compared.
    client.feed(call, &vec![b'n'; 2 * WINDOW as usize]);
    fs::write(&path, "changed meanwhile").unwrap();
    client.end_input(call);
    let changed = Err(FileError::Changed(sha256(b"changed meanwhile")));
    assert_eq!(client.finish(call).file(), changed);
    assert_eq!(fs::read_to_string(&path).unwrap(), "changed meanwhile");
}

#[test]
fn each_mode_of_writing_minds_what_is_there() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let path = guest.put("file", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
    let content = || fs::read_to_string(guest.workspace().join("file")).unwrap();

    let outcome = put(&mut client, "file", WriteMode::Create, b"new");
    assert_eq!((outcome.file(), content().as_str()), (Err(FileError::Exists), "old"));
    let outcome = put(&mut client, "file", WriteMode::ReplaceIf([7; 32]), b"new");
    assert_eq!(outcome.file(), Err(FileError::Changed(sha256(b"old"))));
    let outcome = put(&mut client, "none", WriteMode::ReplaceIf([7; 32]), b"new");
    assert_eq!(outcome.file(), Err(FileError::NotFound));
    let outcome = put(&mut client, "file", WriteMode::ReplaceIf(sha256(b"old")), b"new");
    assert!(outcome.file().is_ok());
    assert_eq!(content(), "new");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o711, "kept, but no set-id");
    assert!(put(&mut client, "file", WriteMode::Replace, b"newer").file().is_ok());
    assert_eq!(content(), "newer");
    let outcome = put(&mut client, "file", WriteMode::Append, b" still");
    let appended = FileReply::Written { size: 11, sha256: None, replaced: 0 };
    assert_eq!((outcome.file(), content().as_str()), (Ok(appended), "newer still"));
    assert!(put(&mut client, "made/log", WriteMode::Append, b"1").file().is_ok());
    let bits = FileRequest::Write {
        path: b"bits".to_vec(),
        mode: WriteMode::Replace,
        permissions: 0o7777,
    };
    assert!(client.file_with(bits, b"").file().is_ok());
    let mode = fs::metadata(guest.workspace().join("bits")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o777);
}

#[test]
fn writing_through_a_link_inside_changes_what_it_leads_to() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("real/file", "old");
    fs::create_dir(guest.workspace().join("links")).unwrap();
    symlink("../real/file", guest.workspace().join("links/link")).unwrap();
    guest.give_away();
    assert!(put(&mut client, "links/link", WriteMode::Replace, b"new").file().is_ok());
    assert_eq!(fs::read(guest.workspace().join("real/file")).unwrap(), b"new");
    assert!(fs::symlink_metadata(guest.workspace().join("links/link")).unwrap().is_symlink());
    let outcome = put(&mut client, "links/link", WriteMode::Create, b"");
    assert_eq!(outcome.file(), Err(FileError::Exists));
    let stat = client.file(FileRequest::Stat { path: b"links/link".to_vec() });
    let Ok(FileReply::Stat(stat)) = stat.file() else { panic!() };
    assert_eq!(stat.kind, EntryKind::Link);
}

#[test]
fn a_write_that_is_killed_leaves_nothing() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("file", "old");
    let call = client.request(Request::File(write("file", WriteMode::Replace)));
    client.feed(call, &vec![1; 3 << 20]);
    client.control(call, Control::Kill);
    assert_eq!(client.finish(call).file(), Err(FileError::Killed));
    assert_eq!(fs::read(guest.workspace().join("file")).unwrap(), b"old");
    assert_eq!(fs::read_dir(guest.workspace()).unwrap().count(), 1);
    wait_until("the worker is gone", || descendants(guest.pid()).is_empty());
}

#[test]
fn text_is_replaced_if_it_is_there_just_once() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let path = guest.put("file", "one two two");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let mut replace = |old: &str, new: &str, all, expected| {
        let request = FileRequest::Replace {
            path: b"file".to_vec(),
            old: old.into(),
            new: new.into(),
            all,
            expected,
        };
        client.file(request).file()
    };
    assert_eq!(replace("six", "6", false, None), Err(FileError::NoMatch));
    assert_eq!(replace("two", "2", false, None), Err(FileError::Ambiguous(2)));
    let changed = Err(FileError::Changed(sha256(b"one two two")));
    assert_eq!(replace("one", "1", false, Some([0; 32])), changed);
    let written = |content: &[u8], replaced| {
        let sha256 = Some(sha256(content));
        Ok(FileReply::Written { size: content.len() as u64, sha256, replaced })
    };
    let expected = Some(sha256(b"one two two"));
    assert_eq!(replace("one", "1", false, expected), written(b"1 two two", 1));
    assert_eq!(replace("two", "", true, None), written(b"1  ", 2));
    assert_eq!(fs::read(&path).unwrap(), b"1  ");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
}

#[test]
fn a_file_too_large_to_replace_in_says_so() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let path = guest.put("large", "");
    fs::File::options().write(true).open(path).unwrap().set_len(65 << 20).unwrap();
    let request = FileRequest::Replace {
        path: b"large".to_vec(),
        old: b"a".to_vec(),
        new: b"b".to_vec(),
        all: false,
        expected: None,
    };
    let too_large = FileError::TooLarge { size: 65 << 20, limit: 64 << 20 };
    assert_eq!(client.file(request).file(), Err(too_large));
}

#[test]
fn things_are_moved_and_nothing_is_overwritten_unasked() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("a", "a");
    guest.put("b", "b");
    let mut rename = |from: &str, to: &str, overwrite| {
        client.file(FileRequest::Move { from: from.into(), to: to.into(), overwrite }).file()
    };
    assert_eq!(rename("a", "b", false), Err(FileError::Exists));
    assert_eq!(rename("a", "new/place/c", false), Ok(FileReply::Done));
    assert_eq!(rename("new/place/c", "b", true), Ok(FileReply::Done));
    assert_eq!(fs::read(guest.workspace().join("b")).unwrap(), b"a");
    assert_eq!(rename("none", "x/y", false), Err(FileError::NotFound));
    assert!(!guest.workspace().join("x").exists(), "nothing is made for nothing");
    assert!(matches!(rename("new", "new/place/inside", false), Err(FileError::Io { .. })));
}

#[test]
fn directories_are_made() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("file", "");
    let mut make =
        |path: &str| client.file(FileRequest::MakeDirectory { path: path.into() }).file();
    assert_eq!(make("a/b/c"), Ok(FileReply::Done));
    assert_eq!(make("a/b/c"), Ok(FileReply::Done));
    assert_eq!(make("file"), Err(FileError::Exists));
    assert_eq!(make("file/below"), Err(FileError::NotDirectory));
    assert!(guest.workspace().join("a/b/c").is_dir());
}

#[test]
fn only_what_is_asked_is_deleted() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("dir/sub/one", "");
    guest.put("dir/two", "");
    guest.put("kept/file", "");
    symlink("../kept", guest.workspace().join("dir/link")).unwrap();
    fs::create_dir(guest.workspace().join("empty")).unwrap();
    guest.give_away();
    let mut delete = |path: &str, recursive| {
        client.file(FileRequest::Delete { path: path.into(), recursive }).file()
    };
    let deleted = |entries| Ok(FileReply::Deleted { entries });
    assert_eq!(delete("dir", false), Err(FileError::NotEmpty));
    assert_eq!(delete("empty", false), deleted(1));
    assert_eq!(delete("dir/two", false), deleted(1));
    assert_eq!(delete("dir", true), deleted(4));
    assert_eq!(delete("none", true), Err(FileError::NotFound));
    assert_eq!(delete(".", true), Err(FileError::Denied));
    assert!(guest.workspace().join("kept/file").exists());
    assert!(!guest.workspace().join("dir").exists());
}

#[test]
fn a_tree_that_resists_is_deleted() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put_deep(600);
    let script = "mkdir -p directory-0/locked/inside/more; touch directory-0/locked/inside/file; \
        chmod 500 directory-0/locked/inside; chmod 000 directory-0/locked; \
        mkdir directory-0/closed; chmod 000 directory-0/closed";
    let cwd = guest.workspace().into_os_string().into_encoded_bytes();
    let made = client.run(Exec { cwd, ..shell(script) });
    assert_eq!(made.error, b"");
    let request = FileRequest::Delete { path: b"directory-0".to_vec(), recursive: true };
    assert_eq!(client.file(request).file(), Ok(FileReply::Deleted { entries: 1200 + 5 }));
    assert_eq!(fs::read_dir(guest.workspace()).unwrap().count(), 0);
}
