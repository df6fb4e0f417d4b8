//! Disks that are full, and disks that fail. Real ones: a small file system of the
//! test's own, and a limit on how long a file may grow.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_store::{Lease, NodeId, Store, StoreError, Submitted, UserId};
use cofferdam_store_sqlite::SqliteStore;
use cofferdam_types::JobId;
use futures_util::future::{join, join_all};
use tempfile::TempDir;

use crate::world::{append, ask, beside, draft, inspect, kind, noted};

/// Tells the test's own program that it runs where the disk is small.
const SMALL: &str = "COFFERDAM_STORE_SMALL";

/// Runs this test once more, by a shell script that ends in `exec "$@"`.
fn run_again(test: &str, unshare: bool, script: &str, directory: &Path) {
    let mut command = if unshare {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    let status = command
        .args(["-ec", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(SMALL, directory)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    assert!(directory.with_extension("seen").exists(), "the test did not run to its end");
}

fn seen(directory: &Path) {
    File::create(directory.with_extension("seen")).unwrap();
}

/// Fills the disk, but for so many bytes.
fn fill(path: &Path, leave: u64) {
    let mut ballast = File::create(path).unwrap();
    while ballast.write_all(&[7; 1024]).is_ok() {}
    let length = ballast.metadata().unwrap().len();
    ballast.set_len(length.saturating_sub(leave)).unwrap();
}

/// Submits small jobs, all in one transaction with an event that has no room;
/// returns the jobs.
async fn beside_a_big_one(
    path: &Path,
    store: &SqliteStore,
    lease: &Lease,
    big: usize,
) -> Vec<JobId> {
    let other = beside(path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let jobs: Vec<_> = (0..10).map(|_| draft(lease.job.user)).collect();
    let ids = jobs.iter().map(|job| job.spec.job).collect();
    let small = join_all(jobs.into_iter().map(|job| store.submit(job)));
    let big = store.append(append(lease, 2, noted(&"x".repeat(big))));
    let free = async { other.execute_batch("ROLLBACK").unwrap() };
    let ((small, big), ()) = join(join(small, big), free).await;
    assert!(matches!(big, Err(StoreError::Full(_))), "{big:?}");
    for answer in small {
        assert_eq!(answer.unwrap(), Submitted::New);
    }
    ids
}

async fn on_a_small_disk(directory: PathBuf) {
    let path = directory.join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let user = UserId::generate();
    let mut kept = Vec::new();
    let job = draft(user);
    kept.push(job.spec.job);
    store.submit(job).await.unwrap();
    let lease = store.lease(ask(NodeId::generate(), 1)).await.unwrap().remove(0);

    // One call that has no room takes none of those beside it with it: neither one
    // that fails at the commit, nor one that is too big to wait in memory until then.
    fill(&directory.join("ballast"), 1 << 20);
    for big in [2 << 20, 20 << 20] {
        kept.extend(beside_a_big_one(&path, &store, &lease, big).await);
    }
    store.append(append(&lease, 2, noted("small"))).await.unwrap();

    // No room for anything.
    fill(&directory.join("more"), 0);
    let refused = loop {
        let job = draft(user);
        let id = job.spec.job;
        match store.submit(job).await {
            Ok(answer) => assert_eq!(answer, Submitted::New),
            Err(error) => break (id, error),
        }
        kept.push(id);
        assert!(kept.len() < 100_000, "the disk is never full");
    };
    assert!(matches!(refused.1, StoreError::Full(_)), "{:?}", refused.1);
    assert_eq!(store.job(refused.0).await.unwrap(), None, "nothing of it is stored");
    kept.sort();
    let there = |rows: Vec<cofferdam_store::JobRow>| {
        let mut ids: Vec<_> = rows.into_iter().map(|row| row.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(there(inspect(&path, &store).await), kept);

    // Room again: it goes on where it was.
    std::fs::remove_file(directory.join("ballast")).unwrap();
    std::fs::remove_file(directory.join("more")).unwrap();
    store.append(append(&lease, 3, noted(&"x".repeat(1 << 20)))).await.unwrap();
    assert_eq!(there(inspect(&path, &store).await), kept);
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(there(inspect(&path, &store).await), kept);
    drop(store);
    seen(&directory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_passes() {
    if let Ok(directory) = std::env::var(SMALL) {
        return on_a_small_disk(PathBuf::from(directory)).await;
    }
    let home = TempDir::new().unwrap();
    let directory = home.path().join("small");
    std::fs::create_dir(&directory).unwrap();
    let script = format!("mount -t tmpfs -o size=6m tmpfs \"${SMALL}\"; exec \"$@\"");
    run_again("disk::a_full_disk_loses_nothing_and_passes", true, &script, &directory);
}

/// Works on a disk that fails from some length of a file on.
async fn on_a_failing_disk(directory: PathBuf) {
    let path = directory.join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let user = UserId::generate();
    let mut kept = 0;
    let error = loop {
        match store.submit(draft(user)).await {
            Ok(answer) => assert_eq!(answer, Submitted::New),
            Err(error) => break error,
        }
        kept += 1;
        assert!(kept < 100_000, "the disk never fails");
    };
    assert_eq!(kind(&error), "unavailable", "{error:?}");
    assert_eq!(store.counts(None).await.unwrap().pending, kept);
    std::fs::write(directory.join("kept"), kept.to_string()).unwrap();
    seen(&directory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_loses_nothing() {
    if let Ok(directory) = std::env::var(SMALL) {
        return on_a_failing_disk(PathBuf::from(directory)).await;
    }
    let home = TempDir::new().unwrap();
    let directory = home.path().join("failing");
    std::fs::create_dir(&directory).unwrap();
    // Writes beyond the limit fail, instead of ending the process.
    let script = "trap '' XFSZ; ulimit -f 1200; exec \"$@\"";
    run_again("disk::a_disk_that_fails_loses_nothing", false, script, &directory);
    let path = directory.join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let kept: usize = std::fs::read_to_string(directory.join("kept")).unwrap().parse().unwrap();
    assert_eq!(inspect(&path, &store).await.len(), kept);
    store.submit(draft(UserId::generate())).await.unwrap();
}
