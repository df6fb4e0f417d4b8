//! Engines of a test's own, and their sandboxes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_sandbox_oci::{Kind, backend_in};
use cofferdam_supervised::Supervised;
use cofferdam_testkit::{DockerDaemon, engine, plain_environment, podman_environment};
use cofferdam_types::SandboxId;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// An engine for one test, which leaves nothing behind.
pub(crate) struct Lab {
    kind: Kind,
    environment: Vec<(String, String)>,
    daemon: Option<DockerDaemon>,
    directory: TempDir,
}

impl Lab {
    /// One for this engine, where the tests may use it.
    pub(crate) fn new(kind: Kind) -> Option<Self> {
        Self::with(kind, &[])
    }

    /// One whose daemon, if it has one, gives containers users of their own.
    pub(crate) fn mapping_users(kind: Kind) -> Option<Self> {
        Self::with(kind, &["--userns-remap=nobody:nogroup"])
    }

    fn with(kind: Kind, options: &[&str]) -> Option<Self> {
        if kind != Kind::Podman && !rustix::process::geteuid().is_root() {
            eprintln!("skipped: containers of {} need root", kind.name());
            return None;
        }
        let directory = tempfile::Builder::new().prefix("cofferdam-oci-").tempdir().unwrap();
        let place = directory.path();
        let daemon = (kind == Kind::Docker).then(|| DockerDaemon::start(place, options).unwrap());
        let environment = match (&daemon, kind) {
            (Some(daemon), _) => daemon.environment(),
            (None, Kind::Podman) => podman_environment(place).unwrap(),
            (None, _) => plain_environment(place),
        };
        Some(Self { kind, environment, daemon, directory })
    }

    pub(crate) fn backend(&self) -> Supervised {
        backend_in(self.kind, self.sandboxes(), self.environment.clone())
    }

    /// A new directory beside the sandboxes.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// Kills every supervisor of this lab's, as nobody should.
    pub(crate) fn kill_supervisors(&self) {
        let mut killed = 0;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let place = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            if comm.trim() == "cofferdam-super" && place.starts_with(self.sandboxes()) {
                let pid = entry.file_name().to_str().unwrap().parse().unwrap();
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
                killed += 1;
            }
        }
        assert!(killed > 0, "there is a supervisor");
    }

    /// Waits until no process is in the sandbox's container.
    pub(crate) fn wait_until_nothing_runs(&self, id: SandboxId) {
        let name = format!("cofferdam-{id}");
        wait_until("nothing runs in the container", || match self.kind {
            Kind::Docker | Kind::Podman => {
                self.says(&["ps", "-q", &format!("--filter=name={name}")]).is_empty()
            }
            Kind::Crun | Kind::Runc => {
                let members =
                    fs::read_to_string(format!("/sys/fs/cgroup/pids/{name}/cgroup.procs"));
                members.unwrap_or_default().is_empty()
            }
        });
    }

    /// Ends the daemon, and waits until it has.
    pub(crate) fn end_daemon(&mut self, signal: Signal) {
        self.daemon.as_mut().unwrap().end(signal).unwrap();
    }

    /// Starts it again, on what it had.
    pub(crate) fn restart_daemon(&mut self) {
        self.daemon = Some(DockerDaemon::start(self.directory.path(), &[]).unwrap());
    }

    fn sandboxes(&self) -> PathBuf {
        self.directory.path().join("sandboxes")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the engine prints.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        engine(self.kind.name(), words, &self.environment).unwrap().unwrap_or_default()
    }

    /// The names of containers that run.
    pub(crate) fn containers(&self) -> Vec<String> {
        match self.kind {
            Kind::Docker | Kind::Podman => {
                self.says(&["ps", "--format={{.Names}}"]).lines().map(str::to_owned).collect()
            }
            Kind::Crun | Kind::Runc => {
                names_in(&self.sandboxes().join(".shared/containers").join(self.kind.name()))
            }
        }
    }

    /// Nothing of any sandbox is left, here or in the engine.
    pub(crate) fn assert_empty(&self) {
        let left = || names_in(&self.sandboxes()).iter().any(|name| name != ".shared");
        wait_until("no sandbox has a directory", || !left());
        wait_until("the engine has no container", || match self.kind {
            Kind::Docker | Kind::Podman => self.says(&["ps", "-aq"]).is_empty(),
            Kind::Crun | Kind::Runc => self.containers().is_empty(),
        });
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.kind == Kind::Podman {
            engine("podman", &["system", "reset", "--force"], &self.environment).ok();
        }
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Waits for a condition, a minute at most.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs something asynchronous.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}
