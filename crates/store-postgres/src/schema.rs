//! The schema: an ordered list of changes, each made once.

use std::time::Duration;

use cofferdam_store::StoreError;

use crate::database::{Connection, begin, commit, execute, row, rows};
use crate::failure::Attempt;

/// What makes the schema, in order. One that was released never changes.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];

/// The newest schema known here.
pub(crate) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// The oldest server that has what the statements use.
const OLDEST: i32 = 13;

/// What a migration may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Held while the schema is made; the number means nothing.
const MIGRATING: i64 = 0x0c0f_fe7d_a300_0001;

/// Brings the database to the newest schema, unless it has a newer one.
pub(crate) async fn migrate(connection: &mut Connection) -> Attempt<()> {
    check_server(connection).await?;
    let transaction = begin(connection).await?;
    let patience = PATIENCE.as_millis();
    transaction
        .batch_execute(&format!(
            "SET LOCAL statement_timeout = {patience}; SET LOCAL lock_timeout = {patience}"
        ))
        .await?;
    rows(&transaction, "SELECT pg_advisory_xact_lock($1)", &[&MIGRATING]).await?;
    let found = version(&transaction).await?;
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN }.into());
    }
    if found == KNOWN {
        return commit(transaction).await;
    }
    if found == 0 {
        // Whoever may not make a schema can be given one.
        let there = "SELECT 1 FROM pg_namespace WHERE nspname = 'cofferdam'";
        if row(&transaction, there, &[]).await?.is_none() {
            transaction.batch_execute("CREATE SCHEMA cofferdam").await?;
        }
        let versions = "CREATE TABLE versions (version bigint PRIMARY KEY, \
                        at timestamptz NOT NULL DEFAULT clock_timestamp())";
        transaction.batch_execute(versions).await?;
    }
    for (version, migration) in (1_i64..).zip(MIGRATIONS) {
        if version > found {
            transaction.batch_execute(migration).await?;
            execute(&transaction, "INSERT INTO versions (version) VALUES ($1)", &[&version])
                .await?;
        }
    }
    // Repeated after a lost answer, this finds nothing left to do.
    commit(transaction).await
}

async fn version(transaction: &deadpool_postgres::Transaction<'_>) -> Attempt<i64> {
    let there = "SELECT to_regclass('cofferdam.versions') IS NOT NULL AS there";
    let there = row(transaction, there, &[]).await?;
    if !there.is_some_and(|row| row.get("there")) {
        return Ok(0);
    }
    let version = "SELECT coalesce(max(version), 0) AS version FROM cofferdam.versions";
    let version = row(transaction, version, &[]).await?;
    Ok(version.map_or(0, |row| row.get("version")))
}

async fn check_server(connection: &Connection) -> Attempt<()> {
    let about = "SELECT current_setting('server_version_num')::int / 10000 AS version, \
                 current_setting('server_encoding') AS encoding";
    let Some(about) = row(connection, about, &[]).await? else { return Ok(()) };
    let version: i32 = about.get("version");
    if version < OLDEST {
        let cause = format!("the database is a PostgreSQL {version}");
        let remedy = format!("use PostgreSQL {OLDEST} or newer");
        return Err(StoreError::Unusable { cause, remedy }.into());
    }
    let encoding: String = about.get("encoding");
    if encoding != "UTF8" {
        let cause = format!("the database has the encoding {encoding}");
        let remedy = "make one with `createdb --encoding=UTF8 --template=template0`".to_owned();
        return Err(StoreError::Unusable { cause, remedy }.into());
    }
    Ok(())
}
