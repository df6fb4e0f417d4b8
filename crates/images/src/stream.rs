//! Bytes of an archive: a stretch of its file, taken out of its compression, counted and summed
//! up on the way, until somebody wants a stop.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};

use crate::progress::{Progress, Unit};

/// How many bytes are read between two reports.
const REPORTED: u64 = 8 << 20;

/// Looks on while something is read.
pub(crate) trait Watch {
    /// So many bytes more were read. An error ends it.
    fn add(&self, read: usize) -> io::Result<()>;
}

/// Counts what was read for those who wait, and hears them when they do not want to any more.
pub(crate) struct Meter<'a> {
    stop: &'a AtomicBool,
    tell: RefCell<&'a mut dyn FnMut(Progress<'_>)>,
    done: Cell<u64>,
    told: Cell<u64>,
    of: Cell<u64>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(stop: &'a AtomicBool, tell: &'a mut dyn FnMut(Progress<'_>)) -> Self {
        let zero = || Cell::new(0);
        Self { stop, tell: RefCell::new(tell), done: zero(), told: zero(), of: zero() }
    }

    /// So much there will be in all.
    pub(crate) fn expect(&self, of: u64) {
        self.of.set(of);
        self.done.set(0);
        self.report();
    }

    fn report(&self) {
        let (done, of) = (self.done.get(), self.of.get());
        self.told.set(done);
        if of > 0 {
            let done = done.min(of);
            (self.tell.borrow_mut())(Progress::Part { done, of, unit: Unit::Bytes });
        }
    }

    /// All of it is read.
    pub(crate) fn complete(&self) {
        self.done.set(self.of.get());
        self.report();
    }
}

impl Watch for Meter<'_> {
    fn add(&self, read: usize) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("somebody wanted a stop"));
        }
        self.done.set(self.done.get().saturating_add(read as u64));
        if self.done.get().saturating_sub(self.told.get()) >= REPORTED {
            self.report();
        }
        Ok(())
    }
}

/// A stretch of a file, from its beginning to its end.
pub(crate) struct Stretch<'a> {
    pub(crate) file: &'a File,
    pub(crate) at: u64,
    pub(crate) left: u64,
}

impl Read for Stretch<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.at)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Sums up what is read, and reads no more than it may.
pub(crate) struct Summed<R> {
    inner: R,
    hash: Option<Sha256>,
    left: u64,
}

impl<R: Read> Summed<R> {
    pub(crate) fn new(inner: R, sum: bool, most: u64) -> Self {
        Self { inner, hash: sum.then(Sha256::new), left: most }
    }

    /// Reads what is left, and says how much it all can still be and what its sum is.
    pub(crate) fn finish(mut self) -> io::Result<(R, u64, Option<[u8; 32]>)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.inner, self.left, self.hash.map(|hash| hash.finalize().into())))
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other("there is more in it than an image may have"))?;
        if let Some(hash) = &mut self.hash {
            hash.update(buffer.get(..read).unwrap_or_default());
        }
        Ok(read)
    }
}

/// A reader that a meter watches.
pub(crate) struct Metered<'a, R> {
    pub(crate) inner: R,
    pub(crate) watch: &'a dyn Watch,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.watch.add(read)?;
        Ok(read)
    }
}

type Source<'a> = BufReader<Summed<Metered<'a, Stretch<'a>>>>;

/// Something that may be compressed, out of its compression.
pub(crate) enum Opened<'a> {
    Plain(Source<'a>),
    Gzip(Box<MultiGzDecoder<Source<'a>>>),
    Zstd(Box<zstd::Decoder<'static, Source<'a>>>),
}

impl<'a> Opened<'a> {
    /// Opens a stretch; its first bytes say what it is. With `sum`, compressed bytes are summed
    /// up.
    pub(crate) fn new(stretch: Stretch<'a>, watch: &'a dyn Watch, sum: bool) -> io::Result<Self> {
        let most = stretch.left;
        let metered = Metered { inner: stretch, watch };
        let mut source = BufReader::with_capacity(256 << 10, Summed::new(metered, sum, most));
        let first: [u8; 4] = source.fill_buf()?.first_chunk().copied().unwrap_or_default();
        Ok(match first {
            [0x1f, 0x8b, ..] => Self::Gzip(Box::new(MultiGzDecoder::new(source))),
            // A frame, or one to be skipped before it.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                Self::Zstd(Box::new(zstd::Decoder::with_buffer(source)?))
            }
            _ => Self::Plain(source),
        })
    }

    /// The sum of the bytes as they are in the file.
    pub(crate) fn finish(self) -> io::Result<Option<[u8; 32]>> {
        let source = match self {
            Self::Plain(source) => source,
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => decoder.finish(),
        };
        Ok(source.into_inner().finish()?.2)
    }
}

impl Read for Opened<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}
