//! Room on a disk, looked at before something large is written: what fills a disk to its last block
//! or its last file is in the way of everybody else on it.

use std::path::Path;

use crate::error::ImageError;
use crate::footprint::Footprint;

/// What stays free: a part of the disk, and no more than this.
const RESERVE: Footprint = Footprint { bytes: 256 << 20, files: 16 << 10 };
const RESERVED_PART: u64 = 20;

/// Whether so much fits where a directory is.
pub(crate) fn room_for(needed: Footprint, directory: &Path) -> Result<(), ImageError> {
    let about = rustix::fs::statvfs(directory)
        .map_err(|error| ImageError::system("look at", directory)(error.into()))?;
    let free =
        Footprint { bytes: about.f_bavail.saturating_mul(about.f_frsize), files: about.f_favail };
    let all =
        Footprint { bytes: about.f_blocks.saturating_mul(about.f_frsize), files: about.f_files };
    if fits(needed, free, all) {
        return Ok(());
    }
    Err(ImageError::Full { path: directory.to_owned() })
}

fn fits(needed: Footprint, free: Footprint, all: Footprint) -> bool {
    // Some file systems do not say, and some have as many files as there are bytes for.
    let fits = |needed: u64, free: u64, all: u64, reserve: u64| {
        all == 0 || needed <= free.saturating_sub(reserve.min(all / RESERVED_PART))
    };
    fits(needed.bytes, free.bytes, all.bytes, RESERVE.bytes)
        && fits(needed.files, free.files, all.files, RESERVE.files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;
    const GIBIBYTE: u64 = 1 << 30;

    #[test]
    fn something_stays_for_others() {
        let fits = |needed, free, all| {
            let bytes = |bytes| Footprint { bytes, files: 0 };
            fits(bytes(needed), bytes(free), bytes(all))
        };
        assert!(fits(95 * MEBIBYTE, 100 * MEBIBYTE, 100 * MEBIBYTE));
        assert!(!fits(96 * MEBIBYTE, 100 * MEBIBYTE, 100 * MEBIBYTE));
        assert!(fits(768 * MEBIBYTE, GIBIBYTE, 100 * GIBIBYTE));
        assert!(!fits(769 * MEBIBYTE, GIBIBYTE, 100 * GIBIBYTE));
        assert!(!fits(1, 0, GIBIBYTE));
    }

    #[test]
    fn so_do_some_of_the_files_that_a_disk_can_have() {
        let fits = |needed, free, all| {
            let files = |files| Footprint { bytes: GIBIBYTE, files };
            let needed = Footprint { bytes: MEBIBYTE, files: needed };
            fits(needed, files(free), files(all))
        };
        assert!(fits(950, 1_000, 1_000));
        assert!(!fits(951, 1_000, 1_000));
        assert!(fits(100_000 - (16 << 10), 100_000, 10_000_000));
        assert!(!fits(100_001 - (16 << 10), 100_000, 10_000_000));
        assert!(!fits(1, 0, 1_000));
        // Nothing is known of them.
        assert!(fits(1_000_000, 0, 0));
    }

    #[test]
    fn more_than_any_disk_has_is_refused() {
        let place = tempfile::tempdir().unwrap();
        room_for(Footprint::default(), place.path()).unwrap();
        let full = room_for(Footprint::MAX, place.path());
        assert!(matches!(full, Err(ImageError::Full { .. })), "{full:?}");
    }
}
