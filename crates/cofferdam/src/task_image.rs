//! The images that jobs of a server have by what their own files ask for: those that `cofferdam
//! image build --for` makes, made where they are not there yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam_fleet::Beginning;
use cofferdam_images::{
    Bootstrap, BuildLimits, Definition, FILES, ImageError, Key, LARGEST, Needs, Progress, Store,
};
use cofferdam_runtime::now;
use cofferdam_setup::Host;
use cofferdam_types::error_chain;
use tokio::sync::mpsc;

/// How long each part of it may take. Each tells that it begins, and a job in which nothing
/// happens for longer than half an hour is given up.
const LIMITS: BuildLimits = BuildLimits {
    lock: Duration::from_secs(25 * 60),
    system: Duration::from_secs(25 * 60),
    step: Duration::from_secs(15 * 60),
};

/// What goes before the reason why there is none.
const ASKED: &str = "the image that the job's files ask for";

/// How many images of tasks stay that no sandbox uses.
const KEPT: usize = 16;

/// How long others may keep it from removing the rest.
const CLEARING: Duration = Duration::from_secs(60);

/// The key of the image that files ask for, which is made if it is not there: the one that is
/// known, if one is.
pub(crate) async fn make(
    store: &Store,
    files: &dyn Beginning,
    known: Option<String>,
    tell: mpsc::Sender<String>,
) -> Result<String, String> {
    let known = known.map(|key| Key::named(&key).ok_or(format!("{key:?} is no image's key")));
    let known = known.transpose()?;
    if let Some(key) = &known
        && store.with_key(key).map_err(|error| explained(&error))?.is_some()
    {
        return Ok(key.to_string());
    }
    let files = files.read(&FILES, LARGEST).await.map_err(|why| format!("{ASKED}: {why}"))?;
    let needs = Needs::of_files(&files).map_err(|error| explained(&error))?;
    let definition = needs.on_agent().map_err(|error| explained(&error))?;
    let store = store.clone();
    let stop = StopsWhenDropped::default();
    let stopped = Arc::clone(&stop.0);
    let making = tokio::task::spawn_blocking(move || {
        let mut tell = |progress: Progress<'_>| told(progress, &tell);
        build(&store, &definition, known.as_ref(), &stopped, &mut tell)
    });
    making.await.unwrap_or_else(|broken| Err(error_chain(&broken)))
}

fn build(
    store: &Store,
    definition: &Definition,
    known: Option<&Key>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<String, String> {
    let host = Host::here(std::env::var_os("PATH").as_ref());
    let (host, now, limits) = (&host, now().0 / 1_000, LIMITS);
    let bootstrap = Bootstrap { definition, store, host, now, limits, stop };
    let key = bootstrap.key().map_err(|error| explained(&error))?;
    if let Some(known) = known.filter(|known| **known != key) {
        return Err(format!(
            "the image {} that the job began with is not on this machine, and this release makes \
             another one of its files (submit it anew)",
            known.short()
        ));
    }
    let mut is_new = false;
    let made = bootstrap.build(&mut |progress| {
        is_new |= matches!(progress, Progress::Ready { .. });
        tell(progress);
    });
    let made = made.map_err(|error| explained(&error))?;
    if is_new {
        make_room(store, stop);
    }
    Ok(made.about.key.to_string())
}

/// Anybody whose job a server does can ask for another image, and each takes gigabytes.
fn make_room(store: &Store, stop: &AtomicBool) {
    let changing = store.change(CLEARING, stop, &mut || {});
    match changing.and_then(|changing| changing.prune_tasks(KEPT)) {
        Ok(gone) => {
            for image in gone {
                tracing::info!(image = image.names.join(", "), "removed an image of a task");
            }
        }
        Err(error) => tracing::warn!(error = error_chain(&error), "old images of tasks are left"),
    }
}

/// Tells what begins; how far it is would fill the job's log.
fn told(progress: Progress<'_>, tell: &mpsc::Sender<String>) {
    let text = match progress {
        Progress::Waiting => "wait for another one that is being made".to_owned(),
        Progress::Step(step) => step.to_string(),
        Progress::Without(what) => format!("without {what}"),
        Progress::Ready { name, .. } => {
            tracing::info!(image = name, "made an image");
            return;
        }
        Progress::AlreadyThere { .. } | Progress::Part { .. } | Progress::Line(_) => return,
    };
    tracing::info!(step = text, "making an image");
    // Whoever does not keep up misses it.
    tell.try_send(text).ok();
}

/// Why there is no image, and what would mend that.
fn explained(error: &ImageError) -> String {
    let usual = match error {
        ImageError::Definition { .. } => "its files may name packages and versions, nothing else",
        ImageError::Failed { .. } | ImageError::TimedOut { .. } => {
            "see what the program said: a package may not be there, or not for this Python"
        }
        _ => "see `cofferdam image list` on the server",
    };
    let help = error.help().unwrap_or_else(|| usual.to_owned());
    format!("{ASKED}: {} ({help})", error_chain(error))
}

/// Has somebody stop when nobody waits for them any more.
#[derive(Default)]
struct StopsWhenDropped(Arc<AtomicBool>);

impl Drop for StopsWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
