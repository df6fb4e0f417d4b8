//! The queue stays quick however many jobs are over: its questions are answered
//! from indexes that hold only what waits or runs.

use cofferdam_store_sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::world::beside;

/// How SQLite would answer a question.
fn plan(raw: &Connection, sql: &str) -> String {
    let mut statement = raw.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
    rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn the_questions_of_the_queue_never_sort_and_never_read_a_whole_table() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let _store = SqliteStore::open(&path).unwrap();
    let raw = beside(&path);
    let questions = [
        "SELECT number, user, turn, priority, id FROM jobs INDEXED BY jobs_waiting \
         WHERE lease_until IS NULL AND turn IS NOT NULL AND user > x'' \
         AND (node IS NULL OR node = x'02' OR NOT EXISTS (SELECT 1 FROM nodes \
         WHERE nodes.node = jobs.node AND seen > 5)) \
         ORDER BY user, turn DESC, priority DESC, id LIMIT 1",
        "SELECT number, user, turn, priority, id FROM jobs INDEXED BY jobs_waiting \
         WHERE lease_until IS NULL AND turn IS NOT NULL AND user = x'01' \
         AND (node IS NULL OR node = x'02' OR NOT EXISTS (SELECT 1 FROM nodes \
         WHERE nodes.node = jobs.node AND seen > 5)) \
         ORDER BY turn DESC, priority DESC, id LIMIT 1",
        "SELECT number, user, turn, priority, id FROM jobs INDEXED BY jobs_leased \
         WHERE lease_until <= 5 AND turn IS NOT NULL \
         AND (node IS NULL OR node = x'02' OR NOT EXISTS (SELECT 1 FROM nodes \
         WHERE nodes.node = jobs.node AND seen > 5))",
        "SELECT number FROM jobs INDEXED BY jobs_of_user \
         WHERE id < x'ff' AND status = 'pending' AND user = x'01' ORDER BY id DESC LIMIT 5",
        "SELECT number FROM jobs INDEXED BY jobs_by_status \
         WHERE id < x'ff' AND status = 'pending' ORDER BY id DESC LIMIT 5",
        "SELECT number FROM jobs WHERE id < x'ff' ORDER BY id DESC LIMIT 5",
        "SELECT users.id, name, admin, users.created, tokens.id \
         FROM tokens JOIN users ON users.id = tokens.user \
         WHERE hash = x'01' AND (expires IS NULL OR expires > 5)",
        "SELECT state, jobs FROM tallies WHERE user = x''",
        "SELECT seq, text FROM events WHERE job = (SELECT number FROM jobs WHERE id = x'01') \
         AND seq > 5 ORDER BY seq LIMIT 9",
    ];
    for question in questions {
        let plan = plan(&raw, question);
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{question}: {plan}");
        assert!(plan.contains("SEARCH"), "{question}: {plan}");
    }
}
