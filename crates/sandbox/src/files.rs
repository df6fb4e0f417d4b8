//! The files of a workspace, through the guest: paths are resolved inside the
//! sandbox, and none leads out of the workspace.
//!
//! Every answer has a limit that the caller gives or that stands here. Dropping
//! an operation before its end ends it in the guest too.

mod answers;
mod stream;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cofferdam_guest_protocol::{
    CHUNK, Entry, FileReply, FileRequest, FileStat, Match, RecordDecoder, Reply, Request, WriteMode,
};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::client::{CallHandle, Connection, Taken};
use crate::error::{CallError, FilesError};

pub use answers::{Archived, FileContent, Ignored, Listing, Range, Replacement, Search, Written};
pub use stream::FileStream;

/// Bytes that one listing or search brings at most.
const MAX_RECORDS: u64 = 64 << 20;

/// Places that a guest may name as left out.
const MOST_NAMED: usize = 100;

/// The files of a workspace. Paths are relative to it, or absolute and beneath
/// it.
#[derive(Clone)]
pub struct Files {
    connection: Arc<Connection>,
}

impl Files {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    /// Reads a file, or a part of it, into memory.
    ///
    /// # Errors
    /// When the guest cannot, or sends more than was asked for.
    pub async fn read(
        &self,
        path: impl Into<Vec<u8>>,
        range: Range,
    ) -> Result<FileContent, FilesError> {
        let Range { offset, limit } = range;
        let mut handle = self.begin(FileRequest::Read { path: path.into(), offset, limit }).await?;
        let bytes = collect(&mut handle, limit).await?;
        match finish(&mut handle).await? {
            FileReply::Read { stat, sha256 } => Ok(FileContent { bytes, stat, sha256 }),
            _ => Err(CallError::UnexpectedReply.into()),
        }
    }

    /// Reads a file as it comes.
    ///
    /// # Errors
    /// When the connection is lost. What the guest finds wrong shows when the
    /// stream is read.
    pub async fn read_stream(
        &self,
        path: impl Into<Vec<u8>>,
        range: Range,
    ) -> Result<FileStream, FilesError> {
        let Range { offset, limit } = range;
        let request = FileRequest::Read { path: path.into(), offset, limit };
        Ok(FileStream::new(self.begin(request).await?))
    }

    /// Writes a file in one step; only [`WriteMode::Append`] adds to it as the bytes come.
    ///
    /// # Errors
    /// When the guest cannot.
    pub async fn write(
        &self,
        path: impl Into<Vec<u8>>,
        bytes: Bytes,
        mode: WriteMode,
        permissions: u32,
    ) -> Result<Written, FilesError> {
        let request = FileRequest::Write { path: path.into(), mode, permissions };
        let mut handle = self.begin(request).await?;
        // A guest that answers before it has read everything says why.
        send(&handle, bytes).await?;
        written(finish(&mut handle).await?)
    }

    /// Writes a file in one step, from a reader; only [`WriteMode::Append`] adds to it as the
    /// bytes come.
    ///
    /// # Errors
    /// When the guest cannot, or the reader fails; the file is then as it was, unless it was
    /// being added to.
    pub async fn write_from(
        &self,
        path: impl Into<Vec<u8>>,
        source: impl AsyncRead + Unpin,
        mode: WriteMode,
        permissions: u32,
    ) -> Result<Written, FilesError> {
        let request = FileRequest::Write { path: path.into(), mode, permissions };
        let mut handle = self.begin(request).await?;
        send_from(&handle, source).await?;
        written(finish(&mut handle).await?)
    }

    /// Replaces text in a file.
    ///
    /// # Errors
    /// When the guest cannot, or the text is not there as expected.
    pub async fn replace(
        &self,
        path: impl Into<Vec<u8>>,
        replacement: Replacement,
    ) -> Result<Written, FilesError> {
        let Replacement { old, new, all, expected } = replacement;
        let request = FileRequest::Replace { path: path.into(), old, new, all, expected };
        written(self.ask(request).await?)
    }

    /// Lists a directory, so many levels deep.
    ///
    /// # Errors
    /// When the guest cannot.
    pub async fn list(
        &self,
        path: impl Into<Vec<u8>>,
        depth: u32,
        limit: u32,
    ) -> Result<Listing<Entry>, FilesError> {
        self.records(FileRequest::List { path: path.into(), depth, limit }, limit.into()).await
    }

    /// Describes a file, without following a link at its end.
    ///
    /// # Errors
    /// When the guest cannot.
    pub async fn stat(&self, path: impl Into<Vec<u8>>) -> Result<FileStat, FilesError> {
        match self.ask(FileRequest::Stat { path: path.into() }).await? {
            FileReply::Stat(stat) => Ok(stat),
            _ => Err(CallError::UnexpectedReply.into()),
        }
    }

    /// Finds files by their names.
    ///
    /// # Errors
    /// When the guest cannot.
    pub async fn glob(
        &self,
        path: impl Into<Vec<u8>>,
        pattern: impl Into<String>,
        ignored: Ignored,
        limit: u32,
    ) -> Result<Listing<Entry>, FilesError> {
        let respect_ignore = ignored == Ignored::LeaveOut;
        let (path, pattern) = (path.into(), pattern.into());
        self.records(FileRequest::Glob { path, pattern, respect_ignore, limit }, limit.into()).await
    }

    /// Finds lines by their content.
    ///
    /// # Errors
    /// When the guest cannot.
    pub async fn search(
        &self,
        path: impl Into<Vec<u8>>,
        search: Search,
    ) -> Result<Listing<Match>, FilesError> {
        let Search { pattern, literal, ignore_case, glob, ignored, context, limit } = search;
        let respect_ignore = ignored == Ignored::LeaveOut;
        let request = FileRequest::Search {
            path: path.into(),
            pattern,
            literal,
            ignore_case,
            glob,
            respect_ignore,
            context,
            limit,
        };
        // Each with the lines around it.
        let most = u64::from(limit).saturating_mul(2 * u64::from(context) + 1);
        self.records(request, most).await
    }

    /// Renames a file or directory.
    ///
    /// # Errors
    /// When the guest cannot, or something is there and `overwrite` is not set.
    pub async fn rename(
        &self,
        from: impl Into<Vec<u8>>,
        to: impl Into<Vec<u8>>,
        overwrite: bool,
    ) -> Result<(), FilesError> {
        self.ask(FileRequest::Move { from: from.into(), to: to.into(), overwrite }).await?;
        Ok(())
    }

    /// Makes a directory and its missing parents.
    ///
    /// # Errors
    /// When the guest cannot.
    pub async fn make_directory(&self, path: impl Into<Vec<u8>>) -> Result<(), FilesError> {
        self.ask(FileRequest::MakeDirectory { path: path.into() }).await?;
        Ok(())
    }

    /// Deletes a file or directory; says how many files and directories that was.
    ///
    /// # Errors
    /// When the guest cannot, or a directory has something in it and `recursive`
    /// is not set.
    pub async fn delete(
        &self,
        path: impl Into<Vec<u8>>,
        recursive: bool,
    ) -> Result<u64, FilesError> {
        match self.ask(FileRequest::Delete { path: path.into(), recursive }).await? {
            FileReply::Deleted { entries } => Ok(entries),
            _ => Err(CallError::UnexpectedReply.into()),
        }
    }

    /// A tar archive of a file or directory, as it comes.
    ///
    /// # Errors
    /// When the connection is lost. What the guest finds wrong shows when the
    /// stream is read.
    pub async fn pack(
        &self,
        path: impl Into<Vec<u8>>,
        ignored: Ignored,
    ) -> Result<FileStream, FilesError> {
        let respect_ignore = ignored == Ignored::LeaveOut;
        let request = FileRequest::Pack { path: path.into(), respect_ignore };
        Ok(FileStream::new(self.begin(request).await?))
    }

    /// Unpacks a tar archive into a directory.
    ///
    /// # Errors
    /// When the guest cannot, or the archive cannot be read.
    pub async fn unpack(
        &self,
        path: impl Into<Vec<u8>>,
        archive: impl AsyncRead + Unpin,
    ) -> Result<Archived, FilesError> {
        let mut handle = self.begin(FileRequest::Unpack { path: path.into() }).await?;
        send_from(&handle, archive).await?;
        archived(finish(&mut handle).await?)
    }

    async fn begin(&self, request: FileRequest) -> Result<CallHandle, CallError> {
        self.connection.begin(self.connection.own_id(), Request::File(request)).await
    }

    async fn ask(&self, request: FileRequest) -> Result<FileReply, FilesError> {
        let mut handle = self.begin(request).await?;
        finish(&mut handle).await
    }

    /// The records of an answer. A guest that sends more than were asked for is not to be
    /// believed, nor is there memory for what it may send.
    async fn records<T: DeserializeOwned>(
        &self,
        request: FileRequest,
        most: u64,
    ) -> Result<Listing<T>, FilesError> {
        let mut handle = self.begin(request).await?;
        let mut decoder = RecordDecoder::default();
        let mut records = Vec::new();
        let mut length = 0;
        while let Some(bytes) = next(&mut handle).await? {
            length += bytes.len() as u64;
            if length > MAX_RECORDS {
                return Err(FilesError::TooMuch { limit: MAX_RECORDS });
            }
            decoder.push(&bytes);
            while let Some(record) = decoder.next_record()? {
                if records.len() as u64 >= most {
                    return Err(CallError::UnexpectedReply.into());
                }
                records.push(record);
            }
        }
        match finish(&mut handle).await? {
            FileReply::Listed { more, unreadable, .. } => {
                Ok(Listing { records, more, unreadable: named(unreadable) })
            }
            _ => Err(CallError::UnexpectedReply.into()),
        }
    }
}

async fn next(handle: &mut CallHandle) -> Result<Option<Bytes>, FilesError> {
    match std::future::poll_fn(|context| handle.poll_output(context)).await {
        Some(Taken::Data(bytes)) => Ok(Some(bytes)),
        Some(Taken::Gap(_)) => Err(CallError::UnexpectedReply.into()),
        None => Ok(None),
    }
}

async fn collect(handle: &mut CallHandle, limit: u64) -> Result<Bytes, FilesError> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(bytes) = next(handle).await? {
        if (first.len() + all.len() + bytes.len()) as u64 > limit {
            return Err(FilesError::TooMuch { limit });
        }
        if first.is_empty() && all.is_empty() {
            first = bytes;
            continue;
        }
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&bytes);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Sends all input. A guest that wants no more of it has an answer, which the
/// caller is about to read.
async fn send(handle: &CallHandle, bytes: Bytes) -> Result<(), FilesError> {
    let mut input = handle.input();
    match input.send(bytes).await {
        Ok(()) | Err(CallError::InputClosed) => {}
        Err(error) => return Err(error.into()),
    }
    input.close();
    Ok(())
}

async fn send_from(
    handle: &CallHandle,
    mut source: impl AsyncRead + Unpin,
) -> Result<(), FilesError> {
    let mut input = handle.input();
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK);
        // When the source fails the call is dropped, and with it killed.
        if source.read_buf(&mut buffer).await.map_err(FilesError::Source)? == 0 {
            break;
        }
        match input.send(buffer.split().freeze()).await {
            Ok(()) => {}
            Err(CallError::InputClosed) => break,
            Err(error) => return Err(error.into()),
        }
    }
    input.close();
    Ok(())
}

/// The guest's answer, after which it may forget the call.
async fn finish(handle: &mut CallHandle) -> Result<FileReply, FilesError> {
    while next(handle).await?.is_some() {}
    let reply = handle.reply().await;
    handle.acknowledge();
    match reply? {
        Reply::File(answer) => Ok(answer?),
        _ => Err(CallError::UnexpectedReply.into()),
    }
}

fn written(reply: FileReply) -> Result<Written, FilesError> {
    match reply {
        FileReply::Written { size, sha256, replaced } => Ok(Written { size, sha256, replaced }),
        _ => Err(CallError::UnexpectedReply.into()),
    }
}

fn archived(reply: FileReply) -> Result<Archived, FilesError> {
    match reply {
        FileReply::Archived { entries, bytes, skipped } => {
            Ok(Archived { entries, bytes, skipped: named(skipped) })
        }
        _ => Err(CallError::UnexpectedReply.into()),
    }
}

/// What a guest left out, no more of it than it may name.
fn named(mut left_out: Vec<(Vec<u8>, String)>) -> Vec<(Vec<u8>, String)> {
    left_out.truncate(MOST_NAMED);
    left_out.shrink_to_fit();
    left_out
}
