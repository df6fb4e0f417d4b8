//! The product as one binary: the adapters, wired to the command line.

mod aide;
mod images;
mod indexes;
mod models;
mod open_files;
mod outfit;
mod serve;
mod task_image;
mod telemetry;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cofferdam_cli::{ModelMaker, Product};
use cofferdam_sandbox::Backend;
use cofferdam_sandbox_native::{Native, heed_children};
use cofferdam_sandbox_oci::Kind;

use crate::indexes::SqliteIndexes;
use crate::models::Adapters;
use crate::serve::Servers;

fn main() -> ExitCode {
    // Whoever starts us may ignore what becomes of children; we do not. It cannot fail, and
    // whoever waits in vain is told.
    heed_children().ok();
    let home = home(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
    let native = home.as_ref().map(|home| Arc::new(Native::new(home.join("sandboxes"))));
    if let Ok(native) = &native
        && std::env::args_os().nth(1).is_some_and(|verb| verb == "exec")
    {
        native.prepare_by_fork();
    }
    cofferdam_cli::main(|| {
        // What does without more is done without; a server warns of it.
        open_files::raise().ok();
        let mut backends: Vec<Arc<dyn Backend>> = vec![native.map_err(String::clone)?];
        backends.extend(containers(&home.clone()?, 0));
        let backends = with_images(backends, &home.clone()?);
        let models: Arc<dyn ModelMaker> = Arc::new(Adapters);
        let home = home.clone()?;
        let server = Box::new(Servers { models: Arc::clone(&models), home: home.clone() });
        let indexes = Arc::new(SqliteIndexes);
        let aide = aide::find;
        Ok(Product { backends, models, indexes, server, aide, home })
    })
}

/// The back ends whose sandboxes container engines start, kept where the native ones are.
/// Each has so many containers waiting, once it was used.
pub(crate) fn containers(data: &Path, warm: usize) -> impl Iterator<Item = Arc<dyn Backend>> {
    let sandboxes = data.join("sandboxes");
    let backend =
        move |kind| cofferdam_sandbox_oci::backend(kind, sandboxes.clone()).keeping_warm(warm);
    Kind::ALL.into_iter().map(move |kind| Arc::new(backend(kind)) as Arc<dyn Backend>)
}

/// The same back ends, which know the images of a home by name.
pub(crate) fn with_images(
    backends: impl IntoIterator<Item = Arc<dyn Backend>>,
    home: &Path,
) -> Vec<Arc<dyn Backend>> {
    backends.into_iter().map(|backend| images::WithImages::around(backend, home)).collect()
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
