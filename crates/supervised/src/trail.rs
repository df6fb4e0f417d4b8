//! Reading the audit trail back: what the supervisor wrote, and what the proxy
//! did.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use cofferdam_guest_protocol::{RecordDecoder, encode_record};
use cofferdam_native_supervisor::remains;
use cofferdam_sandbox::TrailMark;
use cofferdam_types::AuditRecord;

/// The proxy's part of the trail.
const EGRESS: &str = "egress";

/// The records of a sandbox since a place, in order of time, and the place after them:
/// those in so many bytes of the supervisor's file, those that it still holds, and the
/// proxy's.
pub(crate) fn read(
    state: &Path,
    since: TrailMark,
    filed: u64,
    held: &[u8],
) -> io::Result<(Vec<AuditRecord>, TrailMark)> {
    let TrailMark([supervised, proxied]) = since;
    // What was added to the file since is among those held.
    let mut bytes = match supervised < filed {
        true => read_part(&state.join(remains::TRAIL), supervised, filed - supervised)?,
        false => Vec::new(),
    };
    let known = usize::try_from(supervised.saturating_sub(filed)).unwrap_or(usize::MAX);
    bytes.extend_from_slice(held.get(known..).unwrap_or_default());
    let (mut records, supervised) = decode(&bytes, supervised)?;
    let egress = match read_part(&state.join(EGRESS), proxied, u64::MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        egress => egress?,
    };
    let (reached, proxied) = decode(&egress, proxied)?;
    records.extend(reached);
    records.sort_by_key(|record| record.at_us);
    Ok((records, TrailMark([supervised, proxied])))
}

fn read_part(path: &Path, from: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The whole records in these bytes, and where the last of them ends.
fn decode(bytes: &[u8], from: u64) -> io::Result<(Vec<AuditRecord>, u64)> {
    let mut decoder = RecordDecoder::default();
    decoder.push(bytes);
    let mut records = Vec::new();
    while let Some(record) = decoder.next_record().map_err(io::Error::other)? {
        records.push(record);
    }
    Ok((records, from + (bytes.len() - decoder.left()) as u64))
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
        let times = |since, filed, held: &[u8]| {
            let (records, end) = read(state.path(), since, filed, held).unwrap();
            (records.iter().map(|record| record.at_us).collect::<Vec<u64>>(), end)
        };
        let (all, end) = times(TrailMark::default(), filed, &held);
        assert_eq!(all, [1, 2, 3]);
        // From there on nothing, wherever the supervisor has it; then what is new.
        let both = filed + held.len() as u64;
        assert_eq!(times(end, filed, &held), (vec![], end));
        assert_eq!(times(end, both, &[]), (vec![], end));
        assert_eq!(times(TrailMark([filed, 0]), both, &[]), (vec![2, 3], end));
        let mut more = Vec::new();
        encode_record(&record(5, "fifth"), &mut more).unwrap();
        append(&mut egress, &record(4, "fourth")).unwrap();
        // Half of a record is being written.
        egress.write_all(&[9, 0]).unwrap();
        let (fresh, after) = times(end, both, &more);
        assert_eq!(fresh, [4, 5]);
        assert_eq!(times(after, both, &more), (vec![], after));
    }

    #[test]
    fn a_sandbox_without_a_trail_has_an_empty_one() {
        let state = tempfile::tempdir().unwrap();
        let nothing = (Vec::new(), TrailMark::default());
        assert_eq!(read(state.path(), TrailMark::default(), 0, &[]).unwrap(), nothing);
    }
}
