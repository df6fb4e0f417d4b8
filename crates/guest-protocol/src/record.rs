//! Records: typed values in the output of a call (the entries of a listing, the
//! matches of a search), each with its length before it.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// No record is longer than this.
const MAX_RECORD: usize = 256 << 10;

/// Bytes that are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed record in the output of a call")]
pub struct RecordError;

/// Appends a record's wire form.
///
/// # Errors
/// When it has no wire form or one too long.
pub fn encode_record(record: &impl Serialize, out: &mut Vec<u8>) -> Result<(), RecordError> {
    let bytes = postcard::to_stdvec(record).map_err(|_| RecordError)?;
    let length = u32::try_from(bytes.len()).map_err(|_| RecordError)?;
    if bytes.len() > MAX_RECORD {
        return Err(RecordError);
    }
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Turns the output of a call into records.
#[derive(Debug, Default)]
pub struct RecordDecoder {
    buffer: Vec<u8>,
    read: usize,
}

impl RecordDecoder {
    /// Takes in more output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole record, if there is one.
    ///
    /// # Errors
    /// When the bytes are no record; the rest is then of no use.
    pub fn next_record<T: DeserializeOwned>(&mut self) -> Result<Option<T>, RecordError> {
        let rest = self.buffer.get(self.read..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_RECORD {
            return Err(RecordError);
        }
        let Some(record) = rest.get(..length) else { return Ok(None) };
        let (record, leftover) = postcard::take_from_bytes(record).map_err(|_| RecordError)?;
        if !leftover.is_empty() {
            return Err(RecordError);
        }
        self.read += 4 + length;
        Ok(Some(record))
    }

    /// Bytes that were taken in and have not come out as a record.
    #[must_use]
    pub fn left(&self) -> usize {
        self.buffer.len() - self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_of_any_cut_of_the_stream() {
        let records = vec!["one".to_owned(), String::new(), "three".repeat(100)];
        let mut wire = Vec::new();
        for record in &records {
            encode_record(record, &mut wire).unwrap();
        }
        for cut in 1..wire.len() {
            let mut decoder = RecordDecoder::default();
            let mut out: Vec<String> = Vec::new();
            for piece in wire.chunks(cut) {
                decoder.push(piece);
                while let Some(record) = decoder.next_record().unwrap() {
                    out.push(record);
                }
            }
            assert_eq!(out, records);
        }
    }

    #[test]
    fn a_record_of_absurd_length_is_refused() {
        let mut decoder = RecordDecoder::default();
        decoder.push(&u32::MAX.to_le_bytes());
        assert_eq!(decoder.next_record::<String>(), Err(RecordError));
    }
}
