//! A ZIP that is taken in.
//!
//! It is read by its directory, and what stands before each entry must say the
//! same. The entries fill the archive without overlaps and without gaps, so that
//! a reader that goes from entry to entry finds the same ones.

use std::io::{Read, Seek, Write};

use super::deflated::{self, Content};
use super::zip_directory::{self, Directory, Fields, Row, read_at, said};
use super::{IntakeError, Taker, refused};

const HEAD: &[u8; 4] = b"PK\x03\x04";
const HEAD_LENGTH: usize = 30;

/// Bits of the flags: encrypted in one way or another, and sizes that come
/// behind the content.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const SIZES_BEHIND: u16 = 1 << 3;

/// Systems whose attributes are those of a file system like ours.
const UNIX: [u8; 2] = [3, 19];

/// What is a mode's kind of file.
const KIND: u32 = 0o170_000;

/// The longest target of a link.
const LONGEST_TARGET: u64 = 4096;

/// Takes all entries.
pub(super) fn take<R: Read + Seek, W: Write>(
    mut input: R,
    taker: &mut Taker<W>,
) -> Result<(), IntakeError> {
    let directory = zip_directory::find(&mut input)?;
    if directory.rows > taker.limits.entries {
        return Err(IntakeError::TooMuch { limit: taker.limits.entries, what: "entries" });
    }
    let mut at = directory.start;
    let mut places = Vec::new();
    for _ in 0..directory.rows {
        let row = zip_directory::row(&mut input, at, &directory)?;
        at += row.length;
        places.push(entry(&mut input, &directory, &row, taker)?);
    }
    if at != directory.end {
        return Err(said("its directory has more entries than its end says"));
    }
    places.sort_unstable_by_key(|place| place.start);
    let mut last = Place { start: 0, end: 0, sizes_behind: false };
    for place in places {
        check_gap(&last, place.start)?;
        last = place;
    }
    check_gap(&last, directory.start)
}

/// Where an entry is.
struct Place {
    start: u64,
    end: u64,
    sizes_behind: bool,
}

/// Between two entries there is nothing, or the sizes of the first.
fn check_gap(before: &Place, start: u64) -> Result<(), IntakeError> {
    match start.checked_sub(before.end) {
        None => Err(said("two entries share their content")),
        Some(0) => Ok(()),
        Some(12 | 16 | 20 | 24) if before.sizes_behind => Ok(()),
        Some(_) => Err(said("something is between two entries")),
    }
}

fn entry<R: Read + Seek, W: Write>(
    input: &mut R,
    directory: &Directory,
    row: &Row,
    taker: &mut Taker<W>,
) -> Result<Place, IntakeError> {
    let name = row.name.as_slice();
    if row.flags & ENCRYPTED != 0 {
        return Err(refused(name, "it is encrypted"));
    }
    if str::from_utf8(name).is_err() {
        return Err(refused(name, "its name is not UTF-8: pack it with a newer program"));
    }
    let start = head(input, row)?;
    let end = start.checked_add(row.packed).filter(|end| *end <= directory.start);
    let end = end.ok_or_else(|| refused(name, "it goes on behind the entries' end"))?;
    let mut content = deflated::content(input, start, row).map_err(|why| refused(name, why))?;
    let mode = if UNIX.contains(&row.made_on) { row.attributes >> 16 } else { 0 };
    let is_directory = name.ends_with(b"/");
    let changed = moment(row.date, row.time);
    let or = |otherwise: u32| if mode & 0o777 == 0 { otherwise } else { mode };
    match mode & KIND {
        0 | 0o040_000 if is_directory => {
            if row.size > 0 {
                return Err(refused(name, "it has content and is no file"));
            }
            content.finish().map_err(|why| refused(name, why))?;
            taker.directory(name, or(0o755), changed)?;
        }
        0 | 0o100_000 if !is_directory => {
            taker.file(name, or(0o644), changed, row.size, &mut content)?;
            content.finish().map_err(|why| refused(name, why))?;
        }
        0o120_000 if !is_directory => {
            let target = target(&mut content, row)?;
            taker.link(name, &target, changed)?;
        }
        0 | 0o100_000 | 0o040_000 | 0o120_000 => {
            return Err(refused(name, "its name and its mode say different things of what it is"));
        }
        _ => return Err(refused(name, "it is no file, directory or link")),
    }
    let sizes_behind = row.flags & SIZES_BEHIND != 0;
    Ok(Place { start: row.offset, end, sizes_behind })
}

/// Checks what stands before an entry's content, and says where that begins.
fn head<R: Read + Seek>(input: &mut R, row: &Row) -> Result<u64, IntakeError> {
    let different = || refused(&row.name, "the archive says two different things of it");
    let head = read_at(input, row.offset, HEAD_LENGTH)?;
    let fields = Fields(&head);
    let (name, extra) = (usize::from(fields.u16(26)), fields.u16(28));
    if !head.starts_with(HEAD) || name != row.name.len() {
        return Err(different());
    }
    let at = row.offset + HEAD_LENGTH as u64;
    let same = read_at(input, at, name)? == row.name
        && fields.u16(6) & (ENCRYPTED | SIZES_BEHIND) == row.flags & (ENCRYPTED | SIZES_BEHIND)
        && fields.u16(8) == row.method;
    let sizes = (u64::from(fields.u32(18)), u64::from(fields.u32(22)));
    // They may come behind the content, or be in an extra field.
    let agree = |said: u64, size: u64| {
        said == size || said == 0xffff_ffff || said == 0 && row.flags & SIZES_BEHIND != 0
    };
    if !same || !agree(sizes.0, row.packed) || !agree(sizes.1, row.size) {
        return Err(different());
    }
    Ok(at + name as u64 + u64::from(extra))
}

/// Where a link leads.
fn target<R: Read>(content: &mut Content<R>, row: &Row) -> Result<Vec<u8>, IntakeError> {
    let name = row.name.as_slice();
    if row.size > LONGEST_TARGET {
        return Err(refused(name, "it is a link to no possible name"));
    }
    let mut target = Vec::new();
    let mut part = content.take(LONGEST_TARGET + 1);
    part.read_to_end(&mut target).map_err(|error| refused(name, error.to_string()))?;
    if target.len() as u64 != row.size {
        return Err(refused(name, "it is not as long as the archive says"));
    }
    content.finish().map_err(|why| refused(name, why))?;
    Ok(target)
}

/// Seconds since 1970 of a date and a time, taken for UTC.
fn moment(date: u16, time: u16) -> u64 {
    let (year, month, day) = (1980 + u64::from(date >> 9), date >> 5 & 15, u64::from(date & 31));
    let (hour, minute, second) = (time >> 11, time >> 5 & 63, (time & 31) * 2);
    let before = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let Some(months) = before.get(usize::from(month)).filter(|_| month > 0 && day > 0) else {
        return 0;
    };
    let leap = |year: u64| year.is_multiple_of(4) && year != 2100;
    let leaps = (1972..year).filter(|year| leap(*year)).count() as u64;
    let this = u64::from(leap(year) && month > 2);
    let days = (year - 1970) * 365 + leaps + months + this + day - 1;
    days * 86_400 + u64::from(hour) * 3600 + u64::from(minute) * 60 + u64::from(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_that_were_meant() {
        let date = |year: u16, month: u16, day: u16| (year - 1980) << 9 | month << 5 | day;
        assert_eq!(moment(date(2001, 9, 9), 1 << 11 | 46 << 5 | 20), 1_000_000_000);
        assert_eq!(moment(date(2000, 2, 29), 0), 951_782_400);
        assert_eq!(moment(date(1980, 1, 1), 0), 315_532_800);
        assert_eq!(moment(date(2100, 3, 1), 0), 4_107_542_400);
        assert_eq!(moment(0, 0), 0);
    }
}
