//! The directory at the end of a ZIP, read entry by entry.
//!
//! There must be just one, right before the archive's last record, which ends with
//! the file. A reader that looks elsewhere finds nothing.

use std::io::{Read, Seek, SeekFrom};

use super::{IntakeError, broken, refused};

const LAST: &[u8; 4] = b"PK\x05\x06";
const LAST_LENGTH: u64 = 22;
const LARGE_LAST: &[u8; 4] = b"PK\x06\x06";
const LARGE_LAST_LENGTH: u64 = 56;
const LOCATOR: &[u8; 4] = b"PK\x06\x07";
const LOCATOR_LENGTH: u64 = 20;
const ROW: &[u8; 4] = b"PK\x01\x02";
const ROW_LENGTH: usize = 46;

/// The longest comment at an archive's end.
const LONGEST_COMMENT: u64 = 0xffff;

/// Where the directory is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) rows: u64,
}

/// An entry, as the directory has it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: Vec<u8>,
    pub(super) made_on: u8,
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) time: u16,
    pub(super) date: u16,
    pub(super) crc: u32,
    pub(super) packed: u64,
    pub(super) size: u64,
    pub(super) attributes: u32,
    pub(super) offset: u64,
    /// How long it is in the directory.
    pub(super) length: u64,
}

/// Numbers of two, four and eight bytes in a record.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl Fields<'_> {
    pub(super) fn u16(&self, at: usize) -> u16 {
        self.part(at).map_or(0, u16::from_le_bytes)
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        self.part(at).map_or(0, u32::from_le_bytes)
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        self.part(at).map_or(0, u64::from_le_bytes)
    }

    fn part<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }
}

/// So many bytes from a place.
pub(super) fn read_at<R: Read + Seek>(
    input: &mut R,
    at: u64,
    length: usize,
) -> Result<Vec<u8>, IntakeError> {
    input.seek(SeekFrom::Start(at)).map_err(IntakeError::Input)?;
    let mut bytes = Vec::new();
    let mut part = input.take(length as u64);
    part.read_to_end(&mut bytes).map_err(|error| broken(&error))?;
    if bytes.len() != length {
        return Err(said("it was cut off, or points behind its end"));
    }
    Ok(bytes)
}

/// Finds the directory.
pub(super) fn find<R: Read + Seek>(input: &mut R) -> Result<Directory, IntakeError> {
    let length = input.seek(SeekFrom::End(0)).map_err(IntakeError::Input)?;
    let tail = length.min(LAST_LENGTH + LONGEST_COMMENT);
    let bytes = read_at(input, length - tail, usize::try_from(tail).unwrap_or(0))?;
    let mut found = None;
    for (place, window) in bytes.windows(LAST_LENGTH as usize).enumerate() {
        if !window.starts_with(LAST) {
            continue;
        }
        let comment = usize::from(Fields(window).u16(20));
        if place + LAST_LENGTH as usize + comment == bytes.len() {
            if found.is_some() {
                return Err(said("it has two ends"));
            }
            found = Some((place, window));
        }
    }
    let Some((place, last)) = found else { return Err(said("it has no end: it was cut off")) };
    let at = length - tail + place as u64;
    let last = Fields(last);
    let small = [u64::from(last.u16(10)), u64::from(last.u32(12)), u64::from(last.u32(16))];
    let parts = [last.u16(4), last.u16(6)];
    let (end, [rows, size, start]) = match large(input, at, small)? {
        Some(large) => large,
        None => (at, small),
    };
    if parts.iter().any(|part| !matches!(part, 0 | 0xffff)) {
        return Err(said("it is one of several parts"));
    }
    if start.checked_add(size) != Some(end) {
        return Err(said("its directory is not where its end says"));
    }
    Ok(Directory { start, end, rows })
}

/// What the record for large archives says, where there is one.
fn large<R: Read + Seek>(
    input: &mut R,
    last: u64,
    small: [u64; 3],
) -> Result<Option<(u64, [u64; 3])>, IntakeError> {
    let Some(at) = last.checked_sub(LOCATOR_LENGTH) else { return Ok(None) };
    let locator = read_at(input, at, LOCATOR_LENGTH as usize)?;
    if !locator.starts_with(LOCATOR) {
        return Ok(None);
    }
    let place = Fields(&locator).u64(8);
    let record = read_at(input, place, LARGE_LAST_LENGTH as usize)?;
    let fields = Fields(&record);
    let length = fields.u64(4).checked_add(12).and_then(|length| length.checked_add(place));
    if !record.starts_with(LARGE_LAST) || length != Some(at) {
        return Err(said("its end for large archives is not where it is said to be"));
    }
    let large = [fields.u64(32), fields.u64(40), fields.u64(48)];
    let most = [0xffff, 0xffff_ffff, 0xffff_ffff];
    for ((small, large), most) in small.into_iter().zip(large).zip(most) {
        if small != most && small != large {
            return Err(said("its two ends say different things"));
        }
    }
    Ok(Some((place, large)))
}

/// The entry at a place in the directory.
pub(super) fn row<R: Read + Seek>(
    input: &mut R,
    at: u64,
    directory: &Directory,
) -> Result<Row, IntakeError> {
    let head = read_at(input, at, ROW_LENGTH)?;
    let fields = Fields(&head);
    if !head.starts_with(ROW) {
        return Err(said("its directory has something else than entries"));
    }
    let lengths = [fields.u16(28), fields.u16(30), fields.u16(32)].map(usize::from);
    let [name, extra, comment] = lengths;
    let rest = read_at(input, at + ROW_LENGTH as u64, name + extra + comment)?;
    let (name, rest) = rest.split_at_checked(name).unwrap_or_default();
    let extra = rest.get(..extra).unwrap_or_default();
    let length = ROW_LENGTH as u64 + (lengths.iter().sum::<usize>()) as u64;
    if at + length > directory.end {
        return Err(said("its directory goes on behind its end"));
    }
    let mut row = Row {
        name: name.to_vec(),
        made_on: head.get(5).copied().unwrap_or(0),
        flags: fields.u16(8),
        method: fields.u16(10),
        time: fields.u16(12),
        date: fields.u16(14),
        crc: fields.u32(16),
        packed: fields.u32(20).into(),
        size: fields.u32(24).into(),
        attributes: fields.u32(38),
        offset: fields.u32(42).into(),
        length,
    };
    if !matches!(fields.u16(34), 0 | 0xffff) {
        return Err(refused(&row.name, "it is in another part of the archive"));
    }
    row.enlarge(extra).map_err(|why| refused(name, why))?;
    Ok(row)
}

impl Row {
    /// Takes over what the extra fields say.
    fn enlarge(&mut self, mut extra: &[u8]) -> Result<(), &'static str> {
        const SATURATED: u64 = 0xffff_ffff;
        let mut seen = false;
        while extra.len() >= 4 {
            let (id, length) = (Fields(extra).u16(0), usize::from(Fields(extra).u16(2)));
            let field = extra.get(4..4 + length).ok_or("it has a malformed extra field")?;
            extra = extra.get(4 + length..).unwrap_or_default();
            match id {
                0x0001 if seen => return Err("its sizes are said twice"),
                0x0001 => {
                    seen = true;
                    let mut at = 0;
                    for value in [&mut self.size, &mut self.packed, &mut self.offset] {
                        if *value == SATURATED {
                            if field.len() < at + 8 {
                                return Err("it has a malformed extra field");
                            }
                            *value = Fields(field).u64(at);
                            at += 8;
                        }
                    }
                }
                // Another name: which one counts depends on who reads it.
                0x7075 if field.get(5..) != Some(self.name.as_slice()) => {
                    return Err("it has two names");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

pub(super) fn said(what: &str) -> IntakeError {
    IntakeError::Broken { what: what.to_owned() }
}
