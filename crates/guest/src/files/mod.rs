//! File requests, carried out in a worker process.
//!
//! Everything is reached through descriptors, from the workspace's directory
//! down. No path leads out of it, by `..`, by link, or by a directory that is
//! exchanged for a link while it is walked.

mod beneath;
mod delete;
mod error;
mod ignored;
mod list;
mod pack;
mod read;
mod records;
mod resolve;
mod search;
mod unpack;
mod walk;
mod write;

use std::os::fd::BorrowedFd;

use cofferdam_guest_protocol::{FileError, FileReply, FileRequest};

use resolve::Workspace;

/// Carries out a request, with the call's input and output.
pub(crate) fn serve(
    request: &FileRequest,
    workspace: &[u8],
    input: BorrowedFd<'static>,
    output: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let workspace = Workspace::open(workspace)?;
    match request {
        FileRequest::Read { path, offset, limit } => {
            read::read(&workspace, path, *offset, *limit, output)
        }
        FileRequest::Stat { path } => read::stat(&workspace, path),
        FileRequest::Write { path, mode, permissions } => {
            write::write(&workspace, path, *mode, *permissions, input)
        }
        FileRequest::Replace { path, old, new, all, expected } => {
            write::replace(&workspace, path, &write::Change { old, new, all: *all }, *expected)
        }
        FileRequest::List { path, depth, limit } => {
            list::list(&workspace, path, *depth, *limit, output)
        }
        FileRequest::Glob { path, pattern, respect_ignore, limit } => {
            list::glob(&workspace, path, pattern, *respect_ignore, *limit, output)
        }
        FileRequest::Search { .. } => search::search(&workspace, request, output),
        FileRequest::Move { from, to, overwrite } => {
            write::rename(&workspace, from, to, *overwrite)
        }
        FileRequest::MakeDirectory { path } => write::make_directory(&workspace, path),
        FileRequest::Delete { path, recursive } => delete::delete(&workspace, path, *recursive),
        FileRequest::Unpack { path } => unpack::unpack(&workspace, path, input),
        FileRequest::Pack { path, respect_ignore } => {
            pack::pack(&workspace, path, *respect_ignore, output)
        }
    }
}
