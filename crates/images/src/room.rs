//! Room on a disk, looked at before something large is written: what fills a disk to its last block
//! is in the way of everybody else on it.

use std::path::Path;

use crate::error::ImageError;

/// What stays free: a part of the disk, and no more than this.
const RESERVE: u64 = 256 << 20;
const RESERVED_PART: u64 = 20;

/// Whether so many bytes fit where a directory is.
pub(crate) fn room_for(bytes: u64, directory: &Path) -> Result<(), ImageError> {
    let about = rustix::fs::statvfs(directory)
        .map_err(|error| ImageError::system("look at", directory)(error.into()))?;
    let all = about.f_blocks.saturating_mul(about.f_frsize);
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    // Some file systems do not say.
    if all == 0 || fits(bytes, free, all) {
        return Ok(());
    }
    Err(ImageError::Full { path: directory.to_owned() })
}

fn fits(bytes: u64, free: u64, all: u64) -> bool {
    bytes <= free.saturating_sub(RESERVE.min(all / RESERVED_PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_stays_for_others() {
        let (mebibyte, gibibyte) = (1 << 20, 1 << 30);
        assert!(fits(95 * mebibyte, 100 * mebibyte, 100 * mebibyte));
        assert!(!fits(96 * mebibyte, 100 * mebibyte, 100 * mebibyte));
        assert!(fits(768 * mebibyte, gibibyte, 100 * gibibyte));
        assert!(!fits(769 * mebibyte, gibibyte, 100 * gibibyte));
        assert!(!fits(1, 0, gibibyte));
    }

    #[test]
    fn more_than_any_disk_has_is_refused() {
        let place = tempfile::tempdir().unwrap();
        room_for(0, place.path()).unwrap();
        let full = room_for(u64::MAX, place.path());
        assert!(matches!(full, Err(ImageError::Full { .. })), "{full:?}");
    }
}
