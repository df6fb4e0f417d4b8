//! Serving the proxy of one sandbox for as long as its room is held here.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_egress::{Log, Policy, Proxy, Resolve, Settings};
use cofferdam_native_supervisor::audit::now_us;
use cofferdam_types::{AuditRecord, HostRule};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::aside::aside;
use crate::trail::EgressTrail;

/// Records that wait to be written; then the connections they are of wait.
const WAITING_RECORDS: usize = 256;

/// How long the end of the connections and their records are waited for: longer than the
/// proxy itself waits for the log.
const PATIENCE: Duration = Duration::from_secs(10);

/// A proxy that runs. Dropping it ends its connections.
pub(crate) struct Egress {
    stop: CancellationToken,
    /// Held while their end is waited for.
    tasks: Mutex<JoinSet<()>>,
}

impl Egress {
    /// Serves `listener`, which was made inside the sandbox, by these rules.
    pub(crate) fn serve(
        listener: OwnedFd,
        rules: &[HostRule],
        resolver: Arc<dyn Resolve>,
        state: &Path,
    ) -> io::Result<Self> {
        let mut trail = aside(|| EgressTrail::open(state))?;
        let (records, mut waiting) = mpsc::channel::<AuditRecord>(WAITING_RECORDS);
        let log = Log { records, clock: now_us };
        let proxy = Proxy::new(Policy::new(rules.to_vec()), Settings::default(), resolver, log);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let until = stop.clone();
        tasks.spawn(async move {
            // A proxy that ends badly leaves the sandbox without a network, which
            // its commands see and report themselves; the trail has the reason.
            drop(proxy.serve(TcpListener::from(listener), until).await);
        });
        tasks.spawn(async move {
            while let Some(record) = waiting.recv().await {
                trail.write(&record);
            }
        });
        Ok(Self { stop, tasks: Mutex::new(tasks) })
    }

    /// Ends every connection for good and waits for the records, but not for ever: a
    /// disk may hang. Whoever stops waiting, or comes again, changes nothing.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        let ended = async {
            let mut tasks = self.tasks.lock().await;
            while tasks.join_next().await.is_some() {}
        };
        tokio::time::timeout(PATIENCE, ended).await.ok();
    }
}
