//! What a viewer holds down, so that it can be released when the viewer may act no
//! more.

use super::rfb::long;

/// Keys that can be down at once. No hands have more.
const MOST_KEYS: usize = 32;

/// A key that is down: its sign and, if the viewer told it, its place on the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    sign: u32,
    place: Option<u32>,
}

/// What is held down.
#[derive(Debug, Default)]
pub(super) struct Pressed {
    keys: Vec<Key>,
    /// Which buttons, one bit each.
    buttons: u8,
    /// Where the pointer is, as the viewer wrote it.
    pointer: [u8; 4],
}

impl Pressed {
    /// Hears a whole message that acts. False: it is not to be passed on.
    pub(super) fn hear(&mut self, message: &[u8]) -> bool {
        match message.first() {
            Some(4) => self.key(message.get(1), long(message, 4), None),
            Some(255) => self.key(message.get(3), long(message, 4), long(message, 8)),
            Some(5) => {
                if let Some([_, buttons, pointer @ ..]) = message.first_chunk::<6>() {
                    (self.buttons, self.pointer) = (*buttons, *pointer);
                }
                true
            }
            _ => true,
        }
    }

    fn key(&mut self, down: Option<&u8>, sign: Option<u32>, place: Option<u32>) -> bool {
        let (Some(down), Some(sign)) = (down, sign) else { return false };
        let key = Key { sign, place };
        let known = self.keys.iter().position(|other| *other == key);
        match (*down != 0, known) {
            (true, None) if self.keys.len() >= MOST_KEYS => return false,
            (true, None) => self.keys.push(key),
            // A key that is held repeats itself.
            (true, Some(_)) | (false, None) => {}
            (false, Some(at)) => drop(self.keys.remove(at)),
        }
        true
    }

    /// Writes the messages that release everything: the last key first, as fingers do.
    pub(super) fn release_all(&mut self, out: &mut Vec<u8>) {
        for Key { sign, place } in self.keys.drain(..).rev() {
            match place {
                None => {
                    out.extend_from_slice(&[4, 0, 0, 0]);
                    out.extend_from_slice(&sign.to_be_bytes());
                }
                Some(place) => {
                    out.extend_from_slice(&[255, 0, 0, 0]);
                    out.extend_from_slice(&sign.to_be_bytes());
                    out.extend_from_slice(&place.to_be_bytes());
                }
            }
        }
        if self.buttons != 0 {
            self.buttons = 0;
            out.extend_from_slice(&[5, 0]);
            out.extend_from_slice(&self.pointer);
        }
    }
}
