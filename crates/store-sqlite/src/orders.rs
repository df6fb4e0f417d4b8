//! What people want of a job: kept until it has heard it.

use cofferdam_store::{
    Change, Order, OrderId, OrderPlan, Ordered, StoreError, forgotten_by_waking, plan_order, wake,
};
use cofferdam_types::JobId;
use rusqlite::{Connection, params};

use crate::clock;
use crate::error::{failed, number};
use crate::rows::{StoredJob, all, execute, from_json, job_key, text, to_json, unsigned};

/// Gives a job an order.
pub(crate) fn order(
    connection: &Connection,
    id: JobId,
    order: &Order,
    news: &mut Vec<Change>,
) -> Result<Ordered, StoreError> {
    let job = StoredJob::get(connection, id)?;
    let kept = unheard(connection, id)?;
    let pausing = kept.iter().any(|(_, order)| *order == Order::Pause);
    let held = job.is_held(clock::now());
    let mut row = job.row.clone();
    let mut keeps = false;
    match plan_order(&job.row, held, pausing, order) {
        OrderPlan::Refuse(refusal) => return Ok(Ordered::Refused(refusal)),
        OrderPlan::Nothing => return Ok(Ordered::Done),
        OrderPlan::Keep => keeps = true,
        OrderPlan::Rest => row.paused = true,
        OrderPlan::Wake => {
            for (earlier, _) in kept.iter().filter(|(_, it)| forgotten_by_waking(&job.row, it)) {
                remove(connection, job.number, *earlier)?;
            }
            wake(&mut row);
            keeps = order.says_something();
        }
    }
    if row != job.row {
        job.save(connection, &row)?;
    }
    let answer = if keeps { Ordered::Kept(keep(connection, &job, order)?) } else { Ordered::Done };
    mark(connection, job.number)?;
    news.push(Change::Ordered { job: id });
    if !held {
        news.push(Change::Queue);
    }
    Ok(answer)
}

fn keep(connection: &Connection, job: &StoredJob, order: &Order) -> Result<OrderId, StoreError> {
    let kind = match order {
        Order::Cancel { .. } => "cancel",
        Order::Say { .. } => "say",
        Order::Pause => "pause",
        Order::Resume { .. } => "resume",
    };
    let mut statement = connection
        .prepare_cached("INSERT INTO orders (job, kind, body) VALUES (?1, ?2, ?3)")
        .map_err(failed)?;
    let id = statement.insert(params![job.number, kind, to_json(order)?]).map_err(failed)?;
    u64::try_from(id)
        .map(OrderId)
        .map_err(|_| crate::error::broken(format!("an order has the number {id}")))
}

/// The orders of a job that were not heard yet.
pub(crate) fn unheard(
    connection: &Connection,
    job: JobId,
) -> Result<Vec<(OrderId, Order)>, StoreError> {
    all(
        connection,
        "SELECT orders.id, orders.body FROM orders JOIN jobs ON jobs.number = orders.job \
         WHERE jobs.id = ?1 ORDER BY orders.id",
        [job_key(job)?],
        |row| Ok((OrderId(unsigned(row, 0)?), from_json(text(row, 1)?)?)),
    )
}

/// An order was heard for good.
pub(crate) fn hear(connection: &Connection, job: i64, order: OrderId) -> Result<(), StoreError> {
    if remove(connection, job, order)? == 0 {
        return Err(StoreError::Missing("order"));
    }
    mark(connection, job)
}

fn remove(connection: &Connection, job: i64, order: OrderId) -> Result<usize, StoreError> {
    let sql = "DELETE FROM orders WHERE id = ?2 AND job = ?1";
    execute(connection, sql, params![job, number(order.0)?])
}

/// Notes in the job's row which kinds of orders are kept, for whoever looks for
/// something to lease.
fn mark(connection: &Connection, job: i64) -> Result<(), StoreError> {
    execute(
        connection,
        "UPDATE jobs SET \
         stopping = EXISTS (SELECT 1 FROM orders WHERE job = ?1 AND kind = 'cancel'), \
         resuming = EXISTS (SELECT 1 FROM orders WHERE job = ?1 AND kind = 'resume') \
         WHERE number = ?1",
        [job],
    )
    .map(drop)
}
