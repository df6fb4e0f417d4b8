//! `computer`: eyes and hands on a desktop in the sandbox.
//!
//! An action is one command of the aide there. Where that finds no desktop, one is
//! started as a command that stays, and the action is done again. So nothing has to be
//! remembered here, and whoever takes the job up finds the desktop as it is.
//!
//! While a person has the hands the model's actions wait. An action that was decided on
//! before the model knew what the person did is not done: it is shown that instead.

mod find;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_aide_protocol::{
    ACTIONS, Action, ActionArguments, DeskFailureKind, DeskPiece, Desktop, Refused,
};
use cofferdam_sandbox::{CallError, Sandbox};
use cofferdam_types::{CallId, ToolOutput, ToolSpec, ToolStatus};
use serde_json::{Map, Value, json};

use crate::aide::{Aide, Running};
use crate::hands::Hands;
use crate::outputs::Outputs;
use crate::spool::Spool;
use crate::tools::{Call, Tools, spec as object};
use crate::trouble::Trouble;
use shown::Shown;

pub use find::{find_desktop, release_desktop};

pub(crate) const NAME: &str = "computer";

/// How long the screen may take to become calm after an action, until it is shown as it
/// is: milliseconds, for the aide.
const LOOK: &str = "1500";

/// How long an action may take: as long as it may wait, after one that may do the same.
const ACTION: Duration = Duration::from_secs(280);

/// When a sandbox that says nothing is given up.
const DEADLINE: Duration = Duration::from_secs(300);

/// How long the desktop may take to start, on a machine that is busy.
const START: Duration = Duration::from_secs(90);

/// How long a person who has the hands is waited for.
const PERSON: Duration = Duration::from_secs(120);

/// What an action can be given.
const GIVEN: &[&str] = &[
    "action",
    "coordinate",
    "start_coordinate",
    "text",
    "key",
    "scroll_direction",
    "scroll_amount",
    "duration",
    "region",
    "repeat",
    "window",
];

/// Those of them that are no text: some models write them as one.
const NO_TEXT: &[&str] =
    &["coordinate", "start_coordinate", "scroll_amount", "duration", "region", "repeat"];

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "See and use a desktop with mouse and keyboard; coordinates are pixels of the last \
         screenshot. Actions answer with a new one. The first call starts the desktop; programs \
         started with bash after that (background=true) appear on it. `text`: what to type, the \
         keys (\"ctrl+s\"), keys held during a click, an xdotool script.",
        json!({
            "action": {"type": "string", "enum": ACTIONS},
            "coordinate": {"type": "array", "items": {"type": "integer"}, "description": "[x, y]"},
            "start_coordinate": {"type": "array", "items": {"type": "integer"}},
            "text": {"type": "string"},
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": {"type": "integer"},
            "duration": {"type": "number", "description": "seconds"},
            "region": {"type": "array", "items": {"type": "integer"}, "description": "[x0, y0, x1, y1]"},
            "window": {"type": "string", "description": "an id from `windows`"}
        }),
        &["action"],
    )
}

/// The name of a call's command in the sandbox, far from those of shells and cells.
pub(crate) fn guest_call(call: CallId) -> CallId {
    CallId(call.0.saturating_add(1 << 34))
}

pub(crate) async fn run(tools: &Tools, call: &Call<'_>) -> Result<ToolOutput, Trouble> {
    let (action, written) = check(call.arguments)?;
    let aide = tools.aide.as_ref().ok_or_else(|| {
        Trouble::refused("computer: there is no desktop in this kind of sandbox; use bash")
    })?;
    let Some(_turn) = tools.hands.turn(PERSON).await else {
        return Err(Trouble::refused(
            "computer: a person has the desktop; do something else or try again",
        ));
    };
    if action.acts() && tools.hands.has_untold() {
        let mut shown = Shown::default();
        shown.note("Your action was not done: look at the screen as it is now, then decide anew.");
        shown.status = ToolStatus::Refused;
        return Ok(output(&tools.outputs, &tools.hands, call.call, shown).await);
    }
    let sandbox = &tools.sandbox;
    let spool = || Some(Spool::new(&tools.outputs, call.call));
    let mut shown = act(sandbox, aide, guest_call(call.call), written.clone(), spool()).await?;
    if shown.failure == Some(DeskFailureKind::NotRunning) {
        let opened = open_desktop(sandbox, aide, sandbox.next_call_id()).await;
        opened.map_err(|why| Trouble::Failed(format!("computer: {why}")))?;
        tools.something_stays();
        sandbox.acknowledge(guest_call(call.call));
        shown = act(sandbox, aide, guest_call(call.call), written, spool()).await?;
        shown.note("[the desktop was started now: no program is on it yet]");
    }
    Ok(output(&tools.outputs, &tools.hands, call.call, shown).await)
}

/// Makes an action of the arguments, and writes them as the aide reads them.
fn check(arguments: &Map<String, Value>) -> Result<(Action, Bytes), Trouble> {
    let given =
        arguments.iter().filter(|(name, value)| GIVEN.contains(&name.as_str()) && !value.is_null());
    let given: Map<String, Value> = given
        .map(|(name, value)| {
            let value = match value {
                Value::String(text) if NO_TEXT.contains(&name.as_str()) => {
                    serde_json::from_str(text).unwrap_or_else(|_| value.clone())
                }
                _ => value.clone(),
            };
            (name.clone(), value)
        })
        .collect();
    let written = Value::Object(given);
    let refused = |why: String| Trouble::Refused(format!("{NAME}: {why}"));
    let arguments: ActionArguments =
        serde_json::from_value(written.clone()).map_err(|error| refused(error.to_string()))?;
    let action = arguments.check().map_err(|Refused(why)| refused(why))?;
    Ok((action, written.to_string().into()))
}

/// Does an action.
async fn act(
    sandbox: &Sandbox,
    aide: &Aide,
    call: CallId,
    action: Bytes,
    spool: Option<Spool>,
) -> Result<Shown, Trouble> {
    let command = aide.command(sandbox, &["desk", "act", "--look", LOOK]).timeout(Some(ACTION));
    match Running::start(sandbox, call, command, action).await {
        Ok(running) => Ok(follow(sandbox, running.with_spool(spool)).await),
        Err(error) => Err(Trouble::Failed(format!("{NAME}: the action was not done: {error}"))),
    }
}

/// Takes what comes of an action until its end.
async fn follow(sandbox: &Sandbox, mut running: Running<DeskPiece>) -> Shown {
    let mut shown = Shown::default();
    let to_the_end = async {
        loop {
            match running.next().await {
                Ok(Some(piece)) => shown.take(piece),
                Ok(None) => break,
                Err(problem) => return shown.broken(&problem),
            }
        }
        let how = running.end(sandbox).await;
        if !shown.ended {
            shown.broken(&how);
        }
    };
    if tokio::time::timeout(DEADLINE, to_the_end).await.is_err() {
        shown.broken("the sandbox has not answered for too long");
    }
    shown
}

/// What the model is shown: first what it does not know of people.
async fn output(outputs: &Arc<Outputs>, hands: &Hands, call: CallId, shown: Shown) -> ToolOutput {
    let mut told: Vec<_> = hands.untold().iter().flat_map(shown::episode).collect();
    let (content, status, rest) = shown.finish(outputs, call).await;
    told.extend(content);
    ToolOutput { content: told, rest, ..ToolOutput::text(status, "") }
}

/// Takes up the action of a call that an earlier process began.
pub(crate) async fn take_up(tools: &Tools, call: CallId) -> Option<ToolOutput> {
    let spool = Spool::resume(&tools.outputs, call);
    match Running::collect(&tools.sandbox, guest_call(call), spool).await {
        Ok(running) => {
            let shown = follow(&tools.sandbox, running).await;
            Some(output(&tools.outputs, &tools.hands, call, shown).await)
        }
        Err(CallError::ConnectionLost { reason }) => {
            let text = format!("the connection to the sandbox was lost ({reason})");
            Some(ToolOutput::text(ToolStatus::Unknown, text))
        }
        Err(_) => None,
    }
}

/// Lets the sandbox forget the action of a call.
pub(crate) fn acknowledge(tools: &Tools, call: CallId) {
    tools.sandbox.acknowledge(guest_call(call));
}

/// Finds the desktop of a sandbox, or starts one, which stays until it is idle for too
/// long or the sandbox ends. What it says of itself is as little to be trusted as
/// everything from inside.
///
/// # Errors
/// Why there is none, in words.
pub async fn open_desktop(sandbox: &Sandbox, aide: &Aide, call: CallId) -> Result<Desktop, String> {
    let (width, height) = (aide.screen.width.to_string(), aide.screen.height.to_string());
    let idle = aide.idle_seconds();
    let words = ["desk", "start", "--width", &width, "--height", &height, "--idle", &idle];
    let command = aide.command(sandbox, &words).timeout(None);
    let started = Running::<DeskPiece>::start(sandbox, call, command, Bytes::new()).await;
    let mut running = started.map_err(|error| format!("the desktop was not started: {error}"))?;
    let said = tokio::time::timeout(START, running.next()).await;
    let said =
        said.map_err(|_| format!("the desktop did not start within {} s", START.as_secs()))??;
    match said {
        Some(DeskPiece::Ready(desktop)) => {
            if desktop.fresh {
                running.release();
            } else {
                running.end(sandbox).await;
                sandbox.acknowledge(call);
            }
            Ok(desktop)
        }
        Some(DeskPiece::Failed(failure)) => {
            running.end(sandbox).await;
            sandbox.acknowledge(call);
            Err(format!("the desktop did not start: {}", shown::bounded(failure.why)))
        }
        _ => {
            let how = running.end(sandbox).await;
            sandbox.acknowledge(call);
            Err(format!("the desktop did not start: {how}"))
        }
    }
}

/// A picture of the desktop that runs in a sandbox, in PNG.
///
/// # Errors
/// Why there is none, in words.
pub async fn screenshot(sandbox: &Sandbox, aide: &Aide, call: CallId) -> Result<Vec<u8>, String> {
    let action = Bytes::from_static(br#"{"action":"screenshot"}"#);
    let shown = act(sandbox, aide, call, action, None).await;
    sandbox.acknowledge(call);
    match shown {
        Ok(shown) => shown.into_picture(),
        Err(Trouble::Refused(why) | Trouble::Failed(why) | Trouble::Unknown(why)) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(arguments: Value) -> Result<(Action, String), String> {
        let Value::Object(arguments) = arguments else { panic!() };
        match check(&arguments) {
            Ok((action, written)) => Ok((action, String::from_utf8(written.to_vec()).unwrap())),
            Err(Trouble::Refused(why)) => Err(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_aide_reads_is_what_was_meant() {
        let (action, written) = checked(json!({
            "action": "left_click", "coordinate": "[10, 20]", "text": null, "why": "a button"
        }))
        .unwrap();
        let Action::Click { at: Some(at), count: 1, holding: None, .. } = action else {
            panic!("{action:?}");
        };
        assert_eq!((at.x, at.y), (10, 20));
        assert_eq!(written, r#"{"action":"left_click","coordinate":[10,20]}"#);
        let (action, _) = checked(json!({"action": "type", "text": "[1]"})).unwrap();
        assert_eq!(action, Action::Type { text: "[1]".to_owned() });
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let why = checked(json!({"action": "fly"})).unwrap_err();
        assert!(why.starts_with("computer: there is no action `fly`, only: key, type"), "{why}");
        let why = checked(json!({"action": "mouse_move", "coordinate": "here"})).unwrap_err();
        assert!(why.contains("invalid type"), "{why}");
        let why = checked(json!({})).unwrap_err();
        assert!(why.contains("`action` is missing"), "{why}");
    }

    #[test]
    fn the_schema_names_only_what_is_read() {
        let spec = spec();
        for name in spec.schema["properties"].as_object().unwrap().keys() {
            assert!(GIVEN.contains(&name.as_str()), "{name}");
        }
        assert_eq!(spec.schema["properties"]["action"]["enum"], json!(ACTIONS));
    }
}
