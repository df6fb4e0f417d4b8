//! An uploaded archive, taken in: what comes out is a plain tar archive of files,
//! directories and links that stay inside, for the guest to unpack.
//!
//! Nothing in an upload is trusted, and nothing in it is repaired: an archive
//! with anything in it that some reader could take for something else is refused
//! as a whole, with the entry and the reason. Which format it is shows from its
//! content, never from its name. Bytes are counted as they come, so it does not
//! matter what an archive says of itself or how well it is compressed. What this
//! takes in memory does not depend on the files' sizes: about 50 bytes for each
//! entry, and what its decompressor needs (of Zstandard at most 32 MiB).

mod deflated;
mod paths;
mod pax;
mod tarball;
mod zip_directory;
mod zipped;

use std::io::{self, BufReader, Read, Seek, Write};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder;

use self::paths::Paths;
use crate::component::commands_terminal;
use crate::tar_form::TarForm;

/// The largest window of a Zstandard stream, as a power of two.
const LARGEST_WINDOW: u32 = 25;

/// Bytes copied at once.
const PIECE: usize = 64 << 10;

/// Bytes of an archive around each of its entries, at most: headers and padding.
const AROUND_ENTRY: u64 = 4 << 10;

/// Bytes that an archive may have without any entry.
const AROUND_ALL: u64 = 1 << 20;

/// What an upload may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeLimits {
    /// Entries, and directories that they need.
    pub entries: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
}

impl Default for IntakeLimits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 4 << 30, file_bytes: 2 << 30 }
    }
}

/// The formats that are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadFormat {
    /// A tar archive.
    Tar,
    /// A tar archive, compressed with gzip.
    TarGz,
    /// A tar archive, compressed with Zstandard.
    TarZst,
    /// A ZIP.
    Zip,
}

/// What was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeSummary {
    /// What the upload is.
    pub format: UploadFormat,
    /// Files, directories and links.
    pub entries: u64,
    /// Files alone.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// Why an upload is refused.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// It is in no format that is known here.
    #[error("this is no archive: send a tar, tar.gz, tar.zst or zip file")]
    NoArchive,
    /// An entry is not taken in.
    #[error("the archive is refused for its entry {entry}: {why}")]
    Entry {
        /// Its path, in quotes and readable.
        entry: String,
        /// Why.
        why: String,
    },
    /// It is too much.
    #[error("the archive has more than {limit} {what}: leave something out")]
    TooMuch {
        /// What is allowed.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// It is broken, or cut off.
    #[error("the archive is broken: {what}")]
    Broken {
        /// What is wrong with it.
        what: String,
    },
    /// It cannot be read.
    #[error("cannot read the upload")]
    Input(#[source] io::Error),
    /// What is taken in cannot be written.
    #[error("cannot write what is taken in")]
    Output(#[source] io::Error),
}

/// Takes an archive in: writes a tar archive of what is in it.
///
/// # Errors
/// When anything in it is not as it has to be. What was written until then has no
/// end and is to be thrown away.
pub fn intake<R: Read + Seek, W: Write>(
    mut input: R,
    limits: IntakeLimits,
    out: W,
) -> Result<IntakeSummary, IntakeError> {
    let format = format_of(&mut input)?;
    let mut taker = Taker::new(format, limits, out);
    let most = limits.entries.saturating_mul(AROUND_ENTRY).saturating_add(AROUND_ALL);
    let most = most.saturating_add(limits.bytes);
    match format {
        UploadFormat::Zip => zipped::take(input, &mut taker)?,
        UploadFormat::Tar => tarball::take(Bounded::new(input, most), &mut taker)?,
        UploadFormat::TarGz => {
            let plain = MultiGzDecoder::new(BufReader::with_capacity(PIECE, input));
            tarball::take(Bounded::new(plain, most), &mut taker)?;
        }
        UploadFormat::TarZst => {
            let mut plain = Decoder::new(input).map_err(|error| broken(&error))?;
            plain.window_log_max(LARGEST_WINDOW).map_err(|error| broken(&error))?;
            tarball::take(Bounded::new(plain, most), &mut taker)?;
        }
    }
    taker.finish()
}

fn format_of<R: Read + Seek>(input: &mut R) -> Result<UploadFormat, IntakeError> {
    let mut start = Vec::new();
    input.take(512).read_to_end(&mut start).map_err(IntakeError::Input)?;
    input.rewind().map_err(IntakeError::Input)?;
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        Ok(UploadFormat::Zip)
    } else if start.starts_with(&[0x1f, 0x8b]) {
        Ok(UploadFormat::TarGz)
    } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Ok(UploadFormat::TarZst)
    } else if tarball::is_header(&start) {
        Ok(UploadFormat::Tar)
    } else {
        Err(IntakeError::NoArchive)
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link,
}

/// Writes what is taken in, and counts.
struct Taker<W: Write> {
    tar: TarForm<W>,
    paths: Paths,
    limits: IntakeLimits,
    summary: IntakeSummary,
    buffer: Vec<u8>,
}

impl<W: Write> Taker<W> {
    fn new(format: UploadFormat, limits: IntakeLimits, out: W) -> Self {
        Self {
            tar: TarForm::new(out),
            paths: Paths::new(limits.entries),
            limits,
            summary: IntakeSummary { format, entries: 0, files: 0, bytes: 0 },
            buffer: vec![0; PIECE],
        }
    }

    /// A directory; the archive's own top is nothing new.
    fn directory(&mut self, path: &[u8], mode: u32, changed: u64) -> Result<(), IntakeError> {
        if let Some(inner) = self.paths.claim(path, Kind::Directory)? {
            self.summary.entries += 1;
            // Its owner must be able to unpack into it.
            let mode = mode & 0o777 | 0o700;
            self.tar.directory(&inner, mode, changed).map_err(IntakeError::Output)?;
        }
        Ok(())
    }

    fn link(&mut self, path: &[u8], target: &[u8], changed: u64) -> Result<(), IntakeError> {
        if let Some(inner) = self.paths.claim(path, Kind::Link)? {
            paths::check_target(&inner, target).map_err(|why| refused(path, why))?;
            self.summary.entries += 1;
            self.tar.link(&inner, target, changed).map_err(IntakeError::Output)?;
        }
        Ok(())
    }

    /// A file of this size, which is read to its end.
    fn file(
        &mut self,
        path: &[u8],
        mode: u32,
        changed: u64,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), IntakeError> {
        let Some(inner) = self.paths.claim(path, Kind::File)? else {
            return Err(refused(path, "it has no name"));
        };
        let IntakeLimits { bytes: most, file_bytes, .. } = self.limits;
        if size > file_bytes {
            return Err(IntakeError::TooMuch { limit: file_bytes, what: "bytes in one file" });
        }
        if self.summary.bytes.saturating_add(size) > most {
            return Err(IntakeError::TooMuch { limit: most, what: "bytes in its files" });
        }
        self.summary.entries += 1;
        self.summary.files += 1;
        // Whoever works on it must be able to.
        let mode = mode & 0o777 | 0o600;
        self.tar.file(&inner, mode, changed, size).map_err(IntakeError::Output)?;
        let mut left = size;
        loop {
            let count = match content.read(&mut self.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(refused(path, error.to_string())),
            };
            let piece = self.buffer.get(..count).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            let Some(less) = left.checked_sub(count as u64) else {
                return Err(refused(path, "it is longer than the archive says"));
            };
            left = less;
            self.summary.bytes += count as u64;
            self.tar.write_all(piece).map_err(IntakeError::Output)?;
        }
        if left > 0 {
            return Err(refused(path, "it is shorter than the archive says"));
        }
        Ok(())
    }

    fn finish(self) -> Result<IntakeSummary, IntakeError> {
        let mut out = self.tar.finish().map_err(IntakeError::Output)?;
        out.flush().map_err(IntakeError::Output)?;
        Ok(self.summary)
    }
}

fn refused(path: &[u8], why: impl Into<String>) -> IntakeError {
    IntakeError::Entry { entry: shown(path), why: why.into() }
}

fn broken(error: &io::Error) -> IntakeError {
    IntakeError::Broken { what: error.to_string() }
}

/// A path for people: in quotes, cut, and with nothing a terminal would obey.
fn shown(path: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(path);
    let mut shown = String::from("\"");
    for (place, found) in text.chars().enumerate() {
        if place == LONGEST {
            shown.push('…');
            break;
        }
        if commands_terminal(found) || matches!(found, '"' | '\\') {
            shown.extend(found.escape_default());
        } else {
            shown.push(found);
        }
    }
    shown.push('"');
    shown
}

/// Ends with an error after so many bytes.
struct Bounded<R> {
    input: R,
    left: u64,
}

impl<R: Read> Bounded<R> {
    fn new(input: R, left: u64) -> Self {
        Self { input, left }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left.ok_or_else(|| io::Error::other("it is too long for what is in it"))?;
        Ok(count)
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
