//! Orders: kept until the job hears them.
//!
//! What was heard stays for a while as a receipt, without its words: whoever lost
//! the answer learns from it that the order was given.

use cofferdam_store::{
    JobRow, Order, OrderId, OrderPlan, Ordered, StoreError, forgotten_by_waking, plan_order, wake,
};
use cofferdam_types::JobId;
use deadpool_postgres::Transaction;
use uuid::Uuid;

use crate::database::{Connection, begin, commit, execute, row, rows, unchanged};
use crate::failure::{Attempt, Failure};
use crate::rows::{JOB, count, job_row, key, number};

/// Gives an order.
pub(crate) async fn order(
    connection: &mut Connection,
    job: JobId,
    order: &Order,
    receipt: Uuid,
    in_doubt: bool,
) -> Attempt<Ordered> {
    let job = key(job)?;
    let transaction = begin(connection).await?;
    let sql = format!(
        "SELECT {JOB}, coalesce(leased_until > clock_timestamp(), false) AS held \
         FROM jobs WHERE id = $1 FOR UPDATE"
    );
    let Some(found) = row(&transaction, &sql, &[&job]).await? else {
        return Err(StoreError::Missing("job").into());
    };
    if in_doubt {
        let sql = "SELECT id, kept FROM orders WHERE job = $1 AND receipt = $2";
        if let Some(given) = row(&transaction, sql, &[&job, &receipt]).await? {
            let id = OrderId(count(&given, "id")?);
            let kept: bool = given.try_get("kept")?;
            let before = if kept { Ordered::Kept(id) } else { Ordered::Done };
            return unchanged(transaction, before).await;
        }
    }
    let mut state = job_row(&found)?;
    let earlier = unheard(&transaction, job).await?;
    let pausing = earlier.iter().any(|(_, order)| *order == Order::Pause);
    let kept = match plan_order(&state, found.try_get("held")?, pausing, order) {
        OrderPlan::Refuse(refusal) => {
            return unchanged(transaction, Ordered::Refused(refusal)).await;
        }
        OrderPlan::Nothing => return unchanged(transaction, Ordered::Done).await,
        OrderPlan::Keep => true,
        OrderPlan::Rest => {
            state.paused = true;
            false
        }
        OrderPlan::Wake => {
            let void = earlier.iter().filter(|(_, earlier)| forgotten_by_waking(&state, earlier));
            let void: Vec<i64> = void.map(|(id, _)| number(id.0)).collect();
            forget(&transaction, job, &void).await?;
            wake(&mut state);
            order.says_something()
        }
    };
    let id = keep(&transaction, job, order, kept, receipt).await?;
    change(&transaction, job, &state).await?;
    commit(transaction).await?;
    Ok(if kept { Ordered::Kept(id) } else { Ordered::Done })
}

/// The orders that a job has not heard.
pub(crate) async fn orders(connection: &Connection, job: JobId) -> Attempt<Vec<(OrderId, Order)>> {
    unheard(connection, key(job)?).await
}

/// The job has heard an order. It must be kept still.
pub(crate) async fn hear(transaction: &Transaction<'_>, job: Uuid, order: OrderId) -> Attempt<()> {
    if forget(transaction, job, &[number(order.0)]).await? == 0 {
        return Err(StoreError::Missing("order").into());
    }
    let sql = format!("UPDATE jobs SET {WISHES} WHERE id = $1");
    execute(transaction, &sql, &[&job]).await.map(drop)
}

/// What orders that were not heard say of the job.
const WISHES: &str = "\
    stopping = EXISTS (SELECT FROM orders WHERE job = $1 AND kind = 'cancel' AND NOT heard), \
    resuming = EXISTS (SELECT FROM orders WHERE job = $1 AND kind = 'resume' AND NOT heard)";

async fn unheard(
    on: &impl deadpool_postgres::GenericClient,
    job: Uuid,
) -> Attempt<Vec<(OrderId, Order)>> {
    let sql = "SELECT id, body FROM orders WHERE job = $1 AND NOT heard ORDER BY id";
    let found = rows(on, sql, &[&job]).await?;
    found
        .iter()
        .map(|row| {
            let order = serde_json::from_str(row.try_get("body")?)?;
            Ok((OrderId(count(row, "id")?), order))
        })
        .collect()
}

async fn forget(transaction: &Transaction<'_>, job: Uuid, orders: &[i64]) -> Attempt<u64> {
    let sql = "UPDATE orders SET heard = true, body = '' \
               WHERE id = ANY ($1) AND job = $2 AND NOT heard";
    execute(transaction, sql, &[&orders, &job]).await
}

async fn keep(
    transaction: &Transaction<'_>,
    job: Uuid,
    order: &Order,
    kept: bool,
    receipt: Uuid,
) -> Attempt<OrderId> {
    let kind = match order {
        Order::Cancel { .. } => "cancel",
        Order::Say { .. } => "say",
        Order::Pause => "pause",
        Order::Resume { .. } => "resume",
    };
    let body = if kept { serde_json::to_string(order)? } else { String::new() };
    let sql = "INSERT INTO orders (job, kind, body, kept, heard, receipt) \
               VALUES ($1, $2, $3, $4, NOT $4, $5) RETURNING id";
    let id = row(transaction, sql, &[&job, &kind, &body, &kept, &receipt]).await?;
    let id = id.ok_or_else(|| Failure::broken("an order has no number"))?;
    Ok(OrderId(count(&id, "id")?))
}

async fn change(transaction: &Transaction<'_>, job: Uuid, state: &JobRow) -> Attempt<()> {
    let ended = state.ended.map(|at| number(at.0));
    let ending = state.ending.as_ref().map(serde_json::to_string).transpose()?;
    let sql = format!(
        "UPDATE jobs SET status = $2, paused = $3, ended = $4, ending = $5, {WISHES} WHERE id = $1"
    );
    let values = (state.status.name(), state.paused);
    execute(transaction, &sql, &[&job, &values.0, &values.1, &ended, &ending]).await.map(drop)
}
