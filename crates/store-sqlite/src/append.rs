//! How a job's log grows.

use cofferdam_store::{Append, Change, Line, StoreError, project};
use rusqlite::{Connection, params};

use crate::error::{broken, failed, number};
use crate::orders;
use crate::rows::StoredJob;

/// Appends events under a lease. `lines` are those of the records.
pub(crate) fn append(
    connection: &Connection,
    append: &Append,
    lines: &[Line],
    news: &mut Vec<Change>,
) -> Result<(), StoreError> {
    let job = StoredJob::get(connection, append.job)?;
    // A lease that has run out is its holder's until somebody else takes the job.
    if job.lease_until.is_none() || job.row.epoch != append.epoch {
        return Err(StoreError::Fenced);
    }
    let mut row = job.row.clone();
    for record in &append.records {
        if row.last_seq.checked_add(1) != Some(record.seq) {
            return Err(StoreError::Fenced);
        }
        project(&mut row, record);
    }
    if lines.is_empty() {
        return Err(broken("no events to append"));
    }
    if let Some(order) = append.heard {
        orders::hear(connection, job.number, order)?;
    }
    insert_events(connection, job.number, lines)?;
    job.save(connection, &row)?;
    news.push(Change::Events { job: row.id, last: row.last_seq });
    Ok(())
}

pub(crate) fn insert_events(
    connection: &Connection,
    job: i64,
    lines: &[Line],
) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("INSERT INTO events (job, seq, text) VALUES (?1, ?2, ?3)")
        .map_err(failed)?;
    for line in lines {
        statement.execute(params![job, number(line.seq)?, line.text]).map_err(failed)?;
    }
    Ok(())
}
