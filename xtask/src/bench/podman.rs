//! Podman, with a place of its own for images and containers: what the machine has of them
//! is not touched, and nothing of ours is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_testkit::podman_environment;

use super::containers::Containers;
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
        fs::create_dir_all(directory)?;
        let environment = podman_environment(directory)?;
        let name = format!("cofferdam-bench-{}", std::process::id());
        let podman = Self { program, environment, name };
        podman.make(directory, root)?;
        Ok(podman)
    }

    /// The variables by which it is this one.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        self.environment.clone()
    }
}

impl Containers for Podman {
    fn client(&self) -> Command {
        let mut command = program::command(&self.program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        let both = fs::read_to_string(UNIFIED).is_ok_and(|text| !text.trim().is_empty());
        if let (true, Ok(runc)) = (both, program::find("runc")) {
            command.arg("--runtime").arg(runc);
        }
        command
    }

    fn name(&self) -> &str {
        &self.name
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
