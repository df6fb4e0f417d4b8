//! The options of every command that makes a sandbox, the same everywhere.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cofferdam_config::SandboxFlags;
use cofferdam_images::is_name;
use cofferdam_sandbox::{AUTO, Grade, Root};
use cofferdam_types::{Limits, Network, parse_bytes, parse_cpus, parse_memory};

/// A variable and its value.
pub(crate) type Variable = (Vec<u8>, Vec<u8>);

/// Options of a sandbox.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct SandboxOptions {
    /// Memory of all its processes together, temporary files included
    /// [default: 2G]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// CPUs it may use [default: 2]
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    cpus: Option<u32>,
    /// Processes and threads alive at once [default: 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    pids: Option<u32>,
    /// What the workspace may grow by [default: 2G]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    disk: Option<u64>,
    /// Files and directories the workspace may grow by [default: 200000]
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,
    /// Files one process may have open [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(32..))]
    open_files: Option<u32>,
    /// What it may reach: none, open, or allow:HOST[:PORT],… [default: none]
    #[arg(long, value_name = "NETWORK")]
    network: Option<Network>,
    /// A variable for its commands; without =VALUE, your own. A job keeps it in its
    /// log
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// A directory of yours that may be read, at the same path
    #[arg(long, value_name = "DIR")]
    read: Vec<PathBuf>,
    /// The image whose programs are used in place of this machine's: its name; `task`
    /// for one with what the workspace's own files ask for, made if it is not there; or
    /// a directory with a root file system if there is a slash in it
    #[arg(long, value_name = "NAME|DIR", conflicts_with = "read", value_parser = image)]
    image: Option<PathBuf>,
    /// The back end [default: auto]
    #[arg(long, value_name = "NAME")]
    sandbox: Option<String>,
    /// Refuse to run with less isolation than this [default: contained]
    #[arg(long, value_name = "GRADE")]
    require: Option<RequiredGrade>,
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
    /// The back end's name.
    pub(crate) fn backend(&self) -> &str {
        self.sandbox.as_deref().unwrap_or(AUTO)
    }

    /// What was asked for, for the layers of the configuration.
    pub(crate) fn flags(&self) -> SandboxFlags {
        SandboxFlags {
            backend: self.sandbox.clone(),
            require: self.require.map(|grade| Grade::from(grade).to_string()),
            image: self.image.clone(),
            memory: self.memory,
            milli_cpus: self.cpus,
            pids: self.pids,
            disk: self.disk,
            inodes: self.inodes,
            open_files: self.open_files,
            wall_time: None,
            network: self.network.clone(),
        }
    }

    /// What may be used inside.
    pub(crate) fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.memory.unwrap_or(usual.memory),
            milli_cpus: self.cpus.unwrap_or(usual.milli_cpus),
            pids: self.pids.unwrap_or(usual.pids),
            disk: self.disk.unwrap_or(usual.disk),
            inodes: self.inodes.unwrap_or(usual.inodes),
            open_files: self.open_files.unwrap_or(usual.open_files),
            ..usual
        }
    }

    /// What may be reached from inside.
    pub(crate) fn network(&self) -> Network {
        self.network.clone().unwrap_or(Network::None)
    }

    /// The least isolation that will do.
    pub(crate) fn required(&self) -> Grade {
        self.require.map_or(Grade::Contained, Grade::from)
    }

    /// Directories that can be read.
    pub(crate) fn readable(&self) -> Vec<PathBuf> {
        self.read.clone()
    }

    /// What the programs inside are.
    pub(crate) fn root(&self) -> Root {
        match &self.image {
            Some(image) => Root::Image { directory: image.clone(), readable: Vec::new() },
            None => Root::Host { readable: self.read.clone() },
        }
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

/// An image by its name, or the whole path of a directory: a job may go on elsewhere.
fn image(word: &str) -> Result<PathBuf, String> {
    match word.contains('/') {
        true => std::path::absolute(word).map_err(|error| error.to_string()),
        false if is_name(word) => Ok(word.into()),
        false => Err(format!(
            "no image has such a name (small letters, digits, dots, dashes); a directory is \
             named with a slash in it: ./{word}"
        )),
    }
}

impl From<RequiredGrade> for Grade {
    fn from(required: RequiredGrade) -> Self {
        match required {
            RequiredGrade::Contained => Self::Contained,
            RequiredGrade::Bounded => Self::Bounded,
            RequiredGrade::Virtual => Self::Virtual,
        }
    }
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
        let options = parse(&[]).unwrap();
        assert_eq!(options.limits(), Limits::default());
        assert_eq!(options.network(), Network::None);
        assert_eq!((options.backend(), options.required()), ("auto", Grade::Contained));
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        let limits =
            parse(&["--memory", "512M", "--cpus", "0.5", "--disk", "1G"]).unwrap().limits();
        assert_eq!((limits.memory, limits.milli_cpus), (512 << 20, 500));
        assert_eq!(limits.disk, 1 << 30);
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        for (words, reason) in [
            (["--memory", "lots"], "a size such as 512M"),
            (["--cpus", "0"], "a number of CPUs"),
            (["--network", "maybe"], "use none, open or allow:"),
            (["--pids", "1"], "4.."),
            (["--memory", "64K"], "less than 4M"),
        ] {
            let error = parse(&words).unwrap_err();
            assert!(error.contains(reason), "{words:?}: {error}");
        }
    }

    #[test]
    fn an_image_is_a_name_or_a_directory() {
        let image = |word: &str| parse(&["--image", word]).map(|options| options.flags().image);
        assert_eq!(image("agent").unwrap(), Some("agent".into()));
        assert_eq!(image("/srv/root").unwrap(), Some("/srv/root".into()));
        assert!(image("./root").unwrap().unwrap().is_absolute());
        assert!(image("Root").unwrap_err().contains("./Root"));
        assert!(image("..").is_err());
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
