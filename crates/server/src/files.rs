//! The files of a job's workspace, in its sandbox.
//!
//! They can be looked at also when the job is over; changed only while it works,
//! because only then something is kept of the change.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cofferdam_api::{
    FileDeleted, FileEntry, FileKind, FileList, FileWritten, MoveFile, Unreadable,
};
use cofferdam_fleet::Look;
use cofferdam_guest_protocol::{Entry, EntryKind, WriteMode};
use cofferdam_sandbox::{FileStream, FilesError, Range};
use cofferdam_store::JobRow;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::app::{App, place};
use crate::body::{self, Streamed};
use crate::disposition::attachment;
use crate::headers::DOWNLOAD;
use crate::moment;
use crate::problem::{CONFLICT, Refusal};
use crate::query::{self, Query};
use crate::request::{Caller, Id, json, nothing};

/// Entries of one listing.
const MOST_ENTRIES: u32 = 10_000;
/// Permission bits of a file that is made.
const PERMISSIONS: u32 = 0o644;
/// Pieces of a file that are fetched ahead of its reader.
const AHEAD: usize = 4;

/// `GET /api/v1/jobs/{id}/files`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(asked): RawQuery,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let asked = Query::of(asked.as_deref(), &["path", "depth"])?;
    let path = asked.path()?.unwrap_or_else(|| b".".to_vec());
    let depth = asked.number("depth", 1..=16)?.unwrap_or(1);
    let depth = u32::try_from(depth).unwrap_or(1);
    let (look, _place) = look(&app, &row).await?;
    let files = look.files();
    let listed = tokio::select! {
        listed = files.list(path.clone(), depth, MOST_ENTRIES) => listed,
        () = look.over() => return Err(wanted_back()),
    };
    look.close().await;
    let listed = listed?;
    let unreadable = |(path, reason): &(Vec<u8>, String)| Unreadable {
        path: String::from_utf8_lossy(path).into_owned(),
        reason: reason.clone(),
    };
    let list = FileList {
        path: String::from_utf8_lossy(&path).into_owned(),
        entries: listed.records.iter().map(entry).collect(),
        more: listed.more,
        unreadable: listed.unreadable.iter().map(unreadable).collect(),
    };
    json(StatusCode::OK, &list)
}

/// A look at a job's files, and its place if it needs a sandbox of its own.
async fn look(app: &App, row: &JobRow) -> Result<(Look, Option<OwnedSemaphorePermit>), Refusal> {
    if let Ok(visit) = app.fleet.visit(row).await {
        return Ok((Look::Live(visit), None));
    }
    let place = place(&app.room.looks, "looks at files")?;
    Ok((app.fleet.look(row).await?, Some(place)))
}

fn entry(entry: &Entry) -> FileEntry {
    let text = std::str::from_utf8(&entry.path);
    FileEntry {
        path: String::from_utf8_lossy(&entry.path).into_owned(),
        path_base64: text.is_err().then(|| STANDARD.encode(&entry.path)),
        kind: match entry.stat.kind {
            EntryKind::File => FileKind::File,
            EntryKind::Directory => FileKind::Directory,
            EntryKind::Link => FileKind::Link,
            EntryKind::Other => FileKind::Other,
        },
        size: entry.stat.size,
        permissions: entry.stat.permissions,
        modified: moment::text_of_nanos(entry.stat.modified_ns),
        link: entry.link.as_ref().map(|link| String::from_utf8_lossy(link).into_owned()),
    }
}

/// `GET /api/v1/jobs/{id}/files/content`.
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(asked): RawQuery,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let path = Query::of(asked.as_deref(), &["path"])?.needed_path()?;
    let (look, place) = look(&app, &row).await?;
    let whole = Range::first(i64::MAX as u64);
    let mut content = look.files().read_stream(path.clone(), whole).await?;
    // What is wrong with the file shows with its first bytes, before the answer.
    let first = tokio::select! {
        first = content.next() => first?,
        () = look.over() => return Err(wanted_back()),
    };
    let mut response = Response::new(match first {
        Some(first) => sent(&app, first, content, look, place),
        None => Body::empty(),
    });
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, attachment(&path));
    headers.insert(CONTENT_SECURITY_POLICY, DOWNLOAD);
    Ok(response)
}

/// The file's bytes, as they are read. They are fetched beside the answer, so that
/// a slow reader does not hold the sandbox when it is wanted back.
fn sent(
    app: &Arc<App>,
    first: Bytes,
    mut content: FileStream,
    look: Look,
    place: Option<OwnedSemaphorePermit>,
) -> Body {
    let (pieces, taken) = mpsc::channel::<Piece>(AHEAD);
    let (stopping, longest) = (app.stopping.clone(), app.limits.long_answer_time);
    app.tasks.spawn(async move {
        let pump = async {
            let mut piece = Ok(Some(first));
            loop {
                let over = !matches!(piece, Ok(Some(_)));
                if pieces.send(piece).await.is_err() || over {
                    return;
                }
                piece = content.next().await;
            }
        };
        tokio::select! {
            () = pump => {}
            () = look.over() => {}
            () = stopping.cancelled() => {}
            () = tokio::time::sleep(longest) => {}
        }
        drop(pieces);
        look.close().await;
        drop(place);
    });
    body_of(taken)
}

/// A piece of a file; `None` is its end.
type Piece = Result<Option<Bytes>, FilesError>;

/// A body of these pieces. Only the end that is said is an end: pieces that just
/// stop are a file that was cut, however slowly they are taken, and the answer
/// breaks.
fn body_of(taken: mpsc::Receiver<Piece>) -> Body {
    Body::from_stream(stream::unfold(Some(taken), |taken| async {
        let mut taken = taken?;
        match taken.recv().await {
            Some(Ok(Some(bytes))) => Some((Ok(bytes), Some(taken))),
            Some(Ok(None)) => None,
            Some(Err(error)) => Some((Err(error), None)),
            None => {
                let gone = std::io::Error::other("the sandbox is wanted back");
                Some((Err(FilesError::Source(gone)), None))
            }
        }
    }))
}

/// `PUT /api/v1/jobs/{id}/files/content`.
pub(crate) async fn write(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(asked): RawQuery,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let path = Query::of(asked.as_deref(), &["path"])?.needed_path()?;
    let source = Streamed::new(&headers, sent, app.limits.file, &app.limits)?;
    let _place = place(&app.room.uploads, "files on their way")?;
    let visit = app.fleet.visit(&row).await?;
    let files = visit.files();
    let written = tokio::select! {
        written = files.write_from(path.clone(), source, WriteMode::Replace, PERMISSIONS) => written?,
        () = visit.over() => return Err(wanted_back()),
    };
    let written = FileWritten {
        path: String::from_utf8_lossy(&path).into_owned(),
        size: written.size,
        sha256: written.sha256.map(|hash| hex(&hash)),
    };
    json(StatusCode::OK, &written)
}

/// `DELETE /api/v1/jobs/{id}/files/content`.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(asked): RawQuery,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let asked = Query::of(asked.as_deref(), &["path", "recursive"])?;
    let (path, recursive) = (asked.needed_path()?, asked.flag("recursive")?);
    let visit = app.fleet.visit(&row).await?;
    let files = visit.files();
    let entries = tokio::select! {
        deleted = files.delete(path, recursive) => deleted?,
        () = visit.over() => return Err(wanted_back()),
    };
    json(StatusCode::OK, &FileDeleted { entries })
}

/// `POST /api/v1/jobs/{id}/files/move`.
pub(crate) async fn rename(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let MoveFile { from, to, overwrite } = body::json(&headers, &bytes)?;
    let (from, to) = (query::path(from.into_bytes())?, query::path(to.into_bytes())?);
    let visit = app.fleet.visit(&row).await?;
    let files = visit.files();
    tokio::select! {
        renamed = files.rename(from, to, overwrite) => renamed?,
        () = visit.over() => return Err(wanted_back()),
    }
    Ok(nothing())
}

/// The job ends, or hands its sandbox on.
pub(crate) fn wanted_back() -> Refusal {
    let detail = "the job is about to end, and took its sandbox back";
    Refusal::new(CONFLICT, detail, "look at its files when it is over, or resume it")
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use cofferdam_guest_protocol::FileStat;

    use super::*;

    #[tokio::test]
    async fn a_file_without_its_end_is_never_taken_for_a_whole_one() {
        let sent = |end: bool| async move {
            let (pieces, taken) = mpsc::channel(AHEAD);
            // Nobody reads yet: there is room for these and no more.
            for _ in 1..AHEAD {
                pieces.try_send(Ok(Some(Bytes::from_static(b"x")))).unwrap();
            }
            let last = if end { None } else { Some(Bytes::from_static(b"x")) };
            pieces.try_send(Ok(last)).unwrap();
            assert!(pieces.try_send(Ok(None)).is_err());
            drop(pieces);
            axum::body::to_bytes(body_of(taken), 100).await
        };
        assert_eq!(sent(true).await.unwrap().len(), AHEAD - 1);
        sent(false).await.unwrap_err();
    }

    #[test]
    fn a_name_that_is_no_text_is_shown_with_its_bytes() {
        let stat = FileStat {
            kind: EntryKind::File,
            size: 1,
            allocated: 0,
            permissions: 0o600,
            modified_ns: 0,
        };
        let shown = entry(&Entry { path: b"a\xff".to_vec(), stat, link: None });
        assert_eq!(
            (shown.path.as_str(), shown.path_base64.as_deref()),
            ("a\u{fffd}", Some("Yf8="))
        );
        let shown = entry(&Entry { path: b"a".to_vec(), stat, link: Some(b"/etc".to_vec()) });
        assert_eq!((shown.path_base64, shown.link.as_deref()), (None, Some("/etc")));
        assert_eq!(hex(&[0, 0xab]), "00ab");
    }
}
