//! `desk release`: lets go of what a person held on the desktop whose connection broke.
//!
//! Not every server that shows a screen does that by itself: a button would stay down,
//! or a key repeat itself for ever. What the job holds stays held.

use std::time::Duration;

use cofferdam_aide_protocol::Point;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::display::Display;
use super::error::DeskError;
use super::hands::Hands;
use super::state::State;

/// How long the server may take to hear of it.
const PATIENCE: Duration = Duration::from_secs(5);

const VERSION: &[u8; 12] = b"RFB 003.008\n";
/// The security type None, and the word that others may watch.
const NONE: u8 = 1;
const SHARED: u8 = 1;

pub(super) async fn release(name: &str) -> Result<(), DeskError> {
    let state = State::of(name)?;
    let ready = state.ready().ok_or_else(|| state.not_running())?;
    // While an action has the hands no person does.
    let Some(_lock) = state.try_hands() else { return Ok(()) };
    let display = Display::of(&ready.desktop)?;
    let hands = Hands::new(&display);
    let said = timeout(PATIENCE, buttons(&ready.desktop.vnc, hands.position()?)).await;
    hands.release_stuck()?;
    if !state.is_held() {
        hands.release_buttons()?;
    }
    display.sync()?;
    match said {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(DeskError::System { what: "speak with the VNC server", source }),
        Err(_) => Err(DeskError::Broken("the VNC server does not answer".to_owned())),
    }
}

/// Says as a viewer that no button is down. What viewers of Xvnc press cannot be released
/// in another way: its mouse is a device of its own. x11vnc has the same one as the job.
async fn buttons(socket: &str, at: Point) -> std::io::Result<()> {
    let mut server = UnixStream::connect(socket).await?;
    server.read_exact(&mut [0; VERSION.len()]).await?;
    server.write_all(VERSION).await?;
    let types = server.read_u8().await?;
    server.read_exact(&mut vec![0; usize::from(types)]).await?;
    server.write_all(&[NONE]).await?;
    if server.read_u32().await? != 0 {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    server.write_all(&[SHARED]).await?;
    // The screen's size, its pixels, and the length of its name.
    server.read_exact(&mut [0; 20]).await?;
    let name = u64::from(server.read_u32().await?);
    tokio::io::copy(&mut (&mut server).take(name), &mut tokio::io::sink()).await?;
    let side = |side: u32| u16::try_from(side).unwrap_or_default().to_be_bytes();
    let ([x0, x1], [y0, y1]) = (side(at.x), side(at.y));
    server.write_all(&[5, 0, x0, x1, y0, y1]).await?;
    // An answer to this comes after that was heard.
    server.write_all(&[3, 0, x0, x1, y0, y1, 0, 1, 0, 1]).await?;
    server.read_u8().await?;
    Ok(())
}
