//! Engines of a test's own, and their sandboxes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_native_supervisor::places::{Places, remains_of};
use cofferdam_sandbox::Backend;
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
    options: &'static [&'static str],
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

    /// One whose daemon, if it has one, has these options.
    pub(crate) fn with(kind: Kind, options: &'static [&'static str]) -> Option<Self> {
        if kind != Kind::Podman && !rustix::process::geteuid().is_root() {
            eprintln!("skipped: containers of {} need root", kind.name());
            return None;
        }
        let directory = tempfile::Builder::new().prefix("cofferdam-oci-").tempdir().unwrap();
        let place = directory.path();
        if kind == Kind::Runsc {
            let backend = backend_in(kind, place.join("none"), plain_environment(place));
            if let Some(why) = backend.examine().into_iter().find_map(|fact| fact.weakness) {
                eprintln!("skipped: there is no runsc that will do: {why}");
                return None;
            }
        }
        let daemon = (kind == Kind::Docker).then(|| DockerDaemon::start(place, options).unwrap());
        let environment = match (&daemon, kind) {
            (Some(daemon), _) => daemon.environment(),
            (None, Kind::Podman) => podman_environment(place).unwrap(),
            (None, _) => plain_environment(place),
        };
        Some(Self { kind, environment, daemon, options, directory })
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
            Kind::Crun | Kind::Runc | Kind::Runsc => {
                let lists = remains_of(&id.to_string()).into_iter();
                let mut lists = lists.map(|group| fs::read_to_string(group.join("cgroup.procs")));
                lists.all(|members| members.unwrap_or_default().is_empty())
            }
        });
    }

    /// Ends the daemon, and waits until it has.
    pub(crate) fn end_daemon(&mut self, signal: Signal) {
        self.daemon.as_mut().unwrap().end(signal).unwrap();
    }

    /// Starts it again, on what it had.
    pub(crate) fn restart_daemon(&mut self) {
        self.daemon = Some(DockerDaemon::start(self.directory.path(), self.options).unwrap());
    }

    /// A place that engines have to be told of with care.
    fn sandboxes(&self) -> PathBuf {
        self.path("sandboxes, \"all\" of them")
    }

    /// Puts a script in front of the engine's program, which finds that as `$REAL`.
    pub(crate) fn put_in_front(&mut self, script: &str) {
        let name = self.kind.name();
        let (_, path) = self.environment.iter_mut().find(|(name, _)| name == "PATH").unwrap();
        let real = std::env::split_paths(path).map(|place| place.join(name));
        let real = real.into_iter().find(|file| file.is_file()).unwrap();
        let front = self.directory.path().join("front");
        fs::create_dir(&front).unwrap();
        let text = format!("#!/bin/sh\nREAL={}\n{script}\n", real.display());
        fs::write(front.join(name), text).unwrap();
        fs::set_permissions(front.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        *path = format!("{}:{path}", front.display());
    }

    /// Kills what the file names, and waits until it has gone.
    pub(crate) fn kill_named_in(&self, file: &str) {
        let text = fs::read_to_string(self.path(file)).unwrap();
        kill(text.trim().parse().unwrap());
    }

    /// Kills the processes that run this program for this lab's containers.
    pub(crate) fn kill_all(&self, program: &str) {
        let place = self.directory.path().to_str().unwrap();
        let mut killed = 0;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let comm = String::from_utf8_lossy(&read("comm")).trim().to_owned();
            if comm == program && String::from_utf8_lossy(&read("cmdline")).contains(place) {
                kill(pid);
                killed += 1;
            }
        }
        assert!(killed > 0, "there is a {program}");
    }

    /// Kills the process of this name in the sandbox's control group.
    pub(crate) fn kill_in_group(&self, id: SandboxId, name: &str) {
        let places = Places::find().directories();
        let lists = places.iter().map(|place| place.join(format!("cofferdam-{id}/cgroup.procs")));
        let members = lists.filter_map(|list| fs::read_to_string(list).ok()).next().unwrap();
        let found = members.lines().find(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split('\0').next() == Some(name)
        });
        kill(found.unwrap().parse().unwrap());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
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
            // It has none but those that are sandboxes.
            Kind::Runsc => Vec::new(),
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
            Kind::Crun | Kind::Runc | Kind::Runsc => self.containers().is_empty(),
        });
        // One that still has a runtime remove something would make directories of the lab's anew.
        wait_until("no supervisor is left", || !supervisors_run());
    }
}

/// Whether a supervisor runs that this process has started.
fn supervisors_run() -> bool {
    let own = std::process::id().to_string();
    let mut numbers = names_in(Path::new("/proc")).into_iter();
    numbers.any(|number| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let Some((name, rest)) = stat.rsplit_once(") ") else { return false };
        let mut fields = rest.split(' ');
        let runs = fields.next() != Some("Z");
        name.contains("(cofferdam-") && runs && fields.next() == Some(&own)
    })
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.kind == Kind::Podman {
            engine("podman", &["system", "reset", "--force"], &self.environment).ok();
        }
    }
}

/// Kills a process and waits until it does nothing more, whoever reaps it.
fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    wait_until("it is dead", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
    });
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
