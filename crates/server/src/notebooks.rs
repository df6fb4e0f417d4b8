//! A job's code cells as a Jupyter notebook, made of its log when it is asked for.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use cofferdam_notebook::{Limits, NoNotebook, Reader};
use cofferdam_store::{JobRow, Line};
use cofferdam_types::Record;
use futures_util::stream;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::app::{App, place};
use crate::disposition::attachment;
use crate::headers::DOWNLOAD;
use crate::problem::{CONFLICT, NO_NOTEBOOK, Refusal};
use crate::query::Query;
use crate::request::{Caller, Id};

/// Events that are read at once.
const PAGE: u32 = 200;

/// Bytes that are sent at once.
const PIECE: usize = 64 << 10;

/// `GET /api/v1/jobs/{id}/notebook.ipynb`.
pub(crate) async fn notebook(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    RawQuery(asked): RawQuery,
) -> Result<Response, Refusal> {
    let asked = Query::of(asked.as_deref(), &["kernel"])?;
    let kernel = asked.text("kernel")?;
    let row = app.job(&caller.0, &id).await?;
    // Each may need a few times the size of the largest file.
    let room = place(&app.room.notebooks, "notebooks to make")?;
    let reader = read(&app, &row, Reader::new(kernel, &Limits::default())).await?;
    let made = tokio::task::spawn_blocking(move || {
        reader.notebook().map(|notebook| (notebook.to_json(), notebook.name))
    });
    let (text, name) = made.await.map_err(|error| Refusal::internal(&error))??;
    let file = match kernel {
        Some(_) => format!("{}-{name}.ipynb", row.id),
        None => format!("{}.ipynb", row.id),
    };
    let length = text.len();
    let pieces = stream::unfold((Bytes::from(text), room), |(mut rest, room)| async {
        // The place is held as long as the bytes are.
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, room)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ipynb+json"));
    headers.insert(CONTENT_DISPOSITION, attachment(file.as_bytes()));
    headers.insert(CONTENT_SECURITY_POLICY, DOWNLOAD);
    Ok(response)
}

/// Reads the log as it is now, page by page.
async fn read(app: &App, row: &JobRow, mut reader: Reader) -> Result<Reader, Refusal> {
    let mut after = 0;
    while after < row.last_seq {
        let lines = app.store().events(row.id, after, PAGE).await?;
        let Some(last) = lines.last() else { break };
        after = last.seq;
        let read = tokio::task::spawn_blocking(move || take_in(reader, &lines));
        reader = read.await.map_err(|error| Refusal::internal(&error))??;
    }
    Ok(reader)
}

fn take_in(mut reader: Reader, lines: &[Line]) -> Result<Reader, Refusal> {
    for line in lines {
        let record: Record =
            serde_json::from_str(&line.text).map_err(|error| Refusal::internal(&error))?;
        reader.read(&record.event);
    }
    Ok(reader)
}

impl From<NoNotebook> for Refusal {
    fn from(error: NoNotebook) -> Self {
        let told = error.to_string();
        match error {
            NoNotebook::NoCells => {
                Self::new(NO_NOTEBOOK, told, "ask again when it has, or read its events")
            }
            NoNotebook::Unknown { .. } => Self::new(NO_NOTEBOOK, told, "name one of them"),
            NoNotebook::Several { .. } => Self::new(CONFLICT, told, "name one with kernel=NAME"),
        }
    }
}
