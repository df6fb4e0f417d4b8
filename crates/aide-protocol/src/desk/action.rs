//! The actions of the desktop: as they are written (JSON in the manner of Anthropic's
//! computer-use tool) and as they are done, checked and complete.

use std::time::Duration;

use serde::Deserialize;

use super::scale::{Point, Region};

/// What an action may be called.
pub const ACTIONS: &[&str] = &[
    "key",
    "type",
    "mouse_move",
    "left_click",
    "left_click_drag",
    "right_click",
    "middle_click",
    "double_click",
    "triple_click",
    "left_mouse_down",
    "left_mouse_up",
    "scroll",
    "hold_key",
    "wait",
    "screenshot",
    "zoom",
    "cursor_position",
    "wait_for_change",
    "windows",
    "focus_window",
    "xdotool",
];

/// The longest that an action may wait or hold a key.
const LONGEST: f64 = 100.0;

/// How long a change is waited for, if nothing else is said.
const WAIT_FOR_CHANGE: f64 = 10.0;

/// The longest text, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

const MOST_REPEATS: u32 = 100;
const MOST_SCROLL: u32 = 100;

/// An action as it is written. Which parts it needs depends on `action`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActionArguments {
    /// One of [`ACTIONS`].
    pub action: String,
    /// Where: x, y.
    pub coordinate: Option<[f64; 2]>,
    /// Where a drag begins.
    pub start_coordinate: Option<[f64; 2]>,
    /// The text, the keys, the script; for the mouse, keys that are held meanwhile.
    pub text: Option<String>,
    /// For the mouse, keys that are held meanwhile: another name of `text`.
    pub key: Option<String>,
    /// `up`, `down`, `left` or `right`.
    pub scroll_direction: Option<String>,
    /// Clicks of the wheel.
    pub scroll_amount: Option<f64>,
    /// Seconds.
    pub duration: Option<f64>,
    /// x0, y0, x1, y1.
    pub region: Option<[f64; 4]>,
    /// How often the keys are pressed.
    pub repeat: Option<f64>,
    /// Which window.
    pub window: Option<WindowName>,
}

/// A window as it is written: 4194307 or "0x400003".
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum WindowName {
    /// A number.
    Number(u32),
    /// A number, in text.
    Text(String),
}

/// An action, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Presses chords (`ctrl+s`), separated by spaces, one after the other.
    Key {
        /// The chords.
        chords: String,
        /// How often.
        repeat: u32,
    },
    /// Types any text.
    Type {
        /// The text.
        text: String,
    },
    /// Moves the pointer.
    Move {
        /// Where to.
        to: Point,
    },
    /// Clicks.
    Click {
        /// With what.
        button: Button,
        /// How often.
        count: u8,
        /// Where; otherwise where the pointer is.
        at: Option<Point>,
        /// Keys that are held meanwhile.
        holding: Option<String>,
    },
    /// Drags with the left button.
    Drag {
        /// Where it begins; otherwise where the pointer is.
        from: Option<Point>,
        /// Where it ends.
        to: Point,
        /// Keys that are held meanwhile.
        holding: Option<String>,
    },
    /// Presses the left button and leaves it so.
    ButtonDown {
        /// Where; otherwise where the pointer is.
        at: Option<Point>,
    },
    /// Releases the left button.
    ButtonUp {
        /// Where; otherwise where the pointer is.
        at: Option<Point>,
    },
    /// Turns the wheel.
    Scroll {
        /// Where; otherwise where the pointer is.
        at: Option<Point>,
        /// Which way.
        direction: Direction,
        /// Clicks of the wheel.
        amount: u32,
        /// Keys that are held meanwhile.
        holding: Option<String>,
    },
    /// Holds keys down for a time.
    HoldKey {
        /// The keys.
        chord: String,
        /// How long.
        time: Duration,
    },
    /// Does nothing for a time.
    Wait {
        /// How long.
        time: Duration,
    },
    /// Shows the screen.
    Screenshot,
    /// Shows a region of the screen, as sharp as it is.
    Zoom {
        /// Which.
        region: Region,
    },
    /// Says where the pointer is.
    CursorPosition,
    /// Waits until the screen is not as it was last shown.
    WaitForChange {
        /// Only here.
        region: Option<Region>,
        /// At most so long.
        time: Duration,
    },
    /// Lists the windows.
    Windows,
    /// Brings a window to the front and gives it the keyboard.
    FocusWindow {
        /// Which.
        window: u32,
    },
    /// Runs a script for `xdotool`, in the coordinates of the screen.
    Xdotool {
        /// The script.
        script: String,
    },
}

impl Action {
    /// Whether it may change what is on the screen.
    #[must_use]
    pub fn acts(&self) -> bool {
        match self {
            Self::Key { .. }
            | Self::Type { .. }
            | Self::Move { .. }
            | Self::Click { .. }
            | Self::Drag { .. }
            | Self::ButtonDown { .. }
            | Self::ButtonUp { .. }
            | Self::Scroll { .. }
            | Self::HoldKey { .. }
            | Self::FocusWindow { .. }
            | Self::Xdotool { .. } => true,
            Self::Wait { .. }
            | Self::Screenshot
            | Self::Zoom { .. }
            | Self::CursorPosition
            | Self::WaitForChange { .. }
            | Self::Windows => false,
        }
    }
}

/// A button of the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// The usual one.
    Left,
    /// The wheel, pressed.
    Middle,
    /// The one for menus.
    Right,
}

/// A way to scroll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To what is above.
    Up,
    /// To what is below.
    Down,
    /// To what is on the left.
    Left,
    /// To what is on the right.
    Right,
}

/// An action that makes no sense as it is written. Says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl ActionArguments {
    /// Makes an action of it.
    ///
    /// # Errors
    /// When something is missing or no action is called so.
    pub fn check(self) -> Result<Action, Refused> {
        let click = |button, count| {
            let (at, holding) = (self.optional_point(self.coordinate)?, self.holding());
            Ok(Action::Click { button, count, at, holding })
        };
        Ok(match self.action.as_str() {
            "key" => Action::Key {
                chords: self.some_text("the keys, such as \"ctrl+s\"")?,
                repeat: self.count("repeat", self.repeat.unwrap_or(1.0), MOST_REPEATS)?,
            },
            "type" => Action::Type { text: self.some_text("what to type")? },
            "mouse_move" => Action::Move { to: self.point("coordinate", self.coordinate)? },
            "left_click" => click(Button::Left, 1)?,
            "right_click" => click(Button::Right, 1)?,
            "middle_click" => click(Button::Middle, 1)?,
            "double_click" => click(Button::Left, 2)?,
            "triple_click" => click(Button::Left, 3)?,
            "left_click_drag" => Action::Drag {
                from: self.optional_point(self.start_coordinate)?,
                to: self.point("coordinate", self.coordinate)?,
                holding: self.holding(),
            },
            "left_mouse_down" => Action::ButtonDown { at: self.optional_point(self.coordinate)? },
            "left_mouse_up" => Action::ButtonUp { at: self.optional_point(self.coordinate)? },
            "scroll" => Action::Scroll {
                at: self.optional_point(self.coordinate)?,
                direction: self.direction()?,
                amount: self.count(
                    "scroll_amount",
                    self.scroll_amount.unwrap_or(3.0),
                    MOST_SCROLL,
                )?,
                holding: self.holding(),
            },
            "hold_key" => Action::HoldKey {
                chord: self.some_text("the keys, such as \"shift\"")?,
                time: self.time(None)?,
            },
            "wait" => Action::Wait { time: self.time(None)? },
            "screenshot" => Action::Screenshot,
            "zoom" => Action::Zoom {
                region: self
                    .checked_region()?
                    .ok_or_else(|| self.refused("needs `region`: [x0, y0, x1, y1]"))?,
            },
            "cursor_position" => Action::CursorPosition,
            "wait_for_change" => Action::WaitForChange {
                region: self.checked_region()?,
                time: self.time(Some(WAIT_FOR_CHANGE))?,
            },
            "windows" => Action::Windows,
            "focus_window" => Action::FocusWindow { window: self.window_id()? },
            "xdotool" => Action::Xdotool { script: self.some_text("the script")? },
            "" => return Err(Refused(format!("`action` is missing: {}", ACTIONS.join(", ")))),
            other => {
                let known = ACTIONS.join(", ");
                return Err(Refused(format!("there is no action `{other}`, only: {known}")));
            }
        })
    }

    fn refused(&self, why: &str) -> Refused {
        Refused(format!("{}: {why}", self.action))
    }

    fn some_text(&self, what: &str) -> Result<String, Refused> {
        let text = self.text.clone().filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| self.refused(&format!("needs `text`: {what}")))?;
        if text.len() > LONGEST_TEXT {
            return Err(self.refused(&format!("`text` has more than {LONGEST_TEXT} bytes")));
        }
        Ok(text)
    }

    fn holding(&self) -> Option<String> {
        self.text.clone().or_else(|| self.key.clone()).filter(|keys| !keys.trim().is_empty())
    }

    fn number(&self, name: &str, value: f64) -> Result<u32, Refused> {
        let rounded = value.round();
        if !(0.0..=65_535.0).contains(&rounded) {
            return Err(self.refused(&format!("`{name}` must be between 0 and 65535, not {value}")));
        }
        Ok(rounded as u32)
    }

    fn point(&self, name: &str, value: Option<[f64; 2]>) -> Result<Point, Refused> {
        let [x, y] = value.ok_or_else(|| self.refused(&format!("needs `{name}`: [x, y]")))?;
        Ok(Point { x: self.number(name, x)?, y: self.number(name, y)? })
    }

    fn optional_point(&self, value: Option<[f64; 2]>) -> Result<Option<Point>, Refused> {
        value.map(|value| self.point("coordinate", Some(value))).transpose()
    }

    fn checked_region(&self) -> Result<Option<Region>, Refused> {
        let Some([x0, y0, x1, y1]) = self.region else { return Ok(None) };
        let from = self.point("region", Some([x0, y0]))?;
        let to = self.point("region", Some([x1, y1]))?;
        if from.x >= to.x || from.y >= to.y {
            return Err(self.refused("`region` is [x0, y0, x1, y1] with x0 < x1 and y0 < y1"));
        }
        Ok(Some(Region { from, to }))
    }

    fn count(&self, name: &str, value: f64, most: u32) -> Result<u32, Refused> {
        let count = self.number(name, value)?;
        if !(1..=most).contains(&count) {
            return Err(self.refused(&format!("`{name}` must be between 1 and {most}")));
        }
        Ok(count)
    }

    fn direction(&self) -> Result<Direction, Refused> {
        match self.scroll_direction.as_deref() {
            Some("up") => Ok(Direction::Up),
            Some("down") => Ok(Direction::Down),
            Some("left") => Ok(Direction::Left),
            Some("right") => Ok(Direction::Right),
            _ => Err(self.refused("needs `scroll_direction`: up, down, left or right")),
        }
    }

    fn time(&self, otherwise: Option<f64>) -> Result<Duration, Refused> {
        let seconds = self.duration.or(otherwise);
        let seconds = seconds.ok_or_else(|| self.refused("needs `duration`, in seconds"))?;
        if !(0.0..=LONGEST).contains(&seconds) {
            return Err(
                self.refused(&format!("`duration` must be between 0 and {LONGEST} seconds"))
            );
        }
        Ok(Duration::from_secs_f64(seconds))
    }

    fn window_id(&self) -> Result<u32, Refused> {
        let id = match &self.window {
            Some(WindowName::Number(id)) => Some(*id),
            Some(WindowName::Text(text)) => match text.trim().strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => text.trim().parse().ok(),
            },
            None => None,
        };
        id.ok_or_else(|| self.refused("needs `window`: an id from the action `windows`"))
    }
}
