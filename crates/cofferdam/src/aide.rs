//! The aide, kept where sandboxes can see it, with what was set up for code cells.

use std::path::{Path, PathBuf};

use cofferdam_embedded::{AIDE, copy};
use cofferdam_runtime::Aide;
use cofferdam_setup::{Host, Origin, found, prefix_in};

/// The aide of a home; `None` where no copy of it can be kept, so that there are no code
/// cells.
pub(crate) fn find(home: &Path) -> Option<Aide> {
    Shelf::keep(home, home).map(|shelf| shelf.aide())
}

/// Where the modules of noVNC are in a prefix, if they are.
pub(crate) fn viewer(prefix: &Path) -> Option<PathBuf> {
    let host = Host::here(std::env::var_os("PATH").as_ref());
    found(prefix, &host).viewer_directory().map(Path::to_owned)
}

/// The aide as a file, and the home in which what it uses is set up.
pub(crate) struct Shelf {
    program: PathBuf,
    home: PathBuf,
}

impl Shelf {
    /// Keeps the aide in `place`, for what is set up in `home`; `None` where it cannot be
    /// kept.
    pub(crate) fn keep(place: &Path, home: &Path) -> Option<Self> {
        let shelf = place.join("programs");
        let program = match copy::find(&shelf, &AIDE) {
            Ok(Some(_)) => shelf.join(AIDE.name),
            _ => copy::keep(&shelf, 0o755, &AIDE)
                .inspect_err(|error| tracing::warn!(%error, "the aide cannot be kept"))
                .ok()?,
        };
        Some(Self { program, home: home.to_owned() })
    }

    /// The aide with what is set up at this moment: a server need not be started anew for it.
    pub(crate) fn aide(&self) -> Aide {
        let host = Host::here(std::env::var_os("PATH").as_ref());
        let found = found(&prefix_in(&self.home), &host);
        let mut parts = Vec::new();
        for program in [found.python, found.lab, found.deno].into_iter().flatten() {
            if let Origin::Prefix(place) = program.origin
                && !parts.contains(&place)
            {
                parts.push(place);
            }
        }
        Aide::new(self.program.clone(), parts)
    }
}
