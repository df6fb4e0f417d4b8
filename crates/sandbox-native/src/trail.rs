//! Reading the audit trail back: what the supervisor wrote, and what the proxy
//! did.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use cofferdam_guest_protocol::{RecordDecoder, encode_record};
use cofferdam_native_supervisor::remains;
use cofferdam_types::AuditRecord;

/// The proxy's part of the trail.
const EGRESS: &str = "egress";

/// All records of a sandbox so far, in order of time.
pub(crate) fn read(state: &Path) -> io::Result<Vec<AuditRecord>> {
    let mut records = read_part(&state.join(remains::TRAIL))?;
    records.extend(read_part(&state.join(EGRESS))?);
    records.sort_by_key(|record| record.at_us);
    Ok(records)
}

fn read_part(path: &Path) -> io::Result<Vec<AuditRecord>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut decoder = RecordDecoder::default();
    decoder.push(&bytes);
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
    fn both_parts_are_read_in_order_of_time() {
        let state = tempfile::tempdir().unwrap();
        let record = |at_us: u64, path: &str| AuditRecord {
            at_us,
            call: None,
            pid: 0,
            act: AuditAct::Executed { path: path.to_owned() },
        };
        let mut trail = File::create(state.path().join(remains::TRAIL)).unwrap();
        append(&mut trail, &record(1, "first")).unwrap();
        append(&mut trail, &record(3, "third")).unwrap();
        let mut egress = open_egress(state.path()).unwrap();
        append(&mut egress, &record(2, "second")).unwrap();
        let times: Vec<u64> =
            read(state.path()).unwrap().iter().map(|record| record.at_us).collect();
        assert_eq!(times, [1, 2, 3]);
    }

    #[test]
    fn a_sandbox_without_a_trail_has_an_empty_one() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(read(state.path()).unwrap(), Vec::new());
    }
}
