//! What code cells can be run with: what was set up, else what the machine has.

use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::install::directory;
use crate::place::{self, is_there};
use crate::prefix;
use crate::recipe::{Part, Recipe};

/// Programs for code cells. `None`: not there, and `cofferdam setup` brings it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// A Python that has ipykernel.
    pub python: Option<Program>,
    /// JupyterLab.
    pub lab: Option<Program>,
    /// Deno.
    pub deno: Option<Program>,
    /// noVNC: its first module. The server gives it to browsers; no sandbox needs it.
    pub viewer: Option<Program>,
}

impl Found {
    /// The program that a part is used through.
    #[must_use]
    pub fn of(&self, part: Part) -> Option<&Program> {
        match part {
            Part::Python => self.python.as_ref(),
            Part::TypeScript => self.deno.as_ref(),
            Part::Viewer => self.viewer.as_ref(),
        }
    }

    /// The directory of the viewer's modules.
    #[must_use]
    pub fn viewer_directory(&self) -> Option<&Path> {
        self.viewer.as_ref()?.path.ancestors().nth(2)
    }
}

/// A program that can be run in sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// What a sandbox has to see for it.
    pub origin: Origin,
}

/// Where a program comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A part of the prefix: this directory has to be readable in the sandbox, under this path.
    Prefix(PathBuf),
    /// The machine, whose programs every sandbox sees.
    Host,
}

/// Looks for programs: in the prefix, then among those of the machine that sandboxes see. It
/// reads directories and starts nothing.
#[must_use]
pub fn found(prefix: &Path, host: &Host) -> Found {
    let parts = parts(prefix, host);
    // An older product's part is better than none.
    let in_prefix = |part: Part, program: Option<&str>, has: &dyn Fn(&Path) -> bool| {
        let parts = parts.iter().filter(|(other, _)| *other == part);
        parts
            .map(|(_, place)| {
                let usual = || place::program(part, place);
                (place, program.map_or_else(usual, |program| place.join(program)))
            })
            .find(|(place, path)| is_there(part, path) && has(place))
            .map(|(place, path)| Program { path, origin: Origin::Prefix(place.clone()) })
    };
    let on_host = |path: PathBuf| Program { path, origin: Origin::Host };
    let kernel = |place: &Path| environment_has(place, "ipykernel");
    let any = |_: &Path| true;
    Found {
        python: in_prefix(Part::Python, None, &kernel).or_else(|| {
            let python = host.shown_program("python3");
            python.filter(|python| machine_has(python, "ipykernel")).map(on_host)
        }),
        lab: in_prefix(Part::Python, Some("bin/jupyter-lab"), &any)
            .or_else(|| host.shown_program("jupyter-lab").map(on_host)),
        deno: in_prefix(Part::TypeScript, None, &any)
            .or_else(|| host.shown_program("deno").map(on_host)),
        viewer: in_prefix(Part::Viewer, None, &any),
    }
}

/// The parts of a prefix that are whole: this product's first, then the newest.
fn parts(prefix: &Path, host: &Host) -> Vec<(Part, PathBuf)> {
    let own = |part| Recipe::of(part).and_then(|recipe| directory(&recipe, host)).ok();
    let own: Vec<String> = Part::ALL.into_iter().filter_map(own).collect();
    let mut parts = prefix::places(prefix);
    parts.retain(|(part, place)| place::is_ready(*part, place));
    parts.sort_by_cached_key(|(_, place)| {
        let is_own = own.iter().any(|name| place.ends_with(name));
        let made = place.metadata().and_then(|about| about.modified()).ok();
        std::cmp::Reverse((is_own, made))
    });
    parts
}

/// Whether an environment has a module.
fn environment_has(place: &Path, module: &str) -> bool {
    let libraries = place.join("lib").read_dir().into_iter().flatten().filter_map(Result::ok);
    libraries.into_iter().any(|library| library.path().join("site-packages").join(module).is_dir())
}

/// Whether the machine's Python has a module, in one of the places that it looks in.
fn machine_has(python: &Path, module: &str) -> bool {
    let Ok(real) = python.canonicalize() else { return false };
    let (Some(base), Some(name)) = (real.ancestors().nth(2), real.file_name()) else {
        return false;
    };
    let library = |base: &Path, of: &Path| {
        ["site-packages", "dist-packages"]
            .iter()
            .any(|packages| base.join("lib").join(of).join(packages).join(module).is_dir())
    };
    library(base, Path::new(name))
        || library(base, Path::new("python3"))
        || library(&base.join("local"), Path::new(name))
}
