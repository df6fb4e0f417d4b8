//! Taking up the sandbox of a process that is gone, with what it has kept.

use std::time::Duration;

use cofferdam_sandbox::{Lifetime, Sandbox};
use cofferdam_tools::{Aide, Tools, Watcher, release_desktop};
use cofferdam_types::{CallId, ToolOutput};
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use crate::drive::{Drive, until};
use crate::driver::OrderKind;
use crate::fail_point::fail_point;
use crate::work::OPENING;

/// How long a sandbox may take to say which calls it has.
const TIDYING: Duration = Duration::from_secs(10);

impl Drive {
    /// Takes up the sandbox that the process before worked in, if it is still
    /// there, and waits for the commands that it had begun. A call of which the
    /// sandbox knows nothing is not among the results: what became of it is not
    /// known. `None` when this process is to stop before that: the job is then as it
    /// was.
    pub(crate) async fn adopt(&mut self) -> Option<Vec<(CallId, ToolOutput)>> {
        let lingers = self.driver.lifetime != Lifetime::Owned;
        let Some(id) = self.driver.traces.last_sandbox().filter(|_| lingers) else {
            return Some(Vec::new());
        };
        let limits = self.workplace().limits;
        let attaching = Sandbox::reattach(&*self.driver.backend, id, limits);
        // One that died before it had logged that it took the sandbox up has left it to
        // the next. One that is gone is made anew.
        let Ok(Ok(sandbox)) = timeout(OPENING, attaching).await else { return Some(Vec::new()) };
        let sandbox = sandbox.with_variables(self.driver.place.variables.clone());
        tidy(&sandbox, self.aide().cloned()).await;
        self.settle(sandbox).await;
        if let Some(tools) = &self.tools {
            // Whatever those before us had started.
            tools.something_stays();
        }
        fail_point("collecting");
        self.collect().await
    }

    async fn collect(&mut self) -> Option<Vec<(CallId, ToolOutput)>> {
        let tools = self.tools.clone()?;
        let calls = self.driver.run.open_calls();
        let collecting = join_all(calls.into_iter().map(|call| {
            let tools = &tools;
            async move { Some((call, tools.take_up(call, &Nobody).await?)) }
        }));
        tokio::pin!(collecting);
        // The job's time does not stand still, though nobody counts it here.
        let left = self
            .driver
            .run
            .spec()
            .budget
            .time
            .map(|all| Instant::now() + all.saturating_sub(self.driver.run.spent().time));
        loop {
            tokio::select! {
                collected = &mut collecting => {
                    return Some(collected.into_iter().flatten().collect());
                }
                () = until(left), if left.is_some() => return Some(Vec::new()),
                Some(order) = self.driver.orders.recv() => match order.wish {
                    OrderKind::Leave(_) => {
                        // Before the wait is dropped, which would end the commands.
                        if let Some(sandbox) = &self.sandbox {
                            sandbox.leave();
                        }
                        return None;
                    }
                    OrderKind::Lost => {
                        self.taken = true;
                        return None;
                    }
                    // Whoever wants the job to stop does not wait for its commands.
                    OrderKind::Cancel(_) => {
                        self.early.push_back(order);
                        return Some(Vec::new());
                    }
                    _ => self.early.push_back(order),
                }
            }
        }
    }
}

/// Clears away what the process before left in a sandbox and nobody will come back for.
/// What cannot be does no harm there but to take room.
async fn tidy(sandbox: &Sandbox, aide: Option<Aide>) {
    let forgotten = sandbox.forget_ended(|call| !Tools::is_call(call));
    match timeout(TIDYING, forgotten).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "calls of an earlier life stay"),
        Err(_) => tracing::debug!("calls of an earlier life stay"),
    }
    if let Some(aide) = aide
        && let Err(why) = release_desktop(sandbox, &aide).await
    {
        tracing::debug!(why, "what was held on the desktop is not released");
    }
}

/// Output of commands that an earlier process began is seen when they end.
struct Nobody;

impl Watcher for Nobody {
    fn output(&self, _: &[u8]) {}
}
