//! Engines of a test's own: a Docker daemon, and a place for Podman's containers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_sandbox_native::Native;
use cofferdam_sandbox_oci::{Kind, backend_in};
use cofferdam_types::SandboxId;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// An engine for one test, which leaves nothing behind.
pub(crate) struct Lab {
    kind: Kind,
    directory: TempDir,
    daemon: Option<Child>,
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
        let mut lab = Self { kind, directory, daemon: None };
        match kind {
            Kind::Docker => lab.start_daemon(options),
            Kind::Podman => lab.configure_podman(),
            Kind::Crun | Kind::Runc => {}
        }
        Some(lab)
    }

    pub(crate) fn backend(&self) -> Native {
        backend_in(self.kind, self.sandboxes(), self.environment())
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
        let mut daemon = self.daemon.take().unwrap();
        kill_process(Pid::from_child(&daemon), signal).unwrap();
        daemon.wait().unwrap();
    }

    /// Starts it again, on what it had.
    pub(crate) fn restart_daemon(&mut self) {
        // One that was killed leaves the number of a process that is still to be reaped.
        for name in ["docker.pid", "exec/containerd/containerd.pid"] {
            fs::remove_file(self.path(name)).ok();
        }
        self.start_daemon(&[]);
    }

    fn sandboxes(&self) -> PathBuf {
        self.directory.path().join("sandboxes")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn socket(&self) -> String {
        format!("unix://{}", self.path("docker.sock").display())
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned()),
            ("HOME".to_owned(), self.directory.path().display().to_string()),
        ];
        match self.kind {
            Kind::Docker => variables.push(("DOCKER_HOST".to_owned(), self.socket())),
            Kind::Podman => {
                for (name, file) in [
                    ("CONTAINERS_CONF", "containers.conf"),
                    ("CONTAINERS_STORAGE_CONF", "storage.conf"),
                    ("XDG_RUNTIME_DIR", "run"),
                ] {
                    variables.push((name.to_owned(), self.path(file).display().to_string()));
                }
            }
            Kind::Crun | Kind::Runc => {}
        }
        variables
    }

    /// In a mount namespace of its own: what it mounts goes with it, and the ranges of ids
    /// that it may hand out are not the machine's.
    fn start_daemon(&mut self, options: &[&str]) {
        let log = File::create(self.path("dockerd.log")).unwrap();
        let ranges = ["subuid", "subgid"].map(|name| {
            let path = self.path(name);
            fs::write(&path, "nobody:1800000000:65536\n").unwrap();
            let target = format!("/etc/{name}");
            assert!(Path::new(&target).exists(), "{target} is a file of the package passwd");
            format!("mount --bind {} {target}", path.display())
        });
        let script = format!("{} && exec \"$@\"", ranges.join(" && "));
        let daemon = Command::new("unshare")
            .args(["--mount", "--propagation=private", "sh", "-c", &script, "sh", "dockerd"])
            .args(options)
            .arg(format!("--data-root={}", self.path("data").display()))
            .arg(format!("--exec-root={}", self.path("exec").display()))
            .arg(format!("--pidfile={}", self.path("docker.pid").display()))
            .arg(format!("--host={}", self.socket()))
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("dockerd is installed");
        self.daemon = Some(daemon);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.ask(&["version"]) {
            let log = fs::read_to_string(self.path("dockerd.log")).unwrap_or_default();
            let ended = self.daemon.as_mut().is_some_and(|one| !matches!(one.try_wait(), Ok(None)));
            assert!(!ended && Instant::now() < deadline, "dockerd does not answer: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn configure_podman(&self) {
        let place = |name: &str| {
            let path = self.path(name);
            fs::create_dir_all(&path).unwrap();
            path.display().to_string()
        };
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
            place("storage"),
            place("run")
        );
        fs::write(self.path("storage.conf"), storage).unwrap();
        let configuration = format!(
            "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\ntmp_dir = \"{}\"\n\
             [containers]\nlog_driver = \"none\"\n",
            place("tmp")
        );
        fs::write(self.path("containers.conf"), configuration).unwrap();
    }

    fn ask(&self, words: &[&str]) -> bool {
        Command::new(self.kind.name())
            .args(words)
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// What the engine prints.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let output = Command::new(self.kind.name())
            .args(words)
            .env_clear()
            .envs(self.environment())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
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
        if let Some(mut daemon) = self.daemon.take() {
            kill_process(Pid::from_child(&daemon), Signal::TERM).ok();
            let deadline = Instant::now() + Duration::from_secs(30);
            while matches!(daemon.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            daemon.kill().ok();
            daemon.wait().ok();
        }
        if self.kind == Kind::Podman {
            self.ask(&["system", "reset", "--force"]);
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
