//! `--image task`: the image with what the files of a directory ask for, made before the first
//! sandbox if it is not there yet.
//!
//! Who has asked for it gets its key. What a sandbox writes into those files later makes no
//! difference to that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cofferdam_images::{Bootstrap, BuildLimits, Image, ImageError, Needs, Progress, Store, TASK};
use cofferdam_sandbox::{Root, Spec, Workspace};
use cofferdam_setup::Host;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::teller::Teller;
use super::{CLEARING, seconds};
use crate::interruption::Signals;
use crate::problem::Problem;
use crate::streams;

/// Who is told what is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Whoever reads stderr.
    People,
    /// Nobody.
    Nobody,
}

/// The making of an image, on a thread of its own.
#[derive(Default)]
pub(crate) struct Making {
    stop: Arc<AtomicBool>,
    /// Held while it goes on.
    busy: Arc<Mutex<()>>,
}

impl Making {
    /// The key of the image with what the files of a directory ask for, in an image's place. An
    /// empty workspace asks for nothing.
    pub(crate) async fn task_image(
        &self,
        home: &Path,
        workspace: Option<&Path>,
        audience: Audience,
    ) -> Result<PathBuf, Problem> {
        let (store, workspace) = (Store::in_home(home), workspace.map(Path::to_owned));
        let stop = Arc::clone(&self.stop);
        let busy = Arc::clone(&self.busy).lock_owned().await;
        let making = tokio::task::spawn_blocking(move || {
            let mut heard = Heard::new(audience);
            let made = make(&store, workspace.as_deref(), &stop, &mut |told| heard.hear(told));
            heard.end();
            drop(busy);
            made
        });
        match making.await {
            Ok(Ok(image)) => Ok(PathBuf::from(image.about.key.as_str())),
            Ok(Err(error)) => Err(Problem::image(&error)),
            Err(broken) => Err(Problem::runtime(&std::io::Error::other(broken))),
        }
    }

    /// Has it stop, and waits until it has cleared away what it had begun. What is left if that
    /// takes too long is no image, and goes with the next one.
    pub(crate) async fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        timeout(CLEARING, self.busy.lock()).await.ok();
    }
}

/// Whether an image is the one that a task's own files ask for.
fn is_task(image: &Path) -> bool {
    image == Path::new(TASK)
}

/// Puts the key of the image that a sandbox's workspace asks for in the place of its name. The
/// exit code of what fails is `code`, unless somebody wanted it to stop.
pub(crate) async fn settle(
    home: &Path,
    spec: &mut Spec,
    signals: &mut Signals,
    code: u8,
) -> Result<(), (Problem, u8)> {
    let Root::Image { directory, .. } = &mut spec.root else { return Ok(()) };
    if !is_task(directory) {
        return Ok(());
    }
    let workspace = match &spec.workspace {
        Workspace::Directory(workspace) => Some(workspace.as_path()),
        _ => None,
    };
    let making = Making::default();
    *directory = tokio::select! {
        made = making.task_image(home, workspace, Audience::People) => {
            made.map_err(|problem| (problem, code))?
        }
        asked = signals.end() => {
            making.end().await;
            return Err((Problem::not_begun(asked.number()), asked.exit_code()));
        }
    };
    Ok(())
}

fn make(
    store: &Store,
    workspace: Option<&Path>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<Image, ImageError> {
    let needs = workspace.map(Needs::of_workspace).transpose()?.unwrap_or_default();
    let definition = needs.on_agent()?;
    let host = Host::here(std::env::var_os("PATH").as_ref());
    let (now, limits) = (seconds(), BuildLimits::default());
    Bootstrap { definition: &definition, store, host: &host, now, limits, stop }.build(tell)
}

/// Passes on what is told, once there is something to be waited for.
struct Heard(Option<Teller>, Audience);

impl Heard {
    fn new(audience: Audience) -> Self {
        Self(None, audience)
    }

    fn hear(&mut self, progress: Progress<'_>) {
        let there = matches!(progress, Progress::AlreadyThere { .. });
        if self.1 == Audience::Nobody || there && self.0.is_none() {
            return;
        }
        let teller = self.0.get_or_insert_with(|| {
            streams::tell("making an image with what the task needs; that takes some minutes");
            Teller::new(false)
        });
        teller.tell(progress);
    }

    fn end(&mut self) {
        if let Some(teller) = &mut self.0 {
            teller.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_images::is_name;
    use cofferdam_types::Place;

    use super::*;

    #[test]
    fn the_name_is_one_that_jobs_know_and_no_image_has() {
        assert_eq!(TASK, Place::TASK_IMAGE);
        assert!(is_name(TASK), "it can be said in an image's place");
        assert!(is_task(Path::new("task")) && !is_task(Path::new("./task")));
    }

    #[tokio::test]
    async fn what_cannot_be_asked_for_is_told_before_anything_is_made() {
        let home = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let file = workspace.path().join("requirements.txt");
        std::fs::write(file, "--index-url=x\n").unwrap();
        let making = Making::default();
        let made = making.task_image(home.path(), Some(workspace.path()), Audience::Nobody).await;
        let problem = made.unwrap_err().to_string();
        assert!(problem.contains("IMG-003"), "{problem}");
        assert!(problem.contains("requirements.txt, line 1"), "{problem}");
        assert!(!home.path().join("images").exists());
        // Nobody waits for what has ended.
        making.end().await;
    }
}
