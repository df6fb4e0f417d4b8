//! What a part consists of: the files that pin its packages.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::error::SetupError;

const PYTHON: &str = include_str!("../requirements/python.txt");
const CONSTRAINTS: &str = include_str!("../requirements/python-constraints.txt");

/// The package of the viewer.
pub(crate) const VIEWER: &str = "@novnc/novnc";

/// How a part is made. Another number makes all of them anew.
const EDITION: &str = "1";

/// What can be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Python's kernel, matplotlib and JupyterLab.
    Python,
    /// Deno, which is its own kernel.
    TypeScript,
    /// noVNC, which shows desktops on the server's page.
    Viewer,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 3] = [Self::Python, Self::TypeScript, Self::Viewer];

    /// What it is, in short.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Python => "a kernel for Python, matplotlib, JupyterLab",
            Self::TypeScript => "Deno, a kernel for TypeScript",
            Self::Viewer => "noVNC, which shows the desktop on a page",
        }
    }

    /// What its directories' names begin with.
    pub(crate) fn stem(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "node",
            Self::Viewer => "viewer",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::Viewer => "viewer",
        })
    }
}

/// There is no part of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no part {name:?}, only {}", Part::ALL.map(|part| part.to_string()).join(", "))]
pub struct UnknownPart {
    name: String,
}

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(name: &str) -> Result<Self, UnknownPart> {
        let named = Self::ALL.into_iter().find(|part| part.to_string() == name);
        named.ok_or_else(|| UnknownPart { name: name.to_owned() })
    }
}

/// What is to be installed for a part, to the last version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub(crate) part: Part,
    /// Files that name the packages.
    pub(crate) files: Vec<(&'static str, String)>,
    /// What has to work afterwards: Python's modules, or a package of npm.
    pub(crate) needs: Vec<String>,
}

impl Recipe {
    /// What the product needs for a part on this machine.
    ///
    /// # Errors
    /// When there is no such part for this kind of processor.
    pub fn of(part: Part) -> Result<Self, SetupError> {
        match part {
            Part::Python => {
                Ok(Self::python(PYTHON, &["ipykernel", "jupyterlab", "matplotlib.figure"]))
            }
            Part::TypeScript => Self::typescript(std::env::consts::ARCH),
            Part::Viewer => Ok(Self::viewer()),
        }
    }

    /// Other packages for Python: lines of a requirements file, and modules that they bring. What
    /// these need in turn has the product's versions where the product has some.
    #[must_use]
    pub fn python(requirements: &str, modules: &[&str]) -> Self {
        let files = vec![
            ("requirements.txt", requirements.to_owned()),
            ("constraints.txt", CONSTRAINTS.to_owned()),
        ];
        let needs = modules.iter().map(|module| (*module).to_owned()).collect();
        Self { part: Part::Python, files, needs }
    }

    fn typescript(processor: &'static str) -> Result<Self, SetupError> {
        // The package of the processor, not the one called `deno`: that one is a script that
        // needs Node to find it.
        let (package, lock, needs) = match processor {
            "x86_64" => (
                include_str!("../requirements/typescript/x86_64/package.json"),
                include_str!("../requirements/typescript/x86_64/package-lock.json"),
                "@deno/linux-x64-glibc",
            ),
            "aarch64" => (
                include_str!("../requirements/typescript/aarch64/package.json"),
                include_str!("../requirements/typescript/aarch64/package-lock.json"),
                "@deno/linux-arm64-glibc",
            ),
            _ => return Err(SetupError::Processor { processor }),
        };
        let files =
            vec![("package.json", package.to_owned()), ("package-lock.json", lock.to_owned())];
        Ok(Self { part: Part::TypeScript, files, needs: vec![needs.to_owned()] })
    }

    fn viewer() -> Self {
        let package = include_str!("../requirements/viewer/package.json");
        let lock = include_str!("../requirements/viewer/package-lock.json");
        let files =
            vec![("package.json", package.to_owned()), ("package-lock.json", lock.to_owned())];
        Self { part: Part::Viewer, files, needs: vec![VIEWER.to_owned()] }
    }

    /// Which part it is.
    #[must_use]
    pub fn part(&self) -> Part {
        self.part
    }

    /// The files that name its packages: each with its name and text.
    #[must_use]
    pub fn files(&self) -> &[(&'static str, String)] {
        &self.files
    }

    /// What has to work afterwards: Python's modules, or a package of npm.
    #[must_use]
    pub fn needs(&self) -> &[String] {
        &self.needs
    }

    /// The name of its directory, with the interpreter that it is made for: another Python
    /// cannot use it.
    pub(crate) fn directory(&self, interpreter: Option<&Path>) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            // Lengths keep one file's end apart from the next one's beginning.
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(EDITION.as_bytes());
        for (name, text) in &self.files {
            add(name.as_bytes());
            add(text.as_bytes());
        }
        if let Some(interpreter) = interpreter {
            add(interpreter.as_os_str().as_encoded_bytes());
        }
        let digits: String =
            hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{digits}", self.part.stem())
    }
}

/// The part that a directory of the prefix is of, by its name.
pub(crate) fn part_of(directory: &str) -> Option<Part> {
    let (stem, digits) = directory.split_once('-')?;
    let is_digits = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    Part::ALL.into_iter().find(|part| part.stem() == stem && is_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_pinned_and_no_file_says_where_packages_come_from() {
        let lines = PYTHON.lines().chain(CONSTRAINTS.lines());
        for line in lines.filter(|line| !line.starts_with('#')) {
            assert!(
                line.split_once("==").is_some_and(|(_, version)| !version.is_empty()),
                "{line}"
            );
        }
        for line in PYTHON.lines().filter(|line| !line.starts_with('#')) {
            assert!(CONSTRAINTS.lines().any(|other| other == line), "{line}");
        }
        for processor in ["x86_64", "aarch64"] {
            let recipe = Recipe::typescript(processor).unwrap();
            for (name, text) in &recipe.files {
                assert!(text.contains(&recipe.needs[0]) && text.contains("2.9.6"), "{name}");
                assert!(!text.contains("http") && !text.contains("resolved"), "{name}");
            }
        }
        let viewer = Recipe::viewer();
        for (name, text) in &viewer.files {
            assert!(text.contains(VIEWER) && text.contains("1.7.0"), "{name}");
            assert!(!text.contains("http") && !text.contains("resolved"), "{name}");
        }
        assert!(matches!(Recipe::typescript("mips"), Err(SetupError::Processor { .. })));
    }

    #[test]
    fn a_part_is_found_by_its_name() {
        for part in Part::ALL {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        let unknown = "perl".parse::<Part>().unwrap_err().to_string();
        assert!(unknown.starts_with("there is no part \"perl\", only python, "), "{unknown}");
    }

    #[test]
    fn a_directory_is_named_by_what_is_in_it_and_by_its_interpreter() {
        let name = |text, path| Recipe::python(text, &[]).directory(Some(Path::new(path)));
        let first = name("a==1", "/usr/bin/python3.11");
        assert_eq!(first, name("a==1", "/usr/bin/python3.11"));
        assert_ne!(first, name("a==2", "/usr/bin/python3.11"));
        assert_ne!(first, name("a==1", "/usr/bin/python3.12"));
        assert_eq!(part_of(&first), Some(Part::Python));
        for name in ["python-", "python-1", "node-../../../../x", ".lock", "other-0123456789abcdef"]
        {
            assert_eq!(part_of(name), None, "{name}");
        }
    }
}
