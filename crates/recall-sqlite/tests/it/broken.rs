//! Files that are no good.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cofferdam_recall::{Index, RecallError};
use cofferdam_recall_sqlite::SqliteIndex;
use rusqlite::Connection;

use crate::world::{World, about, find, said};

async fn filled(world: &World) {
    let index = world.open().await;
    let documents = (1..=500).map(|seq| said(seq, &format!("harbour number {seq}"))).collect();
    index.add(500, documents).await.unwrap();
}

async fn works_from_the_beginning(world: &World) {
    let index = world.open().await;
    assert_eq!(index.reaches().await.unwrap(), 0);
    index.add(1, vec![said(1, "harbour")]).await.unwrap();
    assert_eq!(find(&index, about("harbour")).await, [1]);
}

#[tokio::test]
async fn what_is_no_database_is_made_anew() {
    for content in [&b"this is no database at all, and never was one"[..], &[0xff; 8192]] {
        let world = World::new();
        fs::write(world.path(), content).unwrap();
        works_from_the_beginning(&world).await;
    }
}

#[tokio::test]
async fn an_empty_file_is_a_new_one() {
    let world = World::new();
    fs::write(world.path(), b"").unwrap();
    works_from_the_beginning(&world).await;
}

#[tokio::test]
async fn what_another_release_made_is_made_anew() {
    let world = World::new();
    filled(&world).await;
    let connection = Connection::open(world.path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    works_from_the_beginning(&world).await;
}

#[tokio::test]
async fn a_file_without_its_tables_is_made_anew() {
    let world = World::new();
    filled(&world).await;
    let connection = Connection::open(world.path()).unwrap();
    connection.execute_batch("DROP TABLE state").unwrap();
    drop(connection);
    works_from_the_beginning(&world).await;
}

#[tokio::test]
async fn damage_that_shows_only_in_use_is_found_out_and_mended() {
    let world = World::new();
    filled(&world).await;
    let mut bytes = fs::read(world.path()).unwrap();
    // All but the first pages, which are looked at when it is opened.
    for byte in bytes.iter_mut().skip(4096 * 3) {
        *byte = 0xa5;
    }
    fs::write(world.path(), bytes).unwrap();

    let Ok(index) = SqliteIndex::open(world.path()).await else { panic!("it did not open") };
    let mut stale = false;
    for _ in 0..3 {
        match index.find(about("harbour")).await {
            Err(RecallError::Stale(_)) => stale = true,
            Err(other) => panic!("{other}"),
            Ok(hits) => assert!(hits.is_empty(), "{hits:?}"),
        }
    }
    assert!(stale || index.reaches().await.unwrap() == 0);
    assert_eq!(index.reaches().await.unwrap(), 0, "it is to be fed again");
    index.add(2, vec![said(2, "harbour")]).await.unwrap();
    assert_eq!(find(&index, about("harbour")).await, [2]);
}

#[tokio::test]
async fn a_table_that_goes_missing_in_use_is_found_out_and_mended() {
    let world = World::new();
    filled(&world).await;
    let index = world.open().await;
    let other = Connection::open(world.path()).unwrap();
    other.execute_batch("DROP TABLE documents").unwrap();
    drop(other);
    let found = index.find(about("harbour")).await;
    assert!(matches!(found, Err(RecallError::Stale(_))), "{found:?}");
    assert_eq!(index.reaches().await.unwrap(), 0);
    index.add(1, vec![said(1, "harbour")]).await.unwrap();
    assert_eq!(find(&index, about("harbour")).await, [1]);
}

#[tokio::test]
async fn a_place_that_cannot_be_used_is_named() {
    let world = World::new();
    let path = world.path().join("nowhere/recall.db");
    let Err(RecallError::Unusable(reason)) = SqliteIndex::open(&path).await else {
        panic!("it opened");
    };
    assert!(reason.contains("nowhere/recall.db"), "{reason}");
}

#[tokio::test]
async fn the_file_is_its_owners_alone() {
    let world = World::new();
    let index = world.open().await;
    index.add(1, vec![said(1, "secret")]).await.unwrap();
    let mode = fs::metadata(world.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
