//! `desk start`: brings a desktop up, keeps it, takes it down.
//!
//! Whatever ends it (a signal, the idle time, the death of its server), every
//! program of it is gone and every file removed before this process ends.

use std::path::Path;
use std::time::Duration;

use cofferdam_aide_protocol::{DeskPiece, DeskStop, Desktop};
use tokio::time::{Instant, sleep, timeout};

use super::arguments::StartWish;
use super::asked_to_end;
use super::authority;
use super::display::Display;
use super::error::DeskError;
use super::leftovers;
use super::manager;
use super::outlet::Outlet;
use super::program::Program;
use super::server::{self, Server};
use super::state::{Ready, State};

/// How long a desktop that another process is starting is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the window manager may die before there is no more sense in it.
const MANAGERS: u32 = 5;

/// How long a server that no longer answers may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// What a desktop consists of.
struct Parts {
    server: Server,
    display: Display,
    manager: Program,
}

/// Keeps a desktop until it is to end. If it runs already, says so and returns.
pub(super) async fn start(wish: &StartWish, outlet: &mut Outlet) -> Result<DeskPiece, DeskError> {
    let asked = asked_to_end()?;
    tokio::pin!(asked);
    let state = State::of(&wish.name)?;
    let lock = loop {
        if let Some(lock) = state.try_keep()? {
            break lock;
        }
        if let Some(ready) = another(&state).await? {
            outlet.say(&DeskPiece::Ready(Desktop { fresh: false, ..ready.desktop }))?;
            return Ok(DeskPiece::Done);
        }
    };
    leftovers::kill(state.directory());
    state.clear();

    let brought_up = tokio::select! {
        parts = bring_up(&state, wish) => parts,
        () = &mut asked => Err(DeskError::Interrupted),
    };
    let ended = match brought_up {
        Ok((mut parts, ready)) => {
            let said = state
                .write_ready(&ready)
                .and_then(|()| outlet.say(&DeskPiece::Ready(ready.desktop)));
            let ended = match said {
                Ok(()) => tokio::select! {
                    ended = keep(&mut parts, &state) => ended,
                    () = &mut asked => Ok(DeskStop::Asked),
                    () = idle(&state, wish.idle) => Ok(DeskStop::Idle),
                },
                Err(error) => Err(error),
            };
            state.hide();
            take_down(parts).await;
            ended
        }
        Err(error) => Err(error),
    };
    let removed = state.remove();
    drop(lock);
    ended.and_then(|stop| removed.map(|()| DeskPiece::Stopped(stop)))
}

/// The desktop that another process keeps, or none if it has just ended.
async fn another(state: &State) -> Result<Option<Ready>, DeskError> {
    let deadline = Instant::now() + PATIENCE;
    while state.is_kept() {
        if let Some(ready) = state.ready() {
            return Ok(Some(ready));
        }
        if Instant::now() > deadline {
            let why = "another `desk start` is at it and does not get ready; `desk stop` ends it";
            return Err(DeskError::Broken(why.to_owned()));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(None)
}

async fn bring_up(state: &State, wish: &StartWish) -> Result<(Parts, Ready), DeskError> {
    let cookie = authority::new_cookie()?;
    state.write_authority(&authority::file(&cookie))?;
    state.make_hands()?;
    let server = Server::start(state, wish.size).await?;
    let display = Display::connect(&server.display.to_string(), &cookie)?;
    let manager = manager::start(state, &display, server.display).await?;
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(DeskError::Refused(format!("{} is not in UTF-8", path.display()))),
    };
    let desktop = Desktop {
        display: format!(":{}", server.display),
        authority: text(&state.authority())?,
        vnc: text(&state.vnc()?)?,
        size: display.size()?,
        fresh: true,
    };
    let ready = Ready { desktop, keeper: std::process::id().cast_signed() };
    Ok((Parts { server, display, manager }, ready))
}

/// Returns when something died that cannot be replaced.
async fn keep(parts: &mut Parts, state: &State) -> Result<DeskStop, DeskError> {
    let Parts { server, display, manager } = parts;
    let number = server.display;
    for _ in 0..MANAGERS {
        tokio::select! {
            how = server.died() => return Ok(DeskStop::Died { how }),
            () = manager.ended() => {}
        }
        // A server that died takes the window manager with it, which may be seen first.
        let next = tokio::select! {
            how = server.died() => return Ok(DeskStop::Died { how }),
            next = manager::start(state, display, number) => next,
        };
        match (next, timeout(LAST_BREATH, server.died())) {
            (Ok(next), _) => *manager = next,
            (Err(error), dying) => {
                return dying.await.map(|how| DeskStop::Died { how }).map_err(|_| error);
            }
        }
    }
    Ok(DeskStop::Died { how: manager.obituary() })
}

/// Returns when nobody has used the desktop or looked at it for this time.
async fn idle(state: &State, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    let look = (limit / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
    let vnc = state.vnc().ok();
    let mut known = state.last_use();
    let mut since = Instant::now();
    loop {
        sleep(look).await;
        let watched =
            vnc.as_deref().and_then(server::users).is_some_and(|users| users.connected > 0);
        let used = state.last_use();
        let hands = state.try_hands();
        if watched || used != known || hands.is_none() {
            (known, since) = (used, Instant::now());
        } else if since.elapsed() >= limit {
            // An action that comes now waits for the hands, and then finds that they
            // are no longer there. So they stay locked until this process ends.
            std::mem::forget(hands);
            return;
        }
    }
}

/// Ends everything: the window manager while it has a server to take leave of.
async fn take_down(parts: Parts) {
    parts.manager.end().await;
    drop(parts.display);
    parts.server.end().await;
}
