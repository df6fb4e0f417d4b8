//! The caller's standard streams. Reading and writing them may block for ever,
//! so each has a thread of its own, started when it is first needed: what a pipe
//! takes at once is written at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::SpliceFlags;
use tokio::sync::{mpsc, oneshot};
use unicode_width::UnicodeWidthChar;

/// Pieces that wait for a slow reader of ours; then the command waits.
const WAITING: usize = 4;

/// A piece of this size means that there is much to be written: whoever reads it through a
/// pipe is woken, and waited for, less often if that holds more than pipes do at first.
const MUCH: usize = 64 << 10;
const BUSY_PIPE: usize = 1 << 20;

/// How long a pipe out of which little came is left to fill.
const FILLS: Duration = Duration::from_micros(50);

/// How often is looked whether we have come to the foreground, while there are keys for others.
const FOREGROUND_CHECK: Duration = Duration::from_millis(100);

/// How much is read at once, from stdin or out of a pipe.
const PIECE: usize = 64 << 10;

/// Says a line on stderr.
pub(crate) fn tell(line: &str) {
    // Without stderr there is nobody to tell.
    write_all(rustix::stdio::stderr(), format!("{line}\n").as_bytes()).ok();
}

/// Says a line on a terminal that the next one is written over. An empty one clears it.
pub(crate) fn tell_in_passing(line: &str) {
    let width = stderr_width().unwrap_or(80).saturating_sub(1);
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or(0);
        taken <= width
    };
    let line: String = line.chars().take_while(fits).collect();
    write_all(rustix::stdio::stderr(), format!("\r\x1b[2K{line}").as_bytes()).ok();
}

/// How wide the terminal is that stderr is; `None` if it is none.
pub(crate) fn stderr_width() -> Option<usize> {
    let stderr = rustix::stdio::stderr();
    let size = rustix::termios::isatty(stderr).then(|| rustix::termios::tcgetwinsize(stderr))?;
    let width = size.map_or(0, |size| usize::from(size.ws_col));
    Some(if width == 0 { 80 } else { width })
}

/// Writes to stdout where no thread does yet.
pub(crate) fn print(bytes: &[u8]) {
    // A reader who has gone needs nothing.
    write_all(rustix::stdio::stdout(), bytes).ok();
}

/// Whether our stdin is known to have nothing in it: `/dev/null`.
pub(crate) fn stdin_is_empty() -> bool {
    let Ok(stat) = rustix::fs::fstat(rustix::stdio::stdin()) else { return true };
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    kind == rustix::fs::FileType::CharacterDevice && stat.st_rdev == rustix::fs::makedev(1, 3)
}

/// That our stdin cannot be read, if that is known before it is tried.
///
/// # Errors
/// What whoever reads it would get.
pub(crate) fn check_stdin() -> io::Result<()> {
    let stdin = rustix::stdio::stdin();
    // One that is closed is empty.
    let Ok(flags) = rustix::fs::fcntl_getfl(stdin) else { return Ok(()) };
    if flags & OFlags::ACCMODE == OFlags::WRONLY {
        return Err(Errno::BADF.into());
    }
    match FileType::from_raw_mode(rustix::fs::fstat(stdin)?.st_mode) {
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Ok(()),
    }
}

/// All of our stdin, as text, if it is not longer than `longest` bytes.
pub(crate) async fn read_all_text(longest: usize) -> io::Result<String> {
    let mut pieces = read_stdin(Wanted::Surely);
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.recv().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() > longest {
            let limit = format!("it is longer than {longest} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, limit));
        }
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Whether there is somebody who wants our input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// There is: in the background of a terminal we are stopped until we may have it.
    Surely,
    /// Nobody knows. In the background of a terminal the keys are left to others until we are in
    /// the foreground; a terminal that cannot be read has gone, which is the end of our input.
    Perhaps,
}

/// Our stdin, piece by piece; it ends with our stdin, or with what keeps it from being read.
pub(crate) fn read_stdin(wanted: Wanted) -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    std::thread::spawn(move || {
        let shares_keys = wanted == Wanted::Perhaps && is_terminal(rustix::stdio::stdin());
        while !shares_keys || wait_for_keys(&sender) {
            let piece = read_piece();
            let is_last = match &piece {
                Ok(bytes) if bytes.is_empty() => return,
                Ok(_) => false,
                Err(error) if shares_keys && Errno::from_io_error(error) == Some(Errno::IO) => {
                    return;
                }
                Err(_) => true,
            };
            if sender.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Whether a stream is a terminal, or was one that has gone.
fn is_terminal(stream: BorrowedFd<'_>) -> bool {
    matches!(rustix::termios::tcgetwinsize(stream), Ok(_) | Err(Errno::IO))
}

/// Waits until our terminal has keys for us: those that are pressed while we are in its
/// background are not, and whoever reads then is stopped. `false` when nobody waits for them any
/// more.
fn wait_for_keys(sender: &mpsc::Sender<io::Result<Bytes>>) -> bool {
    let stdin = rustix::stdio::stdin();
    // What cannot be waited for is found out by reading.
    while wait_until(stdin, PollFlags::IN).is_ok() && is_in_background(stdin) {
        if sender.is_closed() {
            return false;
        }
        std::thread::sleep(FOREGROUND_CHECK);
    }
    true
}

/// Whether a terminal has other processes than ours in its foreground. One that is not the one
/// we belong to has none.
fn is_in_background(terminal: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// The next piece of our stdin, waiting for one; empty at its end.
fn read_piece() -> io::Result<Bytes> {
    let mut buffer = BytesMut::zeroed(PIECE);
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer[..]) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until(rustix::stdio::stdin(), PollFlags::IN)?,
            read => {
                buffer.truncate(read?);
                return Ok(buffer.freeze());
            }
        }
    }
}

/// Something that bytes are written to, in order: at once as far as that goes, the rest by
/// a thread of its own.
pub(crate) struct Writer {
    target: fn() -> BorrowedFd<'static>,
    failing: Failing,
    thread: Option<(mpsc::Sender<Order>, JoinHandle<io::Result<()>>)>,
    /// How many orders the thread was given that it has not carried out yet.
    behind: Arc<AtomicUsize>,
    enlarged: bool,
    pours: bool,
}

/// What a target that cannot be written to means for whoever writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    /// It is all over: nothing more is taken.
    Ends,
    /// Nothing: all that is still to come is taken, and lost.
    Loses,
}

/// What the thread is to do.
enum Order {
    Write(Bytes),
    /// Write this, and pass on whatever comes out of the pipe, to its end.
    Pour(Bytes, OwnedFd),
    /// Say when everything before this is written.
    Tell(oneshot::Sender<()>),
}

impl Writer {
    pub(crate) fn stdout() -> Self {
        Self::to(rustix::stdio::stdout, Failing::Ends)
    }

    #[cfg(test)]
    pub(crate) fn to_target(target: fn() -> BorrowedFd<'static>) -> Self {
        Self::to(target, Failing::Ends)
    }

    /// Its reader is one who may go: remarks that nobody listens to are no reason to stop.
    pub(crate) fn stderr() -> Self {
        Self::to(rustix::stdio::stderr, Failing::Loses)
    }

    fn to(target: fn() -> BorrowedFd<'static>, failing: Failing) -> Self {
        let behind = Arc::default();
        Self { target, failing, thread: None, behind, enlarged: false, pours: false }
    }

    /// Waits while the reader is slow; the next piece is then taken at once. A
    /// call of this that is dropped changes nothing.
    pub(crate) async fn ready(&self) {
        if let Some((sender, _)) = &self.thread {
            // A reader who has gone does not hold anybody up.
            drop(sender.reserve().await);
        }
    }

    /// Writes bytes, waiting while the reader is slow. `false` when it has gone.
    pub(crate) async fn write(&mut self, mut bytes: Bytes) -> bool {
        let target = self.target;
        if !self.enlarged && bytes.len() >= MUCH {
            self.enlarged = true;
            // What is no pipe, or may not be larger, stays as it is.
            rustix::pipe::fcntl_setpipe_size(target(), BUSY_PIPE).ok();
        }
        // Acquire: what the thread has written is written before this is.
        if self.behind.load(Ordering::Acquire) == 0 {
            bytes.advance(write_at_once(target(), &bytes));
            if bytes.is_empty() {
                return true;
            }
        }
        self.order(Order::Write(bytes)).await
    }

    /// Writes bytes and then passes on whatever comes out of a pipe, to its end. Waits no longer
    /// than [`Self::write`] does. `false` when the reader has gone.
    pub(crate) async fn pour(&mut self, bytes: Bytes, pipe: OwnedFd) -> bool {
        self.pours = true;
        self.order(Order::Pour(bytes, pipe)).await
    }

    /// Waits until the reader has gone of what is poured; for ever, if nothing is.
    pub(crate) async fn reader_gone(&self) {
        match &self.thread {
            Some((sender, _)) if self.pours => sender.closed().await,
            _ => std::future::pending().await,
        }
    }

    async fn order(&mut self, order: Order) -> bool {
        let (target, failing, behind) = (self.target, self.failing, Arc::clone(&self.behind));
        let (sender, _) = self.thread.get_or_insert_with(|| {
            let (sender, orders) = mpsc::channel(WAITING);
            let thread = std::thread::spawn(move || carry_out(orders, target(), failing, &behind));
            (sender, thread)
        });
        self.behind.fetch_add(1, Ordering::Relaxed);
        sender.send(order).await.is_ok()
    }

    /// Waits until everything so far is written, or the reader has gone.
    pub(crate) async fn flush(&mut self) {
        if self.thread.is_none() {
            return;
        }
        let (tell, told) = oneshot::channel();
        if self.order(Order::Tell(tell)).await {
            told.await.ok(); // an error is the reader's having gone
        }
    }

    /// Waits until everything is written. `false` when the reader has gone.
    pub(crate) async fn finish(self) -> bool {
        self.close().await.is_ok()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// Why something could not be written; see [`reader_went`].
    pub(crate) async fn close(self) -> io::Result<()> {
        let Some((sender, thread)) = self.thread else { return Ok(()) };
        drop(sender);
        let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
        joined.unwrap_or_else(|_| Err(io::Error::other("whoever wrote it panicked")))
    }
}

/// Whether something could not be written because nobody reads it, as is the reader's right.
pub(crate) fn reader_went(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Carries out orders until there are no more, or one of them fails and that matters.
fn carry_out(
    mut orders: mpsc::Receiver<Order>,
    target: BorrowedFd<'_>,
    failing: Failing,
    behind: &AtomicUsize,
) -> io::Result<()> {
    while let Some(order) = orders.blocking_recv() {
        let written = match &order {
            Order::Write(bytes) => write_all(target, bytes),
            Order::Pour(bytes, pipe) => write_all(target, bytes).and_then(|()| pour(pipe, target)),
            Order::Tell(_) => Ok(()),
        };
        match (written, failing) {
            (Ok(()), _) => {}
            (Err(error), Failing::Ends) => return Err(error),
            // This order stays behind for ever, so that nothing is written at once any more: of
            // a target that comes to life again nobody could tell what is missing.
            (Err(_), Failing::Loses) => {
                lose(order, orders);
                return Ok(());
            }
        }
        if let Order::Tell(done) = order {
            done.send(()).ok(); // who asked may have lost patience
        }
        behind.fetch_sub(1, Ordering::Release);
    }
    Ok(())
}

/// Takes orders, and carries out none. What was to be poured is still read to its end: closed
/// before that, the pipe would kill whoever writes to it.
fn lose(first: Order, mut orders: mpsc::Receiver<Order>) {
    let mut next = Some(first);
    while let Some(order) = next {
        match order {
            Order::Write(_) => {}
            Order::Pour(_, pipe) => drain(&pipe),
            Order::Tell(done) => drop(done.send(())),
        }
        next = orders.blocking_recv();
    }
}

/// Writes what can be written without waiting; how much that was. Where the kernel cannot
/// tell, as with terminals, and where something is wrong it is nothing.
fn write_at_once(target: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    /// No place in particular: a stream goes on where it is.
    const HERE: u64 = u64::MAX;
    let pieces = [io::IoSlice::new(bytes)];
    rustix::io::pwritev2(target, &pieces, HERE, ReadWriteFlags::NOWAIT).unwrap_or(0)
}

/// Passes on what comes out of a pipe, to its end: by the kernel where that goes into a pipe.
/// Into a file it would go to where the file ended when it began to wait, over what others have
/// written since; and into a socket or a terminal it waits with a lock held that keeps those who
/// write to the pipe from being killed.
fn pour(pipe: &OwnedFd, target: BorrowedFd<'_>) -> io::Result<()> {
    let is_pipe = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    if !rustix::fs::fstat(target).is_ok_and(is_pipe) {
        return copy(pipe, target);
    }
    for end in [pipe.as_fd(), target] {
        // What may not be larger stays as it is.
        rustix::pipe::fcntl_setpipe_size(end, BUSY_PIPE).ok();
    }
    loop {
        match rustix::pipe::splice(pipe, None, target, None, BUSY_PIPE, SpliceFlags::MOVE) {
            Ok(0) => return Ok(()),
            // To be woken for every few bytes costs more than moving them does.
            Ok(count) if count < BUSY_PIPE / 2 => std::thread::sleep(FILLS),
            Ok(_) | Err(Errno::INTR) => {}
            // Somebody else has the target not wait; which of the two is not ready is not told.
            Err(Errno::AGAIN) => {
                wait_until(pipe.as_fd(), PollFlags::IN)?;
                wait_until(target, PollFlags::OUT)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn copy(pipe: &OwnedFd, target: BorrowedFd<'_>) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut *piece))?;
        if count == 0 {
            return Ok(());
        }
        write_all(target, piece.get(..count).unwrap_or_default())?;
    }
}

fn drain(pipe: &OwnedFd) {
    let mut piece = vec![0_u8; PIECE];
    // What cannot be read needs no reader.
    while let Ok(1..) = rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut *piece)) {}
}

fn write_all(target: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(target, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until(target, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Somebody may have made our streams non-blocking; then waiting is ours to do.
fn wait_until(stream: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    let mut watched = [rustix::event::PollFd::from_borrowed_fd(stream, flags)];
    match rustix::event::poll(&mut watched, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::OnceLock;

    use super::*;

    #[tokio::test]
    async fn what_is_written_at_once_and_what_has_to_wait_stay_in_order() {
        static TARGET: OnceLock<OwnedFd> = OnceLock::new();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        TARGET.set(writer).unwrap();
        let mut writer = Writer::to(|| TARGET.get().unwrap().as_fd(), Failing::Ends);
        let pieces: Vec<Bytes> = (0..400_usize)
            .map(|number| vec![number as u8; 1 + 7_919 * (number % 17)].into())
            .collect();
        let expected = pieces.concat();
        let amount = expected.len();
        let reading = std::thread::spawn(move || {
            let mut read = vec![0; amount];
            // In steps that leave it now full and now empty.
            for step in read.chunks_mut(150_000) {
                std::fs::File::from(reader.try_clone().unwrap()).read_exact(step).unwrap();
            }
            read
        });
        for piece in pieces {
            assert!(writer.write(piece).await);
        }
        assert!(writer.thread.is_some(), "a pipe does not hold all of it");
        assert!(writer.finish().await);
        assert!(reading.join().unwrap() == expected);
    }

    #[tokio::test]
    async fn what_a_pipe_takes_needs_no_thread() {
        static TARGET: OnceLock<OwnedFd> = OnceLock::new();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        TARGET.set(writer).unwrap();
        let mut writer = Writer::to(|| TARGET.get().unwrap().as_fd(), Failing::Ends);
        assert!(writer.write(Bytes::from_static(b"hello")).await);
        // Kernels before 6.4 do not say what a pipe takes.
        let (_reader, another) = rustix::pipe::pipe().unwrap();
        let is_told = write_at_once(another.as_fd(), b"hello") == 5;
        assert_eq!(writer.thread.is_none(), is_told);
        let mut said = [0; 5];
        std::fs::File::from(reader).read_exact(&mut said).unwrap();
        assert_eq!(&said, b"hello");
    }

    /// A target that takes nothing: the disk is full.
    fn full() -> BorrowedFd<'static> {
        static FULL: OnceLock<std::fs::File> = OnceLock::new();
        let open = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        FULL.get_or_init(open).as_fd()
    }

    /// A target that nobody reads.
    fn unread() -> BorrowedFd<'static> {
        static UNREAD: OnceLock<OwnedFd> = OnceLock::new();
        UNREAD.get_or_init(|| rustix::pipe::pipe().unwrap().1).as_fd()
    }

    #[tokio::test]
    async fn why_a_writer_ended_is_told() {
        let targets: [fn() -> BorrowedFd<'static>; 2] = [full, unread];
        let wanted = [(io::ErrorKind::StorageFull, false), (io::ErrorKind::BrokenPipe, true)];
        for (target, (kind, went)) in targets.into_iter().zip(wanted) {
            let mut writer = Writer::to(target, Failing::Ends);
            while writer.write(Bytes::from_static(b"hello")).await {}
            let error = writer.close().await.unwrap_err();
            assert_eq!((error.kind(), reader_went(&error)), (kind, went));
        }
    }

    #[tokio::test]
    async fn a_writer_that_loses_what_it_cannot_write_takes_everything() {
        for target in [full as fn() -> BorrowedFd<'static>, unread] {
            let mut writer = Writer::to(target, Failing::Loses);
            for _ in 0..3 * WAITING {
                assert!(writer.write(Bytes::from_static(b"hello")).await);
                writer.flush().await;
            }
            assert!(writer.behind.load(Ordering::Acquire) > 0, "nothing is written at once");
            let (pipe, command) = rustix::pipe::pipe().unwrap();
            assert!(writer.pour(Bytes::from_static(b"hello"), pipe).await);
            // More than a pipe holds; without a reader it could not be written.
            let flood = vec![7; 3 << 20];
            let writing = std::thread::spawn(move || write_all(command.as_fd(), &flood));
            assert!(writer.finish().await);
            writing.join().unwrap().unwrap();
        }
    }
}
