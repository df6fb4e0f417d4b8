//! Podman, with a place of its own for images and containers: what the machine has of them
//! is not touched, and nothing of ours is left.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::docker::LIMITS;
use super::program;

/// There where a machine has control groups of both versions, which crun refuses.
const UNIFIED: &str = "/sys/fs/cgroup/unified/cgroup.controllers";

/// Podman with an image and a container.
pub(super) struct Podman {
    program: PathBuf,
    environment: Vec<(String, String)>,
    /// The name of the image and of the container.
    name: String,
}

impl Podman {
    /// Makes an image and a container from a root file system.
    pub(super) fn prepare(directory: &Path, root: &Path) -> anyhow::Result<Self> {
        let program = program::find("podman")?;
        let environment = configure(directory)?;
        let name = format!("cofferdam-bench-{}", std::process::id());
        let podman = Self { program, environment, name };
        let archive = directory.join("image.tar");
        let mut builder = tar::Builder::new(File::create(&archive)?);
        builder.append_dir_all(".", root)?;
        builder.into_inner()?.sync_all()?;
        program::output(podman.client().arg("import").arg(archive).arg(&podman.name))?;
        let container =
            podman.container(&["--detach", "--name", &podman.name], &["/bin/sleep", "infinity"]);
        program::output(&mut { container })?;
        Ok(podman)
    }

    /// The variables by which it is this one.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        self.environment.clone()
    }

    /// The name of the container that runs.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs `true` in a container of its own.
    pub(super) fn fresh(&self) -> Command {
        self.container(&["--rm"], &["/bin/true"])
    }

    /// A command that runs `true` in the container that runs.
    pub(super) fn running(&self) -> Command {
        let mut command = self.client();
        command.args(["exec", &self.name, "/bin/true"]);
        command
    }

    /// A command that copies a file out of the container that runs, or into it.
    pub(super) fn copy(&self, from: &str, to: &str) -> Command {
        let mut command = self.client();
        command.args(["cp", from, to]);
        command
    }

    /// The program, which says nothing yet.
    pub(super) fn client(&self) -> Command {
        let mut command = program::command(&self.program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        let both = fs::read_to_string(UNIFIED).is_ok_and(|text| !text.trim().is_empty());
        if let (true, Ok(runc)) = (both, program::find("runc")) {
            command.arg("--runtime").arg(runc);
        }
        command
    }

    fn container(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = self.client();
        command.args(["run", "--pull=never", "--network", "none"]).args(LIMITS).args(options);
        command.arg(&self.name).args(words);
        command
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // Each may be there or not, depending on how far the preparation got.
        let remove = ["rm", "--force", "--time", "0", &self.name];
        program::ignore(program::output(self.client().args(remove)));
        // Of this place alone.
        program::ignore(program::output(self.client().args(["system", "reset", "--force"])));
    }
}

/// Writes the settings of a Podman that keeps everything in a directory; returns the
/// variables that name them.
fn configure(directory: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let place = |name: &str| -> anyhow::Result<String> {
        let path = directory.join(name);
        fs::create_dir_all(&path)?;
        Ok(path.display().to_string())
    };
    let (storage, run, temporary) = (place("storage")?, place("run")?, place("tmp")?);
    let settings = [
        (
            "CONTAINERS_STORAGE_CONF",
            "storage.conf",
            format!(
                "[storage]\ndriver = \"overlay\"\ngraphroot = \"{storage}\"\nrunroot = \"{run}\"\n"
            ),
        ),
        (
            "CONTAINERS_CONF",
            "containers.conf",
            format!(
                "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n\
                 tmp_dir = \"{temporary}\"\n[containers]\nlog_driver = \"none\"\n"
            ),
        ),
    ];
    let mut environment = vec![
        ("HOME".to_owned(), directory.display().to_string()),
        ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
        ("XDG_RUNTIME_DIR".to_owned(), run),
    ];
    for (variable, name, text) in settings {
        let path = directory.join(name);
        fs::write(&path, text)?;
        environment.push((variable.to_owned(), path.display().to_string()));
    }
    Ok(environment)
}
