//! Whose job is meant: one of `cofferdam run` here, or a server's.

use std::path::PathBuf;

use crate::problem::Problem;
use crate::remote::{Failed, NO_SERVER, Place, ServerOptions};
use crate::run::{History, NotFound};
use crate::{Product, exit};

/// The transcript of the job of this name, or of the last one; none if there is no such
/// transcript here, or if a server was named.
pub(crate) fn transcript(
    product: &Product,
    name: Option<&str>,
    server: &ServerOptions,
) -> Result<Option<PathBuf>, Failed> {
    if server.place() == Place::Named {
        return Ok(None);
    }
    let history = History::of(&product.home);
    match name.map_or_else(|| history.last(), |name| history.find(name)) {
        Ok(path) => Ok(Some(path)),
        // A server may know it.
        Err(NotFound::None) if name.is_some() => Ok(None),
        Err(error) => Err((Problem::job(name.unwrap_or_default(), &error), exit::USAGE)),
    }
}

/// What is told when a server was asked for a job that is not here: if nobody has spoken of
/// a server and there is none, there is no such job.
pub(crate) fn nowhere(failed: Failed, name: Option<&str>, server: &ServerOptions) -> Failed {
    if server.place() == Place::Usual && failed.0.code == NO_SERVER {
        return (Problem::job(name.unwrap_or_default(), &NotFound::None), exit::USAGE);
    }
    failed
}
