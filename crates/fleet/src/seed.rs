//! An uploaded archive, unpacked into a workspace by the guest inside it.

use std::io;
use std::sync::Arc;

use cofferdam_runtime::Seed;
use cofferdam_sandbox::Files;
use cofferdam_store::UploadId;
use cofferdam_types::error_chain;
use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use tokio_util::io::StreamReader;

use crate::fleet::Fleet;

/// An archive that a user has sent.
pub(crate) struct Uploaded {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) upload: UploadId,
}

impl Seed for Uploaded {
    fn plant(&self, files: Files) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let upload = self.fleet.store.upload(self.upload).await;
            let upload = upload.map_err(|error| error_chain(&error))?;
            let upload = upload.ok_or("the uploaded files are gone")?;
            let bytes = self.fleet.blobs.read(&upload.blob).await;
            let bytes = bytes.map_err(|error| error_chain(&error))?;
            let reader = StreamReader::new(Box::pin(bytes.map_err(io::Error::other)));
            let unpacked = files.unpack("", reader).await;
            unpacked.map(drop).map_err(|error| error_chain(&error))
        })
    }
}
