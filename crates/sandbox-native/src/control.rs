//! The connection to a sandbox's supervisor: orders out, answers back, one at a
//! time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use cofferdam_native_supervisor::failure::Failure;
use cofferdam_native_supervisor::wire::{self, Order, Report};
use cofferdam_sandbox::RoomError;
use rustix::io::Errno;
use serde::Serialize;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::Mutex;

/// How long any answer may take, a snapshot of a large workspace included.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to a supervisor.
#[derive(Debug)]
pub(crate) struct Control {
    socket: Mutex<UnixDatagram>,
}

impl Control {
    /// Speaks over a connected socket.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        // Packets in order is what it speaks; to the run-time that is a datagram
        // socket like any other.
        let socket = UnixDatagram::from_std(socket.into())?;
        Ok(Self { socket: Mutex::new(socket) })
    }

    /// Sends the first message.
    pub(crate) async fn begin(
        &self,
        message: &impl Serialize,
        beside: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        send(&*self.socket.lock().await, message, beside).await
    }

    /// Waits for a message.
    pub(crate) async fn answer(&self) -> Result<(Report, Vec<OwnedFd>), RoomError> {
        receive(&*self.socket.lock().await).await
    }

    /// Gives an order and waits for the answer to it.
    pub(crate) async fn ask(&self, order: Order) -> Result<(Report, Vec<OwnedFd>), RoomError> {
        let socket = self.socket.lock().await;
        send(&socket, &order, &[])
            .await
            .map_err(|error| RoomError::Gone(format!("its supervisor is gone ({error})")))?;
        receive(&socket).await
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

async fn receive(socket: &UnixDatagram) -> Result<(Report, Vec<OwnedFd>), RoomError> {
    let next =
        socket.async_io(Interest::READABLE, || match wire::receive::<Report>(socket.as_fd()) {
            Err(failure) if failure.errno == Errno::AGAIN.raw_os_error() => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            other => Ok(other),
        });
    let received = tokio::time::timeout(PATIENCE, next)
        .await
        .map_err(|_| RoomError::Gone("its supervisor does not answer".to_owned()))?
        .map_err(|source| RoomError::Step { step: "wait for the supervisor".to_owned(), source })?;
    match received {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(RoomError::Gone("its supervisor has ended".to_owned())),
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
