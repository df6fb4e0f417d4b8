//! One native sandbox, held by this process.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam_native_supervisor::wire::{Order, Report};
use cofferdam_sandbox::{GuestStream, Isolation, Room, RoomError, Snapshot, TrailMark};
use cofferdam_types::{AuditRecord, SandboxId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::aside::aside;
use crate::control::{Control, failed};
use crate::egress::Egress;
use crate::reaper::Reaped;
use crate::stream::Stream;
use crate::trail;

/// One native sandbox.
pub(crate) struct SupervisedRoom {
    pub(crate) id: SandboxId,
    pub(crate) state: PathBuf,
    /// A connection to the guest that nobody has used yet.
    pub(crate) first: Mutex<Option<OwnedFd>>,
    pub(crate) isolation: Isolation,
    pub(crate) control: Arc<Control>,
    pub(crate) egress: Option<Egress>,
    pub(crate) supervisor: Option<Reaped>,
    /// Whether the supervisor's end is waited for too, so that no ended process is left about.
    pub(crate) waits: bool,
}

impl SupervisedRoom {
    async fn dial_again(&self) -> Result<OwnedFd, RoomError> {
        match self.control.ask(Order::Dial).await? {
            (Report::Dialled(Ok(())), connection) => connection
                .into_iter()
                .next()
                .ok_or_else(|| RoomError::Refused("the supervisor gave no connection".to_owned())),
            (Report::Dialled(Err(failure)), _) => {
                Err(RoomError::Gone(format!("its guest takes no connection ({failure})")))
            }
            (other, _) => Err(Self::unexpected(&other)),
        }
    }

    fn unexpected(report: &Report) -> RoomError {
        match report {
            Report::Closed(outcome) => RoomError::Gone(match outcome {
                Ok(()) => "it has ended".to_owned(),
                Err(failure) => format!("it has ended: {failure}"),
            }),
            _ => RoomError::Refused("the supervisor's answer is to another order".to_owned()),
        }
    }
}

impl Room for SupervisedRoom {
    fn id(&self) -> SandboxId {
        self.id
    }

    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn environment(&self) -> Vec<(String, String)> {
        match &self.egress {
            Some(_) => cofferdam_egress::environment(cofferdam_egress::PORT),
            None => Vec::new(),
        }
    }

    fn dial(&self) -> BoxFuture<'_, Result<GuestStream, RoomError>> {
        async {
            let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let connection = match first {
                Some(connection) => connection,
                None => self.dial_again().await?,
            };
            let step = "speak with the guest".to_owned();
            let stream = Stream::new(connection.into())
                .map_err(|source| RoomError::Step { step, source })?;
            Ok(Box::new(stream) as GuestStream)
        }
        .boxed()
    }

    fn oom_kills(&self) -> BoxFuture<'_, Result<u64, RoomError>> {
        async {
            match self.control.ask(Order::OomKills).await? {
                (Report::OomKills(count), _) => Ok(count),
                (other, _) => Err(Self::unexpected(&other)),
            }
        }
        .boxed()
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, RoomError>> {
        async {
            match self.control.ask(Order::Snapshot).await? {
                (Report::Snapshot(Ok(number)), _) => Ok(Snapshot { sandbox: self.id, number }),
                (Report::Snapshot(Err(failure)), _) => Err(failed(&failure)),
                (other, _) => Err(Self::unexpected(&other)),
            }
        }
        .boxed()
    }

    fn audit(
        &self,
        since: TrailMark,
    ) -> BoxFuture<'_, Result<(Vec<AuditRecord>, TrailMark), RoomError>> {
        async move {
            match self.control.ask(Order::Audit).await? {
                (Report::Audit(filed, held), _) => trail::read(&self.state, since, filed, &held)
                    .map_err(|source| {
                        let step = "read the audit trail".to_owned();
                        RoomError::Step { step, source }
                    }),
                (other, _) => Err(Self::unexpected(&other)),
            }
        }
        .boxed()
    }

    fn end_egress(&self) -> BoxFuture<'_, ()> {
        async {
            if let Some(egress) = &self.egress {
                egress.stop().await;
            }
        }
        .boxed()
    }

    fn keep(&self) -> BoxFuture<'_, Result<(), RoomError>> {
        async {
            match self.control.ask(Order::Keep).await? {
                (Report::Kept, _) => Ok(()),
                (other, _) => Err(Self::unexpected(&other)),
            }
        }
        .boxed()
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, Result<(), RoomError>> {
        async move {
            if let Some(egress) = self.egress.take() {
                egress.stop().await;
            }
            let answer = self.control.ask(Order::Close).await;
            if let Some(mut supervisor) = self.supervisor.take().filter(|_| self.waits) {
                if let Ok((Report::Closed(_), _)) = &answer {
                    // It has nothing left to do but end.
                    aside(|| supervisor.wait());
                } else {
                    // Nobody knows what it waits for: it may have ended, or never will.
                    supervisor.runs();
                }
            }
            match answer? {
                (Report::Closed(Ok(())), _) => Ok(()),
                (Report::Closed(Err(failure)), _) => Err(failed(&failure)),
                (other, _) => Err(Self::unexpected(&other)),
            }
        }
        .boxed()
    }
}
