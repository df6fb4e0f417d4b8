//! What a task needs: its Python and its packages, from options and from files of its workspace,
//! as a definition. The same needs are the same image, and that is made once.
//!
//! A workspace is anybody's: its files are read within it and up to a size, and every word of
//! them has to be a name.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use serde::Deserialize;

use crate::definition::Definition;
use crate::entries::shown;
use crate::error::ImageError;
use crate::requirement::{debian_package, python_version, requirement};

/// The release that images of tasks are made of, unless they extend another's.
const SUITE: &str = "bookworm";

/// Where a task's own modules are.
const WORKSPACE: &str = "/workspace";

/// The largest file that is read.
pub const LARGEST: u64 = 256 << 10;

/// Files of a workspace that say what it needs.
const REQUIREMENTS: &str = "requirements.txt";
const PROJECT: &str = "pyproject.toml";
const PYTHON: &str = ".python-version";
const PACKAGES: &str = "apt.txt";

/// What the names of images begin with that are made of what a task needs.
const OF_A_TASK: &str = "job-";

/// All of them.
pub const FILES: [&str; 4] = [REQUIREMENTS, PROJECT, PYTHON, PACKAGES];

/// What a task needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    python: Option<String>,
    apt: BTreeSet<String>,
    pip: BTreeSet<String>,
}

impl Needs {
    /// What options ask for.
    ///
    /// # Errors
    /// With the first word that is no version or name.
    pub fn new(python: Option<&str>, apt: &[String], pip: &[String]) -> Result<Self, ImageError> {
        let mut needs = Self::default();
        if let Some(text) = python {
            needs.python = Some(checked("--python", text, python_version)?);
        }
        for text in apt {
            needs.apt.insert(checked("--apt", text, debian_package)?);
        }
        for text in pip {
            needs.pip.insert(checked("--pip", text, requirement)?);
        }
        Ok(needs)
    }

    /// What the files of a workspace ask for: `requirements.txt`, the dependencies in
    /// `pyproject.toml`, `.python-version`, and `apt.txt` with a package of Debian's on each line.
    ///
    /// # Errors
    /// When one of them cannot be read, or has something in it that is no name or version.
    pub fn of_workspace(directory: &Path) -> Result<Self, ImageError> {
        let mut needs = Self::default();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, directory, flags, Mode::empty())
            .map_err(|error| unusable(&directory.display().to_string(), "opened", error))?;
        needs.read(|name| read(&opened, name))?;
        Ok(needs)
    }

    /// What files ask for that are not in a directory, or not yet: by the names in [`FILES`].
    ///
    /// # Errors
    /// When one of them has something in it that is no name or version.
    pub fn of_files(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, ImageError> {
        let mut needs = Self::default();
        needs.read(|name| match files.get(name) {
            Some(bytes) if bytes.len() as u64 > LARGEST => Err(wrong(name, "it is too large")),
            Some(bytes) => {
                let text = String::from_utf8(bytes.clone());
                text.map(Some).map_err(|_| wrong(name, "it is no text"))
            }
            None => Ok(None),
        })?;
        Ok(needs)
    }

    fn read(
        &mut self,
        read: impl Fn(&'static str) -> Result<Option<String>, ImageError>,
    ) -> Result<(), ImageError> {
        if let Some(text) = read(REQUIREMENTS)? {
            for (number, line) in requirements(&text) {
                let of = format!("{REQUIREMENTS}, line {number}");
                self.pip.insert(checked(&of, &line, requirement)?);
            }
        }
        if let Some(text) = read(PROJECT)? {
            for word in dependencies(&text)? {
                self.pip.insert(checked(PROJECT, &word, requirement)?);
            }
        }
        if let Some(text) = read(PACKAGES)? {
            for (number, line) in lines(&text) {
                let of = format!("{PACKAGES}, line {number}");
                self.apt.insert(checked(&of, line, debian_package)?);
            }
        }
        if let Some(text) = read(PYTHON)?
            && let Some((_, line)) = lines(&text).next()
        {
            self.python = Some(checked(PYTHON, line, python_version)?);
        }
        Ok(())
    }

    /// These and others; of two Pythons the other one.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.python = others.python.or(self.python);
        self.apt.extend(others.apt);
        self.pip.extend(others.pip);
        self
    }

    /// Whether nothing is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// An image that has what is needed, and little else.
    ///
    /// # Errors
    /// When there is too much of it.
    pub fn definition(&self) -> Result<Definition, ImageError> {
        let lean = Definition {
            name: String::new(),
            suite: SUITE.to_owned(),
            python: None,
            parts: Vec::new(),
            apt: ["ca-certificates", "git"].map(str::to_owned).to_vec(),
            pip: Vec::new(),
            npm: Vec::new(),
            env: BTreeMap::new(),
        };
        self.extending(lean)
    }

    /// The image of a task: the agent image, with what is needed besides.
    ///
    /// # Errors
    /// When there is too much of it.
    pub fn on_agent(&self) -> Result<Definition, ImageError> {
        let agent = Definition::agent()?;
        if self.is_empty() { Ok(agent) } else { self.extending(agent) }
    }

    /// An image that has what is needed besides all that another one has.
    ///
    /// # Errors
    /// When there is too much of it.
    pub fn extending(&self, other: Definition) -> Result<Definition, ImageError> {
        let mut definition = other;
        definition.python = self.python.clone().or(definition.python);
        if definition.python.is_none() && !definition.apt.iter().any(|word| word == "python3") {
            definition.apt.push("python3".to_owned());
        }
        for (list, more) in [(&mut definition.apt, &self.apt), (&mut definition.pip, &self.pip)] {
            let all: BTreeSet<String> = list.drain(..).chain(more.iter().cloned()).collect();
            list.extend(all);
        }
        definition.env.insert("PYTHONPATH".to_owned(), WORKSPACE.to_owned());
        definition.name = "job".to_owned();
        // A name of its own, so that images of other tasks keep theirs.
        let key = definition.key("needs")?;
        definition.name = format!("{OF_A_TASK}{}", key.short());
        definition.check()?;
        Ok(definition)
    }
}

/// Whether an image was given its name because a task needed it, and by nobody.
pub(crate) fn is_of_a_task(name: &str) -> bool {
    let digits = |rest: &str| rest.len() == 12 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.strip_prefix(OF_A_TASK).is_some_and(digits)
}

fn checked(
    of: &str,
    text: &str,
    rule: fn(&str) -> Result<String, &'static str>,
) -> Result<String, ImageError> {
    rule(text).map_err(|why| {
        let reason = format!("{} {why}", shown(text.as_bytes()));
        ImageError::Definition { of: Some(of.to_owned()), reason }
    })
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// Lines of a requirements file: those that go on are put together, comments begin at a space.
fn requirements(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut begun: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        let (first, mut whole) = begun.take().unwrap_or((at + 1, String::new()));
        let comment = line.char_indices().find(|(at, letter)| {
            let before = at.checked_sub(1).and_then(|before| line.as_bytes().get(before));
            *letter == '#' && before.is_none_or(u8::is_ascii_whitespace)
        });
        let line = comment.and_then(|(at, _)| line.get(..at)).unwrap_or(line);
        match line.trim_end().strip_suffix('\\') {
            Some(line) => {
                whole.push_str(line);
                begun = Some((first, whole));
            }
            None => {
                whole.push_str(line);
                found.push((first, whole.trim().to_owned()));
            }
        }
    }
    found.extend(begun.map(|(at, line)| (at, line.trim().to_owned())));
    found.retain(|(_, line)| !line.is_empty());
    found
}

/// The dependencies that a project names.
fn dependencies(text: &str) -> Result<Vec<String>, ImageError> {
    #[derive(Deserialize)]
    struct File {
        project: Option<Project>,
    }
    #[derive(Deserialize)]
    struct Project {
        #[serde(default)]
        dependencies: Vec<String>,
    }
    let file: File = toml::from_str(text).map_err(|error| ImageError::Definition {
        of: Some(PROJECT.to_owned()),
        reason: shown(error.message().as_bytes()),
    })?;
    Ok(file.project.map(|project| project.dependencies).unwrap_or_default())
}

/// A file of a workspace, if it is there. Links may lead to another file of the workspace, and
/// nowhere else.
fn read(workspace: &OwnedFd, name: &'static str) -> Result<Option<String>, ImageError> {
    let wrong = |reason| wrong(name, reason);
    // Nobody waits for the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(workspace, name, flags, Mode::empty(), resolve) {
        Ok(file) => std::fs::File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::XDEV | rustix::io::Errno::LOOP) => {
            return Err(wrong("it is a link that leads out of the workspace"));
        }
        Err(error) => return Err(unusable(name, "opened", error)),
    };
    let about = file.metadata().map_err(|error| unusable(name, "looked at", error))?;
    if !about.is_file() {
        return Err(wrong("it is no file"));
    }
    let mut text = String::new();
    match file.take(LARGEST + 1).read_to_string(&mut text) {
        Ok(_) if text.len() as u64 > LARGEST => Err(wrong("it is too large")),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(wrong("it is no text"))
        }
        Err(error) => Err(unusable(name, "read", error)),
    }
}

fn wrong(name: &str, reason: &str) -> ImageError {
    ImageError::Definition { of: Some(name.to_owned()), reason: reason.to_owned() }
}

/// What is wrong with a task's file or directory is no fault of the place for images.
fn unusable(of: &str, how: &str, error: impl std::fmt::Display) -> ImageError {
    let reason = format!("it cannot be {how}: {error}");
    ImageError::Definition { of: Some(of.to_owned()), reason }
}

#[cfg(test)]
#[path = "needs_tests.rs"]
mod tests;
