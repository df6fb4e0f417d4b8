//! What `cofferdam setup` installs, installed once for all tests and kept below `target`.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use cofferdam_setup::{Found, Host, Origin, Part, Recipe, Setup, TimeLimits, found};

/// A prefix in which every part is.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// Where it is.
    pub prefix: PathBuf,
    /// What is in it.
    pub found: Found,
}

impl SetUp {
    /// The prefix, made when it is first asked for: that takes a minute and half a gigabyte.
    ///
    /// # Errors
    /// When there is no Python with `venv` or no npm, or their registries cannot be reached.
    pub fn for_tests() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
        let prefix = target.join("set-up").join("prefix");
        let host = Host::here(std::env::var_os("PATH").as_ref());
        let (limits, stop) = (TimeLimits::default(), AtomicBool::new(false));
        let setup = Setup { prefix: &prefix, host: &host, limits, stop: &stop };
        let recipes: Result<Vec<Recipe>, _> = Part::ALL.into_iter().map(Recipe::of).collect();
        // Two tests at once install it once: the set-up sees to that.
        recipes.and_then(|recipes| setup.install(&recipes, &mut |_| {})).map_err(|error| {
            let help = error.help().unwrap_or_default();
            io::Error::other(format!("{error}\nhelp: {help}"))
        })?;
        let found = found(&prefix, &host);
        Ok(Self { prefix, found })
    }

    /// The directories that a sandbox has to see for code cells.
    #[must_use]
    pub fn parts(&self) -> Vec<PathBuf> {
        let programs = [&self.found.python, &self.found.deno];
        let place = |origin: &Origin| match origin {
            Origin::Prefix(place) => Some(place.clone()),
            Origin::Host => None,
        };
        programs.into_iter().flatten().filter_map(|program| place(&program.origin)).collect()
    }

    /// A Python that has `nbformat`.
    ///
    /// # Errors
    /// When the prefix has none.
    pub fn python(&self) -> io::Result<PathBuf> {
        let python = self.found.python.as_ref().map(|program| program.path.clone());
        python.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
