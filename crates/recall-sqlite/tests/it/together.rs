//! Several at once.

use std::fs;

use cofferdam_recall::{Index, Question, RecallError};
use cofferdam_recall_sqlite::SqliteIndex;
use rusqlite::Connection;
use tokio::task::JoinSet;

use crate::world::{World, about, find, lines, said};

const EVENTS: u64 = 60;

/// Feeds the whole log one by one, as somebody does who does not know of others.
async fn feed(index: SqliteIndex, name: String) {
    for seq in 1..=EVENTS {
        index.add(seq, vec![said(seq, &format!("entry {seq} of the log"))]).await.unwrap();
        let file = vec![lines(&name, 1, &format!("file {name} for the time {seq}"))];
        index.replace_files([(name.clone(), file)].into()).await.unwrap();
        find(&index, about("entry log")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_handles_feed_the_same_log_and_nothing_is_doubled() {
    let world = World::new();
    let mut tasks = JoinSet::new();
    // Also opened at the same time, when there is no file yet.
    for number in 0..4 {
        let path = world.path();
        tasks.spawn(async move {
            let index = SqliteIndex::open(path).await.unwrap();
            feed(index, format!("file{number}.txt")).await;
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let index = world.open().await;
    assert_eq!(index.reaches().await.unwrap(), EVENTS);
    let all = Question { workspace: false, limit: 200, ..about("entry") };
    let mut found = find(&index, all).await;
    found.sort_unstable();
    assert!(found.into_iter().eq(1..=EVENTS));
    assert_eq!(find(&index, about("time")).await, [0, 0, 0, 0]);
    drop(index);
    let connection = Connection::open(world.path()).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let terms = "INSERT INTO terms (terms) VALUES ('integrity-check')";
    connection.execute_batch(terms).unwrap();
    let sums: (i64, i64) = connection
        .query_row("SELECT documents, (SELECT count(*) FROM documents) FROM state", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(sums.0, sums.1);
}

#[tokio::test]
async fn a_file_that_somebody_has_open_is_not_taken_away() {
    let world = World::new();
    let first = world.open().await;
    first.add(1, vec![said(1, "harbour")]).await.unwrap();
    let connection = Connection::open(world.path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let second = SqliteIndex::open(world.path()).await.map(|_| ());
    let Err(RecallError::Stale(reason)) = second else { panic!("{second:?}") };
    assert!(reason.contains("another process has it open"), "{reason}");
    assert_eq!(find(&first, about("harbour")).await, [1], "it goes on");
    drop((first, connection));
    let again = world.open().await;
    assert_eq!(again.reaches().await.unwrap(), 0);
    assert!(fs::metadata(world.path()).is_ok());
}

#[tokio::test]
async fn a_search_does_not_wait_for_a_long_addition() {
    let world = World::new();
    let index = world.open().await;
    index.add(1, vec![said(1, "harbour")]).await.unwrap();
    let many = (2..4000).map(|seq| said(seq, &format!("entry {seq} of the log"))).collect();
    let adding = index.add(4000, many);
    let finding = async {
        let found = find(&index, about("harbour")).await;
        (found, index.reaches().await.unwrap())
    };
    let mut tasks = (Box::pin(adding), Box::pin(finding));
    let (added, (found, _)) = tokio::join!(&mut tasks.0, &mut tasks.1);
    added.unwrap();
    assert_eq!(found, [1]);
    assert_eq!(index.reaches().await.unwrap(), 4000);
}
