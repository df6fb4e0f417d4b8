//! Where the desktop's records go: standard output.

use std::io::{self, Write};

use cofferdam_aide_protocol::DeskPiece;
use cofferdam_guest_protocol::encode_record;

use super::error::DeskError;

/// Standard output, record by record.
pub(super) struct Outlet {
    out: io::Stdout,
    buffer: Vec<u8>,
}

impl Outlet {
    pub(super) fn new() -> Self {
        Self { out: io::stdout(), buffer: Vec::new() }
    }

    /// Writes a piece at once.
    pub(super) fn say(&mut self, piece: &DeskPiece) -> Result<(), DeskError> {
        self.buffer.clear();
        encode_record(piece, &mut self.buffer)
            .map_err(|_| DeskError::Broken("a record is too long to be written".to_owned()))?;
        let mut out = self.out.lock();
        out.write_all(&self.buffer)
            .and_then(|()| out.flush())
            .map_err(|source| DeskError::System { what: "write to stdout", source })
    }
}
