//! What is opened, what is refused, and who may read it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cofferdam_store::{Store, StoreError, UserId};
use cofferdam_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::world::{beside, draft, inspect};

fn refused(path: &Path) -> StoreError {
    match SqliteStore::open(path) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_store_says_which_engine_it_is_and_how_durable() {
    let home = TempDir::new().unwrap();
    let store = SqliteStore::open(&home.path().join("store.db")).unwrap();
    let about = store.about().await.unwrap();
    assert_eq!(about.engine, "sqlite");
    let numbers: Vec<u32> = about.version.split('.').map(|part| part.parse().unwrap()).collect();
    assert!(numbers >= vec![3, 51, 3], "{}", about.version);
    let settings: Vec<(&str, &str)> =
        about.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let wanted = [
        ("journal_mode", "wal"),
        ("synchronous", "full"),
        ("foreign_keys", "1"),
        ("busy_timeout", "5000"),
    ];
    assert_eq!(settings, wanted);
}

#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    store.submit(draft(UserId::generate())).await.unwrap();
    let names: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(names.len() >= 3, "{names:?}");
    for path in &names {
        assert_eq!(mode(path), 0o600, "{path:?}");
    }
    drop(store);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _store = SqliteStore::open(&path).unwrap();
    assert_eq!(mode(&path), 0o600, "a file that others could read");
}

#[tokio::test]
async fn what_was_stored_is_there_when_it_is_opened_again() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let job = draft(UserId::generate());
    for round in 0..3 {
        let store = SqliteStore::open(&path).unwrap();
        if round == 0 {
            store.submit(job.clone()).await.unwrap();
        }
        let rows = inspect(&path, &store).await;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].id, job.spec.job);
    }
}

#[tokio::test]
async fn closing_leaves_one_file() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    store.submit(draft(UserId::generate())).await.unwrap();
    drop(store);
    let names: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names, vec![path]);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    drop(SqliteStore::open(&path).unwrap());
    beside(&path).pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = refused(&path);
    assert!(matches!(error, StoreError::Newer { found: 99, known: 1 }), "{error:?}");
    assert!(error.to_string().contains("use a newer release"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn what_is_no_store_is_refused_and_left_alone() {
    let home = TempDir::new().unwrap();
    let text = home.path().join("notes.txt");
    std::fs::write(&text, "not a database ".repeat(100)).unwrap();
    let others = home.path().join("others.db");
    beside(&others).execute_batch("CREATE TABLE a (b)").unwrap();
    for path in [&text, &others] {
        let before = (std::fs::read(path).unwrap(), mode(path));
        let error = refused(path);
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        assert_eq!((std::fs::read(path).unwrap(), mode(path)), before);
    }
    let nowhere = refused(&home.path().join("no/such/directory/store.db"));
    let StoreError::Unusable { cause, remedy } = nowhere else { panic!("{nowhere:?}") };
    assert!(cause.contains("no/such/directory"), "{cause}");
    assert!(remedy.contains("directory"), "{remedy}");
    let before = mode(home.path());
    assert!(matches!(refused(home.path()), StoreError::Unusable { .. }));
    assert_eq!(mode(home.path()), before, "a directory");
}

#[tokio::test]
async fn two_that_make_the_file_at_once_make_the_same() {
    let home = TempDir::new().unwrap();
    for round in 0..5 {
        let path = home.path().join(format!("{round}.db"));
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| SqliteStore::open(&path))).collect();
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
        });
    }
}
