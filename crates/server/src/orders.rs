//! What people want of a job that is there.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use cofferdam_api::{Message, Resume};
use cofferdam_store::{JobRow, Order, Ordered, Refusal as Senseless};
use cofferdam_types::{Budget, Cancel, Event, Record};
use http::{HeaderMap, StatusCode};

use crate::app::App;
use crate::body;
use crate::events::kind;
use crate::problem::{CONFLICT, Refusal, TOO_MANY};
use crate::request::{Caller, Id, json};
use crate::show;
use crate::wish::{amount, check_text, time, tokens, within};

/// Events that are looked through at once.
const PIECE: u32 = 500;
/// Orders that a job has not heard yet, beyond which it is told nothing more.
const MOST_UNHEARD: usize = 64;

/// `POST /api/v1/jobs/{id}/messages`.
pub(crate) async fn say(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    // First whose it is: others learn nothing from what they send.
    let row = app.job(&caller.0, &id).await?;
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let Message { text } = body::json(&headers, &bytes)?;
    check_text("text", &text)?;
    check_unheard(&app, &row, MOST_UNHEARD).await?;
    order(&app, &row, Order::Say { text }).await
}

/// `POST /api/v1/jobs/{id}/cancel`.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    order(&app, &row, Order::Cancel { by: Cancel::User }).await
}

/// `POST /api/v1/jobs/{id}/pause`.
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    check_unheard(&app, &row, 2 * MOST_UNHEARD).await?;
    order(&app, &row, Order::Pause).await
}

/// `POST /api/v1/jobs/{id}/resume`.
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let asked: Resume =
        if bytes.is_empty() { Resume::default() } else { body::json(&headers, &bytes)? };
    if let Some(message) = &asked.message {
        check_text("message", message)?;
    }
    // Messages leave room for what ends the wait for them.
    check_unheard(&app, &row, 2 * MOST_UNHEARD).await?;
    let budget = budget(&app, &row, &asked).await?;
    order(&app, &row, Order::Resume { say: asked.message, budget }).await
}

/// Goes on if the job has fewer orders than this to hear. Cancelling is never
/// refused: it ends the wait.
async fn check_unheard(app: &App, row: &JobRow, most: usize) -> Result<(), Refusal> {
    // One that is over keeps nothing more: it refuses, or goes on.
    if row.status.is_over() || app.store().orders(row.id).await?.len() < most {
        return Ok(());
    }
    let detail = format!("the job has not heard {most} messages or orders yet");
    let remedy = "wait until the job has heard them; resume it if it rests";
    Err(Refusal::new(TOO_MANY, detail, remedy).retry_after(5))
}

async fn order(app: &App, row: &JobRow, order: Order) -> Result<Response, Refusal> {
    match app.fleet.order(row.id, order).await? {
        Ordered::Kept(_) | Ordered::Done => {}
        Ordered::Refused(Senseless::Over) => {
            let remedy = "resume it first: POST /api/v1/jobs/{id}/resume";
            return Err(Refusal::new(CONFLICT, "the job is over", remedy));
        }
        Ordered::Refused(Senseless::Going) => {
            let remedy = "say something to it with a message, or pause it first";
            return Err(Refusal::new(CONFLICT, "the job is going on", remedy));
        }
    }
    let row = app.store().job(row.id).await?.ok_or_else(Refusal::no_job)?;
    json(StatusCode::ACCEPTED, &show::job(&row))
}

/// What the job may use up from here on; `None` if nothing changes.
async fn budget(app: &App, row: &JobRow, asked: &Resume) -> Result<Option<Budget>, Refusal> {
    let turns = within("max_turns", asked.max_turns, 1_000_000)?;
    let tokens = tokens(asked.max_tokens)?;
    let cost = amount("max_cost", &asked.max_cost, str::parse)?;
    let time = time("timeout", &asked.timeout)?;
    if turns.is_none() && tokens.is_none() && cost.is_none() && time.is_none() {
        return Ok(None);
    }
    let before = last_budget(app, row).await?;
    Ok(Some(Budget {
        turns: turns.unwrap_or(before.turns),
        tokens: tokens.or(before.tokens),
        cost: cost.or(before.cost),
        time: time.or(before.time),
    }))
}

/// What the job may use up so far: as it was asked for, unless it was changed.
async fn last_budget(app: &App, row: &JobRow) -> Result<Budget, Refusal> {
    let mut budget = show::spec(app, row).await?.budget;
    let mut after = 1;
    loop {
        let lines = app.store().events(row.id, after, PIECE).await?;
        let Some(last) = lines.last() else { return Ok(budget) };
        after = last.seq;
        for line in lines.iter().filter(|line| kind(&line.text) == "budget_changed") {
            match serde_json::from_str(&line.text) {
                Ok(Record { event: Event::BudgetChanged { budget: changed }, .. }) => {
                    budget = changed;
                }
                Ok(_) => {}
                Err(error) => return Err(Refusal::internal(&error)),
            }
        }
    }
}
