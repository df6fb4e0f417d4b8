//! The caller's standard streams. Reading and writing them may block for ever,
//! so each has a thread of its own, started on first use.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

/// Pieces that wait for a slow reader of ours; then the command waits.
const WAITING: usize = 4;

/// How much is read from stdin at once.
const PIECE: usize = 64 << 10;

/// Says a line on stderr.
pub(crate) fn tell(line: &str) {
    // Without stderr there is nobody to tell.
    write_all(rustix::stdio::stderr(), format!("{line}\n").as_bytes()).ok();
}

/// Our stdin, piece by piece; it ends with our stdin.
pub(crate) fn read_stdin() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(WAITING);
    std::thread::spawn(move || {
        loop {
            let mut buffer = BytesMut::zeroed(PIECE);
            let read = match rustix::io::read(rustix::stdio::stdin(), &mut buffer[..]) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) | Ok(0) => return,
                Ok(read) => read,
            };
            buffer.truncate(read);
            if sender.blocking_send(buffer.freeze()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Something that bytes are written to, in order, by a thread of its own.
pub(crate) struct Writer {
    target: fn() -> BorrowedFd<'static>,
    thread: Option<(mpsc::Sender<Bytes>, JoinHandle<io::Result<()>>)>,
}

impl Writer {
    pub(crate) fn stdout() -> Self {
        Self { target: || rustix::stdio::stdout(), thread: None }
    }

    pub(crate) fn stderr() -> Self {
        Self { target: || rustix::stdio::stderr(), thread: None }
    }

    /// Writes bytes, waiting while the reader is slow. `false` when it has gone.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> bool {
        let target = self.target;
        let (sender, _) = self.thread.get_or_insert_with(|| {
            let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING);
            let thread = std::thread::spawn(move || {
                while let Some(bytes) = receiver.blocking_recv() {
                    write_all(target(), &bytes)?;
                }
                Ok(())
            });
            (sender, thread)
        });
        sender.send(bytes).await.is_ok()
    }

    /// Waits until everything is written. `false` when the reader has gone.
    pub(crate) async fn finish(self) -> bool {
        let Some((sender, thread)) = self.thread else { return true };
        drop(sender);
        tokio::task::spawn_blocking(move || matches!(thread.join(), Ok(Ok(()))))
            .await
            .unwrap_or(false)
    }
}

fn write_all(target: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(target, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait_writable(target)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Somebody may have made our stdout non-blocking; then waiting is ours to do.
fn wait_writable(target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::event::PollFlags::OUT;
    let mut watched = [rustix::event::PollFd::from_borrowed_fd(target, flags)];
    rustix::event::poll(&mut watched, None)?;
    Ok(())
}
