//! What a viewer says, in whatever pieces, and what the server hears of it.

use proptest::prelude::*;

use super::*;

const HELLO: &[u8] = b"RFB 003.008\n\x01\x00";

fn key(down: u8, sign: u32) -> Vec<u8> {
    [&[4, down, 0, 0][..], &sign.to_be_bytes()].concat()
}

fn place(down: u8, sign: u32, place: u32) -> Vec<u8> {
    [&[255, 0, 0, down][..], &sign.to_be_bytes(), &place.to_be_bytes()].concat()
}

fn pointer(buttons: u8, x: u16, y: u16) -> Vec<u8> {
    [&[5, buttons][..], &x.to_be_bytes(), &y.to_be_bytes()].concat()
}

fn text(length: u32, bytes: usize) -> Vec<u8> {
    [&[6, 0, 0, 0][..], &length.to_be_bytes(), &vec![b'x'; bytes]].concat()
}

fn encodings(list: &[i32]) -> Vec<u8> {
    let count = u16::try_from(list.len()).unwrap();
    let list = list.iter().flat_map(|encoding| encoding.to_be_bytes());
    [2, 0].into_iter().chain(count.to_be_bytes()).chain(list).collect()
}

fn fence(length: u8) -> Vec<u8> {
    [&[248, 0, 0, 0, 0x80, 0, 0, 1, length][..], &vec![7; usize::from(length)]].concat()
}

fn update() -> Vec<u8> {
    vec![3, 1, 0, 0, 0, 0, 5, 0, 3, 32]
}

/// A filter that is past the handshake.
fn filter(mode: Mode) -> Filter {
    let mut filter = Filter::new();
    let mut out = Vec::new();
    assert_eq!(filter.take(HELLO, &mut out), Ok(false));
    filter.set_mode(mode, &mut out);
    assert_eq!(out, b"RFB 003.008\n\x01\x01", "others may always watch too");
    filter
}

/// What the server hears of this, and whether it acts.
fn passed(mode: Mode, bytes: &[u8]) -> Result<(Vec<u8>, bool), Refused> {
    let mut out = Vec::new();
    let acted = filter(mode).take(bytes, &mut out)?;
    Ok((out, acted))
}

fn looking() -> Vec<Vec<u8>> {
    let format = [&[0][..], &[9; 19]].concat();
    let continuous = [&[150, 1][..], &[0; 8]].concat();
    vec![format, encodings(&[7, 0, -239, -224]), update(), continuous, fence(0), fence(64)]
}

fn acting() -> Vec<Vec<u8>> {
    vec![
        key(1, 0x61),
        key(0, 0x61),
        place(1, 0x61, 30),
        place(0, 0x61, 30),
        pointer(1, 10, 20),
        pointer(0x80, 10, 20),
        pointer(0, 10, 20),
        text(5, 5),
        text(0, 0),
        // The clipboard in several formats.
        text((-9_i32).cast_unsigned(), 9),
    ]
}

fn useless() -> Vec<Vec<u8>> {
    let size = [&[251, 0, 5, 0, 3, 0, 2, 0][..], &[1; 32]].concat();
    let big = [&[253, 0x80 | 2, 0, 5][..], &[1; 5]].concat();
    let little = [&[253, 2, 5, 0][..], &[1; 5]].concat();
    vec![vec![250, 0, 1, 2], size, big, little]
}

#[test]
fn whoever_watches_can_look_and_nothing_else() {
    for message in looking() {
        assert_eq!(passed(Mode::Watch, &message), Ok((message.clone(), false)), "{message:?}");
    }
    for message in acting().into_iter().chain(useless()) {
        let (out, acted) = passed(Mode::Watch, &[message.clone(), update()].concat()).unwrap();
        assert_eq!((out, acted), (update(), false), "{message:?}");
    }
}

#[test]
fn whoever_acts_has_mouse_keys_and_clipboard_and_not_the_machine() {
    for message in looking() {
        assert_eq!(passed(Mode::Act, &message), Ok((message.clone(), false)), "{message:?}");
    }
    for message in acting() {
        assert_eq!(passed(Mode::Act, &message), Ok((message.clone(), true)), "{message:?}");
    }
    for message in useless() {
        let (out, acted) = passed(Mode::Act, &[message.clone(), update()].concat()).unwrap();
        assert_eq!((out, acted), (update(), false), "{message:?}");
    }
}

#[test]
fn only_one_version_and_no_password_are_taken() {
    let said = |bytes: &[u8]| Filter::new().take(bytes, &mut Vec::new());
    for version in [b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 004.001\n", b"GET / HTTP/1"] {
        assert_eq!(said(version), Err(Refused::Version), "{version:?}");
    }
    assert_eq!(said(b"RFB 003.008\n\x02"), Err(Refused::Security));
    assert_eq!(said(b"RFB 003.008\n\x13"), Err(Refused::Security));
    assert_eq!(said(b"RFB 003.008\n\x01\x01"), Ok(false));
    assert_eq!(said(b""), Ok(false));
}

#[test]
fn what_is_not_known_or_too_long_ends_the_connection() {
    for kind in [1, 7, 8, 9, 10, 11, 100, 149, 151, 247, 249, 252, 254] {
        assert_eq!(passed(Mode::Act, &[kind]), Err(Refused::Unknown(kind)));
    }
    // QEMU's sound.
    assert_eq!(passed(Mode::Act, &[255, 1]), Err(Refused::Unknown(255)));
    let long = [
        [2, 0, 1, 1].to_vec(),
        [248, 0, 0, 0, 0, 0, 0, 0, 65].to_vec(),
        [253, 0x80, 0x10, 1].to_vec(),
        text(LONGEST_TEXT + 1, 0),
        text(u32::MAX >> 1, 0),
        text(1 << 31, 0),
        text((-300_000_i32).cast_unsigned(), 0),
    ];
    for message in long {
        let refused = passed(Mode::Watch, &message);
        assert!(matches!(refused, Err(Refused::TooLong(_))), "{message:?}: {refused:?}");
    }
    assert!(Refused::Unknown(7).to_string().len() < 100);
}

#[test]
fn a_length_that_is_told_takes_no_memory() {
    let mut filter = filter(Mode::Act);
    let mut out = Vec::new();
    filter.take(&text(LONGEST_TEXT, 0), &mut out).unwrap();
    filter.take(b"xyz", &mut out).unwrap();
    assert!(filter.held.capacity() < 1024, "{}", filter.held.capacity());
    assert!(out.is_empty(), "no part of a message is passed on");

    let mut filter = self::filter(Mode::Watch);
    filter.take(&text(LONGEST_TEXT, 100_000), &mut out).unwrap();
    assert!(filter.held.capacity() < 1024, "{}", filter.held.capacity());
}

#[test]
fn what_is_held_is_released_when_the_hands_are_given_back() {
    let mut filter = filter(Mode::Act);
    let mut out = Vec::new();
    let shift = 0xffe1;
    let said = [key(1, shift), place(1, 0x61, 30), place(1, 0x61, 30), pointer(5, 300, 400)];
    filter.take(&said.concat(), &mut out).unwrap();
    // Half of a message is under way.
    filter.take(&key(1, 0x62)[..5], &mut out).unwrap();
    out.clear();
    filter.set_mode(Mode::Watch, &mut out);
    let released = [place(0, 0x61, 30), key(0, shift), pointer(0, 300, 400)];
    assert_eq!(out, released.concat());
    // The rest of it is left out with its beginning.
    filter.take(&[&key(1, 0x62)[5..], &update()].concat(), &mut out).unwrap();
    assert_eq!(out, [released.concat(), update()].concat());
    out.clear();
    filter.set_mode(Mode::Act, &mut out);
    filter.set_mode(Mode::Watch, &mut out);
    assert!(out.is_empty(), "nothing is held any more");
}

#[test]
fn no_more_keys_are_held_than_can_be_released() {
    let mut filter = filter(Mode::Act);
    let mut out = Vec::new();
    for sign in 0..1000 {
        filter.take(&key(1, sign), &mut out).unwrap();
    }
    let downs = out.len() / 8;
    out.clear();
    filter.set_mode(Mode::Watch, &mut out);
    assert_eq!((downs, out.len() / 8), (32, 32));
}

#[test]
fn messages_of_the_pointer_have_one_length() {
    let asked = encodings(&[7, MORE_BUTTONS, -239]);
    let (out, _) = passed(Mode::Watch, &asked).unwrap();
    assert_eq!(out, encodings(&[7, NO_ENCODING, -239]));
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<Vec<u8>> = looking().into_iter().chain(acting()).chain(useless()).collect();
    let noise = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![8 => prop::sample::select(known), 1 => noise]
}

/// What happens between two messages.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Keeps,
    Takes,
    Gives,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![4 => Just(Turn::Keeps), 1 => Just(Turn::Takes), 1 => Just(Turn::Gives)]
}

type Story = Vec<(Vec<u8>, Turn)>;

/// All that the server hears, and how it ends.
fn tell(story: &Story, cut: impl Fn(usize) -> usize) -> (Vec<u8>, Option<Refused>) {
    let mut filter = Filter::new();
    let mut out = Vec::new();
    let mut at = 0;
    for (message, turn) in story {
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(cut(at).clamp(1, rest.len()));
            if let Err(refused) = filter.take(piece, &mut out) {
                return (out, Some(refused));
            }
            (rest, at) = (after, at + 1);
        }
        match turn {
            Turn::Keeps => {}
            Turn::Takes => filter.set_mode(Mode::Act, &mut out),
            Turn::Gives => filter.set_mode(Mode::Watch, &mut out),
        }
    }
    (out, None)
}

proptest! {
    #[test]
    fn however_it_is_cut_the_server_hears_the_same(
        story in prop::collection::vec((any_message(), any_turn()), 0..30),
        cuts in prop::collection::vec(1_usize..50, 1..20),
        greets in prop::bool::weighted(0.9),
    ) {
        let mut story = story;
        if greets {
            story.insert(0, (HELLO.to_vec(), Turn::Keeps));
        }
        let whole = tell(&story, |_| usize::MAX);
        prop_assert_eq!(&tell(&story, |_| 1), &whole);
        prop_assert_eq!(&tell(&story, |at| cuts[at % cuts.len()]), &whole);
    }

    /// What a watcher's server hears is made of messages that cannot act, whatever the
    /// watcher sends.
    #[test]
    fn a_watcher_never_acts(bytes in prop::collection::vec(any_message(), 0..30)) {
        let mut filter = filter(Mode::Watch);
        let mut out = Vec::new();
        for message in bytes {
            if !matches!(filter.take(&message, &mut out), Ok(false)) {
                break;
            }
        }
        let mut rest = out.as_slice();
        while !rest.is_empty() {
            prop_assert!([0, 2, 3, 150, 248].contains(&rest[0]), "{rest:?}");
            let Ok(Judged::Pass(length)) = message(rest) else { panic!("{rest:?}") };
            prop_assert!(length <= rest.len(), "a part of a message");
            rest = &rest[length..];
        }
    }
}
