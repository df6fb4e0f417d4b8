//! Reading a file, and describing one.

use std::os::fd::{AsFd, BorrowedFd};

use cofferdam_guest_protocol::{CHUNK, FileError, FileReply};
use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::error;
use super::records::{file_stat, write_all};
use super::resolve::Workspace;

/// Sends a part of a file. When that is the whole file, the reply has its digest.
pub(super) fn read(
    workspace: &Workspace,
    path: &[u8],
    offset: u64,
    limit: u64,
    output: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let path = workspace.relative(path)?;
    let (file, stat) = workspace.open_file(&path, OFlags::RDONLY, Mode::empty())?;
    if offset > 0 {
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(offset)).map_err(error::of)?;
    }
    let mut digest = (offset == 0).then(Sha256::new);
    let mut left = limit;
    let mut buffer = Vec::new();
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let bytes = read_some(file.as_fd(), &mut buffer, most).map_err(error::of)?;
        if bytes.is_empty() {
            break;
        }
        if let Some(digest) = &mut digest {
            digest.update(bytes);
        }
        write_all(output, bytes).map_err(error::of)?;
        left = left.saturating_sub(bytes.len() as u64);
    }
    let at_end = read_some(file.as_fd(), &mut buffer, 1).map_err(error::of)?.is_empty();
    let sha256 = digest.filter(|_| at_end).map(|digest| digest.finalize().into());
    Ok(FileReply::Read { stat: file_stat(&stat), sha256 })
}

/// Reads at most so many bytes; none at the end.
pub(super) fn read_some<'b>(
    fd: BorrowedFd<'_>,
    buffer: &'b mut Vec<u8>,
    most: usize,
) -> Result<&'b [u8], Errno> {
    buffer.clear();
    if buffer.capacity() != most {
        // Exact, so that no more than this is read.
        *buffer = Vec::with_capacity(most);
    }
    loop {
        match rustix::io::read(fd, spare_capacity(buffer)) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => {
                buffer.truncate(most);
                return Ok(buffer);
            }
        }
    }
}

/// Describes a file, a link at the end of the path as the link itself.
pub(super) fn stat(workspace: &Workspace, path: &[u8]) -> Result<FileReply, FileError> {
    let path = workspace.relative(path)?;
    Ok(FileReply::Stat(file_stat(&workspace.stat(&path)?)))
}
