//! The edge: reads the files and hands them to [`check`].
//!
//! Files of the workspace are opened without following a link, never waited for
//! (one may be a pipe), and read to a bound.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::check::check;
use crate::error::ConfigError;
use crate::layers::{Flags, Layers, Text};
use crate::settings::Settings;

/// No configuration is larger.
const LARGEST: u64 = 1 << 20;

/// Where the layers are found.
#[derive(Clone)]
pub struct Sources {
    /// The variables of this process. `HOME` and `XDG_CONFIG_HOME` lead to the
    /// user's file.
    pub environment: BTreeMap<String, OsString>,
    /// The directory of the project's file and of `.env`: the one given as
    /// `--workspace`, or the current one.
    pub project: PathBuf,
    /// The options of the command line.
    pub flags: Flags,
}

impl Sources {
    /// This process's own. Variables whose names are not UTF-8 are none of ours.
    ///
    /// # Errors
    /// When the current directory is gone.
    pub fn of_this_process(flags: Flags) -> io::Result<Self> {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        let environment = std::env::vars_os().filter_map(named).collect();
        let current = std::env::current_dir()?;
        let project = flags.workspace.as_ref().map_or(current.clone(), |dir| current.join(dir));
        Ok(Self { environment, project, flags })
    }

    /// Where the user's file is, if anywhere. As XDG has it, a relative
    /// `XDG_CONFIG_HOME` does not count.
    #[must_use]
    pub fn user_file(&self) -> Option<PathBuf> {
        let directory = |name: &str| {
            let path = PathBuf::from(self.environment.get(name)?);
            path.is_absolute().then_some(path)
        };
        let above = directory("XDG_CONFIG_HOME")
            .or_else(|| directory("HOME").map(|home| home.join(".config")))?;
        Some(above.join("cofferdam/config.toml"))
    }
}

/// Reads every layer and checks it.
///
/// # Errors
/// When something of the user's own cannot be read or makes no sense. What lies in
/// the workspace can only cause warnings.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    let mut warnings = Vec::new();
    let user_file = match sources.user_file() {
        Some(path) => read_own(path)?,
        None => None,
    };
    if let Some(file) = &user_file {
        warn_if_inside(&file.path, &sources.project, &mut warnings);
    }
    let directory = open_directory(&sources.project).ok();
    let mut read = |name: &str| {
        let text = read_foreign(directory.as_ref()?, name);
        text.unwrap_or_else(|error| {
            warnings.push(format!("{name} is ignored: {error}"));
            None
        })
    };
    let layers = Layers {
        user_file,
        project_file: read(".cofferdam/config.toml"),
        dotenv: read(".env"),
        project: sources.project.clone(),
        environment: sources.environment.clone(),
        flags: sources.flags.clone(),
    };
    let mut settings = check(&layers, |path| {
        directory.as_ref().is_some_and(|directory| stays_inside(directory, path))
    })?;
    settings.warnings.splice(..0, warnings);
    Ok(settings)
}

fn read_own(path: PathBuf) -> Result<Option<Text>, ConfigError> {
    let failure = |source| ConfigError::Read { file: path.clone(), source };
    match File::open(&path).and_then(read_bounded) {
        Ok(text) => Ok(Some(Text { path, text })),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

/// Whoever may write the user's file can say where keys go. A job may write what
/// lies in its workspace.
fn warn_if_inside(file: &Path, project: &Path, warnings: &mut Vec<String>) {
    let inside = match (file.canonicalize(), project.canonicalize()) {
        (Ok(file), Ok(project)) => file.starts_with(project),
        _ => false,
    };
    if inside {
        warnings.push(format!(
            "{} lies in the workspace, so a job can change your settings; work in another directory",
            file.display()
        ));
    }
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// What may be opened below a directory: nothing outside it, nothing by a link.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

fn read_foreign(directory: &OwnedFd, name: &str) -> io::Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::openat2(directory, name, flags, Mode::empty(), INSIDE) {
        Ok(file) => read_bounded(File::from(file)).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::LOOP) => Err(io::Error::other("it is a link, or behind one")),
        Err(error) => Err(error.into()),
    }
}

fn read_bounded(file: File) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a path leads, without a link, to a directory beneath another one. What
/// is not there yet does, as far as the part that is there does.
fn stays_inside(directory: &OwnedFd, path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parts: Vec<Component<'_>> = path.components().collect();
    // From the whole path upwards, until something is there.
    for length in (1..=parts.len()).rev() {
        let path: PathBuf = parts.iter().take(length).collect();
        match rustix::fs::openat2(directory, &path, flags, Mode::empty(), INSIDE) {
            Ok(_) => return true,
            Err(Errno::NOENT) => {}
            Err(_) => return false,
        }
    }
    true
}
