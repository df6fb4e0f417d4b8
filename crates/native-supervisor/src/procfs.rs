//! Files of the kernel's: their size is not known before they are read, and what a process
//! wrote into them, its name say, need not be text. That is shown as well as it can be: nobody
//! is to become invisible by a name.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// More than most of them have, so that one read does.
const ROOM: usize = 16 << 10;

/// No line that is read by [`read_line`] is longer.
const LINE: usize = 1 << 10;

/// Reads one that has a single line, which the kernel gives in one piece.
///
/// # Errors
/// When it is not there.
pub fn read_line(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = vec![0; LINE];
    let count = File::open(path)?.read(&mut text)?;
    text.truncate(count);
    Ok(decode(&text))
}

/// Reads one whole.
///
/// # Errors
/// When it is not there.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = Vec::with_capacity(ROOM);
    File::open(path)?.read_to_end(&mut text)?;
    Ok(decode(&text))
}

fn decode(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
