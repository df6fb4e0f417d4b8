//! Handing over: to whoever else wants the result, then to the workspace.

use std::sync::Arc;

use cofferdam_engine::Input;
use cofferdam_sandbox::Spec;
use cofferdam_tools::Aide;
use cofferdam_types::{Ending, error_chain};

use crate::drive::Drive;
use crate::place;
use crate::work::{self, Done};

impl Drive {
    /// The sandbox that the job works in.
    pub(crate) fn workplace(&self) -> Spec {
        place::workplace(&self.driver.place, self.aide(), self.driver.lifetime)
    }

    /// What runs code cells there. An image brings the interpreters for it.
    pub(crate) fn aide(&self) -> Option<&Aide> {
        self.driver.aide.as_ref()
    }

    /// Hands over what there is.
    pub(crate) async fn deliver(&mut self) {
        if self.driver.place.wants_task_image() {
            // It never had a sandbox, and whoever only looks at its files needs no program of it.
            self.driver.place.image = None;
        }
        let mut problem = self.open_for_delivery().await.err();
        let mut changes = Vec::new();
        if let Some(sandbox) = self.sandbox.as_ref().filter(|_| !self.lost) {
            let driver = &self.driver;
            let comparing = work::changes(&*driver.backend, sandbox, &driver.place, &driver.origin);
            match work::in_time("comparing the files", comparing).await {
                Ok(found) => {
                    changes = found.files;
                    self.unheard.extend(found.incomplete.map(|why| Input::Note {
                        text: format!("the list of changes is not complete: {why}"),
                    }));
                }
                Err(reason) => {
                    let text = format!("what has changed cannot be listed: {reason}");
                    self.unheard.push_back(Input::Note { text });
                }
            }
            if let Some(delivery) = &driver.delivery {
                let delivering = delivery.deliver(sandbox, &*driver.past);
                problem = work::in_time("packing the result", delivering).await.err().or(problem);
            }
        }
        if let Err(reason) = self.close().await {
            problem = Some(problem.map_or(reason.clone(), |first| format!("{first}; {reason}")));
        }
        self.unheard.push_back(Input::Delivered { changes, problem });
    }

    /// A job that was taken up only to be handed over has no sandbox yet, and one whose
    /// sandbox died has none any more: what that one left is in the workspace once the
    /// next one is there.
    async fn open_for_delivery(&mut self) -> Result<(), String> {
        if self.driver.delivery.is_none() {
            return Ok(());
        }
        let died = self.lost && self.sandbox.is_some();
        if died {
            self.driver.door.close().await;
            self.sandbox = None;
            self.lost = false;
        }
        let ending = self.driver.run.ending();
        let never_was = matches!(ending, Some(Ending::SandboxUnavailable { .. })) && !died;
        if self.sandbox.is_none() && !never_was {
            let backend = Arc::clone(&self.driver.backend);
            let variables = self.driver.place.variables.clone();
            if let Done::Opened(opened) = work::open(backend, self.workplace(), variables).await {
                self.sandbox = Some(Arc::new(*opened?));
            }
        }
        Ok(())
    }

    /// Closes the sandbox, which brings its changes to the workspace.
    pub(crate) async fn close(&mut self) -> Result<(), String> {
        let Some(sandbox) = self.sandbox.take() else { return Ok(()) };
        let door = &self.driver.door;
        let closing = async {
            door.close().await;
            let Some(sandbox) = Arc::into_inner(sandbox) else {
                return Err("the sandbox is still in use".to_owned());
            };
            sandbox.close().await.map_err(|error| error_chain(&error))
        };
        work::in_time("closing the sandbox", closing).await
    }
}
