//! The keyboard: which key has which meaning, and keys for what has none.
//!
//! A layout lacks most of what can be typed. Such letters are lent to keys that have
//! no meaning of their own. A program looks up the meaning of a key when it comes to
//! the event, which may be long after the event was made: so a lent key keeps its
//! meaning as long as possible, beyond the action, and before it gets another one
//! the program is given time to catch up.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ClientMessageEvent, ConnectionExt as _, EventMask,
};
use xkeysym::Keysym;

use super::display::Display;
use super::error::DeskError;
use super::hands::Hands;
use super::keys::{of_letter, other_name};
use super::state::State;

/// So many letters are typed without a pause.
const BURST: usize = 32;
const PAUSE: Duration = Duration::from_millis(4);

/// How long a program may take to come to what was sent to it, if it can be asked.
const CATCH_UP: Duration = Duration::from_secs(5);

/// How long one is waited for that cannot be asked: to come to the letters that were
/// typed, and to hear of new ones.
const BLIND_READ: Duration = Duration::from_millis(500);
const BLIND_HEAR: Duration = Duration::from_millis(100);

/// How deep windows lie in one another at most.
const DEPTH: usize = 32;

/// A key and whether it takes Shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stroke {
    code: u8,
    shift: bool,
}

/// The keyboard as the server has it.
pub(super) struct Keyboard<'a> {
    display: &'a Display,
    state: &'a State,
    first: u8,
    per_key: usize,
    meanings: Vec<u32>,
    /// Keys without a meaning of their own, the ones to be lent next first. Of these
    /// the first `fresh` have never been lent.
    spare: Vec<u8>,
    fresh: usize,
    /// Tells one question to a program from another.
    stamp: Cell<u32>,
}

impl<'a> Keyboard<'a> {
    pub(super) fn read(display: &'a Display, state: &'a State) -> Result<Self, DeskError> {
        let setup = display.connection.setup();
        let first = setup.min_keycode;
        let count = setup.max_keycode.saturating_sub(first).saturating_add(1);
        let mapping = display.connection.get_keyboard_mapping(first, count)?.reply()?;
        let modifiers = display.connection.get_modifier_mapping()?.reply()?.keycodes;
        let mut keyboard = Self {
            display,
            state,
            first,
            per_key: usize::from(mapping.keysyms_per_keycode).max(1),
            meanings: mapping.keysyms,
            spare: Vec::new(),
            fresh: 0,
            stamp: Cell::new(std::process::id() << 8),
        };
        let lent = state.lent();
        keyboard.spare = (first..=setup.max_keycode)
            .filter(|code| !lent.contains(code) && !modifiers.contains(code))
            .filter(|code| keyboard.meanings_of(*code).iter().all(|meaning| *meaning == 0))
            .collect();
        keyboard.fresh = keyboard.spare.len();
        keyboard.spare.extend(lent.into_iter().filter(|code| *code >= first));
        Ok(keyboard)
    }

    /// Types a text.
    pub(super) async fn write(
        &mut self,
        hands: &mut Hands<'_>,
        text: &str,
    ) -> Result<(), DeskError> {
        let text = text.replace("\r\n", "\n");
        let mut letters = Vec::new();
        for letter in text.chars() {
            letters.push(of_letter(letter).ok_or_else(|| {
                DeskError::Refused(format!("U+{:04X} cannot be typed", u32::from(letter)))
            })?);
        }
        let mut rest = letters.as_slice();
        while !rest.is_empty() {
            let (now, later) = self.split(rest);
            let strokes = self.strokes(now).await?;
            for burst in strokes.chunks(BURST) {
                for stroke in burst {
                    self.strike(hands, *stroke)?;
                }
                self.display.sync()?;
                sleep(PAUSE).await;
            }
            rest = later;
        }
        Ok(())
    }

    /// Presses keys together and leaves them down.
    pub(super) async fn press(
        &mut self,
        hands: &mut Hands<'_>,
        chord: &[Keysym],
    ) -> Result<(), DeskError> {
        let strokes = self.strokes(chord).await?;
        let shift = Keysym::Shift_L;
        for stroke in strokes {
            if stroke.shift && !chord.contains(&shift) {
                hands.press(self.shift()?)?;
            }
            hands.press(stroke.code)?;
        }
        self.display.sync()
    }

    fn strike(&self, hands: &mut Hands<'_>, stroke: Stroke) -> Result<(), DeskError> {
        if stroke.shift {
            hands.press(self.shift()?)?;
        }
        hands.press(stroke.code)?;
        hands.release_last()?;
        if stroke.shift { hands.release_last() } else { Ok(()) }
    }

    fn shift(&self) -> Result<u8, DeskError> {
        let stroke = self.find(Keysym::Shift_L);
        let stroke = stroke.ok_or_else(|| DeskError::Protocol("no key is Shift".to_owned()))?;
        Ok(stroke.code)
    }

    fn meanings_of(&self, code: u8) -> &[u32] {
        let start = usize::from(code.saturating_sub(self.first)) * self.per_key;
        self.meanings.get(start..start + self.per_key).unwrap_or_default()
    }

    /// The key with this meaning, alone or with Shift.
    fn find(&self, keysym: Keysym) -> Option<Stroke> {
        let by = |keysym: Keysym, column: usize| {
            let keys = self.meanings.chunks(self.per_key);
            let index = keys.into_iter().position(|key| key.get(column) == Some(&keysym.raw()))?;
            let code = self.first.checked_add(u8::try_from(index).ok()?)?;
            Some(Stroke { code, shift: column == 1 })
        };
        let names = [Some(keysym), other_name(keysym)];
        names.into_iter().flatten().find_map(|name| by(name, 0).or_else(|| by(name, 1)))
    }

    /// As many letters as there are keys for at one time, and the rest.
    fn split<'b>(&self, letters: &'b [Keysym]) -> (&'b [Keysym], &'b [Keysym]) {
        let mut wanted = BTreeSet::new();
        let end = letters.iter().position(|letter| {
            wanted.insert(*letter);
            // Those that are lent already are counted too: they must not be taken
            // for another letter meanwhile.
            let own = |letter: &&Keysym| {
                self.find(**letter).is_none_or(|stroke| self.spare.contains(&stroke.code))
            };
            wanted.iter().filter(own).count() > self.spare.len()
        });
        // With no spare key at all the first letter fails by itself.
        letters.split_at_checked(end.unwrap_or(letters.len()).max(1)).unwrap_or((letters, &[]))
    }

    /// Finds the keys for all of these, and lends some where there are none.
    async fn strokes(&mut self, letters: &[Keysym]) -> Result<Vec<Stroke>, DeskError> {
        let wanted: BTreeSet<Keysym> = letters.iter().copied().collect();
        let lacking: Vec<Keysym> =
            wanted.iter().copied().filter(|letter| self.find(*letter).is_none()).collect();
        if !lacking.is_empty() {
            let in_use: Vec<u8> =
                wanted.iter().filter_map(|letter| Some(self.find(*letter)?.code)).collect();
            self.lend(&lacking, &in_use).await?;
        }
        let stroke = |letter: &Keysym| {
            self.find(*letter).ok_or_else(|| {
                DeskError::Protocol("the keyboard has no key left for this letter".to_owned())
            })
        };
        letters.iter().map(stroke).collect()
    }

    async fn lend(&mut self, letters: &[Keysym], in_use: &[u8]) -> Result<(), DeskError> {
        let free = |code: &u8| !in_use.contains(code);
        let codes: Vec<u8> = self.spare.iter().copied().filter(free).take(letters.len()).collect();
        if codes.iter().any(|code| self.spare.iter().skip(self.fresh).any(|lent| lent == code)) {
            self.catch_up(BLIND_READ).await?;
        }
        // Now they are those that were lent last.
        self.fresh -=
            self.spare.iter().take(self.fresh).filter(|code| codes.contains(code)).count();
        self.spare.retain(|code| !codes.contains(code));
        self.spare.extend(&codes);
        let lent: Vec<u8> = self.spare.iter().skip(self.fresh).copied().collect();
        // Before it is so: a key that is lent unknown to us would be lost for good.
        self.state.write_lent(&lent)?;
        for (code, letter) in codes.into_iter().zip(letters) {
            let meaning = [letter.raw(), letter.raw()];
            self.display.connection.change_keyboard_mapping(1, code, 2, &meaning)?.check()?;
            let start = usize::from(code.saturating_sub(self.first)) * self.per_key;
            for place in self.meanings.iter_mut().skip(start).take(self.per_key.min(2)) {
                *place = letter.raw();
            }
        }
        // Some look up keys as soon as they come, before they hear of new meanings
        // that came earlier.
        self.catch_up(BLIND_HEAR).await
    }

    /// Waits until the program with the keyboard has come to all that was sent to it, or
    /// for some time if it cannot be asked.
    async fn catch_up(&self, blind: Duration) -> Result<(), DeskError> {
        let Some(window) = self.askable_window()? else {
            sleep(blind).await;
            return Ok(());
        };
        let (display, atoms) = (self.display, &self.display.atoms);
        let root = display.root;
        let hear = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
        display.connection.change_window_attributes(root, &hear)?;
        // It sends back what it gets, when it comes to it.
        let stamp = self.stamp.get().wrapping_add(1);
        self.stamp.set(stamp);
        let ping = [atoms._NET_WM_PING, stamp, window, 0, 0];
        let message = ClientMessageEvent::new(32, window, atoms.WM_PROTOCOLS, ping);
        display.connection.send_event(false, window, EventMask::NO_EVENT, message)?;
        display.sync()?;
        let deadline = Instant::now() + CATCH_UP;
        while Instant::now() < deadline {
            match display.connection.poll_for_event()? {
                Some(Event::ClientMessage(event)) => {
                    let data = event.data.as_data32();
                    if event.window == root && data.starts_with(&[atoms._NET_WM_PING, stamp]) {
                        break;
                    }
                }
                Some(_) => {}
                None => sleep(Duration::from_millis(1)).await,
            }
        }
        let deaf = ChangeWindowAttributesAux::new().event_mask(EventMask::NO_EVENT);
        display.connection.change_window_attributes(root, &deaf)?;
        display.sync()
    }

    /// The window with the keyboard, if it answers to questions whether it lives.
    fn askable_window(&self) -> Result<Option<u32>, DeskError> {
        let display = self.display;
        let mut window = display.connection.get_input_focus()?.reply()?.focus;
        for _ in 0..DEPTH {
            if window <= 1 || window == display.root {
                break;
            }
            let protocols = display.numbers(window, display.atoms.WM_PROTOCOLS)?;
            if protocols.contains(&display.atoms._NET_WM_PING) {
                return Ok(Some(window));
            }
            match display.connection.query_tree(window)?.reply() {
                Ok(tree) => window = tree.parent,
                // It has gone meanwhile.
                Err(_) => break,
            }
        }
        Ok(None)
    }
}
