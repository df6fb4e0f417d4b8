//! Docker: the daemon that is there, or one of our own for as long as needed.
//!
//! Nothing of it is left: the container and the image are removed, and a daemon
//! that was started here is ended with all its processes, by their ids.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::containers::Containers;
use super::program::{self, Companion};
use super::{host, process_table};

/// How long a daemon may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that answers, with an image and a container.
pub(super) struct Docker {
    program: PathBuf,
    daemon: Option<Daemon>,
    /// The name of the image and of the container.
    name: String,
}

/// A daemon of our own.
struct Daemon {
    companion: Companion,
    directory: PathBuf,
}

impl Docker {
    /// Finds or starts a daemon, and makes an image and a container from a root
    /// file system.
    pub(super) fn prepare(directory: &Path, root: &Path) -> anyhow::Result<Self> {
        let name = format!("cofferdam-bench-{}", std::process::id());
        let program = program::find("docker")?;
        let mut docker = Self { program, daemon: None, name };
        fs::create_dir_all(directory)?;
        if let Err(silence) = docker.answers() {
            let daemon = Daemon::start(directory).with_context(|| {
                format!("no daemon answers ({silence}), nor could one be started")
            });
            docker.daemon = Some(daemon?);
            docker.wait()?;
        }
        docker.make(directory, root)?;
        Ok(docker)
    }

    /// Where our own daemon listens; `None` if it is the machine's.
    pub(super) fn address(&self) -> Option<String> {
        self.daemon.as_ref().map(Daemon::address)
    }

    /// Bytes of our own daemon and of the one below it, which serve all containers.
    pub(super) fn daemon_memory(&self) -> Option<f64> {
        let daemon = self.daemon.as_ref()?.companion.pid().as_raw_nonzero().get();
        let below = process_table::below(daemon, &process_table::all());
        let serving = below.iter().map(|entry| entry.process).filter(|process| {
            let program = process_table::program(*process);
            program.is_some_and(|path| path.ends_with("containerd"))
        });
        Some(serving.chain([daemon]).filter_map(process_table::memory).sum())
    }

    fn answers(&self) -> anyhow::Result<()> {
        let question = ["version", "--format", "{{.Server.Version}}"];
        program::output(self.client().args(question)).map(|_| ())
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.answers().is_err() {
            let daemon = self.daemon.as_mut().context("there is no daemon to wait for")?;
            if let Some(status) = daemon.companion.try_wait()? {
                bail!("dockerd ended with {status}: {}", daemon.last_word());
            }
            if Instant::now() >= deadline {
                bail!("dockerd does not answer: {}", daemon.last_word());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Containers for Docker {
    fn client(&self) -> Command {
        let mut command = program::command(&self.program);
        if let Some(daemon) = &self.daemon {
            command.arg("--host").arg(daemon.address());
        }
        command
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        // Each may be there or not, depending on how far the preparation got.
        program::ignore(program::output(self.client().args(["rm", "--force", &self.name])));
        program::ignore(program::output(
            self.client().args(["image", "rm", "--force", &self.name]),
        ));
    }
}

impl Daemon {
    fn start(directory: &Path) -> anyhow::Result<Self> {
        let daemon = program::find("dockerd")?;
        if !rustix::process::geteuid().is_root() {
            bail!("only root can start dockerd");
        }
        // It must not outlive this program, however that ends.
        let mut command = match program::find("setpriv") {
            Ok(setpriv) => {
                let mut command = program::command(setpriv);
                command.args(["--pdeathsig", "TERM", "--"]).arg(daemon);
                command
            }
            Err(_) => program::command(daemon),
        };
        command.args(["--iptables=false", "--bridge=none"]);
        for (option, place) in
            [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "pid")]
        {
            command.arg(option).arg(directory.join(place));
        }
        let log = File::create(directory.join("log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        command.arg("--host").arg(address(directory));
        let companion = Companion(command.spawn().context("start dockerd")?);
        Ok(Self { companion, directory: directory.to_owned() })
    }

    fn address(&self) -> String {
        address(&self.directory)
    }

    fn last_word(&self) -> String {
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        log.lines().next_back().unwrap_or("no word").to_owned()
    }
}

fn address(directory: &Path) -> String {
    format!("unix://{}/docker.sock", directory.display())
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon ends its own; those that it forgets are ended here, by
        // handles that were taken while they were surely its own.
        let daemon = self.companion.pid().as_raw_nonzero().get();
        let below = process_table::below(daemon, &process_table::all());
        let handles: Vec<OwnedFd> = below
            .iter()
            .filter_map(|entry| pidfd_open(Pid::from_raw(entry.process)?, PidfdFlags::empty()).ok())
            .collect();
        self.companion.stop();
        for handle in handles {
            // Most have ended by now.
            program::ignore(pidfd_send_signal(handle, Signal::KILL));
        }
        let mounts = host::mounts().into_iter().map(|(_, place)| place);
        for place in mounts.filter(|place| Path::new(place).starts_with(&self.directory)) {
            // What is still mounted would keep the directory from being removed.
            program::ignore(rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH));
        }
    }
}
