//! Where the programs of the product make sandboxes: its files, the back ends of this machine, and
//! images by name.

mod images;
pub mod open_files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_sandbox::Backend;
use cofferdam_sandbox_native::Native;
use cofferdam_sandbox_oci::Kind;

use crate::images::WithImages;

pub use cofferdam_sandbox_native::heed_children;

/// Where a program of the product makes sandboxes.
pub struct Ground {
    /// Where the product keeps its files.
    pub home: PathBuf,
    native: Arc<Native>,
}

impl Ground {
    /// The one that this process's variables name.
    ///
    /// # Errors
    /// When they name none.
    pub fn find() -> Result<Self, String> {
        let home = home(|name| std::env::var_os(name).filter(|value| !value.is_empty()))?;
        let native = Arc::new(Native::new(home.join("sandboxes")));
        Ok(Self { home, native })
    }

    /// Begins with the supervisor of the sandbox that is about to be asked for. For programs
    /// that have done nothing else yet.
    pub fn hurry(&self) {
        self.native.prepare_by_fork();
    }

    /// The back ends, in order of preference.
    #[must_use]
    pub fn backends(&self) -> Vec<Arc<dyn Backend>> {
        all(Arc::<Native>::clone(&self.native), &self.home, 0, &self.home)
    }
}

/// The back ends of a server that keeps its files in `data`, with the images of `home`. Each has so
/// many sandboxes as good as begun, once it was used.
#[must_use]
pub fn keeping_warm(waiting: usize, data: &Path, home: &Path) -> Vec<Arc<dyn Backend>> {
    let native = Native::new(data.join("sandboxes")).keeping_warm(waiting);
    all(Arc::new(native), data, waiting, home)
}

fn all(
    native: Arc<dyn Backend>,
    data: &Path,
    waiting: usize,
    home: &Path,
) -> Vec<Arc<dyn Backend>> {
    let by_engine = |kind| -> Arc<dyn Backend> {
        let sandboxes = data.join("sandboxes");
        Arc::new(cofferdam_sandbox_oci::backend(kind, sandboxes).keeping_warm(waiting))
    };
    let backends = std::iter::once(native).chain(Kind::ALL.into_iter().map(by_engine));
    backends.map(|backend| WithImages::around(backend, home)).collect()
}

/// Where the product keeps its files: `COFFERDAM_HOME`, else the place that the
/// desktop convention names, else below the home directory.
fn home(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<PathBuf, String> {
    let home = match (variable("COFFERDAM_HOME"), variable("XDG_DATA_HOME"), variable("HOME")) {
        (Some(own), ..) => PathBuf::from(own),
        (None, Some(data), _) => PathBuf::from(data).join("cofferdam"),
        (None, None, Some(home)) => PathBuf::from(home).join(".local/share/cofferdam"),
        (None, None, None) => return Err("HOME is not set".to_owned()),
    };
    if home.is_absolute() {
        Ok(home)
    } else {
        Err(format!("{} is not an absolute path", home.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<PathBuf, String> {
        home(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_products_own_variable_wins() {
        let own = with(&[("COFFERDAM_HOME", "/a"), ("XDG_DATA_HOME", "/b"), ("HOME", "/c")]);
        assert_eq!(own.unwrap(), Path::new("/a"));
        assert_eq!(
            with(&[("XDG_DATA_HOME", "/b"), ("HOME", "/c")]).unwrap(),
            Path::new("/b/cofferdam")
        );
        assert_eq!(with(&[("HOME", "/c")]).unwrap(), Path::new("/c/.local/share/cofferdam"));
    }

    #[test]
    fn no_home_and_a_relative_one_are_refused() {
        assert!(with(&[]).is_err());
        assert!(with(&[("COFFERDAM_HOME", "here")]).unwrap_err().contains("absolute"));
    }
}
