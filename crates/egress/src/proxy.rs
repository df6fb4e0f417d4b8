//! The proxy: accepts, bounds and owns the connections of one sandbox.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cofferdam_types::AuditRecord;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::attempt::Attempt;
use crate::connection::{Seat, Service, attend};
use crate::failure::Failure;
use crate::policy::Policy;
use crate::resolve::Resolve;
use crate::settings::Settings;

/// Connections that are being turned away at once; then accepting waits.
const MOST_TURNED_AWAY: usize = 32;
/// Failures to accept in a row before the listener is given up. Where something is short, which
/// is no fault of the listener's, none are too many.
const MOST_ACCEPT_FAILURES: u32 = 100;
/// Between a failure and the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where records go, and where their time comes from.
#[derive(Clone, Debug)]
pub struct Log {
    /// Takes one record a connection, when it has ended, and one without a host if the proxy had
    /// to end before it was told to. While it is full,
    /// records wait, and with them the places of their connections; so it is
    /// read until [`Proxy::serve`] returns.
    pub records: mpsc::Sender<AuditRecord>,
    /// Microseconds since 1970.
    pub clock: fn() -> u64,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Yes,
    /// The log was still full when the time after the stop was over.
    TooLate,
    /// Nobody reads the log any more.
    Closed,
}

/// What all connections of one proxy use.
pub(crate) struct Shared {
    pub(crate) policy: Policy,
    pub(crate) settings: Settings,
    pub(crate) resolver: Arc<dyn Resolve>,
    /// Turns at the resolver, which others use too.
    pub(crate) look_ups: Arc<Semaphore>,
    pub(crate) log: Log,
    /// Why the proxy stops, if nobody told it to.
    pub(crate) broken: OnceLock<Failure>,
}

/// Names that are looked up at once for one sandbox: one whose names are never answered for is
/// not to take all the turns that there are.
const MOST_LOOK_UPS: usize = 4;

impl Shared {
    /// Waits for room in the log; after the stop, only for a while.
    pub(crate) async fn deliver(&self, record: AuditRecord, stop: &CancellationToken) -> Delivered {
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(self.settings.log_grace).await;
        };
        tokio::select! {
            biased;
            sent = self.log.records.send(record) => {
                if sent.is_ok() { Delivered::Yes } else { Delivered::Closed }
            }
            () = too_late => Delivered::TooLate,
        }
    }
}

/// The way out of one sandbox.
pub struct Proxy {
    shared: Shared,
}

/// What a proxy did in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Connections it accepted.
    pub connections: u64,
    /// Connections whose record the log did not take before the end.
    pub unrecorded: u64,
}

/// Why a proxy ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener is not usable.
    #[error("cannot use the sandbox's listener")]
    Listener(#[source] io::Error),
    /// Nobody takes the records. Nothing goes out unrecorded.
    #[error("the egress log is closed")]
    LogClosed,
}

impl ServeError {
    fn failure(&self) -> Failure {
        Failure::Proxy(match self {
            Self::Listener(cause) => format!("{self}: {cause}"),
            Self::LogClosed => self.to_string(),
        })
    }
}

impl Proxy {
    /// A proxy for one sandbox.
    #[must_use]
    pub fn new(policy: Policy, settings: Settings, resolver: Arc<dyn Resolve>, log: Log) -> Self {
        let look_ups = Arc::new(Semaphore::new(MOST_LOOK_UPS));
        let broken = OnceLock::new();
        Self { shared: Shared { policy, settings, resolver, look_ups, log, broken } }
    }

    /// Serves the listener until `stop`. When this returns, every connection has
    /// ended; when its future is dropped, they are cut off, unrecorded.
    ///
    /// # Errors
    /// If the listener fails, or the log's receiver is gone.
    pub async fn serve(
        self,
        listener: std::net::TcpListener,
        stop: CancellationToken,
    ) -> Result<Summary, ServeError> {
        listener.set_nonblocking(true).map_err(ServeError::Listener)?;
        let listener = TcpListener::from_std(listener).map_err(ServeError::Listener)?;
        self.serve_from(async move || Ok(listener.accept().await?.0), stop).await
    }

    async fn serve_from(
        self,
        accept: impl AsyncFnMut() -> io::Result<TcpStream>,
        stop: CancellationToken,
    ) -> Result<Summary, ServeError> {
        let stop = stop.child_token();
        let mut hall = Hall {
            places: Arc::new(Semaphore::new(self.shared.settings.connections)),
            lobby: Arc::new(Semaphore::new(MOST_TURNED_AWAY)),
            shared: Arc::new(self.shared),
            tasks: JoinSet::new(),
            summary: Summary::default(),
        };
        let served = hall.accept_all(accept, &stop).await;
        if let Err(error) = &served {
            hall.shared.broken.set(error.failure()).ok();
        }
        stop.cancel();
        let emptied = hall.empty().await;
        if let Some(failure) = hall.shared.broken.get() {
            // Those who waited to be accepted have no record of their own.
            let mut last = Attempt::new((hall.shared.log.clock)());
            last.failed(failure);
            hall.shared.deliver(last.into_record(), &stop).await;
        }
        served.and(emptied).map(|()| hall.summary)
    }
}

/// The connections that are open.
struct Hall {
    places: Arc<Semaphore>,
    lobby: Arc<Semaphore>,
    shared: Arc<Shared>,
    tasks: JoinSet<Delivered>,
    summary: Summary,
}

impl Hall {
    /// Accepts until the stop. The listener is closed on return: who connects
    /// then is refused, not left waiting.
    async fn accept_all(
        &mut self,
        mut accept: impl AsyncFnMut() -> io::Result<TcpStream>,
        stop: &CancellationToken,
    ) -> Result<(), ServeError> {
        let mut failures = 0;
        let mut next = Instant::now();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(ended) = self.tasks.join_next() => {
                    self.account(ended)?;
                    // What it had is free.
                    next = Instant::now();
                    continue;
                }
                accepted = async { sleep_until(next).await; accept().await } => accepted,
            };
            let client = match accepted {
                Ok(client) => client,
                Err(cause) => {
                    failures += u32::from(!is_shortage(&cause));
                    if failures >= MOST_ACCEPT_FAILURES {
                        return Err(ServeError::Listener(cause));
                    }
                    next = Instant::now() + ACCEPT_PAUSE;
                    continue;
                }
            };
            failures = 0;
            self.summary.connections += 1;
            let seat = tokio::select! {
                seat = self.seat() => seat,
                () = stop.cancelled() => None,
            };
            let Some(seat) = seat else {
                self.summary.unrecorded += 1;
                return Ok(());
            };
            self.tasks.spawn(attend(Arc::clone(&self.shared), client, seat, stop.clone()));
        }
    }

    async fn seat(&self) -> Option<Seat> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(Seat { service: Service::Full, permit });
        }
        let permit = Arc::clone(&self.lobby).acquire_owned().await.ok()?;
        Some(Seat { service: Service::TurnedAway, permit })
    }

    async fn empty(&mut self) -> Result<(), ServeError> {
        let mut outcome = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            outcome = outcome.and(self.account(ended));
        }
        outcome
    }

    fn account(&mut self, ended: Result<Delivered, JoinError>) -> Result<(), ServeError> {
        match ended {
            Ok(Delivered::Yes) => Ok(()),
            Ok(Delivered::Closed) => {
                self.summary.unrecorded += 1;
                Err(ServeError::LogClosed)
            }
            Ok(Delivered::TooLate) | Err(_) => {
                self.summary.unrecorded += 1;
                Ok(())
            }
        }
    }
}

/// Whether there is too little of something that others may give back.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| shortages.contains(&error))
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
