//! `desk act`: one action, from JSON on stdin to what came of it.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use cofferdam_aide_protocol::{
    Action, ActionArguments, DeskPiece, Desktop, Point, Region, Scale, Size, picture_pieces,
};
use tokio::time::{Instant, sleep};
use xkeysym::Keysym;

use super::arguments::ActWish;
use super::asked_to_end;
use super::capture::Camera;
use super::change::{self, Tiles};
use super::display::Display;
use super::error::DeskError;
use super::hands::Hands;
use super::keyboard::Keyboard;
use super::keys;
use super::outlet::Outlet;
use super::picture::png;
use super::script;
use super::state::{State, touch};
use super::windows;

/// No action is longer.
const LONGEST: u64 = 1 << 20;

/// How long another action may have the hands: longer than any may take.
const PATIENCE: Duration = Duration::from_secs(150);

/// Does one action. Several at once are done one after the other.
pub(super) async fn act(wish: &ActWish, outlet: &mut Outlet) -> Result<(), DeskError> {
    let asked = asked_to_end()?;
    let action = read()?;
    let state = State::of(&wish.name)?;
    tokio::select! {
        done = act_on(&state, wish, action, outlet) => done,
        () = asked => Err(DeskError::Interrupted),
    }
}

fn read() -> Result<Action, DeskError> {
    let mut text = Vec::new();
    std::io::stdin()
        .take(LONGEST)
        .read_to_end(&mut text)
        .map_err(|source| DeskError::System { what: "read the action", source })?;
    let arguments: ActionArguments = serde_json::from_slice(&text)
        .map_err(|error| DeskError::Refused(format!("this is no action: {error}")))?;
    Ok(arguments.check()?)
}

async fn act_on(
    state: &State,
    wish: &ActWish,
    action: Action,
    outlet: &mut Outlet,
) -> Result<(), DeskError> {
    let hands = take_hands(state).await?;
    let ready = state.ready().ok_or_else(|| state.not_running())?;
    touch(&hands);
    let display = Display::of(&ready.desktop)?;
    let scale = Scale::new(display.size()?, wish.limits);
    let desk = Desk { state, desktop: &ready.desktop, display: &display, scale, wish };
    let done = desk.act(action, outlet).await;
    touch(&hands);
    done
}

/// Waits until no other action uses the hands.
async fn take_hands(state: &State) -> Result<File, DeskError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(hands) = state.try_hands() {
            return Ok(hands);
        }
        if !state.is_kept() {
            return Err(state.not_running());
        }
        if Instant::now() > deadline {
            let why = "another action does not let go of the desktop; `desk stop` ends it";
            return Err(DeskError::Broken(why.to_owned()));
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// A desktop and how it is shown.
struct Desk<'a> {
    state: &'a State,
    desktop: &'a Desktop,
    display: &'a Display,
    scale: Scale,
    wish: &'a ActWish,
}

impl Desk<'_> {
    async fn act(&self, action: Action, outlet: &mut Outlet) -> Result<(), DeskError> {
        let acts = action.acts();
        let waits = matches!(action, Action::Wait { .. } | Action::WaitForChange { .. });
        if let Some(piece) = self.perform(action, outlet).await? {
            outlet.say(&piece)?;
        }
        match self.wish.look {
            Some(calm) if acts => self.show(None, calm, outlet).await,
            Some(_) if waits => self.show(None, Duration::ZERO, outlet).await,
            _ => Ok(()),
        }
    }

    /// Does the action, and gives what it has to say unless that is a picture.
    async fn perform(
        &self,
        action: Action,
        outlet: &mut Outlet,
    ) -> Result<Option<DeskPiece>, DeskError> {
        let mut hands = Hands::new(self.display);
        if action.acts() {
            hands.release_stuck()?;
        }
        match action {
            Action::Key { chords, repeat } => {
                let chords = keys::chords(&chords).map_err(DeskError::Refused)?;
                let mut keyboard = Keyboard::read(self.display, self.state)?;
                for _ in 0..repeat {
                    for chord in &chords {
                        keyboard.press(&mut hands, chord).await?;
                        hands.release_keys()?;
                    }
                }
            }
            Action::Type { text } => {
                Keyboard::read(self.display, self.state)?.write(&mut hands, &text).await?;
            }
            Action::Move { to } => {
                self.go(&hands, Some(to))?;
                self.display.sync()?;
            }
            Action::Click { button, count, at, holding } => {
                self.go(&hands, at)?;
                self.hold(&mut hands, holding.as_deref()).await?;
                hands.click(button, count)?;
                self.state.note_held(false);
            }
            Action::Drag { from, to, holding } => {
                let to = self.on_screen(to)?;
                self.go(&hands, from)?;
                self.hold(&mut hands, holding.as_deref()).await?;
                hands.drag(to).await?;
                self.state.note_held(false);
            }
            Action::ButtonDown { at } => {
                self.go(&hands, at)?;
                self.state.note_held(true);
                hands.leave_button_down()?;
            }
            Action::ButtonUp { at } => {
                self.go(&hands, at)?;
                hands.let_button_up()?;
                self.state.note_held(false);
            }
            Action::Scroll { at, direction, amount, holding } => {
                self.go(&hands, at)?;
                self.hold(&mut hands, holding.as_deref()).await?;
                hands.scroll(direction, amount)?;
            }
            Action::HoldKey { chord, time } => {
                self.hold(&mut hands, Some(&chord)).await?;
                sleep(time).await;
            }
            Action::Wait { time } => sleep(time).await,
            Action::Screenshot => self.show(None, Duration::ZERO, outlet).await?,
            Action::Zoom { region } => self.show(Some(region), Duration::ZERO, outlet).await?,
            Action::CursorPosition => {
                let at = hands.position()?;
                return Ok(Some(DeskPiece::Cursor(self.scale.to_shown(at))));
            }
            Action::WaitForChange { region, time } => {
                return self.wait_for_change(region, time).await.map(Some);
            }
            Action::Windows => {
                let (windows, left_out) = windows::list(self.display, self.scale)?;
                return Ok(Some(DeskPiece::Windows { windows, left_out }));
            }
            Action::FocusWindow { window } => windows::focus(self.display, window).await?,
            Action::Xdotool { script } => {
                return script::run(self.desktop, &script).await.map(Some);
            }
        }
        hands.release_keys()?;
        Ok(None)
    }

    /// Moves the pointer, if it is said where to.
    fn go(&self, hands: &Hands<'_>, to: Option<Point>) -> Result<(), DeskError> {
        match to {
            Some(to) => hands.move_to(self.on_screen(to)?),
            None => Ok(()),
        }
    }

    /// Holds keys down for as long as the hands are there.
    async fn hold(&self, hands: &mut Hands<'_>, keys: Option<&str>) -> Result<(), DeskError> {
        let Some(keys) = keys else { return Ok(()) };
        let chord: Vec<Keysym> = keys::chord(keys).map_err(DeskError::Refused)?;
        Keyboard::read(self.display, self.state)?.press(hands, &chord).await
    }

    fn on_screen(&self, shown: Point) -> Result<Point, DeskError> {
        self.scale.to_screen(shown).ok_or_else(|| {
            let Size { width, height } = self.scale.shown;
            let Point { x, y } = shown;
            DeskError::Refused(format!(
                "({x}, {y}) is outside of the screenshot, which is {width} wide and {height} high"
            ))
        })
    }

    fn region_on_screen(&self, shown: Region) -> Result<Region, DeskError> {
        self.scale.region_to_screen(shown).ok_or_else(|| {
            let Size { width, height } = self.scale.shown;
            DeskError::Refused(format!(
                "the region reaches out of the screenshot, which is {width} wide and {height} high"
            ))
        })
    }

    async fn wait_for_change(
        &self,
        region: Option<Region>,
        time: Duration,
    ) -> Result<DeskPiece, DeskError> {
        let begun = Instant::now();
        let mut camera = Camera::new(self.display)?;
        let within = match region {
            Some(region) => self.region_on_screen(region)?,
            None => Region::all(camera.size),
        };
        // What counts is what the model saw: a change before it began to wait is one.
        let before = self.state.seen().and_then(|bytes| Tiles::from_bytes(&bytes));
        let changed = change::wait(&mut camera, before, within, time).await?;
        Ok(DeskPiece::Change {
            region: changed.map(|region| self.scale.region_to_shown(region)),
            waited_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Shows the screen or a region of it, when it is calm.
    async fn show(
        &self,
        region: Option<Region>,
        calm: Duration,
        outlet: &mut Outlet,
    ) -> Result<(), DeskError> {
        let mut camera = Camera::new(self.display)?;
        if !calm.is_zero() {
            change::calm(&mut camera, calm).await?;
        }
        let part = match region {
            Some(region) => self.region_on_screen(region)?,
            None => Region::all(camera.size),
        };
        let mut pixels = camera.take(part)?;
        if region.is_none() {
            self.state.keep_seen(&Tiles::of(&pixels).to_bytes());
        }
        if let Some(cursor) = camera.cursor() {
            pixels.draw(&cursor, part);
        }
        let size = self.wish.limits.fit(part.size());
        let bytes = png(size, &pixels.shrink(size))?;
        for piece in picture_pieces(size, self.scale.screen, &bytes) {
            outlet.say(&piece)?;
        }
        Ok(())
    }
}
