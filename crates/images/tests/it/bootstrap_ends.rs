//! How a build with mmdebstrap ends before it is done, by one that does as it is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam_images::{Bootstrap, BuildLimits, ImageError, Needs, Progress, Store};
use cofferdam_setup::Host;
use cofferdam_testkit::OrdinaryUser;

/// Says where it works, has a chroot there as mmdebstrap has, and hangs.
const MMDEBSTRAP: &str = r#"#!/bin/sh
echo "$TMPDIR" > NOTED
mkdir -m 777 "$TMPDIR/mmdebstrap.chroot" || exit 1
cd /var/tmp
if [ "$(id -u)" != 0 ]; then
    FILL "$TMPDIR/mmdebstrap.chroot" || exit 1
fi
echo hanging >&2
exec sleep 1000
"#;

/// Makes what only users of a namespace can remove in the directory that follows.
const FILL: [&str; 6] = [
    "/usr/bin/mmdebstrap",
    "--unshare-helper",
    "sh",
    "-c",
    "mkdir -m 700 \"$1/root\" && touch \"$1/root/.netrc\"",
    "sh",
];

/// Whether this user has no ranges of ids, or this machine no mmdebstrap: then nothing is built.
fn lacks(error: &ImageError) -> bool {
    let lacks = matches!(error, ImageError::Missing { .. });
    if lacks {
        eprintln!("skipped: {error}");
    }
    lacks
}

#[test]
fn a_stop_leaves_nothing_where_mmdebstrap_worked() {
    let place = tempfile::tempdir().unwrap();
    let noted = place.path().join("noted");
    let fill = FILL.map(|word| format!("'{word}'")).join(" ");
    let script = MMDEBSTRAP.replace("NOTED", noted.to_str().unwrap()).replace("FILL", &fill);
    let program = place.path().join("mmdebstrap");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let store = Store::in_home(&place.path().join("home"));
    let stop = AtomicBool::new(false);
    let needs = Needs::new(None, &["jq".to_owned()], &[]).unwrap();
    let build = Bootstrap {
        definition: &needs.definition().unwrap(),
        store: &store,
        host: &Host::here(Some(&place.path().as_os_str().to_owned())),
        now: 7,
        limits: BuildLimits::default(),
        stop: &stop,
    };
    let mut worked = None;
    let stopped = build.build(&mut |progress| {
        if progress == Progress::Line("hanging") {
            let text = fs::read_to_string(&noted).unwrap();
            worked = Some(PathBuf::from(text.trim_end()));
            stop.store(true, Ordering::Relaxed);
        }
    });
    let stopped = stopped.unwrap_err();
    if lacks(&stopped) {
        return;
    }
    assert!(matches!(stopped, ImageError::Stopped), "{stopped:?}");
    let worked = worked.unwrap();
    if rustix::process::geteuid().is_root() {
        assert!(worked.starts_with(store.place()), "{worked:?}");
    } else {
        assert!(worked.to_str().unwrap().starts_with("/var/tmp/cofferdam-image-"), "{worked:?}");
    }
    assert!(!worked.exists(), "{worked:?}");
    let left = store.place().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), [".lock"]);
}

/// As a killed build leaves it: the directory, and the note of it.
#[test]
fn what_a_killed_build_left_to_others_goes_with_the_next_change() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::in_home(home.path());
    let change = || store.change(Duration::from_secs(10), &AtomicBool::new(false), &mut || {});
    drop(change().unwrap());
    let left = tempfile::Builder::new().prefix("cofferdam-image-").tempdir_in("/var/tmp");
    let left = left.unwrap().keep();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o711)).unwrap();
    let chroot = left.join("mmdebstrap.chroot");
    fs::create_dir(&chroot).unwrap();
    fs::set_permissions(&chroot, fs::Permissions::from_mode(0o777)).unwrap();
    let [program, words @ ..] = FILL;
    let filled = Command::new(program).args(words).arg(&chroot).current_dir("/").status();
    if !filled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there are no ranges of ids");
        fs::remove_dir_all(&left).unwrap();
        return;
    }
    let note = store.place().join(".elsewhere");
    fs::write(&note, left.file_name().unwrap().to_str().unwrap()).unwrap();
    drop(change().unwrap());
    assert!(!left.exists() && !note.exists());
}

#[test]
fn an_ordinary_user_leaves_nothing_either() {
    let tests = [
        "bootstrap_ends::a_stop_leaves_nothing_where_mmdebstrap_worked",
        "bootstrap_ends::what_a_killed_build_left_to_others_goes_with_the_next_change",
    ];
    let said = OrdinaryUser::WithRange.runs(&tests).unwrap();
    assert!(!said.contains("skipped"), "{said}");
}
