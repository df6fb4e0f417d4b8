//! Reading the audit trail back: what the supervisor wrote, and what the proxy
//! did.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use cofferdam_guest_protocol::{RecordDecoder, encode_record};
use cofferdam_native_supervisor::remains;
use cofferdam_types::AuditRecord;

/// The proxy's part of the trail.
const EGRESS: &str = "egress";

/// All records of a sandbox so far, in order of time: those in so many bytes of
/// the supervisor's file, those that it still holds, and the proxy's.
pub(crate) fn read(state: &Path, filed: u64, held: &[u8]) -> io::Result<Vec<AuditRecord>> {
    let mut bytes = Vec::new();
    if filed > 0 {
        // What was added to the file since is among those held.
        File::open(state.join(remains::TRAIL))?.take(filed).read_to_end(&mut bytes)?;
    }
    bytes.extend_from_slice(held);
    let mut records = decode(&bytes)?;
    match fs::read(state.join(EGRESS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        egress => records.extend(decode(&egress?)?),
    }
    records.sort_by_key(|record| record.at_us);
    Ok(records)
}

fn decode(bytes: &[u8]) -> io::Result<Vec<AuditRecord>> {
    let mut decoder = RecordDecoder::default();
    decoder.push(bytes);
    let mut records = Vec::new();
    while let Some(record) = decoder.next_record().map_err(io::Error::other)? {
        records.push(record);
    }
    Ok(records)
}

/// Where the proxy's records go.
pub(crate) fn open_egress(state: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(state.join(EGRESS))
}

/// Adds one record of the proxy's.
pub(crate) fn append(file: &mut File, record: &AuditRecord) -> io::Result<()> {
    let mut bytes = Vec::new();
    encode_record(record, &mut bytes).map_err(io::Error::other)?;
    file.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use cofferdam_types::AuditAct;

    use super::*;

    #[test]
    fn all_parts_are_read_once_and_in_order_of_time() {
        let state = tempfile::tempdir().unwrap();
        let record = |at_us: u64, path: &str| AuditRecord {
            at_us,
            call: None,
            pid: 0,
            act: AuditAct::Executed { path: path.to_owned() },
        };
        let mut trail = File::create(state.path().join(remains::TRAIL)).unwrap();
        append(&mut trail, &record(1, "first")).unwrap();
        let filed = trail.metadata().unwrap().len();
        let mut held = Vec::new();
        encode_record(&record(3, "third"), &mut held).unwrap();
        // Meanwhile the supervisor has filed what it had told.
        trail.write_all(&held).unwrap();
        let mut egress = open_egress(state.path()).unwrap();
        append(&mut egress, &record(2, "second")).unwrap();
        let times: Vec<u64> =
            read(state.path(), filed, &held).unwrap().iter().map(|record| record.at_us).collect();
        assert_eq!(times, [1, 2, 3]);
    }

    #[test]
    fn a_sandbox_without_a_trail_has_an_empty_one() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(read(state.path(), 0, &[]).unwrap(), Vec::new());
    }
}
