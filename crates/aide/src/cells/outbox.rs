//! What a cell gives, on its way to standard output.
//!
//! A thread of its own writes, so that the kernel's output is read however slow the
//! reader of ours is: a kernel drops what is not read from it and does not say so. What
//! is held and what is passed on in all have a limit; what is beyond is left out, counted,
//! and said in its place.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cofferdam_aide_protocol::{CellEnd, CellPiece};
use cofferdam_guest_protocol::encode_record;

/// What may wait to be written.
const MAX_HELD: usize = 32 << 20;

/// The writer's end: pieces go in here.
pub(super) struct Outbox {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    /// How much more may be passed on.
    left: usize,
    /// Bytes left out since the last piece that was passed on.
    dropped: u64,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    records: VecDeque<Vec<u8>>,
    held: usize,
    closed: bool,
    /// Nobody reads any more.
    broken: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox {
    /// Passes on up to `limit` bytes of output to `out`.
    pub(super) fn new(out: impl Write + Send + 'static, limit: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = std::thread::Builder::new().name("outbox".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || write_all(&shared, out)
        })?;
        Ok(Self { shared, writer: Some(writer), left: limit, dropped: 0 })
    }

    /// Takes pieces that belong together: all of them or none are passed on. They are
    /// `bytes` of output.
    pub(super) fn push(&mut self, pieces: impl IntoIterator<Item = CellPiece>, bytes: usize) {
        if bytes > self.left || self.shared.lock().held.saturating_add(bytes) > MAX_HELD {
            self.drop_bytes(bytes);
            return;
        }
        self.left -= bytes;
        self.say_dropped();
        for piece in pieces {
            self.put(&piece);
        }
    }

    /// Notes that output was left out.
    pub(super) fn drop_bytes(&mut self, bytes: usize) {
        self.dropped = self.dropped.saturating_add(bytes as u64);
    }

    /// Says how the cell ended, and returns when all is written.
    pub(super) fn end(mut self, end: CellEnd) {
        self.say_dropped();
        self.put(&CellPiece::Ended(end));
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing more to write.
            writer.join().ok();
        }
    }

    fn say_dropped(&mut self) {
        if self.dropped > 0 {
            let bytes = std::mem::take(&mut self.dropped);
            self.put(&CellPiece::Dropped { bytes });
        }
    }

    fn put(&mut self, piece: &CellPiece) {
        let mut record = Vec::new();
        if encode_record(piece, &mut record).is_err() {
            self.drop_bytes(1);
            return;
        }
        let mut queue = self.shared.lock();
        if !queue.broken {
            queue.held += record.len();
            queue.records.push_back(record);
            self.shared.changed.notify_one();
        }
    }
}

fn write_all(shared: &Shared, mut out: impl Write) {
    let mut queue = shared.lock();
    loop {
        if let Some(record) = queue.records.pop_front() {
            queue.held -= record.len();
            drop(queue);
            let written = out.write_all(&record).and_then(|()| out.flush());
            queue = shared.lock();
            if written.is_err() {
                queue.broken = true;
                queue.records.clear();
                return;
            }
        } else if queue.closed {
            return;
        } else {
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use cofferdam_aide_protocol::{Stream, text_pieces};
    use cofferdam_guest_protocol::RecordDecoder;

    use super::*;

    /// Writes only when it is let.
    struct Gate(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().ok();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(outbox: &mut Outbox, text: &str) {
        outbox.push(text_pieces(Stream::Stdout, text), text.len());
    }

    fn records(bytes: &[u8]) -> Vec<CellPiece> {
        let mut decoder = RecordDecoder::default();
        decoder.push(bytes);
        std::iter::from_fn(|| decoder.next_record().unwrap()).collect()
    }

    #[test]
    fn nothing_waits_for_a_slow_reader_and_what_is_left_out_is_said() {
        let (open, gate) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut outbox = Outbox::new(Gate(gate, Arc::clone(&written)), usize::MAX).unwrap();
        let mebibyte = "x".repeat(1 << 20);
        for _ in 0..100 {
            text(&mut outbox, &mebibyte);
            assert!(outbox.shared.lock().held <= MAX_HELD + (1 << 20));
        }
        drop(open);
        outbox.end(CellEnd::Finished { count: 1 });

        let (mut passed, mut dropped) = (0, 0);
        for piece in records(&written.lock().unwrap()) {
            match piece {
                CellPiece::Text { text, .. } => passed += text.len() as u64,
                CellPiece::Dropped { bytes } => dropped += bytes,
                piece => assert_eq!(piece, CellPiece::Ended(CellEnd::Finished { count: 1 })),
            }
        }
        assert_eq!(passed + dropped, 100 << 20);
        assert!(passed >= 16 << 20, "{passed}");
    }

    #[test]
    fn beyond_the_limit_only_the_count_goes_on() {
        let (open, gate) = mpsc::channel();
        drop(open);
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut outbox = Outbox::new(Gate(gate, Arc::clone(&written)), 10).unwrap();
        for part in ["12345678", "abcdef", "gh", "i"] {
            text(&mut outbox, part);
        }
        outbox.end(CellEnd::Failed { count: 2 });
        let stdout = |text: &str| CellPiece::Text { stream: Stream::Stdout, text: text.to_owned() };
        assert_eq!(
            records(&written.lock().unwrap()),
            [
                stdout("12345678"),
                CellPiece::Dropped { bytes: 6 },
                stdout("gh"),
                CellPiece::Dropped { bytes: 1 },
                CellPiece::Ended(CellEnd::Failed { count: 2 }),
            ]
        );
    }
}
