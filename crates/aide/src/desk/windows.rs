//! The windows, as the window manager knows them.

use std::time::Duration;

use cofferdam_aide_protocol::{Scale, Size, Window};
use tokio::time::{Instant, sleep};
use x11rb::protocol::xproto::{AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask};

use super::display::Display;
use super::error::DeskError;

/// So many windows are told about.
const MOST: usize = 100;

/// No name is longer, in letters.
const LONGEST_NAME: usize = 200;

/// How long the window manager may take to bring a window to the front.
const PATIENCE: Duration = Duration::from_secs(5);

/// The windows, the topmost first, and how many there are beyond those.
pub(super) fn list(display: &Display, scale: Scale) -> Result<(Vec<Window>, u32), DeskError> {
    let ids = ids(display)?;
    let active = active(display)?;
    let mut windows = Vec::new();
    for id in ids.iter().rev().take(MOST) {
        if let Some(window) = describe(display, scale, *id, active)? {
            windows.push(window);
        }
    }
    Ok((windows, u32::try_from(ids.len().saturating_sub(MOST)).unwrap_or(u32::MAX)))
}

/// Brings a window to the front and gives it the keyboard.
pub(super) async fn focus(display: &Display, id: u32) -> Result<(), DeskError> {
    if !ids(display)?.contains(&id) {
        let why = format!("there is no window {id}; the action `windows` lists them");
        return Err(DeskError::Refused(why));
    }
    let kind = display.atoms._NET_ACTIVE_WINDOW;
    // 2: on behalf of the user, so that it is done at once.
    let message = ClientMessageEvent::new(32, id, kind, [2, 0, 0, 0, 0]);
    let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
    display.connection.send_event(false, display.root, mask, message)?;
    display.sync()?;
    let deadline = Instant::now() + PATIENCE;
    while active(display)? != Some(id) {
        if Instant::now() > deadline {
            let why = format!("the window manager did not bring window {id} to the front");
            return Err(DeskError::Broken(why));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// All windows, the topmost last.
fn ids(display: &Display) -> Result<Vec<u32>, DeskError> {
    let stacked = display.numbers(display.root, display.atoms._NET_CLIENT_LIST_STACKING)?;
    if !stacked.is_empty() {
        return Ok(stacked);
    }
    display.numbers(display.root, display.atoms._NET_CLIENT_LIST)
}

fn active(display: &Display) -> Result<Option<u32>, DeskError> {
    let active = display.numbers(display.root, display.atoms._NET_ACTIVE_WINDOW)?;
    Ok(active.first().copied().filter(|window| *window != 0))
}

/// What is known of a window, if it is still there.
fn describe(
    display: &Display,
    scale: Scale,
    id: u32,
    active: Option<u32>,
) -> Result<Option<Window>, DeskError> {
    let atoms = &display.atoms;
    let geometry = display.connection.get_geometry(id)?;
    let place = display.connection.translate_coordinates(id, display.root, 0, 0)?;
    let (Ok(geometry), Ok(place)) = (geometry.reply(), place.reply()) else { return Ok(None) };
    let mut title = display.text(id, atoms._NET_WM_NAME)?;
    if title.is_empty() {
        title = display.text(id, AtomEnum::WM_NAME)?;
    }
    // The name of the program, then the name of its kind.
    let class = display.text(id, AtomEnum::WM_CLASS)?;
    let class = class.split('\0').nth(1).unwrap_or_default();
    let hidden = display.numbers(id, atoms._NET_WM_STATE)?.contains(&atoms._NET_WM_STATE_HIDDEN);
    let (left, top) = scale.length_to_shown(place.dst_x.into(), place.dst_y.into());
    let (width, height) = scale.length_to_shown(geometry.width.into(), geometry.height.into());
    let side = |side: i32| u32::try_from(side).unwrap_or_default();
    Ok(Some(Window {
        id,
        title: name(&title),
        class: name(class),
        left,
        top,
        size: Size { width: side(width), height: side(height) },
        focused: active == Some(id),
        hidden,
    }))
}

fn name(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}
