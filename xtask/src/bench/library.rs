//! The product as a library: sandboxes that this process makes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use cofferdam_sandbox::{Backend, Sandbox, Spec};
use cofferdam_sandbox_native::Native;
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use tokio::runtime::Runtime;

use super::interruption::Interruption;

/// Sandboxes that are made, used or closed at the same time when there are many.
pub(super) const AT_A_TIME: usize = 4;

/// After this time a supervisor that was started has surely made all that can be made without a
/// plan.
const READY: Duration = Duration::from_millis(20);

/// How long anything done with sandboxes may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A back end and what drives it.
pub(super) struct Library {
    runtime: Runtime,
    backend: Native,
    home: PathBuf,
    interruption: Interruption,
}

impl Library {
    /// Keeps the sandboxes' directories in `home`.
    pub(super) fn new(home: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let interruption = Interruption::listen(&runtime)?;
        // The first start leaves copies of the programs for those that follow,
        // which is not what any but the very first sandbox costs.
        let first = Native::new(home.to_owned());
        runtime.block_on(async {
            Sandbox::open(&first, Spec::scratch()).await?.close().await.map_err(anyhow::Error::from)
        })?;
        let backend = Native::new(home.to_owned());
        Ok(Self { runtime, backend, home: home.to_owned(), interruption })
    }

    /// Fails once this process was asked to end.
    pub(super) fn go_on(&self) -> anyhow::Result<()> {
        self.interruption.check(&self.runtime)
    }

    /// Where its sandboxes' directories are.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The back end.
    pub(super) fn backend(&self) -> &dyn Backend {
        &self.backend
    }

    /// Does something with sandboxes, to its end.
    pub(super) fn wait<Output>(
        &self,
        work: impl Future<Output = anyhow::Result<Output>>,
    ) -> anyhow::Result<Output> {
        self.runtime.block_on(async {
            match tokio::time::timeout(PATIENCE, work).await {
                Ok(outcome) => outcome,
                Err(_) => bail!("a sandbox did not answer within {} s", PATIENCE.as_secs()),
            }
        })
    }

    /// Has a supervisor ready for the next sandbox, as a server does in advance.
    pub(super) fn prepare(&self) {
        self.backend.prepare();
        std::thread::sleep(READY);
    }

    /// Makes a sandbox with an empty workspace.
    pub(super) async fn open(&self) -> anyhow::Result<Sandbox> {
        Ok(Sandbox::open(&self.backend, Spec::scratch()).await?)
    }

    /// Makes many.
    pub(super) fn open_many(&self, count: usize) -> anyhow::Result<Vec<Sandbox>> {
        self.each(AT_A_TIME, 0..count, |_| self.open().boxed_local())
    }

    /// Closes many.
    pub(super) fn close_all(&self, sandboxes: Vec<Sandbox>) -> anyhow::Result<()> {
        let close = |sandbox: Sandbox| async { Ok(sandbox.close().await?) }.boxed_local();
        self.each(AT_A_TIME, sandboxes, close).map(|_| ())
    }

    /// Does the same with each of many, some at a time.
    pub(super) fn each<'a, Item, Output>(
        &self,
        at_a_time: usize,
        items: impl IntoIterator<Item = Item>,
        work: impl Fn(Item) -> LocalBoxFuture<'a, anyhow::Result<Output>>,
    ) -> anyhow::Result<Vec<Output>> {
        self.wait(stream::iter(items).map(work).buffer_unordered(at_a_time).try_collect())
    }
}

/// Runs `true` in a sandbox.
pub(super) async fn run_true(sandbox: &Sandbox) -> anyhow::Result<()> {
    let result = sandbox.run(sandbox.next_call_id(), sandbox.argv(["true"])).await?;
    if result.outcome.shell_code() != 0 {
        bail!("`true` in a sandbox: {:?}", result.outcome);
    }
    Ok(())
}
