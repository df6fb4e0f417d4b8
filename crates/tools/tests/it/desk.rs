//! `computer`: a real desktop in a real sandbox.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_sandbox::{Root, Spec};
use cofferdam_testkit::Picture;
use cofferdam_tools::{Aide, Tools, open_desktop, screenshot};
use cofferdam_types::{CallId, Content, ToolStatus};
use serde_json::{Value, json};

use crate::lab::{Answer, Blind, Lab, in_equipped_lab};

/// Tries something where there is an aide.
fn with_aide(
    fit: impl FnOnce(Aide) -> Aide,
    path: Option<&str>,
    test: impl AsyncFnOnce(&Lab, &Aide),
) {
    let shelf = tempfile::Builder::new().prefix("cofferdam-desk-").tempdir().unwrap();
    let programs = shelf.path().join("programs");
    let program =
        cofferdam_embedded::copy::keep(&programs, 0o755, &cofferdam_embedded::AIDE).unwrap();
    let aide = fit(Aide::new(program, Vec::new()));
    let spec = Spec { root: Root::Host { readable: vec![programs] }, ..Spec::scratch() };
    in_equipped_lab(spec, Some(aide.clone()), path, async |lab| test(lab, &aide).await);
}

fn pictures(answer: &Answer) -> Vec<Vec<u8>> {
    let image = |content: &Content| match content {
        Content::Image { media_type, data } if media_type == "image/png" => {
            Some(STANDARD.decode(data).unwrap())
        }
        _ => None,
    };
    answer.output.content.iter().filter_map(image).collect()
}

fn picture(answer: &Answer) -> Picture {
    let pictures = pictures(answer);
    assert_eq!(pictures.len(), 1, "{answer:?}");
    Picture::of(&pictures[0])
}

impl Lab {
    async fn computer(&self, arguments: Value) -> Answer {
        self.call("computer", arguments).await
    }

    async fn look(&self) -> Answer {
        self.computer(json!({"action": "screenshot"})).await
    }

    /// Starts a program on the desktop, and waits for its window.
    async fn program(&self, command: &str, title: &str) -> String {
        let started = self.call("bash", json!({"command": command, "background": true})).await;
        started.done();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let windows = self.computer(json!({"action": "windows"})).await;
            if let Some(line) = windows.done().lines().find(|line| line.contains(title)) {
                return line.to_owned();
            }
            assert!(Instant::now() < deadline, "no window {title}: {}", windows.text);
        }
    }
}

const BLUE: [u8; 3] = [0x10, 0x20, 0xf0];

const XTERM: &str = "xterm -title Words -bg '#1020f0' -e 'read words; echo \"$words\" > words'";

#[test]
fn the_desktop_comes_with_the_first_look_and_programs_find_it() {
    with_aide(
        |aide| aide,
        None,
        async |lab, _| {
            let first = lab.look().await;
            assert!(first.done().contains("the desktop was started now"), "{}", first.text);
            assert!(first.text.contains("screen, 1280x800:"), "{}", first.text);
            let empty = picture(&first);
            assert_eq!(empty.size, (1280, 800));
            assert_eq!(empty.count(BLUE), 0);

            let line = lab.program(XTERM, "Words").await;
            let id = line.split(' ').next().unwrap();
            let focused = lab.computer(json!({"action": "focus_window", "window": id})).await;
            assert!(picture(&focused).count(BLUE) > 10_000, "{}", focused.text);
            assert_eq!(focused.done(), "screen, 1280x800:");
            let typed = lab.computer(json!({"action": "type", "text": "grüße, 世界 ✓\n"})).await;
            typed.done();
            lab.until("test -s words").await;
            assert_eq!(String::from_utf8(lab.get("words").await).unwrap(), "grüße, 世界 ✓\n");
            // Nothing of the desktop is kept as a variable of the shell's own.
            assert_eq!(
                lab.bash("grep -c 'DISPLAY' ~/.cofferdam-shell-*").await.status,
                ToolStatus::Failed
            );
            let own = lab.bash("export DISPLAY=:42").await;
            own.done();
            assert!(lab.bash("echo $DISPLAY").await.done().starts_with(":42\n"));
        },
    );
}

#[test]
fn a_browser_shows_a_page() {
    with_aide(
        |aide| aide,
        None,
        async |lab, _| {
            lab.look().await.done();
            let page = "data:text/html,<title>Lime</title><body bgcolor=lime>";
            let browser = format!("chromium --no-sandbox --no-first-run '{page}'");
            lab.program(&browser, "Lime").await;
            let deadline = Instant::now() + Duration::from_secs(60);
            while picture(&lab.look().await).count([0, 0xff, 0]) < 100_000 {
                assert!(Instant::now() < deadline, "the page is not seen");
            }
        },
    );
}

#[test]
fn an_idle_desktop_ends_and_comes_back() {
    with_aide(
        |aide| aide.with_idle(Duration::from_secs(3)),
        None,
        async |lab, _| {
            lab.look().await.done();
            lab.until("! pgrep -x 'Xvnc|Xtigervnc|openbox' >/dev/null").await;
            assert!(lab.bash("echo \"<$DISPLAY>\"").await.done().starts_with("<>"));
            let back = lab.look().await;
            assert!(back.done().contains("the desktop was started now"), "{}", back.text);
            assert_eq!(picture(&back).size.0, 1280);
            // The one that has ended takes no room any more; those of tools are the job's to
            // acknowledge.
            let mut stays = lab.sandbox.calls().await.unwrap();
            stays.retain(|call| !Tools::is_call(CallId(call.call)));
            assert!(stays.len() == 1 && stays[0].running, "{stays:?}");
        },
    );
}

#[test]
fn the_screen_is_as_large_as_was_set_and_shown_as_large_as_models_see() {
    let size = cofferdam_tools::Size { width: 2000, height: 1000 };
    with_aide(
        |aide| aide.with_screen(size),
        None,
        async |lab, aide| {
            let call = lab.sandbox.next_call_id();
            let opened = open_desktop(&lab.sandbox, aide, call).await.unwrap();
            assert!(opened.fresh && opened.size == size, "{opened:?}");
            let call = lab.sandbox.next_call_id();
            let found = open_desktop(&lab.sandbox, aide, call).await.unwrap();
            assert!(!found.fresh, "{found:?}");
            let shown = picture(&lab.look().await);
            let (width, height) = shown.size;
            assert!(width < 1569 && width == 2 * height, "{width}");
            let png = screenshot(&lab.sandbox, aide, lab.sandbox.next_call_id()).await.unwrap();
            assert_eq!(Picture::of(&png).size, shown.size);
        },
    );
}

#[test]
fn what_is_missing_is_said() {
    with_aide(
        |aide| aide,
        Some("/nowhere"),
        async |lab, aide| {
            let answer = lab.look().await;
            let text = answer.failed();
            assert!(
                text.contains("is not installed") && text.contains("apt-get install"),
                "{text}"
            );
            let none = screenshot(&lab.sandbox, aide, lab.sandbox.next_call_id()).await;
            assert!(none.unwrap_err().contains("no desktop runs"));
        },
    );
    in_equipped_lab(Spec::scratch(), None, None, async |lab| {
        let answer = lab.look().await;
        assert!(answer.refused().contains("there is no desktop in this kind of sandbox"));
    });
}

#[test]
fn a_person_has_the_hands_and_the_model_is_told() {
    with_aide(
        |aide| aide,
        None,
        async |lab, aide| {
            lab.look().await.done();
            let hands = lab.tools.hands();
            let mut held = hands.take_over().await.unwrap();
            let shot = || screenshot(&lab.sandbox, aide, lab.sandbox.next_call_id());
            held.before(shot().await.unwrap());
            let click = lab.computer(json!({"action": "left_click", "coordinate": [5, 5]}));
            let person = async {
                lab.sh(
                    ". ~/.cofferdam/aide/desk-main/environment; (xterm -bg '#1020f0' &) >&- 2>&-",
                )
                .await;
                lab.until(". ~/.cofferdam/aide/desk-main/environment; xdotool search --onlyvisible --class xterm").await;
                let deadline = Instant::now() + Duration::from_secs(60);
                loop {
                    let png = shot().await.unwrap();
                    if Picture::of(&png).count(BLUE) > 10_000 {
                        held.after(png);
                        break;
                    }
                    assert!(Instant::now() < deadline, "the window is not seen");
                }
                drop(held);
            };
            let (answer, ()) = tokio::join!(click, person);
            assert!(answer.refused().starts_with("A person had the desktop for "), "{answer:?}");
            assert!(answer.output.plain_text().contains("Your action was not done"), "{answer:?}");
            let shown = pictures(&answer);
            assert_eq!(shown.len(), 2);
            assert_eq!(Picture::of(&shown[0]).count(BLUE), 0);
            assert!(Picture::of(&shown[1]).count(BLUE) > 10_000);
            let again = lab.computer(json!({"action": "left_click", "coordinate": [5, 5]})).await;
            again.done();
            assert_eq!(pictures(&again).len(), 1);
        },
    );
}

#[test]
fn an_action_is_taken_up_by_whoever_comes_after() {
    with_aide(
        |aide| aide,
        None,
        async |lab, _| {
            lab.look().await.done();
            let call = lab.computer(json!({"action": "wait", "duration": 3}));
            let abandoned = async {
                lab.until("pgrep -f 'desk ac[t]' >/dev/null").await;
                lab.sandbox.reconnect().await.unwrap();
            };
            let (answer, ()) = tokio::join!(call, abandoned);
            assert_eq!(answer.status, ToolStatus::Unknown, "{}", answer.text);
            // A person waits for it, as for any other action.
            let hands = lab.tools.hands();
            let taking = async { (lab.tools.take_up(CallId(2), &Blind).await, Instant::now()) };
            let waiting = async { (hands.take_over().await, Instant::now()) };
            let ((taken, ended), (held, taken_over)) = tokio::join!(taking, waiting);
            assert!(held.is_some() && taken_over >= ended);
            let taken = taken.unwrap();
            assert_eq!(taken.status, ToolStatus::Done, "{taken:?}");
            assert_eq!(taken.content.len(), 2, "{taken:?}");
            lab.tools.acknowledge(CallId(2));
            assert_eq!(lab.tools.take_up(CallId(77), &Blind).await, None);
        },
    );
}
