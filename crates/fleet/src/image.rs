//! The image that a job's own files ask for, made before its first sandbox.
//!
//! Those files are in the archive that the job begins with, which nobody can change: however
//! often it is read, it asks for the same.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_bundle::pick;
use cofferdam_runtime::Images;
use cofferdam_store::UploadId;
use cofferdam_types::error_chain;
use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::fleet::Fleet;
use crate::outfit::Beginning;

/// How long looking through an archive may take.
const READING: Duration = Duration::from_secs(10 * 60);

/// The image of a job that begins with this archive, or with nothing.
pub(crate) struct Needed {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) upload: Option<UploadId>,
}

impl Images for Needed {
    fn make(
        &self,
        known: Option<String>,
        tell: mpsc::Sender<String>,
    ) -> BoxFuture<'_, Result<String, String>> {
        self.fleet.outfit.make_image(self, known, tell)
    }
}

impl Beginning for Needed {
    fn read(
        &self,
        names: &'static [&'static str],
        largest: u64,
    ) -> BoxFuture<'_, Result<BTreeMap<String, Vec<u8>>, String>> {
        Box::pin(async move {
            let Some(upload) = self.upload else { return Ok(BTreeMap::new()) };
            let bytes = self.fleet.uploaded(upload).await?;
            let reader = StreamReader::new(Box::pin(bytes.map_err(io::Error::other)));
            let reader = SyncIoBridge::new(reader);
            let picking = tokio::task::spawn_blocking(move || pick(reader, names, largest));
            match timeout(READING, picking).await {
                Ok(Ok(picked)) => picked.map_err(|error| error_chain(&error)),
                Ok(Err(broken)) => Err(error_chain(&broken)),
                Err(_) => Err("looking through the uploaded files took too long".to_owned()),
            }
        })
    }
}
