//! The desktop: starting, stopping and using it.
//!
//! | command | what it does |
//! | --- | --- |
//! | `desk start` | keeps a desktop until it is stopped or idle; says when it is ready |
//! | `desk find` | says where a desktop that runs is, and starts none |
//! | `desk release` | lets go of what a person held whose connection broke |
//! | `desk stop` | ends it, and waits until it is gone |
//! | `desk act` | reads one action as JSON from stdin, does it, says what came of it |
//!
//! A desktop is an X server that speaks VNC, a window manager, and a directory with
//! what others need to reach them. Nothing listens on a port.

mod act;
mod arguments;
mod authority;
mod capture;
mod change;
mod display;
mod error;
mod hands;
mod keyboard;
mod keys;
mod leftovers;
mod manager;
mod outlet;
mod picture;
mod program;
mod release;
mod script;
mod server;
mod start;
mod state;
mod stop;
mod windows;

use std::ffi::OsString;
use std::process::ExitCode;

use cofferdam_aide_protocol::{DeskPiece, Desktop};
use tokio::signal::unix::{SignalKind, signal};

use arguments::{MAIN, Order};
use error::DeskError;
use outlet::Outlet;
use state::{Ready, State};

/// Runs `desk` with these arguments. What it has to say goes to stdout as records.
pub(crate) fn main(args: &[OsString]) -> ExitCode {
    let mut outlet = Outlet::new();
    let last = match run(args, &mut outlet) {
        Ok(piece) => piece,
        Err(error) => DeskPiece::Failed(error.failure()),
    };
    let failed = matches!(last, DeskPiece::Failed(_));
    if outlet.say(&last).is_err() || failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run(args: &[OsString], outlet: &mut Outlet) -> Result<DeskPiece, DeskError> {
    let order = Order::parse(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| DeskError::System { what: "start the runtime", source })?;
    runtime.block_on(async {
        match order {
            Order::Start(wish) => start::start(&wish, outlet).await,
            Order::Find { name } => find(&name, outlet),
            Order::Release { name } => release::release(&name).await.map(|()| DeskPiece::Done),
            Order::Stop { name } => stop::stop(&name).await.map(DeskPiece::Stopped),
            Order::Act(wish) => act::act(&wish, outlet).await.map(|()| DeskPiece::Done),
        }
    })
}

/// Says where a desktop is, and does not count as a use of it.
fn find(name: &str, outlet: &mut Outlet) -> Result<DeskPiece, DeskError> {
    let state = State::of(name)?;
    let ready = state.ready().ok_or_else(|| state.not_running())?;
    outlet.say(&DeskPiece::Ready(Desktop { fresh: false, ..ready.desktop }))?;
    Ok(DeskPiece::Done)
}

/// The variables by which programs find the desktop, if one runs and they have no other.
pub(crate) fn variables() -> Vec<(&'static str, String)> {
    if std::env::var_os("DISPLAY").is_some() {
        return Vec::new();
    }
    let ready = State::of(MAIN).ok().and_then(|state| state.ready());
    ready.map_or_else(Vec::new, |Ready { desktop, .. }| {
        vec![("DISPLAY", desktop.display), ("XAUTHORITY", desktop.authority)]
    })
}

/// Returns when somebody asks this process to end. Signals are caught from the call
/// on, not only while the future is awaited.
fn asked_to_end() -> Result<impl Future<Output = ()>, DeskError> {
    let listen = |kind| {
        signal(kind).map_err(|source| DeskError::System { what: "listen for signals", source })
    };
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
