//! The mouse and the keys: input events, as if somebody made them.
//!
//! What is held is released when the value goes, whatever happened.

use std::time::Duration;

use cofferdam_aide_protocol::{Button, Direction, Point};
use tokio::time::sleep;
use x11rb::protocol::xproto::{
    BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ButtonMask, ConnectionExt as _, KEY_PRESS_EVENT,
    KEY_RELEASE_EVENT, MOTION_NOTIFY_EVENT,
};
use x11rb::protocol::xtest::ConnectionExt as _;

use super::display::Display;
use super::error::DeskError;

/// Programs take a drag for one only if they see the pointer on its way.
const DRAG_STEPS: u32 = 12;
const DRAG_STEP: Duration = Duration::from_millis(4);

/// The hands.
pub(super) struct Hands<'a> {
    display: &'a Display,
    /// In the order in which they were pressed.
    keys: Vec<u8>,
    button: Option<u8>,
}

impl<'a> Hands<'a> {
    pub(super) fn new(display: &'a Display) -> Self {
        Self { display, keys: Vec::new(), button: None }
    }

    /// Releases keys that an action left down when it was killed.
    pub(super) fn release_stuck(&self) -> Result<(), DeskError> {
        let down = self.display.connection.query_keymap()?.reply()?.keys;
        for code in 0..=u8::MAX {
            let byte = down.get(usize::from(code / 8)).copied().unwrap_or_default();
            if byte & (1 << (code % 8)) != 0 {
                self.fake(KEY_RELEASE_EVENT, code)?;
            }
        }
        Ok(())
    }

    /// Releases buttons that other hands like these left down.
    pub(super) fn release_buttons(&self) -> Result<(), DeskError> {
        let pointer = self.display.connection.query_pointer(self.display.root)?.reply()?;
        let down = u16::from(pointer.mask);
        for button in 1..=5 {
            if down & (u16::from(ButtonMask::M1) << (button - 1)) != 0 {
                self.fake(BUTTON_RELEASE_EVENT, button)?;
            }
        }
        Ok(())
    }

    pub(super) fn press(&mut self, code: u8) -> Result<(), DeskError> {
        self.keys.push(code);
        self.fake(KEY_PRESS_EVENT, code)
    }

    /// Releases the key that was pressed last.
    pub(super) fn release_last(&mut self) -> Result<(), DeskError> {
        match self.keys.pop() {
            Some(code) => self.fake(KEY_RELEASE_EVENT, code),
            None => Ok(()),
        }
    }

    /// Releases all keys, the last one first.
    pub(super) fn release_keys(&mut self) -> Result<(), DeskError> {
        while !self.keys.is_empty() {
            self.release_last()?;
        }
        self.display.sync()
    }

    /// Moves the pointer to a pixel of the screen.
    pub(super) fn move_to(&self, to: Point) -> Result<(), DeskError> {
        let side = |side: u32| i16::try_from(side).unwrap_or(i16::MAX);
        let (kind, root) = (MOTION_NOTIFY_EVENT, self.display.root);
        self.display.connection.xtest_fake_input(kind, 0, 0, root, side(to.x), side(to.y), 0)?;
        Ok(())
    }

    /// The pixel of the screen where the pointer is.
    pub(super) fn position(&self) -> Result<Point, DeskError> {
        let pointer = self.display.connection.query_pointer(self.display.root)?.reply()?;
        let side = |side: i16| u32::try_from(side).unwrap_or_default();
        Ok(Point { x: side(pointer.root_x), y: side(pointer.root_y) })
    }

    pub(super) fn click(&mut self, button: Button, count: u8) -> Result<(), DeskError> {
        for _ in 0..count {
            self.button_down(number(button))?;
            self.button_up()?;
        }
        self.display.sync()
    }

    pub(super) fn scroll(&mut self, direction: Direction, amount: u32) -> Result<(), DeskError> {
        let wheel = match direction {
            Direction::Up => 4,
            Direction::Down => 5,
            Direction::Left => 6,
            Direction::Right => 7,
        };
        for _ in 0..amount {
            self.button_down(wheel)?;
            self.button_up()?;
        }
        self.display.sync()
    }

    /// Drags from where the pointer is.
    pub(super) async fn drag(&mut self, to: Point) -> Result<(), DeskError> {
        let from = self.position()?;
        self.button_down(number(Button::Left))?;
        for step in 1..=DRAG_STEPS {
            let on_the_way = |from: u32, to: u32| {
                let (from, to) = (i64::from(from), i64::from(to));
                let at = from + (to - from) * i64::from(step) / i64::from(DRAG_STEPS);
                u32::try_from(at).unwrap_or_default()
            };
            self.move_to(Point { x: on_the_way(from.x, to.x), y: on_the_way(from.y, to.y) })?;
            self.display.sync()?;
            sleep(DRAG_STEP).await;
        }
        self.button_up()?;
        self.display.sync()
    }

    /// Presses the left button and leaves it so when these hands are gone.
    pub(super) fn leave_button_down(&self) -> Result<(), DeskError> {
        self.fake(BUTTON_PRESS_EVENT, number(Button::Left))?;
        self.display.sync()
    }

    /// Releases the left button that other hands left down.
    pub(super) fn let_button_up(&self) -> Result<(), DeskError> {
        self.fake(BUTTON_RELEASE_EVENT, number(Button::Left))?;
        self.display.sync()
    }

    fn button_down(&mut self, button: u8) -> Result<(), DeskError> {
        self.button = Some(button);
        self.fake(BUTTON_PRESS_EVENT, button)
    }

    fn button_up(&mut self) -> Result<(), DeskError> {
        match self.button.take() {
            Some(button) => self.fake(BUTTON_RELEASE_EVENT, button),
            None => Ok(()),
        }
    }

    fn fake(&self, kind: u8, detail: u8) -> Result<(), DeskError> {
        let root = self.display.root;
        self.display.connection.xtest_fake_input(kind, detail, 0, root, 0, 0, 0)?;
        Ok(())
    }
}

impl Drop for Hands<'_> {
    fn drop(&mut self) {
        // Where the server is gone, nothing is held.
        self.button_up().ok();
        self.release_keys().ok();
    }
}

fn number(button: Button) -> u8 {
    match button {
        Button::Left => 1,
        Button::Middle => 2,
        Button::Right => 3,
    }
}
