//! Serving the proxy of one sandbox for as long as its room is held here.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use cofferdam_egress::{Log, Policy, Proxy, Resolve, Settings};
use cofferdam_native_supervisor::audit::now_us;
use cofferdam_types::{AuditRecord, HostRule};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::trail;

/// Records that wait to be written; then the connections they are of wait.
const WAITING_RECORDS: usize = 256;

/// A proxy that runs. Dropping it ends its connections.
pub(crate) struct Egress {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Egress {
    /// Serves `listener`, which was made inside the sandbox, by these rules.
    pub(crate) fn serve(
        listener: OwnedFd,
        rules: &[HostRule],
        resolver: Arc<dyn Resolve>,
        state: &Path,
    ) -> io::Result<Self> {
        let mut file = trail::open_egress(state)?;
        let (records, mut waiting) = mpsc::channel::<AuditRecord>(WAITING_RECORDS);
        let log = Log { records, clock: now_us };
        let proxy = Proxy::new(Policy::new(rules.to_vec()), Settings::default(), resolver, log);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let until = stop.clone();
        tasks.spawn(async move {
            // A proxy that ends badly leaves the sandbox without a network,
            // which the sandbox's commands see and report themselves.
            drop(proxy.serve(TcpListener::from(listener), until).await);
        });
        tasks.spawn(async move {
            while let Some(record) = waiting.recv().await {
                // As with the rest of the trail: the work goes on without it.
                drop(trail::append(&mut file, &record));
            }
        });
        Ok(Self { stop, tasks })
    }

    /// Ends every connection and waits for the records.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
