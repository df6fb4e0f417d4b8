//! The options of every command that makes a sandbox, the same everywhere.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use cofferdam_sandbox::{Audit, Changes, Grade, Lifetime, Root, Spec, Workspace};
use cofferdam_types::{Limits, Network, SandboxId, parse_bytes, parse_cpus, parse_duration};

/// The least memory a sandbox can be made with.
const LEAST_MEMORY: u64 = 4 << 20;

/// A variable and its value.
pub(crate) type Variable = (Vec<u8>, Vec<u8>);

/// Options of a sandbox.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct SandboxOptions {
    /// Memory of all its processes together, temporary files included
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_memory)]
    memory: u64,
    /// CPUs it may use
    #[arg(long, value_name = "N", default_value = "2", value_parser = parse_cpus)]
    cpus: u32,
    /// Processes and threads alive at once
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    pids: u32,
    /// What the workspace may grow by
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_bytes)]
    disk: u64,
    /// Files and directories the workspace may grow by
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    inodes: u64,
    /// Files one process may have open
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(32..))]
    open_files: u32,
    /// End a command after this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// What it may reach: none, open, or allow:HOST[:PORT],…
    #[arg(long, value_name = "NETWORK", default_value = "none")]
    network: Network,
    /// The directory to work in; it gets the changes when the command has ended
    /// [default: an empty one, thrown away]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Where changes to --workspace are kept until then: on disk they survive
    /// whatever dies, in memory --disk limits them for ordinary users too
    #[arg(long, value_name = "PLACE", default_value = "disk")]
    changes: ChangesPlace,
    /// A variable for the command; without =VALUE, your own
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// A directory of yours that may be read, at the same path
    #[arg(long, value_name = "DIR")]
    read: Vec<PathBuf>,
    /// A directory with a root file system, in place of this machine's programs
    #[arg(long, value_name = "DIR", conflicts_with = "read")]
    image: Option<PathBuf>,
    /// The back end
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) sandbox: String,
    /// Refuse to run with less isolation than this
    #[arg(long, value_name = "GRADE", default_value = "contained")]
    require: RequiredGrade,
}

/// Where changes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChangesPlace {
    /// On the host's disk
    Disk,
    /// In memory
    Memory,
}

/// How strong the isolation must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RequiredGrade {
    /// Own namespaces and files, no capability, filtered system calls
    Contained,
    /// And limits that hold for the sandbox as a whole
    Bounded,
    /// And a kernel of its own
    Virtual,
}

impl SandboxOptions {
    /// The sandbox these options ask for.
    pub(crate) fn spec(&self, output: Option<u64>) -> Spec {
        Spec {
            id: SandboxId::generate(),
            limits: Limits {
                memory: self.memory,
                milli_cpus: self.cpus,
                pids: self.pids,
                disk: self.disk,
                inodes: self.inodes,
                open_files: self.open_files,
                wall_time: self.timeout,
                output,
            },
            network: self.network.clone(),
            workspace: match &self.workspace {
                Some(directory) => Workspace::Directory(directory.clone()),
                None => Workspace::Scratch,
            },
            changes: match self.changes {
                ChangesPlace::Disk => Changes::OnDisk,
                ChangesPlace::Memory => Changes::InMemory,
            },
            root: match &self.image {
                Some(image) => Root::Image(image.clone()),
                None => Root::Host { readable: self.read.clone() },
            },
            lifetime: Lifetime::Owned,
            audit: Audit::On,
            require: match self.require {
                RequiredGrade::Contained => Grade::Contained,
                RequiredGrade::Bounded => Grade::Bounded,
                RequiredGrade::Virtual => Grade::Virtual,
            },
        }
    }

    /// The directory to work in.
    pub(crate) fn workspace(&self) -> Option<&Path> {
        self.workspace.as_deref()
    }

    /// The variables for commands, as bytes: neither names nor values need be
    /// text. A name without a value takes it from `own`, and is left out where
    /// that has none.
    pub(crate) fn variables(
        &self,
        own: impl Fn(&OsStr) -> Option<OsString>,
    ) -> Result<Vec<Variable>, String> {
        let mut variables = Vec::new();
        for variable in &self.env {
            let bytes = variable.as_bytes();
            let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => {
                    let (name, value) = bytes.split_at(at);
                    (name, value.get(1..).map(<[u8]>::to_vec))
                }
                None => (bytes, own(variable).map(OsStringExt::into_vec)),
            };
            if name.is_empty() {
                return Err(format!("--env {variable:?} names no variable"));
            }
            if let Some(value) = value {
                variables.push((name.to_vec(), value));
            }
        }
        Ok(variables)
    }
}

/// A size that at least the sandbox's first process can live with.
fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    if bytes < LEAST_MEMORY {
        return Err(format!("nothing can run with less than {}M", LEAST_MEMORY >> 20));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Holder {
        #[command(flatten)]
        options: SandboxOptions,
    }

    fn parse(words: &[&str]) -> Result<SandboxOptions, String> {
        let words = std::iter::once(&"test").chain(words);
        Holder::try_parse_from(words).map(|holder| holder.options).map_err(|e| e.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_limits() {
        let spec = parse(&[]).unwrap().spec(None);
        assert_eq!(spec.limits, Limits::default());
        assert_eq!(spec.network, Network::None);
        assert!(matches!(spec.workspace, Workspace::Scratch));
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        let words = ["--memory", "512M", "--cpus", "0.5", "--disk", "1G", "--timeout", "90s"];
        let limits = parse(&words).unwrap().spec(None).limits;
        assert_eq!((limits.memory, limits.milli_cpus), (512 << 20, 500));
        assert_eq!(limits.disk, 1 << 30);
        assert_eq!(limits.wall_time, Some(Duration::from_secs(90)));
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        for (words, reason) in [
            (["--memory", "lots"], "a size such as 512M"),
            (["--cpus", "0"], "a number of CPUs"),
            (["--network", "maybe"], "use none, open or allow:"),
            (["--timeout", "soon"], "a time such as 60s"),
            (["--pids", "1"], "4.."),
            (["--memory", "64K"], "less than 4M"),
        ] {
            let error = parse(&words).unwrap_err();
            assert!(error.contains(reason), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_variable_without_a_value_is_the_callers_own() {
        let options = parse(&["--env", "A=1", "--env", "B", "--env", "C"]).unwrap();
        let own = |name: &OsStr| (name == "B").then(|| "mine".into());
        let variables = options.variables(own).unwrap();
        assert_eq!(variables, [("A".into(), "1".into()), ("B".into(), "mine".into())]);
        assert!(parse(&["--env", "=x"]).unwrap().variables(own).is_err());
    }
}
