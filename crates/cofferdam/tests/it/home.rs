//! A test's own corner of the machine: a home of the product's files, and
//! directories beside it. At its end nothing of a sandbox may be left.

use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use serde_json::Value;
use tempfile::TempDir;

use crate::invocation::{Invocation, Ran};
use crate::processes;

/// A user that no machine has.
const ORDINARY: u32 = 64_001;

/// How long the last remains of a sandbox may take to go.
const PARTING: Duration = Duration::from_secs(20);

/// A test's own corner of the machine. Dropping it checks that nothing is left.
pub(crate) struct Home {
    directory: TempDir,
    program: PathBuf,
    user: Option<u32>,
    /// Tells the names that ever were in the sandboxes' directory.
    names: OwnedFd,
    /// Keeps the copy of the program that another user can run.
    _copy: Option<Arc<TempDir>>,
}

impl Home {
    /// For the user who runs the tests.
    pub(crate) fn new() -> Self {
        Self::with(PathBuf::from(env!("CARGO_BIN_EXE_cofferdam")), None, None)
    }

    /// For an ordinary user, where root runs the tests; else the same as `new`.
    pub(crate) fn of_ordinary_user() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::new();
        }
        let copy = program_for_all();
        Self::with(copy.path().join("cofferdam"), Some(ORDINARY), Some(copy))
    }

    fn with(program: PathBuf, user: Option<u32>, copy: Option<Arc<TempDir>>) -> Self {
        let directory = tempfile::Builder::new().prefix("cofferdam-it-").tempdir().unwrap();
        give(directory.path(), user);
        let sandboxes = directory.path().join("home/sandboxes");
        for path in [&directory.path().join("home"), &sandboxes] {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            give(path, user);
        }
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let names = inotify::init(flags).unwrap();
        let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&names, &sandboxes, events).unwrap();
        Self { directory, program, user, names, _copy: copy }
    }

    /// What `COFFERDAM_HOME` is.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// The program, where the user who runs it can.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The ordinary user who runs it, if it is another than runs the tests.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// A path beside the home, where nothing is yet.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new directory beside the home, of the user who runs the program.
    pub(crate) fn make_directory(&self, name: &str) -> PathBuf {
        let path = self.beside(name);
        fs::create_dir(&path).unwrap();
        give(&path, self.user);
        path
    }

    /// A new file of the user who runs the program.
    pub(crate) fn make_file(&self, path: &Path, content: &str) {
        fs::write(path, content).unwrap();
        give(path, self.user);
    }

    /// Puts what `cofferdam setup` installs into the home, from where it was installed once
    /// for all tests.
    pub(crate) fn set_up_cells(&self) {
        if self.path().join("images").exists() {
            return; // images bring their own
        }
        self.share(&cofferdam_testkit::SetUp::for_tests().unwrap().prefix, "prefix");
    }

    /// Puts the agent image into the home, from where it was built once for all tests, and has
    /// every job use it.
    pub(crate) fn use_agent_image(self) -> Self {
        let built = cofferdam_testkit::AgentImage::for_tests().unwrap();
        self.share(&built.home.join("images"), "images");
        let settings = self.beside("user/.config/cofferdam");
        fs::create_dir_all(&settings).unwrap();
        fs::write(settings.join("config.toml"), "[sandbox]\nimage = \"agent\"\n").unwrap();
        self
    }

    /// Has sandboxes made by this back end: after [`Self::use_agent_image`].
    pub(crate) fn use_backend(self, name: &str) -> Self {
        let settings = self.beside("user/.config/cofferdam/config.toml");
        let text = fs::read_to_string(&settings).unwrap();
        fs::write(settings, format!("{text}backend = \"{name}\"\n")).unwrap();
        self
    }

    /// Shows in the home what was made once for all tests.
    fn share(&self, made: &Path, name: &str) {
        let place = self.path().join(name);
        if self.user.is_none() {
            return std::os::unix::fs::symlink(made, place).unwrap();
        }
        // Another user may not be let into the checkout.
        let copy = |how: &str| {
            let mut copy = std::process::Command::new("cp");
            copy.args(["--archive", how]).arg(made).arg(&place).status().unwrap().success()
        };
        assert!(copy("--link") || copy("--remove-destination"));
    }

    /// A word that nothing else on the machine has in its arguments.
    pub(crate) fn mark(&self) -> String {
        let name = self.directory.path().file_name().unwrap().to_str().unwrap();
        format!("mark-{name}")
    }

    /// The program with these arguments.
    pub(crate) fn cofferdam<Word: AsRef<std::ffi::OsStr>>(
        &self,
        words: impl IntoIterator<Item = Word>,
    ) -> Invocation {
        let mut invocation = Invocation::new(&self.program, self.user);
        invocation.command().args(words).env("COFFERDAM_HOME", self.path());
        invocation
    }

    /// `cofferdam exec` with these arguments.
    pub(crate) fn exec<Word: AsRef<std::ffi::OsStr>>(
        &self,
        words: impl IntoIterator<Item = Word>,
    ) -> Invocation {
        let mut invocation = self.cofferdam(["exec"]);
        invocation.command().args(words);
        invocation
    }

    /// `cofferdam exec OPTIONS -- sh -c SCRIPT`, run to its end.
    pub(crate) fn shell(&self, options: &[&str], script: &str) -> Ran {
        self.exec(options).words(["--", "sh", "-c", script]).run()
    }

    /// `cofferdam exec OPTIONS -- python3 -c SCRIPT`, run to its end.
    pub(crate) fn python(&self, options: &[&str], script: &str) -> Ran {
        self.exec(options).words(["--", "/usr/bin/python3", "-c", script]).run()
    }

    /// Whether control groups hold this part of a sandbox's limits here.
    pub(crate) fn groups_hold(&self, part: &str) -> bool {
        let ran = self.exec(["--json", "--", "true"]).run().expect_code(0);
        let opened: Value = serde_json::from_str(ran.text().lines().next().unwrap()).unwrap();
        let facts = opened["isolation"]["facts"].as_array().unwrap();
        let fact = facts.iter().find(|fact| fact["part"] == part).unwrap();
        fact["value"].as_str().unwrap().starts_with("control group")
    }

    /// The numbers of its supervisors.
    pub(crate) fn supervisors(&self) -> Vec<i32> {
        processes::all()
            .into_iter()
            .filter(|pid| processes::name(*pid).as_deref() == Some("cofferdam-super"))
            .filter(|pid| processes::touches(*pid, &self.path()))
            .collect()
    }

    /// What is left of sandboxes, in words.
    pub(crate) fn remains(&self, ids: &BTreeSet<String>) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.path().join("sandboxes")).into_iter().flatten() {
            let name = entry.unwrap().file_name();
            if name != ".shared" {
                found.push(format!("directory {}", name.display()));
            }
        }
        control_groups(Path::new("/sys/fs/cgroup"), 0, &mut |group| {
            let name = group.file_name().unwrap_or_default().to_string_lossy();
            if name.strip_prefix("cofferdam-").is_some_and(|id| ids.contains(id)) {
                found.push(format!("control group {}", group.display()));
            }
        });
        for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let image = fs::read_to_string(device.path().join("loop/backing_file"));
            if image.is_ok_and(|image| Path::new(&image).starts_with(self.path())) {
                found.push(format!("loop device {}", device.file_name().display()));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if mounts.contains(self.path().to_str().unwrap()) {
            found.push(format!("mount below {}", self.path().display()));
        }
        for pid in processes::all() {
            if processes::touches(pid, &self.path()) {
                let name = processes::name(pid).unwrap_or_default();
                found.push(format!("process {pid} ({name})"));
            }
        }
        for pid in processes::with_argument(&self.mark()) {
            found.push(format!("marked process {pid}"));
        }
        found
    }

    /// The ids of all sandboxes since this was last asked.
    pub(crate) fn sandboxes_since(&self) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.names, &mut buffer);
        while let Ok(event) = events.next() {
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            ids.extend(name.filter(|name| !name.starts_with('.')));
        }
        ids
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        unlock(self.directory.path());
        if std::thread::panicking() {
            return; // one failure is enough
        }
        let ids = self.sandboxes_since();
        let deadline = Instant::now() + PARTING;
        loop {
            let remains = self.remains(&ids);
            if remains.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind: {remains:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Gives back the right to remove what a test has locked up.
fn unlock(directory: &Path) {
    // What cannot be unlocked is left to whoever empties the machine's `/tmp`.
    drop(fs::set_permissions(directory, fs::Permissions::from_mode(0o700)));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock(&entry.path());
        }
    }
}

/// Gives a file to the user who runs the program, where that is somebody else.
fn give(path: &Path, user: Option<u32>) {
    if user.is_some() {
        std::os::unix::fs::lchown(path, user, user).unwrap();
    }
}

/// A copy of the program in a place that everybody can reach; the tests that
/// need it at the same time share it.
fn program_for_all() -> Arc<TempDir> {
    static COPY: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut copy = COPY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(copy) = copy.upgrade() {
        return copy;
    }
    let directory = tempfile::Builder::new().prefix("cofferdam-it-").tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("cofferdam");
    fs::copy(env!("CARGO_BIN_EXE_cofferdam"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let directory = Arc::new(directory);
    *copy = Arc::downgrade(&directory);
    directory
}

/// Shows every control group below `directory`.
fn control_groups(directory: &Path, depth: usize, show: &mut impl FnMut(&Path)) {
    if depth > 10 {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            show(&entry.path());
            control_groups(&entry.path(), depth + 1, show);
        }
    }
}
