//! What comes out of a job: the project, its artifacts, its audit trail.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use cofferdam_api::{Artifact, ArtifactList, AuditTrail, PREFIX};
use cofferdam_fleet::{Format, Output};
use cofferdam_store::JobRow;
use futures_util::{StreamExt, stream};
use http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
};
use http::{HeaderValue, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::{App, place};
use crate::disposition::attachment;
use crate::headers::DOWNLOAD;
use crate::moment;
use crate::problem::{Refusal, UNAVAILABLE};
use crate::query::Query;
use crate::request::{Caller, Id, json};

const PAGE: u64 = 1000;
const LARGEST_PAGE: u64 = 10_000;
/// How often a project is asked for again that could not be packed.
const TRIES: u32 = 3;

/// `GET /jobs/{id}/output.zip`, also under the prefix.
pub(crate) async fn zip(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    output(&app, &caller, &id, Format::Zip).await
}

/// `GET /api/v1/jobs/{id}/output.tar.zst`.
pub(crate) async fn tar(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    output(&app, &caller, &id, Format::TarZst).await
}

/// `GET /api/v1/jobs/{id}/output.patch`.
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    output(&app, &caller, &id, Format::Patch).await
}

async fn output(app: &App, caller: &Caller, id: &str, format: Format) -> Result<Response, Refusal> {
    let mut row = app.job(&caller.0, id).await?;
    let (extension, media_type) = match format {
        Format::Zip => ("zip", "application/zip"),
        Format::TarZst => ("tar.zst", "application/zstd"),
        Format::Patch => ("patch", "text/x-diff; charset=utf-8"),
    };
    let mut tries = TRIES;
    let mut room = None;
    // A stream that fails breaks the connection: half a project is not taken for
    // a whole one.
    let mut response = loop {
        // Whoever is in a job's sandbox keeps it from ending until the packing has begun.
        let visit = app.fleet.visit(&row).await.ok();
        if room.is_none() {
            room = room_for(app, &row, format, visit.is_some()).await?;
        }
        let output = app.fleet.output(&row, format).await?;
        drop(visit);
        match output {
            Output::Kept { blob, bytes } => {
                let mut response = Response::new(Body::from_stream(bytes));
                let headers = response.headers_mut();
                headers.insert(CONTENT_LENGTH, HeaderValue::from(blob.bytes));
                if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", blob.sha256)) {
                    headers.insert(ETAG, tag);
                }
                break response;
            }
            Output::Made(bytes) => {
                // A patch of nothing has ended already when its first piece is asked for.
                let mut bytes = bytes.fuse();
                let told = |piece: Result<_, String>| {
                    piece.inspect_err(|error| tracing::warn!(error, "a project was not packed"))
                };
                match bytes.next().await {
                    Some(Err(_)) if tries > 0 => {
                        // The job may have ended while we asked, and has kept it then.
                        tries -= 1;
                        row = app.job(&caller.0, id).await?;
                    }
                    Some(Err(error)) => {
                        let remedy = "try again in a moment";
                        return Err(Refusal::new(UNAVAILABLE, error, remedy).retry_after(2));
                    }
                    first => {
                        let all = stream::iter(first).chain(bytes).map(move |piece| {
                            // The place is held as long as the sandbox is.
                            let _held = &room;
                            told(piece)
                        });
                        break Response::new(Body::from_stream(all));
                    }
                }
            }
        }
    };
    let headers = response.headers_mut();
    let name = format!("{}.{extension}", row.id);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_DISPOSITION, attachment(name.as_bytes()));
    headers.insert(CONTENT_SECURITY_POLICY, DOWNLOAD);
    Ok(response)
}

/// The place of an output that needs a sandbox of its own: of a job that does not
/// run, and of every patch, which is made against what the job began with.
async fn room_for(
    app: &App,
    row: &JobRow,
    format: Format,
    live: bool,
) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
    let needed = match format {
        Format::Zip if row.status.is_over() => !is_kept(app, row).await?,
        Format::Zip | Format::TarZst => !live,
        Format::Patch => true,
    };
    needed.then(|| place(&app.room.looks, "projects to pack")).transpose()
}

/// Whether the job's ZIP was kept when it ended.
async fn is_kept(app: &App, row: &JobRow) -> Result<bool, Refusal> {
    let artifacts = app.store().artifacts(row.id).await?;
    Ok(artifacts.iter().any(|artifact| artifact.name == "output.zip"))
}

/// `GET /api/v1/jobs/{id}/artifacts`.
pub(crate) async fn artifacts(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let artifacts = app.store().artifacts(row.id).await?;
    let shown = |artifact: &cofferdam_store::Artifact| {
        let known = matches!(&*artifact.name, "output.zip" | "output.tar.zst" | "output.patch");
        Artifact {
            name: artifact.name.clone(),
            bytes: artifact.blob.bytes,
            sha256: artifact.blob.sha256.clone(),
            created: moment::text(artifact.at),
            url: known.then(|| format!("{PREFIX}/jobs/{}/{}", row.id, artifact.name)),
        }
    };
    let artifacts = artifacts.iter().map(shown).collect();
    json(StatusCode::OK, &ArtifactList { artifacts })
}

/// `GET /api/v1/jobs/{id}/audit`.
pub(crate) async fn audit(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(asked): RawQuery,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let asked = Query::of(asked.as_deref(), &["after", "limit"])?;
    let after = asked.number("after", 0..=i64::MAX as u64)?.unwrap_or(0);
    let limit = asked.number("limit", 1..=LARGEST_PAGE)?.unwrap_or(PAGE);
    let (after, limit) =
        (usize::try_from(after).unwrap_or(usize::MAX), usize::try_from(limit).unwrap_or(1));
    let records = app.fleet.audit(&row).await?;
    let more = records.len() > after.saturating_add(limit);
    let records = records.into_iter().skip(after).take(limit).collect();
    json(StatusCode::OK, &AuditTrail { records, more })
}
