//! One native sandbox, held by this process.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use cofferdam_native_supervisor::remains;
use cofferdam_native_supervisor::wire::{Order, Report};
use cofferdam_sandbox::{GuestStream, Isolation, Room, RoomError, Snapshot};
use cofferdam_types::{AuditRecord, SandboxId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::net::UnixStream;

use crate::aside::aside;
use crate::control::{Control, failed};
use crate::egress::Egress;
use crate::reaper::Reaped;
use crate::trail;

/// One native sandbox.
pub(crate) struct NativeRoom {
    pub(crate) id: SandboxId,
    pub(crate) state: PathBuf,
    pub(crate) handle: OwnedFd,
    pub(crate) isolation: Isolation,
    pub(crate) control: Arc<Control>,
    pub(crate) egress: Option<Egress>,
    pub(crate) supervisor: Option<Reaped>,
}

impl NativeRoom {
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

impl Room for NativeRoom {
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
            let path = format!("/proc/self/fd/{}/{}", self.handle.as_raw_fd(), remains::GUEST);
            let stream = UnixStream::connect(path)
                .await
                .map_err(|error| RoomError::Gone(format!("its guest does not listen ({error})")))?;
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

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRecord>, RoomError>> {
        async {
            match self.control.ask(Order::WriteAudit).await? {
                (Report::AuditWritten, _) => trail::read(&self.state).map_err(|source| {
                    RoomError::Step { step: "read the audit trail".to_owned(), source }
                }),
                (other, _) => Err(Self::unexpected(&other)),
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
            let closed = match self.control.ask(Order::Close).await {
                Ok((Report::Closed(Ok(())), _)) => Ok(()),
                Ok((Report::Closed(Err(failure)), _)) => Err(failed(&failure)),
                Ok((other, _)) => Err(Self::unexpected(&other)),
                Err(error) => Err(error),
            };
            // It has nothing left to do but end.
            match self.supervisor.take() {
                Some(supervisor) => aside(|| supervisor.wait()),
                None => while self.control.answer().await.is_ok() {},
            }
            closed
        }
        .boxed()
    }
}
