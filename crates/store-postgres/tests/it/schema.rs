//! The schema, and databases that cannot be used.

use cofferdam_store::{Store, StoreError, UserId};
use cofferdam_store_postgres::PostgresStore;
use cofferdam_testkit::Postgres;

use super::fixture::{fresh, submit};

#[tokio::test]
async fn a_database_of_a_later_release_is_refused_and_left_alone() {
    let (server, url, store) = fresh().await;
    drop(store);
    assert_eq!(server.sql(&url, "INSERT INTO cofferdam.versions (version) VALUES (99)"), "");
    match PostgresStore::open(&url).await.map(drop) {
        Err(StoreError::Newer { found: 99, known }) => assert!(known >= 1),
        other => panic!("{other:?}"),
    }
    let versions = "SELECT string_agg(version::text, ',' ORDER BY version) FROM cofferdam.versions";
    assert_eq!(server.sql(&url, versions), "1,99");
}

#[tokio::test]
async fn servers_that_start_at_once_make_one_schema() {
    let server = Postgres::shared();
    let url = server.database();
    let opens = (0..6).map(|_| PostgresStore::open(&url));
    let stores: Vec<_> = futures_util::future::join_all(opens).await;
    let job = submit(stores[0].as_ref().unwrap(), UserId::generate()).await;
    for store in &stores {
        assert!(store.as_ref().unwrap().job(job).await.unwrap().is_some());
    }
    assert_eq!(server.sql(&url, "SELECT count(*) FROM cofferdam.versions"), "1");
}

#[tokio::test]
async fn what_is_there_already_is_not_touched() {
    let server = Postgres::shared();
    let url = server.database();
    let foreign = "CREATE TABLE public.jobs (mine text); INSERT INTO public.jobs VALUES ('kept'); \
                   CREATE TABLE public.versions (mine text)";
    assert_eq!(server.sql(&url, foreign), "");
    let store = PostgresStore::open(&url).await.unwrap();
    submit(&store, UserId::generate()).await;
    assert_eq!(server.sql(&url, "SELECT mine FROM public.jobs"), "kept");
}

#[tokio::test]
async fn what_cannot_be_used_is_told_with_a_remedy() {
    let server = Postgres::shared();
    let maintenance = server.url("postgres");
    let make = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    assert_eq!(server.sql(&maintenance, make), "");
    for (url, named) in [(server.url("nowhere"), "nowhere"), (server.url("latin"), "LATIN1")] {
        match PostgresStore::open(&url).await.map(drop) {
            Err(StoreError::Unusable { cause, remedy }) => {
                assert!(cause.contains(named), "{cause}");
                assert!(remedy.contains("createdb"), "{remedy}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_session_waits_for_the_disk_whatever_the_server_is_told() {
    let (server, url, store) = fresh().await;
    let setting = |about: &cofferdam_store::About, name: &str| {
        let found = about.settings.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let about = store.about().await.unwrap();
    assert_eq!(about.engine, "postgres");
    assert_eq!(setting(&about, "fsync").as_deref(), Some("off"), "this server's own setting");
    drop(store);
    let lax = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', \
               current_database()); END $$";
    assert_eq!(server.sql(&url, lax), "");
    assert_eq!(server.sql(&url, "SHOW synchronous_commit"), "off");
    let about = PostgresStore::open(&url).await.unwrap().about().await.unwrap();
    assert_eq!(setting(&about, "synchronous_commit").as_deref(), Some("on"));
}
