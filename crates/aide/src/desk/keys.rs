//! Names of keys, as `xdotool` and people write them.

use xkeysym::{Keysym, key};

/// What people write instead of the names that X has, and where X has two names the
/// one that the table of names lacks; in small letters.
const ALIASES: &[(&str, u32)] = &[
    ("alt", key::Alt_L),
    ("altgr", key::ISO_Level3_Shift),
    ("cmd", key::Super_L),
    ("command", key::Super_L),
    ("control", key::Control_L),
    ("ctrl", key::Control_L),
    ("del", key::Delete),
    ("enter", key::Return),
    ("esc", key::Escape),
    ("ins", key::Insert),
    ("kp_page_down", key::KP_Page_Down),
    ("kp_page_up", key::KP_Page_Up),
    ("meta", key::Meta_L),
    ("option", key::Alt_L),
    ("page_down", key::Page_Down),
    ("page_up", key::Page_Up),
    ("pagedown", key::Page_Down),
    ("pageup", key::Page_Up),
    ("pgdn", key::Page_Down),
    ("pgup", key::Page_Up),
    ("shift", key::Shift_L),
    ("spacebar", key::space),
    ("super", key::Super_L),
    ("win", key::Super_L),
    ("windows", key::Super_L),
];

/// Where the keys are that have names: X's own, and those of multimedia keyboards.
const NAMED: [std::ops::RangeInclusive<u32>; 3] =
    [0x20..=0xff, 0x100..=0xffff, 0x1008_fe00..=0x1008_ffff];

/// Chords that are pressed one after the other: `ctrl+a Delete`.
pub(super) fn chords(text: &str) -> Result<Vec<Vec<Keysym>>, String> {
    // A space that is meant as a key.
    if !text.is_empty() && text.chars().all(|letter| letter == ' ') {
        return Ok(vec![vec![Keysym::space]; text.len()]);
    }
    text.split_whitespace().map(chord).collect()
}

/// Keys that are held together: `ctrl+shift+t`. The last may be `+` itself.
pub(super) fn chord(text: &str) -> Result<Vec<Keysym>, String> {
    let text = text.trim();
    let (names, plus) = match text.strip_suffix("++") {
        Some(names) => (names, true),
        None if text == "+" => ("", true),
        None => (text, false),
    };
    let mut keys = Vec::new();
    if !names.is_empty() {
        for name in names.split('+') {
            keys.push(keysym(name.trim()).ok_or_else(|| {
                format!(
                    "there is no key `{name}` in `{text}`; keys are called as in xdotool: \
                     Return, Escape, Page_Down, F5, a, ctrl+shift+t"
                )
            })?);
        }
    }
    keys.extend(plus.then_some(Keysym::plus));
    if keys.is_empty() { Err("no key is named".to_owned()) } else { Ok(keys) }
}

/// The key of this name.
fn keysym(name: &str) -> Option<Keysym> {
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return of_letter(letter);
    }
    let small = name.to_lowercase();
    if let Some((_, raw)) = ALIASES.iter().find(|(alias, _)| *alias == small) {
        return Some(Keysym::new(*raw));
    }
    if let Some(digits) = small.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).ok().map(Keysym::new);
    }
    by_name(|known| known == name)
        .or_else(|| by_name(|known| known.eq_ignore_ascii_case(name)))
        .or_else(|| {
            // U20AC
            let letter = u32::from_str_radix(small.strip_prefix('u')?, 16).ok()?;
            of_letter(char::from_u32(letter)?)
        })
}

fn by_name(is_it: impl Fn(&str) -> bool) -> Option<Keysym> {
    NAMED.into_iter().flatten().map(Keysym::new).find(|keysym| {
        let Some(name) = keysym.name() else { return false };
        match (name.strip_prefix("XK_"), name.strip_prefix("XF86XK_")) {
            (Some(name), _) => is_it(name),
            (None, Some(name)) => is_it(&format!("XF86{name}")),
            (None, None) => is_it(name),
        }
    })
}

/// The key that types a letter.
pub(super) fn of_letter(letter: char) -> Option<Keysym> {
    match letter {
        '\n' | '\r' => Some(Keysym::Return),
        '\t' => Some(Keysym::Tab),
        letter => Some(Keysym::from_char(letter)).filter(|keysym| *keysym != Keysym::NoSymbol),
    }
}

/// The same letter under the other of its two names, if it has two: some layouts
/// use the old name, some the number of the letter in Unicode.
pub(super) fn other_name(keysym: Keysym) -> Option<Keysym> {
    let letter = u32::from(keysym.key_char()?);
    let by_number = Keysym::new(0x0100_0000 | letter);
    (letter > 0xff && by_number != keysym).then_some(by_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_many_names() {
        let cases: &[(&str, &[Keysym])] = &[
            ("Return", &[Keysym::Return]),
            ("enter", &[Keysym::Return]),
            ("a", &[Keysym::a]),
            ("ctrl+shift+t", &[Keysym::Control_L, Keysym::Shift_L, Keysym::t]),
            ("Control_L+a", &[Keysym::Control_L, Keysym::a]),
            ("ctrl++", &[Keysym::Control_L, Keysym::plus]),
            ("+", &[Keysym::plus]),
            ("ctrl+plus", &[Keysym::Control_L, Keysym::plus]),
            ("alt+F4", &[Keysym::Alt_L, Keysym::F4]),
            ("page_down", &[Keysym::Page_Down]),
            ("Page_Up", &[Keysym::Page_Up]),
            ("Prior", &[Keysym::Page_Up]),
            ("F11", &[Keysym::F11]),
            ("F12", &[Keysym::F12]),
            ("F20", &[Keysym::F20]),
            ("KP_Page_Up", &[Keysym::KP_Page_Up]),
            ("BackSpace", &[Keysym::BackSpace]),
            ("backspace", &[Keysym::BackSpace]),
            ("KP_Enter", &[Keysym::KP_Enter]),
            ("Left", &[Keysym::Left]),
            ("down", &[Keysym::Down]),
            ("udiaeresis", &[Keysym::udiaeresis]),
            ("€", &[Keysym::EuroSign]),
            ("U20AC", &[Keysym::EuroSign]),
            ("0xff0d", &[Keysym::Return]),
            ("XF86AudioMute", &[Keysym::new(0x1008_ff12)]),
            ("-", &[Keysym::minus]),
        ];
        for (text, keys) in cases {
            assert_eq!(chord(text).as_deref(), Ok(*keys), "{text}");
        }
        for text in ["", "ctrl+", "nonsense", "ctrl+nonsense"] {
            assert!(chord(text).is_err(), "{text}");
        }
    }

    #[test]
    fn chords_follow_one_another() {
        let select = vec![Keysym::Control_L, Keysym::a];
        assert_eq!(chords("ctrl+a Delete"), Ok(vec![select, vec![Keysym::Delete]]));
        assert_eq!(chords(" "), Ok(vec![vec![Keysym::space]]));
    }

    #[test]
    fn letters_beyond_latin_have_two_names() {
        assert_eq!(other_name(Keysym::EuroSign), Some(Keysym::new(0x0100_20ac)));
        assert_eq!(other_name(Keysym::a), None);
        assert_eq!(of_letter('漢'), Some(Keysym::new(0x0100_0000 + u32::from('漢'))));
        assert_eq!(of_letter('\u{fffe}'), None);
    }
}
