//! Nothing leads out of the workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cofferdam_guest_protocol::{Entry, FileError, FileRequest, Match, WriteMode};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::guest::Guest;

const SECRET: &[u8] = b"nobody inside may see this\n";

/// Puts a secret next to the workspace, and links to it into the workspace.
fn with_secret(guest: &Guest) {
    let outside = guest.workspace().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), SECRET).unwrap();
    let inside = guest.workspace();
    symlink("../outside", inside.join("relative")).unwrap();
    symlink(&outside, inside.join("absolute")).unwrap();
    symlink(outside.join("secret"), inside.join("file")).unwrap();
    symlink("file", inside.join("chain")).unwrap();
    symlink("/proc/self/root", inside.join("magic")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    guest.give_away();
}

#[test]
fn no_path_leads_out() {
    let guest = Guest::start();
    with_secret(&guest);
    let mut client = guest.connect();
    let outside = guest.workspace().parent().unwrap().join("outside/secret");
    let outside = outside.to_str().unwrap();
    let paths = [
        "../outside/secret",
        "relative/secret",
        "absolute/secret",
        "file",
        "chain",
        "../../..",
        "relative/../outside/secret",
        "/etc/passwd",
        "..",
        outside,
        "magic/etc/passwd",
    ];
    for path in paths {
        let bytes = path.as_bytes().to_vec();
        let requests = [
            FileRequest::Read { path: bytes.clone(), offset: 0, limit: 100 },
            FileRequest::List { path: bytes.clone(), depth: 1, limit: 9 },
            FileRequest::Pack { path: bytes.clone(), respect_ignore: false },
            FileRequest::Unpack { path: bytes.clone() },
            FileRequest::MakeDirectory { path: [bytes.as_slice(), b"/new"].concat() },
            FileRequest::Replace {
                path: bytes.clone(),
                old: b"nobody".to_vec(),
                new: b"all".to_vec(),
                all: true,
                expected: None,
            },
            FileRequest::Write {
                path: bytes.clone(),
                mode: WriteMode::Replace,
                permissions: 0o600,
            },
            FileRequest::Write { path: bytes.clone(), mode: WriteMode::Append, permissions: 0o600 },
        ];
        for request in requests {
            let outcome = client.file(request.clone());
            // Packing a link packs the link.
            if matches!(request, FileRequest::Pack { .. }) && outcome.file().is_ok() {
                assert!(memchr::memmem::find(&outcome.output, SECRET).is_none());
                continue;
            }
            let error = outcome.file().unwrap_err();
            let refused = matches!(error, FileError::Outside | FileError::Io { .. });
            assert!(refused, "{path} {request:?}: {error:?}");
            assert_eq!(outcome.output, b"");
        }
    }
    let looping = FileRequest::Read { path: b"loop".to_vec(), offset: 0, limit: 1 };
    assert!(matches!(client.file(looping).file(), Err(FileError::Io { .. })));
    assert_eq!(fs::read(outside).unwrap(), SECRET);
    assert_eq!(
        fs::read_dir(fs::canonicalize(outside).unwrap().parent().unwrap()).unwrap().count(),
        1
    );
}

#[test]
fn moving_and_deleting_act_on_links_and_not_on_what_they_lead_to() {
    let guest = Guest::start();
    with_secret(&guest);
    let mut client = guest.connect();
    let rename = |from: &str, to: &str| FileRequest::Move {
        from: from.into(),
        to: to.into(),
        overwrite: true,
    };
    assert!(client.file(rename("relative", "renamed")).file().is_ok());
    assert_eq!(client.file(rename("absolute/secret", "x")).file(), Err(FileError::Outside));
    assert_eq!(client.file(rename("renamed", "absolute/x")).file(), Err(FileError::Outside));
    let delete = |path: &str| FileRequest::Delete { path: path.into(), recursive: true };
    assert!(client.file(delete("renamed")).file().is_ok());
    assert_eq!(client.file(delete("absolute/secret")).file(), Err(FileError::Outside));
    assert!(client.file(delete("..")).file().is_err());
    let outside = guest.workspace().parent().unwrap().join("outside/secret");
    assert_eq!(fs::read(outside).unwrap(), SECRET);
}

/// Exchanges two names over and over while something happens.
fn while_swapping(guest: &Guest, first: &str, second: &str, action: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let paths = [first, second].map(|name| guest.workspace().join(name));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &paths[0], CWD, &paths[1], RenameFlags::EXCHANGE).unwrap();
            }
        });
        action();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_directory_exchanged_for_a_link_leaks_nothing_in_two_thousand_reads() {
    let guest = Guest::start();
    with_secret(&guest);
    guest.put("real/secret", "harmless");
    let mut client = guest.connect();
    while_swapping(&guest, "real", "relative", || {
        let mut harmless = 0;
        // Several at a time, to have it over sooner.
        for _ in 0..200 {
            let calls: Vec<u64> = (0..10)
                .map(|_| {
                    client.request(cofferdam_guest_protocol::Request::File(FileRequest::Read {
                        path: b"real/secret".to_vec(),
                        offset: 0,
                        limit: 1000,
                    }))
                })
                .collect();
            for call in calls {
                let outcome = client.finish(call);
                if outcome.file().is_ok() {
                    assert_eq!(outcome.output, b"harmless");
                    harmless += 1;
                } else {
                    assert_eq!(outcome.output, b"");
                }
            }
        }
        assert!(harmless > 0);
    });
}

#[test]
fn walks_through_a_tree_that_changes_stay_inside() {
    let guest = Guest::start();
    with_secret(&guest);
    guest.put("real/inner/secret", "harmless");
    let mut client = guest.connect();
    while_swapping(&guest, "real", "relative", || {
        for _ in 0..100 {
            let search = FileRequest::Search {
                path: b".".to_vec(),
                pattern: "nobody".to_owned(),
                literal: true,
                ignore_case: false,
                glob: None,
                respect_ignore: false,
                context: 0,
                limit: 10,
            };
            let found: Vec<Match> = client.file(search).records();
            assert_eq!(found, []);
            let list = FileRequest::List { path: b".".to_vec(), depth: 9, limit: 100 };
            let entries: Vec<Entry> = client.file(list).records();
            // Outside, the secret is not in a directory of its own.
            assert!(entries.iter().all(|entry| !entry.path.ends_with(b"real/secret")));
            assert!(entries.iter().all(|entry| !entry.path.ends_with(b"relative/secret")));
            let pack = FileRequest::Pack { path: b".".to_vec(), respect_ignore: false };
            let archive = client.file(pack).output;
            assert!(memchr::memmem::find(&archive, SECRET).is_none());
            let write = FileRequest::Write {
                path: b"real/inner/new".to_vec(),
                mode: WriteMode::Replace,
                permissions: 0o600,
            };
            client.file_with(write, b"x");
        }
    });
    let outside = guest.workspace().parent().unwrap().join("outside");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
}
