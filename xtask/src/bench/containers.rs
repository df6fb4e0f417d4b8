//! What Docker and Podman are asked for in the same words: an image, a container that runs, and
//! commands and files of it.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use super::program;

/// A host that may not raise limits needs them named.
const LIMITS: [&str; 4] = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];

/// An engine with an image and a container of one name.
pub(super) trait Containers {
    /// Its program, which says nothing yet.
    fn client(&self) -> Command;

    /// The name of the image, and of the container that runs.
    fn name(&self) -> &str;

    /// Makes both from a root file system; `directory` is for what that takes.
    fn make(&self, directory: &Path, root: &Path) -> anyhow::Result<()> {
        let archive = directory.join("image.tar");
        let mut builder = tar::Builder::new(File::create(&archive)?);
        builder.append_dir_all(".", root)?;
        builder.into_inner()?.sync_all()?;
        program::output(self.client().arg("import").arg(archive).arg(self.name()))?;
        let options = ["--detach", "--name", self.name()];
        program::output(&mut self.container(&options, &["/bin/sleep", "infinity"]))?;
        Ok(())
    }

    /// A command that runs another in a container of its own.
    fn container(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = self.client();
        command.args(["run", "--pull=never", "--network", "none"]).args(LIMITS).args(options);
        command.arg(self.name()).args(words);
        command
    }

    /// A command that runs `true` in a container of its own.
    fn fresh(&self) -> Command {
        self.container(&["--rm"], &["/bin/true"])
    }

    /// A command that runs `true` in the container that runs.
    fn running(&self) -> Command {
        let mut command = self.client();
        command.args(["exec", self.name(), "/bin/true"]);
        command
    }

    /// A command that copies a file out of the container that runs, or into it.
    fn copy(&self, from: &str, to: &str) -> Command {
        let mut command = self.client();
        command.args(["cp", from, to]);
        command
    }
}
