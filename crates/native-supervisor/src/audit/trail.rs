//! What was written down: the latest records are held here, those before them are in a
//! file. Most sandboxes never do enough for one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use cofferdam_guest_protocol::encode_record;
use cofferdam_types::{AuditAct, AuditRecord};

use crate::failure::ignore;

/// The trail is cut at this size.
const MAX_TRAIL: u64 = 64 << 20;

/// Records go to the file together, once there is this much of them.
const BATCH: usize = 32 << 10;

/// No record is longer: two names with their directories, all of it bytes that have to be
/// replaced. What is held, one of these at most or a batch, fits into a message of the
/// supervisor's.
const LONGEST: usize = 56 << 10;

/// The records of one sandbox.
#[derive(Debug)]
pub(super) struct Trail {
    path: PathBuf,
    file: Option<File>,
    /// Bytes in the file.
    filed: u64,
    /// What comes after those.
    held: Vec<u8>,
    /// No more is written down.
    full: bool,
}

impl Trail {
    /// An empty one. The file at `path` is made when there is more than can be held.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, filed: 0, held: Vec::new(), full: false }
    }

    /// The trail so far: so many bytes of the file, and then these.
    pub(super) fn so_far(&self) -> (u64, &[u8]) {
        (self.filed, &self.held)
    }

    /// Whether no more is written down.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Begins anew.
    pub(super) fn forget(&mut self) {
        self.filed = 0;
        self.held.clear();
        self.full = false;
    }

    /// Adds one.
    pub(super) fn write(&mut self, record: &AuditRecord) {
        let mut bytes = Vec::new();
        if self.full || encode_record(record, &mut bytes).is_err() {
            return;
        }
        let too_much = self.filed + (self.held.len() + bytes.len()) as u64 >= MAX_TRAIL;
        // A trail that cannot be kept is not worth ending the work it describes; but
        // the reader sees that it stops.
        let fits = self.held.len() + bytes.len() <= BATCH || self.file_held().is_ok();
        if too_much || !fits || bytes.len() > LONGEST {
            bytes.clear();
            let end = AuditRecord { act: AuditAct::Truncated, ..record.clone() };
            ignore(encode_record(&end, &mut bytes));
            self.full = true;
        }
        self.held.extend_from_slice(&bytes);
    }

    fn file_held(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(&self.path)?),
        };
        file.write_all_at(&self.held, self.filed)?;
        self.filed += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(name: &str) -> AuditRecord {
        let act = AuditAct::Executed { path: name.to_owned() };
        AuditRecord { at_us: 0, call: None, pid: 1, act }
    }

    fn acts(filed: &[u8], held: &[u8]) -> Vec<AuditAct> {
        let mut decoder = cofferdam_guest_protocol::RecordDecoder::default();
        decoder.push(filed);
        decoder.push(held);
        std::iter::from_fn(|| decoder.next_record::<AuditRecord>().unwrap())
            .map(|record| record.act)
            .collect()
    }

    #[test]
    fn a_short_trail_is_held_and_of_a_long_one_the_end() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("trail");
        let mut trail = Trail::new(path.clone());
        trail.write(&executed("first"));
        assert!(trail.so_far().0 == 0 && !path.exists());
        let count = 2 * BATCH / 16;
        (1..count).for_each(|number| trail.write(&executed(&format!("program {number}"))));
        let (filed, held) = trail.so_far();
        let file = std::fs::read(&path).unwrap();
        assert_eq!(file.len() as u64, filed);
        assert!(held.len() < BATCH + 100);
        let acts = acts(&file, held);
        assert_eq!((acts.len(), &acts[0]), (count, &executed("first").act));
    }

    #[test]
    fn a_trail_that_cannot_be_kept_says_that_it_stops() {
        let mut trail = Trail::new("/proc/none/trail".into());
        let count = 2 * BATCH / 16;
        (0..count).for_each(|number| trail.write(&executed(&format!("program {number}"))));
        let (filed, held) = trail.so_far();
        let mut acts = acts(&[], held);
        assert_eq!((filed, acts.pop()), (0, Some(AuditAct::Truncated)));
        // Nothing that somebody may have read already is taken back.
        assert_eq!(acts[0], executed("program 0").act);
        assert!(acts.len() > 100 && held.len() <= BATCH + 100);
    }

    #[test]
    fn however_long_records_are_what_is_held_fits_into_a_message() {
        let place = tempfile::tempdir().unwrap();
        let mut trail = Trail::new(place.path().join("trail"));
        let long = "x".repeat(49 << 10);
        for round in 0..5_000 {
            let name = if round % 3 == 0 { long.as_str() } else { "short" };
            trail.write(&executed(name));
            assert!(trail.so_far().1.len() < 60 << 10);
        }
        assert!(trail.full, "the trail has an end");
        let (filed, held) = trail.so_far();
        assert_eq!(acts(&[], held).pop(), Some(AuditAct::Truncated));
        assert!(filed + held.len() as u64 <= MAX_TRAIL);
        trail.write(&executed(&"y".repeat(100 << 10)));
        assert_eq!(trail.so_far().0, filed);
    }
}
