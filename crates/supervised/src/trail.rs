//! Reading the audit trail back: what the supervisor wrote, and what the proxy
//! did.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use cofferdam_guest_protocol::{RecordDecoder, encode_record};
use cofferdam_native_supervisor::remains;
use cofferdam_sandbox::TrailMark;
use cofferdam_types::{AuditAct, AuditRecord};

/// The proxy's part of the trail.
const EGRESS: &str = "egress";

/// The proxy's part is cut at this size, as the supervisor's is.
const MAX_EGRESS: u64 = 64 << 20;

/// The record that says so is not longer: only its numbers vary.
const LONGEST_END: u64 = 32;

/// The proxy's part is looked through in pieces of this size.
const PIECE: usize = 64 << 10;

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
    let most = MAX_EGRESS.saturating_sub(proxied);
    let egress = match read_part(&state.join(EGRESS), proxied, most) {
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

/// Where the proxy's records are kept: a file, but for tests.
pub(crate) trait Keep: Write {
    /// Bytes that are there.
    fn length(&self) -> io::Result<u64>;

    /// Takes away what is beyond this length.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Keep for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// What is still to be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Every record.
    Records,
    /// That there are no more records.
    End,
    /// Nothing.
    Nothing,
}

/// The proxy's part of the trail. It has whole records only, and grows to a limit; the
/// last record then says that others were dropped.
#[derive(Debug)]
pub(crate) struct EgressTrail<Place = File> {
    place: Place,
    limit: u64,
    wanted: Wanted,
}

impl EgressTrail {
    /// Goes on with that of a sandbox, or begins it.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        Self::with_limit(state, MAX_EGRESS)
    }

    fn with_limit(state: &Path, limit: u64) -> io::Result<Self> {
        let path = state.join(EGRESS);
        let mut place = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        let (whole, wanted) = look_through(&mut place, limit)?;
        // Whoever had it before may have died while it wrote.
        if place.length()? > whole {
            place.cut(whole)?;
        }
        Ok(Self { place, limit, wanted })
    }
}

impl<Place: Keep> EgressTrail<Place> {
    /// Adds one. A trail that cannot be kept is not worth ending the work it describes;
    /// but the reader sees that it stops, as soon as that can be written.
    pub(crate) fn write(&mut self, record: &AuditRecord) {
        if self.wanted == Wanted::Records && self.append(record, LONGEST_END).is_err() {
            self.stop_at(Wanted::End);
        }
        if self.wanted == Wanted::End {
            let end = AuditRecord { act: AuditAct::Truncated, ..record.clone() };
            if self.append(&end, 0).is_ok() {
                self.stop_at(Wanted::Nothing);
            }
        }
    }

    /// What is wanted only ever gets less.
    fn stop_at(&mut self, wanted: Wanted) {
        if self.wanted != Wanted::Nothing {
            self.wanted = wanted;
        }
    }

    /// Adds all of a record or nothing, and leaves so many bytes up to the limit.
    fn append(&mut self, record: &AuditRecord, spare: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode_record(record, &mut bytes).map_err(io::Error::other)?;
        let before = self.place.length()?;
        if before + bytes.len() as u64 + spare > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.place.write_all(&bytes);
        if written.is_err() && self.place.cut(before).is_err() {
            // Half of a record at the end is left out by who reads; one with others after
            // it would make them unreadable.
            self.stop_at(Wanted::Nothing);
        }
        written
    }
}

/// Where the whole records end, up to a limit, and what is wanted after them.
fn look_through(file: &mut File, limit: u64) -> io::Result<(u64, Wanted)> {
    let mut decoder = RecordDecoder::default();
    let mut piece = vec![0; PIECE];
    let mut taken = 0;
    let mut wanted = Wanted::Records;
    let mut rest = file.take(limit);
    loop {
        match decoder.next_record::<AuditRecord>() {
            Ok(Some(record)) if record.act == AuditAct::Truncated => wanted = Wanted::Nothing,
            Ok(Some(_)) => {}
            Ok(None) => match rest.read(&mut piece)? {
                0 => break,
                count => {
                    decoder.push(piece.get(..count).unwrap_or_default());
                    taken += count as u64;
                }
            },
            // From here on nothing can be read, nor what is added to it.
            Err(_) => {
                wanted = Wanted::End;
                break;
            }
        }
    }
    Ok((taken - decoder.left() as u64, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress(at_us: u64) -> AuditRecord {
        let (host, verdict) = ("host.test".repeat(10), "allowed".to_owned());
        let act = AuditAct::Egress { host, port: 443, verdict, sent: 1, received: 2 };
        AuditRecord { at_us, call: None, pid: 0, act }
    }

    /// What can be read of the proxy's part, oldest first.
    fn acts(state: &Path) -> Vec<AuditAct> {
        let (records, _) = read(state, TrailMark::default(), 0, &[]).unwrap();
        records.into_iter().map(|record| record.act).collect()
    }

    fn encoded(record: &AuditRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_record(record, &mut bytes).unwrap();
        bytes
    }

    /// A file on a disk that has so many bytes left.
    struct Disk {
        file: File,
        left: usize,
        /// Whether what is written can be taken away again.
        cuts: bool,
    }

    impl Disk {
        fn trail(state: &Path, left: usize, cuts: bool) -> EgressTrail<Self> {
            let EgressTrail { place: file, limit, wanted } = EgressTrail::open(state).unwrap();
            EgressTrail { place: Self { file, left, cuts }, limit, wanted }
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.left == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = self.file.write(&bytes[..bytes.len().min(self.left)])?;
            self.left -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Keep for Disk {
        fn length(&self) -> io::Result<u64> {
            self.file.length()
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            if !self.cuts {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.left += usize::try_from(self.length()? - length).unwrap();
            self.file.cut(length)
        }
    }

    #[test]
    fn a_proxy_that_is_asked_without_end_leaves_a_trail_that_has_one() {
        const LIMIT: u64 = 10_000;
        let state = tempfile::tempdir().unwrap();
        let mut trail = EgressTrail::with_limit(state.path(), LIMIT).unwrap();
        (0..1000).for_each(|at_us| trail.write(&egress(at_us)));

        let length = trail.place.length().unwrap();
        let one = encoded(&egress(0)).len() as u64;
        assert!(length <= LIMIT && length > LIMIT - one - LONGEST_END, "{length}");
        let found = acts(state.path());
        let (last, others) = found.split_last().unwrap();
        assert_eq!(last, &AuditAct::Truncated);
        assert!(others.len() > 50 && others.iter().all(|act| *act == egress(0).act));

        // Whoever takes the sandbox up adds nothing to that, however short.
        let mut later = EgressTrail::with_limit(state.path(), LIMIT).unwrap();
        later.write(&AuditRecord { act: AuditAct::Truncated, ..egress(2000) });
        assert_eq!(later.place.length().unwrap(), length);
    }

    #[test]
    fn the_record_of_the_end_is_as_long_as_is_reckoned_with_at_most() {
        let call = Some(cofferdam_types::CallId(u64::MAX));
        let act = AuditAct::Truncated;
        let longest = AuditRecord { at_us: u64::MAX, call, pid: u32::MAX, act };
        assert!(encoded(&longest).len() as u64 <= LONGEST_END);
    }

    #[test]
    fn a_write_that_fails_half_way_leaves_whole_records_and_the_last_says_so() {
        let one = encoded(&egress(0)).len();
        let state = tempfile::tempdir().unwrap();
        let mut trail = Disk::trail(state.path(), 2 * one + one / 2, true);
        (0..5).for_each(|at_us| trail.write(&egress(at_us)));
        assert_eq!(acts(state.path()), [egress(0).act, egress(1).act, AuditAct::Truncated]);
    }

    #[test]
    fn a_full_disk_leaves_whole_records_and_the_end_is_told_once_there_is_room() {
        let one = encoded(&egress(0)).len();
        let state = tempfile::tempdir().unwrap();
        let mut trail = Disk::trail(state.path(), 2 * one + 3, true);
        (0..5).for_each(|at_us| trail.write(&egress(at_us)));
        assert_eq!(acts(state.path()), [egress(0).act, egress(1).act]);
        assert_eq!(trail.place.length().unwrap(), 2 * one as u64);
        trail.place.left = 10 * one;
        (5..8).for_each(|at_us| trail.write(&egress(at_us)));
        assert_eq!(acts(state.path()), [egress(0).act, egress(1).act, AuditAct::Truncated]);
    }

    #[test]
    fn half_of_a_record_that_cannot_be_taken_away_has_nothing_after_it() {
        let one = encoded(&egress(0)).len();
        let state = tempfile::tempdir().unwrap();
        let mut trail = Disk::trail(state.path(), one + one / 2, false);
        trail.write(&egress(0));
        trail.write(&egress(1));
        trail.place.left = 10 * one;
        trail.write(&egress(2));
        assert_eq!(trail.place.length().unwrap(), (one + one / 2) as u64);
        assert_eq!(acts(state.path()), [egress(0).act]);

        // Whoever takes the sandbox up goes on after the whole ones.
        EgressTrail::open(state.path()).unwrap().write(&egress(3));
        assert_eq!(acts(state.path()), [egress(0).act, egress(3).act]);
    }

    #[test]
    fn what_is_no_record_is_cut_off_and_the_end_is_told() {
        let state = tempfile::tempdir().unwrap();
        let mut trail = EgressTrail::open(state.path()).unwrap();
        trail.write(&egress(0));
        trail.place.write_all(&[0xff; 100]).unwrap();
        assert!(read(state.path(), TrailMark::default(), 0, &[]).is_err());
        let mut later = EgressTrail::open(state.path()).unwrap();
        (1..3).for_each(|at_us| later.write(&egress(at_us)));
        assert_eq!(acts(state.path()), [egress(0).act, AuditAct::Truncated]);
    }

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
        trail.write_all(&encoded(&record(1, "first"))).unwrap();
        let filed = trail.metadata().unwrap().len();
        let held = encoded(&record(3, "third"));
        // Meanwhile the supervisor has filed what it had told.
        trail.write_all(&held).unwrap();
        let mut egress = EgressTrail::open(state.path()).unwrap();
        egress.write(&record(2, "second"));
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
        let more = encoded(&record(5, "fifth"));
        egress.write(&record(4, "fourth"));
        // Half of a record is being written.
        egress.place.write_all(&[9, 0]).unwrap();
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
