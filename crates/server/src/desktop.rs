//! The desktop in a job's sandbox: whether it runs, and that it does.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use cofferdam_api::{DesktopState, Hands};
use cofferdam_fleet::{Aide, Desktop, Visit, find_desktop, open_desktop};
use cofferdam_store::JobRow;
use http::StatusCode;

use crate::app::{App, place};
use crate::exec::visitor_call;
use crate::files::wanted_back;
use crate::problem::{CONFLICT, Refusal};
use crate::request::{Caller, Id, json};

/// `GET /api/v1/jobs/{id}/desktop`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let _place = place(&app.room.commands, "commands")?;
    let (visit, desktop) = find(&app, &row).await?;
    state(&visit, desktop.as_ref())
}

/// `POST /api/v1/jobs/{id}/desktop`.
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let _place = place(&app.room.commands, "commands")?;
    let visit = app.fleet.visit(&row).await?;
    let (aide, call) = (aide(&app)?, visitor_call()?);
    let opened = tokio::select! {
        opened = open_desktop(&visit, &aide, call) => opened,
        () = visit.over() => return Err(wanted_back()),
    };
    let desktop = opened.map_err(|why| no_desktop(why, "install what is missing there"))?;
    if desktop.fresh {
        let (user, job) = (caller.0.user.id, row.id);
        tracing::info!(%user, %job, "a person started the desktop");
    }
    state(&visit, Some(&desktop))
}

/// The desktop that runs in a job's sandbox, if one does.
pub(crate) async fn find(app: &App, row: &JobRow) -> Result<(Visit, Option<Desktop>), Refusal> {
    let visit = app.fleet.visit(row).await?;
    let (aide, call) = (aide(app)?, visitor_call()?);
    let found = tokio::select! {
        found = find_desktop(&visit, &aide, call) => found,
        () = visit.over() => return Err(wanted_back()),
    };
    let found = found.map_err(|why| no_desktop(why, "try again; the job may be about to end"))?;
    Ok((visit, found))
}

/// What works inside sandboxes.
pub(crate) fn aide(app: &App) -> Result<Aide, Refusal> {
    let missing = "this server has nothing to run desktops with";
    let remedy = "look into the server's log for why its programs could not be kept";
    app.fleet.aide().ok_or_else(|| Refusal::new(CONFLICT, missing, remedy))
}

fn no_desktop(why: String, remedy: &'static str) -> Refusal {
    Refusal::new(CONFLICT, why, remedy)
}

fn state(visit: &Visit, desktop: Option<&Desktop>) -> Result<Response, Refusal> {
    let state = DesktopState {
        running: desktop.is_some(),
        width: desktop.map(|desktop| desktop.size.width),
        height: desktop.map(|desktop| desktop.size.height),
        hands: whose(visit),
    };
    json(StatusCode::OK, &state)
}

/// Whose hands are on the desktop, as somebody sees it who has them not.
pub(crate) fn whose(visit: &Visit) -> Hands {
    if visit.hands().taken() { Hands::Other } else { Hands::Job }
}
