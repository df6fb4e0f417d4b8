//! The connection to a sandbox's supervisor: orders out, answers back, one at a
//! time.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use cofferdam_native_supervisor::failure::Failure;
use cofferdam_native_supervisor::remains;
use cofferdam_native_supervisor::wire::{self, Order, Report};
use cofferdam_sandbox::RoomError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Serialize;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::Mutex;

/// How long any answer may take, a snapshot of a large workspace included.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a sandbox may take to end: all that was changed is applied before it answers.
const CLOSING: Duration = Duration::from_secs(600);

/// A connection to a supervisor.
#[derive(Debug)]
pub(crate) struct Control {
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    socket: UnixDatagram,
    /// Answers that nobody waited for: whoever asked was dropped before they came.
    owed: usize,
}

impl Line {
    /// Takes the next packet. Each is an answer less to come, also one that cannot be read:
    /// no other comes in its place.
    async fn take(&mut self, patience: Duration) -> Result<(Report, Vec<OwnedFd>), RoomError> {
        let packet = receive(&self.socket, patience).await?;
        self.owed = self.owed.saturating_sub(1);
        packet.map_err(|failure| failed(&failure))
    }
}

impl Control {
    /// Speaks over a connected socket.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        // Packets in order is what it speaks; to the run-time that is a datagram
        // socket like any other.
        let socket = UnixDatagram::from_std(socket.into())?;
        Ok(Self { line: Mutex::new(Line { socket, owed: 0 }) })
    }

    /// Connects to the supervisor of the sandbox in this directory. One that takes nobody up
    /// and has too many waiting is not waited for.
    pub(crate) fn connect(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let name = format!("/proc/self/fd/{}/{}", directory.as_raw_fd(), remains::CONTROL);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(name)?)?;
        Self::new(socket)
    }

    /// Sends the first message.
    pub(crate) async fn begin(
        &self,
        message: &impl Serialize,
        beside: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        send(&self.line.lock().await.socket, message, beside).await
    }

    /// Waits for a message.
    pub(crate) async fn answer(&self) -> Result<(Report, Vec<OwnedFd>), RoomError> {
        self.line.lock().await.take(PATIENCE).await
    }

    /// Gives an order and waits for the answer to it.
    pub(crate) async fn ask(&self, order: Order) -> Result<(Report, Vec<OwnedFd>), RoomError> {
        let patience = if matches!(order, Order::Close) { CLOSING } else { PATIENCE };
        let mut line = self.line.lock().await;
        while line.owed > 0 {
            let owed = line.owed;
            match line.take(patience).await {
                // Nothing comes after it.
                Ok(late @ (Report::Closed(_), _)) => return Ok(late),
                Err(error) if line.owed == owed => return Err(error),
                // It was for another order, whatever it was.
                Ok(_) | Err(_) => {}
            }
        }
        send(&line.socket, &order, &[])
            .await
            .map_err(|error| RoomError::Gone(format!("its supervisor is gone ({error})")))?;
        line.owed += 1;
        line.take(patience).await
    }
}

async fn send(
    socket: &UnixDatagram,
    message: &impl Serialize,
    beside: &[BorrowedFd<'_>],
) -> io::Result<()> {
    socket
        .async_io(Interest::WRITABLE, || {
            wire::send(socket.as_fd(), message, beside).map_err(io::Error::from)
        })
        .await
}

/// The next packet, or why it cannot be read; an error when none came.
async fn receive(
    socket: &UnixDatagram,
    patience: Duration,
) -> Result<Result<(Report, Vec<OwnedFd>), Failure>, RoomError> {
    let next =
        socket.async_io(Interest::READABLE, || match wire::receive::<Report>(socket.as_fd()) {
            Err(failure) if failure.errno == Errno::AGAIN.raw_os_error() => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            other => Ok(other),
        });
    let received = tokio::time::timeout(patience, next)
        .await
        .map_err(|_| RoomError::Gone("its supervisor does not answer".to_owned()))?
        .map_err(|source| RoomError::Step { step: "wait for the supervisor".to_owned(), source })?;
    match received {
        Ok(Some(message)) => Ok(Ok(message)),
        Ok(None) => Err(RoomError::Gone("its supervisor has ended".to_owned())),
        // What the kernel says is of the socket, all else of the packet.
        Err(failure) if failure.errno == 0 => Ok(Err(failure)),
        Err(failure) => Err(failed(&failure)),
    }
}

/// A supervisor's failure as an error of the seam.
pub(crate) fn failed(failure: &Failure) -> RoomError {
    if failure.errno == 0 {
        return RoomError::Refused(failure.step.clone());
    }
    RoomError::Step {
        step: failure.step.clone(),
        source: io::Error::from_raw_os_error(failure.errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use futures_util::poll;
    use rustix::event::{PollFd, PollFlags};
    use rustix::net::{SendFlags, bind, listen, socket_with, socketpair};

    use super::*;

    fn answer(there: &OwnedFd, kills: u64) {
        let (order, _) = wire::receive::<Order>(there).unwrap().unwrap();
        assert_eq!(order, Order::OomKills);
        wire::send(there, &Report::OomKills(kills), &[]).unwrap();
    }

    fn has_message(there: &OwnedFd) -> bool {
        let mut watched = [PollFd::new(there, PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut watched, Some(&now)).unwrap() == 1
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waited_for_is_not_taken_for_the_next_one() {
        let kind = SocketType::SEQPACKET;
        let (here, there) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let control = Control::new(here).unwrap();
        for round in 0..3 {
            let mut given_up = Box::pin(control.ask(Order::OomKills));
            while !has_message(&there) {
                assert!(poll!(&mut given_up).is_pending());
                tokio::task::yield_now().await;
            }
            drop(given_up);
            answer(&there, 100 + round);
            let asking = control.ask(Order::OomKills);
            let answering = async {
                while !has_message(&there) {
                    tokio::task::yield_now().await;
                }
                answer(&there, round);
            };
            let (told, ()) = tokio::join!(asking, answering);
            assert!(matches!(told.unwrap().0, Report::OomKills(kills) if kills == round));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_cannot_be_read_is_no_longer_waited_for() {
        let kind = SocketType::SEQPACKET;
        let (here, there) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let control = Control::new(here).unwrap();
        let begun = tokio::time::Instant::now();
        let garble = || rustix::net::send(&there, &[0xff], SendFlags::empty()).unwrap();
        let taken = async || {
            while !has_message(&there) {
                tokio::task::yield_now().await;
            }
            wire::receive::<Order>(&there).unwrap().unwrap().0
        };
        // As somebody gets it who waits for it, and as one who comes later does.
        let garbled = async {
            taken().await;
            garble();
        };
        let (told, ()) = tokio::join!(control.ask(Order::Dial), garbled);
        assert!(matches!(told, Err(RoomError::Refused(_))), "{told:?}");
        let mut given_up = Box::pin(control.ask(Order::Dial));
        assert!(poll!(&mut given_up).is_pending());
        drop(given_up);
        taken().await;
        garble();
        let closing = async {
            let order = taken().await;
            wire::send(&there, &Report::Closed(Ok(())), &[]).unwrap();
            order
        };
        let (told, order) = tokio::join!(control.ask(Order::Close), closing);
        assert!(matches!(told, Ok((Report::Closed(Ok(())), _))), "{told:?}");
        assert_eq!(order, Order::Close);
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn one_that_takes_nobody_up_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let address = SocketAddrUnix::new(directory.path().join(remains::CONTROL)).unwrap();
        let kind = SocketType::SEQPACKET;
        let listener = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &address).unwrap();
        listen(&listener, 1).unwrap();
        let handle = std::fs::File::open(directory.path()).unwrap();
        let waiting: Vec<_> = (0..4).map(|_| Control::connect(handle.as_fd())).collect();
        assert!(waiting[0].is_ok());
        let refused = waiting[3].as_ref().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_answers_is_not_waited_for_without_an_end() {
        let kind = SocketType::SEQPACKET;
        let (here, _there) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let control = Control::new(here).unwrap();
        let begun = tokio::time::Instant::now();
        let closed = control.ask(Order::Close).await;
        assert!(matches!(closed, Err(RoomError::Gone(_))), "{closed:?}");
        assert_eq!(begun.elapsed().as_secs(), CLOSING.as_secs());
    }
}
