//! A tunnel: a connection to something that listens inside the sandbox.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cofferdam_guest_protocol::{Control, OutputMode, TunnelTarget};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::call::Channels;
use crate::channel::{InChannel, Kind, OutChannel, Writers};

/// Something inside the sandbox answers at once, or there is something wrong.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a tunnel ended: the error's number and text, if it was one.
type End = Result<(), (i32, String)>;

/// A tunnel.
pub(crate) struct Tunnel {
    /// Addresses still to be tried.
    addresses: VecDeque<Address>,
    state: State,
    give_up_at: Instant,
    killed: bool,
}

#[derive(Clone, Debug)]
enum Address {
    Ip(SocketAddr),
    Unix(SocketAddrUnix),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next address is to be tried; the last one failed like this.
    Next(Errno),
    /// The socket is not connected yet.
    Connecting,
    Connected,
    Over,
}

impl Tunnel {
    /// Begins a tunnel; it is connected by its turns.
    pub(crate) fn new(target: &TunnelTarget, now: Instant) -> (Self, Channels) {
        let (addresses, failure) = match target {
            TunnelTarget::Tcp(port) => {
                let four = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                let six = SocketAddr::from((Ipv6Addr::LOCALHOST, *port));
                (VecDeque::from([Address::Ip(four), Address::Ip(six)]), Errno::CONNREFUSED)
            }
            TunnelTarget::Unix(path) => match SocketAddrUnix::new(path.as_slice()) {
                Ok(address) => (VecDeque::from([Address::Unix(address)]), Errno::CONNREFUSED),
                Err(errno) => (VecDeque::new(), errno),
            },
        };
        let channels = Channels {
            output: OutChannel::new(None, Kind::Socket, OutputMode::Stream),
            error: OutChannel::absent(),
            input: InChannel::awaiting(Kind::Socket),
        };
        let state = State::Next(failure);
        (Self { addresses, state, give_up_at: now + CONNECT_TIMEOUT, killed: false }, channels)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.state == State::Connecting).then_some(self.give_up_at)
    }

    pub(crate) fn control(&mut self, control: Control) {
        if control == Control::Kill {
            self.killed = true;
        }
    }

    /// Goes on as far as it can; the result when it is over.
    pub(crate) fn advance(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        more: &mut bool,
    ) -> Option<End> {
        if self.state == State::Over {
            return None;
        }
        if self.killed {
            return self.over(channels, Some(Errno::CANCELED));
        }
        if self.state == State::Connecting {
            self.check_connected(channels, now);
            // What the other side has said meanwhile is not told a second time.
            *more |= self.state == State::Connected;
        }
        while let State::Next(failure) = self.state {
            let Some(address) = self.addresses.pop_front() else {
                return self.over(channels, Some(failure));
            };
            match connect(&address) {
                Ok((socket, state)) => {
                    if let Err(errno) = attach(channels, socket) {
                        self.state = State::Next(errno);
                        continue;
                    }
                    self.state = state;
                    *more = true;
                }
                Err(errno) => self.state = State::Next(worth_telling(failure, errno)),
            }
        }
        if self.state != State::Connected {
            return None;
        }
        if let Some(errno) = channels.output.failure {
            return self.over(channels, Some(errno));
        }
        if channels.output.is_taken() && !channels.output.buffer.is_finished() {
            // The host hears at once that no more will come, also while it has more to say.
            channels.output.buffer.finish();
            *more = true;
        }
        let closed = channels.output.is_taken() && channels.input.is_closed();
        if closed { self.over(channels, None) } else { None }
    }

    fn check_connected(&mut self, channels: &mut Channels, now: Instant) {
        let Some(socket) = &channels.output.source else { return };
        let failed = match rustix::net::sockopt::socket_error(&socket.fd) {
            Ok(Ok(())) => None,
            Ok(Err(errno)) | Err(errno) => Some(errno),
        };
        if failed.is_none() && rustix::net::getpeername(&socket.fd).is_ok() {
            self.state = State::Connected;
            return;
        }
        let late = (now >= self.give_up_at).then_some(Errno::TIMEDOUT);
        if let Some(errno) = failed.or(late) {
            self.state = State::Next(errno);
            channels.output.source = None;
            channels.input.sink = None;
        }
    }

    fn over(&mut self, channels: &mut Channels, failure: Option<Errno>) -> Option<End> {
        self.state = State::Over;
        channels.output.finish(Writers::Gone);
        channels.input.close();
        Some(match failure {
            None => Ok(()),
            Some(errno) => Err((errno.raw_os_error(), errno.to_string())),
        })
    }
}

/// "No such address family" says less than "nobody listens there".
fn worth_telling(before: Errno, now: Errno) -> Errno {
    match now {
        Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL | Errno::NETUNREACH => before,
        other => other,
    }
}

fn connect(address: &Address) -> Result<(OwnedFd, State), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = match address {
        Address::Ip(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Ip(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    let outcome = match address {
        Address::Ip(address) => rustix::net::connect(&socket, address),
        Address::Unix(address) => rustix::net::connect(&socket, address),
    };
    match outcome {
        Ok(()) => Ok((socket, State::Connected)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((socket, State::Connecting)),
        Err(errno) => Err(errno),
    }
}

fn attach(channels: &mut Channels, socket: OwnedFd) -> Result<(), Errno> {
    let input = rustix::io::fcntl_dupfd_cloexec(&socket, 0)?;
    channels.output.set_source(socket);
    channels.input.set_sink(input);
    Ok(())
}
