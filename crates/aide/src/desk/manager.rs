//! The window manager: openbox, or fluxbox where that is missing.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ClientMessageEvent, ConnectionExt as _, EventMask,
};

use super::display::Display;
use super::error::DeskError;
use super::leftovers::MARK;
use super::program::{Program, command, find};
use super::state::State;

/// How long it may take to come up. It was seen not to come up at all, so there is
/// another try after this.
const PATIENCE: Duration = Duration::from_secs(10);
const TRIES: u32 = 3;

/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(5);

/// What is seen where no window is.
const BACKGROUND: u32 = 0x2e_34_40;

/// Fluxbox brings a bar and a menu that nobody here has a use for.
const FLUXBOX: &[u8] = b"session.screen0.toolbar.visible: false\n\
    session.screen0.workspaces: 1\n\
    session.screen0.rootCommand: true\n";

/// Starts the window manager, and waits until it manages.
pub(super) async fn start(
    state: &State,
    display: &Display,
    number: u32,
) -> Result<Program, DeskError> {
    paint(display)?;
    let mut last_words = String::new();
    for _ in 0..TRIES {
        // One that died may have left its word.
        let desktops = display.atoms._NET_NUMBER_OF_DESKTOPS;
        display.connection.delete_property(display.root, desktops)?;
        display.sync()?;
        let mut program = launch(state, number)?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && program.status().is_none() {
            if manages(display)? && has_one_desktop(display)? {
                return Ok(program);
            }
            sleep(LOOK).await;
        }
        last_words = program.obituary();
        program.end().await;
    }
    let why = format!("{TRIES} tries of {} s; {last_words}", PATIENCE.as_secs());
    Err(DeskError::Start { program: "the window manager", why })
}

fn launch(state: &State, number: u32) -> Result<Program, DeskError> {
    let (name, mut command): (_, Command) = if let Some(openbox) = find("openbox") {
        let mut command = command(openbox);
        command.arg("--sm-disable");
        ("openbox", command)
    } else if let Some(fluxbox) = find("fluxbox") {
        let mut command = command(fluxbox);
        state.write("fluxbox", FLUXBOX)?;
        command.arg("-rc").arg(state.directory().join("fluxbox"));
        ("fluxbox", command)
    } else {
        let what = "a window manager (openbox or fluxbox)";
        return Err(DeskError::Missing { what, package: "openbox" });
    };
    command.env("DISPLAY", format!(":{number}")).env("XAUTHORITY", state.authority());
    command.env(MARK, state.directory()).stdout(Stdio::null());
    Program::start(name, command)
}

/// Whether a window manager has taken charge: it says so by a window that names
/// itself.
fn manages(display: &Display) -> Result<bool, DeskError> {
    let check = display.atoms._NET_SUPPORTING_WM_CHECK;
    let Some(window) = display.numbers(display.root, check)?.first().copied() else {
        return Ok(false);
    };
    Ok(display.numbers(window, check)?.first() == Some(&window))
}

fn paint(display: &Display) -> Result<(), DeskError> {
    let background = ChangeWindowAttributesAux::new().background_pixel(BACKGROUND);
    display.connection.change_window_attributes(display.root, &background)?;
    display.connection.clear_area(false, display.root, 0, 0, 0, 0)?;
    display.sync()
}

/// Has one desktop only, so that no key or wheel makes all windows disappear; says
/// whether that is so. Openbox takes charge long before it listens, and what comes
/// meanwhile is lost, new windows too: it is asked until it does it.
fn has_one_desktop(display: &Display) -> Result<bool, DeskError> {
    let kind = display.atoms._NET_NUMBER_OF_DESKTOPS;
    if display.numbers(display.root, kind)? == [1] {
        return Ok(true);
    }
    let message = ClientMessageEvent::new(32, display.root, kind, [1, 0, 0, 0, 0]);
    let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
    display.connection.send_event(false, display.root, mask, message)?;
    display.sync()?;
    Ok(false)
}
