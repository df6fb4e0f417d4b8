//! `kill -9` while a store writes: what it has acknowledged is there.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use cofferdam_store::{NodeId, Store, UserId};
use cofferdam_store_sqlite::SqliteStore;
use cofferdam_types::JobId;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::world::{append, ask, draft, ended, inspect, noted, taken_up};

/// Tells the test's own program to be the one that is killed.
const VICTIM: &str = "COFFERDAM_STORE_VICTIM";
const THIS_TEST: &str = "crash::what_was_acknowledged_survives_kill_9";

/// Lines that are read before each kill: early, late, and in between.
const ROUNDS: [usize; 6] = [1, 40, 150, 3, 400, 77];

/// Says that something was acknowledged. One write, so that no kill leaves half.
fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Is the victim: submits, leases, appends and releases until it is killed.
async fn work_until_killed(path: PathBuf) {
    let store = Arc::new(SqliteStore::open(&path).unwrap());
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let (user, node) = (UserId::generate(), NodeId::generate());
            loop {
                let job = draft(user);
                let id = job.spec.job;
                store.submit(job).await.unwrap();
                say(&format!("ack {id} 1"));
                for lease in store.lease(ask(node, 1)).await.unwrap() {
                    let job = lease.job.id;
                    let mut seq = lease.job.last_seq;
                    for event in [taken_up(), noted("a"), noted(&"long ".repeat(5000)), ended()] {
                        seq += 1;
                        store.append(append(&lease, seq, event)).await.unwrap();
                        say(&format!("ack {job} {seq}"));
                    }
                    store.release(job, lease.job.epoch).await.unwrap();
                }
            }
        });
    }
    tasks.join_all().await;
}

/// Ends with its owner.
struct Victim(Child);

impl Victim {
    fn start(path: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([THIS_TEST, "--exact", "--nocapture"])
            .env(VICTIM, path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Kills it after so many lines; returns all that it said.
    fn kill_after(mut self, count: usize) -> Vec<String> {
        let mut lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        while said.len() < count {
            let Some(line) = lines.next() else { panic!("it has ended by itself: {said:?}") };
            let line = line.unwrap();
            said.extend(line.starts_with("ack").then_some(line));
        }
        self.0.kill().unwrap();
        said.extend(lines.map_while(Result::ok).filter(|line| line.starts_with("ack")));
        said
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    if let Ok(path) = std::env::var(VICTIM) {
        return work_until_killed(PathBuf::from(path)).await;
    }
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let mut acknowledged: HashMap<JobId, u64> = HashMap::new();
    for count in ROUNDS {
        let said = tokio::task::block_in_place(|| Victim::start(&path).kill_after(count));
        for line in said {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, job, seq] = words.as_slice() else { panic!("{line:?}") };
            acknowledged.insert(job.parse().unwrap(), seq.parse().unwrap());
        }
        let store = SqliteStore::open(&path).unwrap();
        let rows = inspect(&path, &store).await;
        let there: HashMap<JobId, u64> = rows.iter().map(|row| (row.id, row.last_seq)).collect();
        for (job, seq) in &acknowledged {
            assert!(there.get(job).is_some_and(|last| last >= seq), "{job} {seq}: {there:?}");
        }
    }
    assert!(acknowledged.len() > 50, "only {} jobs", acknowledged.len());
}
