//! A machine in a directory: its programs are scripts, and each says what was done with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cofferdam_setup::{
    Found, Host, Installed, Part, Progress, Recipe, Setup, SetupError, TimeLimits, found,
};

/// A Python that is enough of one. `$HERE/pip` says what pip does.
const PYTHON: &str = r#"#!/bin/sh
HERE=$(dirname "$(dirname "$(readlink -f "$0")")")
case "$1 $2" in
"-I -c")
    case "$3" in
    *ensurepip*) . "$HERE/about" ;;
    *) shift 3; echo "tried $*" >> "$HERE/log"; . "$HERE/trial" ;;
    esac ;;
"-m venv")
    echo venv >> "$HERE/log"
    mkdir -p "$4/bin" "$4/lib/python3.11/site-packages"
    ln -s "$(readlink -f "$0")" "$4/bin/python" ;;
"-m pip")
    echo pip >> "$HERE/log"
    shift 2
    . "$HERE/pip" ;;
*) echo "what is $*?"; exit 99 ;;
esac
"#;

const NPM: &str = r#"#!/bin/sh
HERE=$(dirname "$(dirname "$(readlink -f "$0")")")
echo "npm $1" >> "$HERE/log"
. "$HERE/npm"
"#;

/// What pip and npm do when all is well.
const PIP: &str = r#"
mkdir -p lib/python3.11/site-packages/ipykernel
echo 'Collecting ipykernel'
printf 'Successfully installed\n' >&2
"#;
const DENO: &str = r#"
mkdir -p node_modules/@deno/linux-x64-glibc node_modules/@deno/linux-arm64-glibc
for one in x64 arm64; do
    printf '#!/bin/sh\necho deno 2.9.6\n' > node_modules/@deno/linux-$one-glibc/deno
    chmod 755 node_modules/@deno/linux-$one-glibc/deno
done
mkdir -p node_modules/@novnc/novnc/core
echo 'export default class RFB {}' > node_modules/@novnc/novnc/core/rfb.js
"#;

pub(crate) struct World {
    _root: tempfile::TempDir,
    pub(crate) host: Host,
    pub(crate) limits: TimeLimits,
    pub(crate) stop: AtomicBool,
}

impl World {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let world = Self::at(root.path());
        for (name, text) in [("python3.11", PYTHON), ("npm", NPM)] {
            world.program(name, text);
        }
        std::os::unix::fs::symlink("python3.11", root.path().join("bin/python3")).unwrap();
        let scripts = [("about", "echo 3.11"), ("trial", ""), ("pip", PIP), ("npm", DENO)];
        for (name, text) in scripts {
            world.does(name, text);
        }
        Self { _root: root, ..world }
    }

    /// The machine in a directory, as it is.
    pub(crate) fn at(directory: &Path) -> Self {
        let real = directory.canonicalize().unwrap();
        let bin = real.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let path = vec![bin.clone(), "/usr/bin".into(), "/bin".into()];
        let host = Host { shown: vec![bin], roots: vec![real], path };
        let minute = Duration::from_secs(60);
        let limits = TimeLimits { lock: minute, packages: minute, step: minute };
        let root = tempfile::tempdir().unwrap();
        Self { _root: root, host, limits, stop: AtomicBool::new(false) }
    }

    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.host.shown[0].join(name);
        // Written elsewhere: a program that is open for writing cannot be started.
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, &path).unwrap();
        path
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.host.roots[0].clone()
    }

    /// What a program does.
    pub(crate) fn does(&self, program: &str, script: &str) {
        fs::write(self.home().join(program), script).unwrap();
    }

    pub(crate) fn prefix(&self) -> PathBuf {
        self.home().join("home/prefix")
    }

    pub(crate) fn setup<T>(&self, act: impl FnOnce(Setup<'_>) -> T) -> T {
        let prefix = self.prefix();
        let (host, limits, stop) = (&self.host, self.limits, &self.stop);
        act(Setup { prefix: &prefix, host, limits, stop })
    }

    pub(crate) fn install(
        &self,
        parts: &[Part],
    ) -> (Result<Vec<Installed>, SetupError>, Vec<String>) {
        let recipes: Vec<Recipe> = parts.iter().map(|part| Recipe::of(*part).unwrap()).collect();
        let mut told = Vec::new();
        let installed =
            self.setup(|setup| setup.install(&recipes, &mut |event| told.push(tell(&event))));
        (installed, told)
    }

    #[track_caller]
    pub(crate) fn fails(&self, part: Part) -> SetupError {
        let error = self.install(&[part]).0.unwrap_err();
        assert_eq!(self.found(), Found::default(), "nothing looks ready");
        assert_eq!(self.places(), Vec::<String>::new(), "nothing is left");
        error
    }

    pub(crate) fn found(&self) -> Found {
        found(&self.prefix(), &self.host)
    }

    /// What is in the prefix, the lock aside.
    pub(crate) fn places(&self) -> Vec<String> {
        let Ok(entries) = self.prefix().read_dir() else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".lock").collect();
        names.sort();
        names
    }

    /// What was done with the programs.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home().join("log")).unwrap_or_default()
    }
}

pub(crate) fn tell(event: &Progress<'_>) -> String {
    match event {
        Progress::Waiting => "waiting".to_owned(),
        Progress::AlreadyThere { part, .. } => format!("{part} is there"),
        Progress::Step { part, step } => format!("{part}: {step}"),
        Progress::Line { text } => format!("| {text}"),
        Progress::Ready { part, .. } => format!("{part} is ready"),
    }
}

/// Waits for something that has to happen.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not in two minutes: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process is there and has not ended.
pub(crate) fn lives(id: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap_or_default().trim().chars().next();
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
