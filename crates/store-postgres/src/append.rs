//! Appending events: under a lease, gapless, with what they do to the row.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cofferdam_store::{Append, JobRow, Line, StoreError, project};
use cofferdam_types::JobId;
use deadpool_postgres::Transaction;
use uuid::Uuid;

use crate::database::{Connection, begin, commit, execute, row, rows, unchanged};
use crate::failure::Attempt;
use crate::orders;
use crate::rows::{JOB, job_row, key, number};

/// Appends of which nobody knows yet whether they happened: the job, its lease and
/// the first number. Whoever repeats one of them is told that it did.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<HashMap<JobId, (u64, u64)>>);

/// So many jobs no server works on at once.
const MOST_DOUBTS: usize = 10_000;

impl Doubts {
    fn all(&self) -> MutexGuard<'_, HashMap<JobId, (u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is not known if this happened.
    pub(crate) fn about(&self, append: &Append) -> bool {
        self.all().get(&append.job) == Some(&(append.epoch, first(append)))
    }

    /// It may happen from now on.
    fn begin(&self, append: &Append) {
        let mut all = self.all();
        if all.len() >= MOST_DOUBTS {
            all.clear();
        }
        all.insert(append.job, (append.epoch, first(append)));
    }

    /// It is known what became of it.
    pub(crate) fn end(&self, append: &Append) {
        self.all().remove(&append.job);
    }
}

fn first(append: &Append) -> u64 {
    append.records.first().map_or(0, |record| record.seq)
}

const UPDATE: &str = "\
    WITH told AS (
        INSERT INTO events (job, seq, line) SELECT $1, * FROM unnest($2::bigint[], $3::text[])
    )
    UPDATE jobs SET status = $4, paused = $5, started = $6, ended = $7, ending = $8, spent = $9,
        last_seq = $10
    WHERE id = $1";

/// Appends events.
pub(crate) async fn append(
    connection: &mut Connection,
    append: &Append,
    doubts: &Doubts,
) -> Attempt<()> {
    let job = key(append.job)?;
    let lines = append.records.iter().map(Line::of).collect::<Result<Vec<_>, _>>()?;
    let transaction = begin(connection).await?;
    // The lock waits for whatever may still be under way on a lost connection.
    let sql = format!(
        "SELECT {JOB}, leased_until IS NOT NULL AS leased FROM jobs WHERE id = $1 FOR UPDATE"
    );
    let Some(found) = row(&transaction, &sql, &[&job]).await? else {
        return Err(StoreError::Missing("job").into());
    };
    let mut state = job_row(&found)?;
    if state.epoch != append.epoch || !found.try_get::<_, bool>("leased")? {
        return Err(StoreError::Fenced.into());
    }
    let next = (state.last_seq + 1)..;
    if !next.zip(&lines).all(|(seq, line)| line.seq == seq) {
        let happened = doubts.about(append) && is_stored(&transaction, job, &lines).await?;
        return if happened {
            unchanged(transaction, ()).await
        } else {
            Err(StoreError::Fenced.into())
        };
    }
    for record in &append.records {
        project(&mut state, record);
    }
    write(&transaction, job, &lines, &state).await?;
    if let Some(order) = append.heard {
        orders::hear(&transaction, job, order).await?;
    }
    doubts.begin(append);
    commit(transaction).await
}

async fn write(
    transaction: &Transaction<'_>,
    job: Uuid,
    lines: &[Line],
    state: &JobRow,
) -> Attempt<()> {
    let numbers: Vec<i64> = lines.iter().map(|line| number(line.seq)).collect();
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let ending = state.ending.as_ref().map(serde_json::to_string).transpose()?;
    let spent = serde_json::to_string(&state.spent)?;
    execute(
        transaction,
        UPDATE,
        &[
            &job,
            &numbers,
            &texts,
            &state.status.name(),
            &state.paused,
            &state.started.map(|at| number(at.0)),
            &state.ended.map(|at| number(at.0)),
            &ending,
            &spent,
            &number(state.last_seq),
        ],
    )
    .await
    .map(drop)
}

/// Whether exactly these lines are there.
async fn is_stored(transaction: &Transaction<'_>, job: Uuid, lines: &[Line]) -> Attempt<bool> {
    let numbers: Vec<i64> = lines.iter().map(|line| number(line.seq)).collect();
    let sql = "SELECT line FROM events WHERE job = $1 AND seq = ANY ($2) ORDER BY seq";
    let stored = rows(transaction, sql, &[&job, &numbers]).await?;
    let same = stored
        .iter()
        .zip(lines)
        .all(|(row, line)| row.try_get::<_, &str>("line").is_ok_and(|text| text == line.text));
    Ok(same && stored.len() == lines.len())
}
