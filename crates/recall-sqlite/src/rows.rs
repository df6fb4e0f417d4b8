//! How sources and moments are numbers in the file.

use cofferdam_recall::{Kind, Source};
use cofferdam_types::Timestamp;

use crate::trouble::Trouble;

/// Bits of an id that tell the parts of an event apart.
const PART_BITS: u32 = 20;

/// The kind of a piece of a file.
const FILE: i64 = 0;

/// The id of a part of an event.
pub(crate) fn id(seq: u64, part: u32) -> Result<i64, Trouble> {
    let fits = part < 1 << PART_BITS && seq > 0 && seq < 1 << (63 - PART_BITS);
    let id = fits.then(|| (seq << PART_BITS) | u64::from(part));
    id.and_then(|id| i64::try_from(id).ok())
        .ok_or_else(|| Trouble::Senseless(format!("there is no part {part} of event {seq}")))
}

/// The last id that any part of an event up to this one can have.
pub(crate) fn last_id(seq: u64) -> i64 {
    let next = seq.saturating_add(1).checked_mul(1 << PART_BITS);
    next.and_then(|next| i64::try_from(next - 1).ok()).unwrap_or(i64::MAX)
}

/// The first id that a part of an event has.
pub(crate) fn first_id(seq: u64) -> i64 {
    last_id(seq.saturating_sub(1)).saturating_add(1)
}

/// The event and the part that an id stands for.
fn place(id: i64) -> (u64, u32) {
    let id = u64::try_from(id).unwrap_or(0);
    let part = id & ((1 << PART_BITS) - 1);
    (id >> PART_BITS, u32::try_from(part).unwrap_or(0))
}

/// The number of a source's kind.
pub(crate) fn kind(source: &Source) -> i64 {
    match source {
        Source::File { .. } => FILE,
        Source::Event { kind, .. } => match kind {
            Kind::User => 1,
            Kind::Answer => 2,
            Kind::Call => 3,
            Kind::Output => 4,
            Kind::Check => 5,
        },
    }
}

/// The source of a document: its id and kind, and its place in a file.
pub(crate) fn source(
    id: i64,
    kind: i64,
    file: Option<(String, u32, u32)>,
) -> rusqlite::Result<Source> {
    let kind = match kind {
        FILE => {
            let (path, first, last) =
                file.ok_or(rusqlite::Error::IntegralValueOutOfRange(3, id))?;
            return Ok(Source::File { path, first, last });
        }
        1 => Kind::User,
        2 => Kind::Answer,
        3 => Kind::Call,
        4 => Kind::Output,
        5 => Kind::Check,
        other => return Err(rusqlite::Error::IntegralValueOutOfRange(2, other)),
    };
    let (seq, part) = place(id);
    Ok(Source::Event { seq, part, kind })
}

/// A moment as a number.
pub(crate) fn moment(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// The moment of a number.
pub(crate) fn timestamp(at: i64) -> Timestamp {
    Timestamp(u64::try_from(at).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_log_and_lead_back_to_it() {
        for (seq, part) in [(1, 0), (7, 3), (1 << 40, (1 << PART_BITS) - 1)] {
            let id = id(seq, part).unwrap();
            assert_eq!(place(id), (seq, part));
            assert!(first_id(seq) <= id && id <= last_id(seq));
            assert!(id < first_id(seq + 1) && id > last_id(seq - 1));
        }
        assert_eq!(last_id(u64::MAX), i64::MAX);
        assert!(id(1 << 50, 0).is_err() && id(1, 1 << PART_BITS).is_err() && id(0, 0).is_err());
    }
}
