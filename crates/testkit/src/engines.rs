//! Container engines of a test's own.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a daemon may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where programs are, those of root's too.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// A Docker daemon with everything it has in one directory, in a mount namespace of its own:
/// what it mounts goes with it, and the ranges of ids that it may hand out are not the
/// machine's. It has no network for containers, and ends when dropped.
pub struct DockerDaemon {
    child: Child,
    directory: PathBuf,
}

impl DockerDaemon {
    /// Starts one, as root, and waits until it answers.
    ///
    /// # Errors
    /// When it does not, with what it said.
    #[expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
    pub fn start(directory: &Path, options: &[&str]) -> io::Result<Self> {
        let path = |name: &str| directory.join(name);
        // One that was killed leaves the numbers of processes that may not be reaped yet.
        for name in ["docker.pid", "exec/containerd/containerd.pid"] {
            fs::remove_file(path(name)).or_else(missing_is_fine)?;
        }
        let ranges = path("ranges");
        fs::write(&ranges, "nobody:1800000000:65536\n")?;
        let binds = ["/etc/subuid", "/etc/subgid"]
            .map(|target| format!("mount --bind {} {target}", ranges.display()));
        let script = format!("{} && exec \"$@\"", binds.join(" && "));
        let log = File::create(path("dockerd.log"))?;
        let child = Command::new("unshare")
            .args(["--mount", "--propagation=private", "sh", "-c", &script, "sh", "dockerd"])
            .arg(format!("--data-root={}", path("data").display()))
            .arg(format!("--exec-root={}", path("exec").display()))
            .arg(format!("--pidfile={}", path("docker.pid").display()))
            .arg(format!("--host={}", docker_host(directory)))
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"])
            .args(options)
            .env("PATH", PATH)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut daemon = Self { child, directory: directory.to_owned() };
        let deadline = Instant::now() + PATIENCE;
        let asked = docker_environment(directory);
        while !engine("docker", &["version"], &asked).is_ok_and(|answer| answer.is_some()) {
            if daemon.child.try_wait()?.is_some() || Instant::now() >= deadline {
                let said = fs::read_to_string(directory.join("dockerd.log"))?;
                return Err(io::Error::other(format!("dockerd does not answer: {said}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    /// Ends it by a signal and waits until it has ended.
    ///
    /// # Errors
    /// When it does not end.
    pub fn end(&mut self, signal: Signal) -> io::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// What its client has to be told.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        docker_environment(&self.directory)
    }
}

impl Drop for DockerDaemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.end(Signal::TERM).is_err() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn docker_host(directory: &Path) -> String {
    format!("unix://{}", directory.join("docker.sock").display())
}

fn docker_environment(directory: &Path) -> Vec<(String, String)> {
    let mut environment = plain_environment(directory);
    environment.push(("DOCKER_HOST".to_owned(), docker_host(directory)));
    environment
}

/// The variables of an engine that needs no others.
#[must_use]
pub fn plain_environment(directory: &Path) -> Vec<(String, String)> {
    let home = directory.display().to_string();
    [("PATH", PATH.to_owned()), ("HOME", home)].map(|(name, value)| (name.to_owned(), value)).into()
}

/// The variables by which Podman has everything in one directory.
///
/// # Errors
/// When the directory cannot be written to.
pub fn podman_environment(directory: &Path) -> io::Result<Vec<(String, String)>> {
    let place = |name: &str| {
        let path = directory.join(name);
        fs::create_dir_all(&path).map(|()| path.display().to_string())
    };
    let (storage, run, temporary) = (place("storage")?, place("run")?, place("tmp")?);
    let text = format!(
        "[storage]\ndriver = \"overlay\"\ngraphroot = \"{storage}\"\nrunroot = \"{run}\"\n"
    );
    fs::write(directory.join("storage.conf"), text)?;
    let text = format!(
        "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n\
         tmp_dir = \"{temporary}\"\n[containers]\nlog_driver = \"none\"\n"
    );
    fs::write(directory.join("containers.conf"), text)?;
    let mut environment = plain_environment(directory);
    for (name, file) in
        [("CONTAINERS_CONF", "containers.conf"), ("CONTAINERS_STORAGE_CONF", "storage.conf")]
    {
        environment.push((name.to_owned(), directory.join(file).display().to_string()));
    }
    environment.push(("XDG_RUNTIME_DIR".to_owned(), run));
    Ok(environment)
}

/// What an engine's client prints; `None` if it fails.
///
/// # Errors
/// When it cannot be run.
#[expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
pub fn engine(
    program: &str,
    words: &[&str],
    environment: &[(String, String)],
) -> io::Result<Option<String>> {
    let output = Command::new(program)
        .args(words)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(text))
}
