//! The content of an entry of a ZIP: as long as is said, packed and unpacked, and
//! with the checksum that is said.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::PIECE;
use super::zip_directory::Row;

/// The content of an entry.
pub(super) struct Content<R> {
    form: Form<R>,
    crc: Crc,
    expected: u32,
    packed: u64,
}

enum Form<R> {
    Stored(Take<R>),
    Deflated(DeflateDecoder<BufReader<Take<R>>>),
}

/// The content of an entry that begins at this place.
pub(super) fn content<'i, R: Read + Seek>(
    input: &'i mut R,
    start: u64,
    row: &Row,
) -> Result<Content<&'i mut R>, String> {
    input.seek(SeekFrom::Start(start)).map_err(|error| error.to_string())?;
    let part = input.take(row.packed);
    let form = match row.method {
        0 => Form::Stored(part),
        8 => {
            // Small entries are many.
            let room = usize::try_from(row.packed).unwrap_or(PIECE).clamp(64, PIECE);
            Form::Deflated(DeflateDecoder::new(BufReader::with_capacity(room, part)))
        }
        other => return Err(format!("it is packed in a way that is not known here ({other})")),
    };
    Ok(Content { form, crc: Crc::new(), expected: row.crc, packed: row.packed })
}

impl<R: Read> Content<R> {
    /// Checks what can be checked only at the end.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        // The end of a packed content may be behind its last byte.
        let more = self.read(&mut [0]).map_err(|error| error.to_string())?;
        let used = match &self.form {
            Form::Stored(part) => self.packed - part.limit(),
            Form::Deflated(decoder) => decoder.total_in(),
        };
        if more > 0 || used != self.packed {
            return Err("it is not as long as the archive says".to_owned());
        }
        if self.crc.sum() != self.expected {
            return Err("it has another checksum than the archive says".to_owned());
        }
        Ok(())
    }
}

impl<R: Read> Read for Content<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.form {
            Form::Stored(part) => part.read(buffer)?,
            Form::Deflated(decoder) => decoder.read(buffer)?,
        };
        self.crc.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
