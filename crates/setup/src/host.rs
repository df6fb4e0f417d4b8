//! This machine's programs, and which of them sandboxes can see.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Directories of programs that can be run in sandboxes.
    pub shown: Vec<PathBuf>,
    /// What sandboxes see of the machine. A program that is a link to somewhere else is of no
    /// use to them.
    pub roots: Vec<PathBuf>,
    /// Directories of programs that can be run here, a user's own too.
    pub path: Vec<PathBuf>,
}

impl Host {
    /// This machine, with the directories that `PATH` has.
    #[must_use]
    pub fn here(path: Option<&OsString>) -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let shown = paths(&["/usr/local/bin", "/usr/bin", "/bin"]);
        let roots = paths(&["/usr", "/bin", "/sbin", "/opt", "/nix", "/gnu"]);
        // A relative directory would be another one in each place that programs are started in.
        let absolute = |path: &OsString| {
            std::env::split_paths(path).filter(|path| path.is_absolute()).collect()
        };
        let path = path.map(absolute).unwrap_or_else(|| shown.clone());
        Self { shown, roots, path }
    }

    /// A program that sandboxes can run.
    #[must_use]
    pub fn shown_program(&self, name: &str) -> Option<PathBuf> {
        self.shown.iter().map(|directory| directory.join(name)).find(|path| {
            let real = path.canonicalize().ok();
            is_program(path)
                && real.is_some_and(|real| self.roots.iter().any(|root| real.starts_with(root)))
        })
    }

    /// A program that can be run here.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.path.iter().map(|directory| directory.join(name)).find(|path| is_program(path))
    }

    /// The Python that environments are made of, as it is called after all links: that has its
    /// version in its name.
    #[must_use]
    pub fn python(&self) -> Option<PathBuf> {
        self.shown_program("python3")?.canonicalize().ok()
    }
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
