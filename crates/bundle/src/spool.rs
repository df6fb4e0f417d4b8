//! Rows that wait for the end of an archive: in memory, and beyond a megabyte in
//! a file of the temporary directory that has no name and goes with its process.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Seek, Write};
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use tempfile::SpooledTempFile;

use crate::error::BundleError;

/// Bytes that wait in memory.
const IN_MEMORY: usize = 1 << 20;

/// Rows of one kind, each a line of JSON. As a value it is the list of them.
pub(crate) struct Spool<T> {
    // Being written out takes a place to read from, and a value is only lent.
    lines: RefCell<SpooledTempFile>,
    count: u64,
    line: Vec<u8>,
    row: PhantomData<T>,
}

impl<T: Serialize> Spool<T> {
    pub(crate) fn new() -> Self {
        let lines = RefCell::new(SpooledTempFile::new(IN_MEMORY));
        Self { lines, count: 0, line: Vec::new(), row: PhantomData }
    }

    pub(crate) fn push(&mut self, row: &T) -> Result<(), BundleError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, row)
            .map_err(|error| BundleError::spool(&error.into()))?;
        self.line.push(b'\n');
        self.lines.get_mut().write_all(&self.line).map_err(|error| BundleError::spool(&error))?;
        self.count += 1;
        Ok(())
    }

    /// How many rows there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

impl<T: Serialize + DeserializeOwned> Serialize for Spool<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut lines = self.lines.borrow_mut();
        lines.rewind().map_err(S::Error::custom)?;
        let length = usize::try_from(self.count).ok();
        let mut list = to.serialize_seq(length)?;
        for line in BufReader::new(&mut *lines).split(b'\n') {
            let line = line.map_err(S::Error::custom)?;
            let row: T = serde_json::from_slice(&line).map_err(S::Error::custom)?;
            list.serialize_element(&row)?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_their_order_from_memory_and_from_a_file() {
        for count in [0, 3, 200_000] {
            let rows: Vec<String> = (0..count).map(|number| format!("row\n{number}")).collect();
            let mut spool = Spool::new();
            for row in &rows {
                spool.push(row).unwrap();
            }
            assert_eq!(spool.count(), count);
            assert_eq!(spool.lines.borrow().is_rolled(), count > 100_000);
            let written = serde_json::to_string(&spool).unwrap();
            assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), rows);
        }
    }
}
