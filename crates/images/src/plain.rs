//! An archive of one root directory, without layers, unpacked as it comes.

use std::io::Read;
use std::path::Path;

use crate::confined::Confined;
use crate::entries::{self, Fault};
use crate::error::ImageError;
use crate::layers::{self, UnpackLimits, Written};
use crate::stream::Summed;

/// Unpacks an archive into an empty directory. Devices and rights that files have are left out.
pub(crate) fn unpack(archive: impl Read, root: &Path) -> Result<(), ImageError> {
    let mut confined = Confined::open(root)?;
    let mut written = Written::default();
    let content = Summed::new(archive, false, UnpackLimits::default().bytes);
    let unpacked = entries::each(content, &mut |entry, content| {
        layers::write(entry, content, &mut confined, &mut written)
    });
    let unpacked = unpacked.and_then(|_| layers::date(&mut confined, &written));
    unpacked.map_err(|fault| match fault {
        Fault::Bad(reason) => ImageError::Archive { path: root.to_owned(), reason },
        Fault::Other(error) => error,
    })
}
