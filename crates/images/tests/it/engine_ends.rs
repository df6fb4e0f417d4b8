//! How a build with an engine ends, by an engine that does as it is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use cofferdam_images::{
    BuildLimits, Builder, EngineBuild, Image, ImageError, Needs, Progress, Store, UnpackLimits,
};
use tempfile::TempDir;

use crate::archives::{Tar, oci};

/// Notes what it is asked for; hangs where it is to hang; reads fields of options up to a comma, as
/// engines do; forgets nothing.
const DOCKER: &str = r#"#!/bin/sh
echo "$*" >> "$FAKE/asked"
if [ -e "$FAKE/hangs-at-$1" ]; then
    echo hanging
    exec sleep 1000
fi
case $1 in
version) echo 28.0.0 ;;
build)
    for word; do
        case $word in
        --file=*,*) exit 1 ;;
        --secret=*)
            source=${word#*,src=}
            cat "${source%%,*}" > /dev/null || exit 1
            ;;
        esac
    done
    [ -s "$word/Dockerfile" ]
    ;;
save) cp "$FAKE/image.tar" "${2#--output=}" ;;
rmi) exit 1 ;;
esac
"#;

struct Lab {
    place: TempDir,
    store: Store,
}

impl Lab {
    fn new() -> Self {
        Self::in_home("home")
    }

    fn in_home(name: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("docker");
        fs::write(&program, DOCKER).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let archive = oci(vec![Tar::new().file("usr/bin/tool", "x").into()]);
        fs::write(place.path().join("image.tar"), archive).unwrap();
        let store = Store::in_home(&place.path().join(name));
        Self { place, store }
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    fn build(
        &self,
        more: &[(&str, &str)],
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Image, ImageError> {
        let needs = Needs::new(None, &["jq".to_owned()], &[]).unwrap();
        let place = self.path().to_str().unwrap();
        let path = format!("{place}:/usr/bin:/bin");
        let set = [("FAKE", place), ("PATH", path.as_str())];
        let environment: Vec<(String, String)> = set
            .iter()
            .chain(more)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let build = EngineBuild {
            definition: &needs.definition().unwrap(),
            store: &self.store,
            builder: Builder::Docker,
            base: None,
            environment: &environment,
            now: 7,
            limits: BuildLimits::default(),
            unpack: UnpackLimits::default(),
            stop,
        };
        build.build(tell)
    }

    /// The last that the engine was asked for.
    fn asked_last(&self) -> String {
        let asked = fs::read_to_string(self.path().join("asked")).unwrap();
        asked.lines().last().unwrap_or_default().to_owned()
    }
}

#[test]
fn after_a_stop_no_name_is_left_in_the_engine() {
    for verb in ["build", "save"] {
        let lab = Lab::new();
        fs::write(lab.path().join(format!("hangs-at-{verb}")), "").unwrap();
        let stop = AtomicBool::new(false);
        let stopped = lab.build(&[], &stop, &mut |progress| {
            if progress == Progress::Line("hanging") {
                stop.store(true, Ordering::Relaxed);
            }
        });
        assert!(matches!(stopped, Err(ImageError::Stopped)), "{verb}: {stopped:?}");
        let last = lab.asked_last();
        assert!(last.starts_with("rmi --no-prune cofferdam-image:"), "{verb}: {last}");
        assert_eq!(lab.store.list().unwrap(), []);
        assert!(!lab.store.place().join(".staging").exists());
    }
}

#[test]
fn a_name_that_the_engine_does_not_give_up_costs_no_image() {
    let lab = Lab::new();
    let image = lab.build(&[], &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert!(lab.asked_last().starts_with("rmi "), "{}", lab.asked_last());
    assert_eq!(fs::read_to_string(image.root.join("usr/bin/tool")).unwrap(), "x");
}

#[test]
fn a_home_may_have_commas_in_its_path() {
    let lab = Lab::in_home("a,b");
    lab.build(&[], &AtomicBool::new(false), &mut |_| {}).unwrap();
    let asked = fs::read_to_string(lab.path().join("asked")).unwrap();
    assert!(asked.contains("--secret=id=apt.conf,src="), "{asked}");
}

#[test]
fn what_a_build_goes_without_is_told_as_such() {
    let lab = Lab::new();
    let certificates = lab.path().join("many.crt");
    fs::write(&certificates, vec![b'x'; 600_000]).unwrap();
    let more = [("PIP_CERT", certificates.to_str().unwrap())];
    let mut told = Vec::new();
    let tell = &mut |progress: Progress<'_>| {
        if let Progress::Without(text) = progress {
            told.push(text.to_owned());
        }
    };
    lab.build(&more, &AtomicBool::new(false), tell).unwrap();
    assert!(matches!(told.as_slice(), [text] if text.contains("600000 bytes")), "{told:?}");
}
