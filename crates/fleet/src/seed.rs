//! An uploaded archive, unpacked into a workspace by the guest inside it.

use std::io;
use std::sync::Arc;

use cofferdam_runtime::Seed;
use cofferdam_sandbox::Files;
use cofferdam_store::{BlobReader, UploadId};
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

impl Fleet {
    /// The bytes of an archive that a user has sent.
    pub(crate) async fn uploaded(&self, upload: UploadId) -> Result<BlobReader, String> {
        let upload = self.store.upload(upload).await.map_err(|error| error_chain(&error))?;
        let upload = upload.ok_or("the uploaded files are gone")?;
        self.blobs.read(&upload.blob).await.map_err(|error| error_chain(&error))
    }
}

impl Seed for Uploaded {
    fn plant(&self, files: Files) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let bytes = self.fleet.uploaded(self.upload).await?;
            let reader = StreamReader::new(Box::pin(bytes.map_err(io::Error::other)));
            let unpacked = files.unpack("", reader).await;
            unpacked.map(drop).map_err(|error| error_chain(&error))
        })
    }
}
