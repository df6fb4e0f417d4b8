//! What is one file with many names inside takes no more room outside.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cofferdam_sandbox::{Backend, Changes, Sandbox, Spec, Workspace};
use cofferdam_types::Limits;

use crate::home::{Home, block_on};
use crate::ordinary_user;

/// Makes a file that fills most of a workspace, and thirty links of it; and links one that was
/// there.
const SCRIPT: &str = "set -e; dd if=/dev/zero of=file bs=1M count=10 2>/dev/null; mkdir d; \
                      for i in $(seq 15); do ln file link$i; ln file d/link$i; done; \
                      ln file existing -f; ln old d/old; echo changed > split";

async fn open(home: &Home, directory: &Path, changes: Changes) -> Sandbox {
    std::fs::write(directory.join("existing"), "existing").unwrap();
    std::fs::write(directory.join("old"), "old").unwrap();
    std::fs::write(directory.join("whole"), "whole").unwrap();
    std::fs::hard_link(directory.join("whole"), directory.join("split")).unwrap();
    let spec = Spec {
        limits: Limits { disk: 16 << 20, inodes: 200, ..Limits::default() },
        workspace: Workspace::Directory(directory.to_owned()),
        changes,
        ..Spec::scratch()
    };
    let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
    let made = sandbox.run(sandbox.next_call_id(), sandbox.shell(SCRIPT)).await.unwrap();
    assert!(made.outcome.success(), "{made:?}");
    sandbox
}

fn assert_linked(directory: &Path) {
    let file = |name: &str| std::fs::metadata(directory.join(name)).unwrap();
    let links = (1..=15).flat_map(|at| [format!("link{at}"), format!("d/link{at}")]);
    let names: Vec<_> = links.chain(["file".to_owned(), "existing".to_owned()]).collect();
    let inodes: HashSet<_> = names.iter().map(|name| file(name).ino()).collect();
    assert_eq!(inodes.len(), 1);
    assert_eq!((file("file").nlink(), file("file").len()), (names.len() as u64, 10 << 20));
    assert_eq!((file("old").ino(), file("old").nlink()), (file("d/old").ino(), 2));
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    assert_eq!((read("old").as_str(), read("d/old").as_str()), ("old", "old"));
    // As inside: what is changed by one of its names was there by the others.
    assert_eq!((read("whole").as_str(), read("split").as_str()), ("whole", "changed\n"));
}

#[test]
fn links_are_applied_as_links() {
    block_on(async {
        for changes in [Changes::OnDisk, Changes::InMemory] {
            let home = Home::new();
            let directory = home.directory("project");
            let sandbox = open(&home, &directory, changes).await;
            sandbox.close().await.unwrap();
            assert_linked(&directory);
            home.assert_empty();
        }
    });
}

#[test]
fn links_are_saved_as_links_where_they_cannot_be_applied() {
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        let moved = directory.with_file_name("moved");
        let sandbox = open(&home, &directory, Changes::InMemory).await;
        std::fs::rename(&directory, &moved).unwrap();
        sandbox.close().await.unwrap_err();
        let kept = home.left().pop().unwrap();
        let layer = home.sandboxes().join(kept).join("layers/0/u");
        let [file, link] = ["file", "d/link7"].map(|name| layer.join(name));
        let inode = |path| std::fs::metadata(path).unwrap().ino();
        assert_eq!(inode(file), inode(link));
        std::fs::rename(&moved, &directory).unwrap();
        Backend::reconcile(&home.native()).await.unwrap();
        assert_linked(&directory);
        home.assert_empty();
    });
}

#[test]
fn a_snapshot_takes_the_room_of_a_file_once() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let spec = Spec {
            limits: Limits { disk: 16 << 20, inodes: 200, ..Limits::default() },
            ..Spec::scratch()
        };
        let sandbox = Sandbox::open(&native, spec).await.unwrap();
        let script = "dd if=/dev/zero of=file bs=1M count=6 2>/dev/null; mkdir closed; \
                      for i in $(seq 10); do ln file closed/$i; done; chmod 0 closed";
        sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        // While something runs, a snapshot is a copy.
        let running = sandbox.shell("sleep 1000");
        let running = sandbox.start(sandbox.next_call_id(), running).await.unwrap();
        running.started().await.unwrap();
        let snapshot = sandbox.snapshot().await.unwrap();
        let spec = Spec { workspace: Workspace::Fork(snapshot), ..Spec::scratch() };
        let fork = Sandbox::open(&native, spec).await.unwrap();
        let count = fork.shell("stat -c '%h %s' file");
        let counted = fork.run(fork.next_call_id(), count).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&counted.stdout), "11 6291456\n");
        fork.close().await.unwrap();
        running.kill();
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn links_are_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "links::links_are_applied_as_links",
        "links::links_are_saved_as_links_where_they_cannot_be_applied",
        "links::a_snapshot_takes_the_room_of_a_file_once",
    ]);
}
