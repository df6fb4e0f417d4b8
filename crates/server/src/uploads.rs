//! Archives that come in, for jobs to begin with.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::BytesMut;
use cofferdam_api::Upload;
use http::{HeaderMap, StatusCode};
use tempfile::NamedTempFile;

use crate::app::{App, place};
use crate::body::{Streamed, media_type, told, wrong_media};
use crate::moment;
use crate::problem::{FULL, Refusal, UNFIT};
use crate::request::{Caller, json};

/// Bytes that are gathered before they are written.
const PIECE: usize = 1 << 20;
/// What an archive may be said to be. What it is, its bytes say.
const TAKEN: [&str; 9] = [
    "application/x-tar",
    "application/zip",
    "application/x-zip-compressed",
    "application/gzip",
    "application/x-gzip",
    "application/zstd",
    "application/x-zstd",
    "application/octet-stream",
    "application/x-gtar",
];

/// `POST /api/v1/uploads`.
pub(crate) async fn take_in(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    let media_type = media_type(&headers);
    if !TAKEN.iter().any(|taken| taken.eq_ignore_ascii_case(media_type)) {
        return Err(wrong_media("application/x-tar` or `Content-Type: application/zip"));
    }
    let _place = place(&app.room.uploads, "archives on their way")?;
    let source = Streamed::new(&headers, sent, app.limits.upload, &app.limits)?;
    let file = receive(&app, source).await?;
    let upload = app.fleet.take_in(caller.0.user.id, file.path()).await?;
    let upload = Upload {
        id: upload.id.to_string(),
        bytes: upload.blob.bytes,
        sha256: upload.blob.sha256,
        created: moment::text(upload.at),
    };
    json(StatusCode::CREATED, &upload)
}

/// Writes the body to a file of its own, which is gone when it is dropped.
async fn receive(app: &App, mut source: Streamed) -> Result<NamedTempFile, Refusal> {
    let spooled = NamedTempFile::new_in(&app.spool).map_err(|error| disk(&error))?;
    let mut file = spooled.reopen().map_err(|error| disk(&error))?;
    let mut piece = BytesMut::new();
    let mut empty = true;
    loop {
        let bytes = source.next().await.map_err(|error| told(&error))?;
        let over = bytes.is_none();
        piece.extend_from_slice(&bytes.unwrap_or_default());
        empty &= piece.is_empty();
        if piece.len() >= PIECE || over {
            file = write(file, piece.split()).await?;
        }
        if over && empty {
            return Err(Refusal::new(UNFIT, "the archive is empty", "send a tar or a zip"));
        }
        if over {
            return Ok(spooled);
        }
    }
}

async fn write(mut file: File, piece: BytesMut) -> Result<File, Refusal> {
    let written = tokio::task::spawn_blocking(move || file.write_all(&piece).map(|()| file)).await;
    match written {
        Ok(written) => written.map_err(|error| disk(&error)),
        Err(error) => Err(Refusal::internal(&error)),
    }
}

fn disk(error: &io::Error) -> Refusal {
    tracing::error!(error = %error, "an archive could not be received");
    Refusal::new(FULL, "the archive could not be received", "make room on the server's disk")
}
