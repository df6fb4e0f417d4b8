//! What is seen of the desktop.

use cofferdam_aide_protocol::DEFAULT_LIMITS;
use cofferdam_aide_protocol::{DeskFailureKind, DeskPiece, Point, Region, Scale, Size};
use serde_json::json;

use crate::desk_hands::Window;
use crate::desktop::{Desktop, Home, Picture, wait_until};

const RED: [u8; 3] = [0xff, 0, 0];
const GREEN: [u8; 3] = [0x12, 0xc8, 0x34];
const PURPLE: [u8; 3] = [0xc8, 0x12, 0xb4];

#[test]
fn a_window_is_seen_where_it_is() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, width, height] = window.place("field");
    let picture = desktop.screenshot();
    assert_eq!(picture.is.size, Size { width: 1280, height: 800 });
    assert_eq!(picture.is.screen, picture.is.size);
    for (x, y) in [(x, y), (x + width - 1, y), (x, y + height - 1), (x + width - 1, y + height - 1)]
    {
        assert_eq!(picture.pixel(x, y), GREEN, "{x} {y}");
    }
    assert_eq!(picture.count(GREEN), (width * height) as usize);
    assert_eq!(picture.pixel(x - 5, y), RED);
}

#[test]
fn a_server_that_shares_no_memory_shows_the_same() {
    let home = Home::with_programs(&["xkbcomp", "openbox"]);
    home.put_script("Xvnc", "exec /usr/bin/Xvnc \"$@\" -extension MIT-SHM");
    let desktop = Desktop::start_in(home, "start");
    let window = Window::open(&desktop);
    let [.., width, height] = window.place("field");
    assert_eq!(desktop.screenshot().count(GREEN), (width * height) as usize);
}

#[test]
fn the_pointer_is_seen() {
    let desktop = Desktop::start();
    desktop.act(&json!({"action": "mouse_move", "coordinate": [700, 300]}));
    let near =
        |picture: &Picture| -> Vec<[u8; 3]> { (700..706).map(|x| picture.pixel(x, 303)).collect() };
    let with = near(&desktop.screenshot());
    desktop.act(&json!({"action": "mouse_move", "coordinate": [1000, 600]}));
    let without = near(&desktop.screenshot());
    assert_ne!(with, without);
    assert!(without.iter().all(|pixel| *pixel == [0x2e, 0x34, 0x40]), "{without:?}");
}

#[test]
fn a_large_screen_is_shown_smaller_and_pointed_at_exactly() {
    let home = Home::new();
    let desktop = Desktop::start_in(home, "start --width 1920 --height 1200");
    let window = Window::open(&desktop);
    let screen = Size { width: 1920, height: 1200 };
    let scale = Scale::new(screen, DEFAULT_LIMITS);

    let picture = desktop.screenshot();
    assert_eq!(picture.is.screen, screen);
    assert_eq!(picture.is.size, Size { width: 1356, height: 847 });
    let [x, y, width, height] = window.place("field");
    let middle = scale.to_shown(Point { x: x + width / 2, y: y + height / 2 });
    assert_eq!(picture.pixel(middle.x, middle.y), GREEN);

    // A click lands on the pixel that was pointed at.
    let [x, y, ..] = window.place("canvas");
    let target = scale.to_shown(Point { x: x + 150, y: y + 100 });
    desktop.act(&json!({"action": "left_click", "coordinate": [target.x, target.y]}));
    let hit = scale.to_screen(target).unwrap();
    window.says(&format!("down1 {} {}", hit.x - x, hit.y - y));
    let at = desktop.act(&json!({"action": "cursor_position"}));
    assert_eq!(at, [DeskPiece::Cursor(target)]);

    // Closer, it is as sharp as it is.
    let [x, y, width, height] = window.place("field");
    let field = Region { from: Point { x, y }, to: Point { x: x + width, y: y + height } };
    let shown = scale.region_to_shown(field);
    let region = [shown.from.x, shown.from.y, shown.to.x, shown.to.y];
    let zoom = Picture::of(&desktop.act(&json!({"action": "zoom", "region": region})));
    assert_eq!(zoom.is.size, scale.region_to_screen(shown).unwrap().size());
    assert_eq!(zoom.count(GREEN), (width * height) as usize);
    assert_eq!(zoom.is.screen, screen);

    // The last pixel is there, the next is not.
    desktop.act(&json!({"action": "mouse_move", "coordinate": [1355, 846]}));
    let pieces = desktop.act_with("", &json!({"action": "mouse_move", "coordinate": [1356, 846]}));
    let [DeskPiece::Failed(failure)] = pieces.as_slice() else { panic!("{pieces:?}") };
    assert_eq!(failure.kind, DeskFailureKind::Refused);
    assert!(failure.why.contains("1356 wide"), "{}", failure.why);
}

#[test]
fn limits_can_be_chosen() {
    let desktop = Desktop::start();
    let act = json!({"action": "screenshot"});
    let mut pieces = desktop.act_with("--longest 640", &act);
    assert_eq!(pieces.pop(), Some(DeskPiece::Done));
    assert_eq!(Picture::of(&pieces).is.size, Size { width: 640, height: 400 });
}

#[test]
fn a_change_is_waited_for() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    desktop.screenshot();
    // The entry has a blinking cursor: only the field counts.
    let [left, top, width, height] = window.place("field");
    let region = [left, top, left + width, top + height];
    let nothing = json!({"action": "wait_for_change", "duration": 0.2, "region": region});
    let pieces = desktop.act(&nothing);
    assert!(matches!(pieces.as_slice(), [DeskPiece::Change { region: None, .. }]), "{pieces:?}");

    // The click changes the field a little later.
    desktop.act(&json!({"action": "right_click", "coordinate": [x + 5, y + 5]}));
    let wait = json!({"action": "wait_for_change", "duration": 60, "region": region});
    let pieces = desktop.act(&wait);
    let [DeskPiece::Change { region: Some(changed), .. }] = pieces.as_slice() else {
        panic!("{pieces:?}")
    };
    assert!(changed.from.x >= left && changed.to.x <= left + width, "{changed:?}");
    wait_until("the field is purple", || desktop.screenshot().pixel(left + 2, top + 2) == PURPLE);

    // What has changed since the last picture counts at once; after one it does not.
    assert!(matches!(desktop.act(&nothing).as_slice(), [DeskPiece::Change { region: None, .. }]));
}

#[test]
fn an_action_can_end_with_a_look() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    let click = json!({"action": "left_click", "coordinate": [x + 5, y + 5]});
    let mut pieces = desktop.act_with("--look 2000", &click);
    assert_eq!(pieces.pop(), Some(DeskPiece::Done));
    assert_eq!(Picture::of(&pieces).pixel(x + 100, y + 100), [0, 0, 0xff]);
}
