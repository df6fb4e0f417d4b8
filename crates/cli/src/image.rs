//! `cofferdam image`: makes, takes in, lists and removes the images that sandboxes can be made of.

mod arguments;
pub(crate) mod task;
mod teller;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam_images::{
    Bootstrap, BuildLimits, Builder, Definition, EngineBuild, Image, ImageError, Import, Naming,
    Progress, Pruned, Store, UnpackLimits, dockerfile, usual_base,
};
use cofferdam_runtime::now;
use cofferdam_setup::Host;
use cofferdam_view::tame_line;
use serde::Serialize;
use serde_json::json;

use crate::interruption::{Asked, Signals};
use crate::problem::Problem;
use crate::remote::table::{Table, stdout_width};
use crate::{Product, events, exit, streams};

pub(crate) use arguments::ImageVerb;
use arguments::{BuildArguments, With};
use teller::Teller;

/// The version of what `--json` prints.
const VERSION: u32 = 1;

/// How long something that was told to stop may take to clear away what it had begun.
const CLEARING: Duration = Duration::from_secs(60);

/// How long removing waits for somebody who makes an image.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Does what is asked; returns the exit code.
pub(crate) async fn run(product: &Product, verb: ImageVerb) -> ExitCode {
    let store = Store::in_home(&product.home);
    let json = verb.json();
    ExitCode::from(match verb {
        ImageVerb::List { .. } => match store.list() {
            Ok(images) => listed(json, &store, &images),
            Err(error) => failed(json, &Problem::image(&error), exit::FAILED),
        },
        ImageVerb::Build(arguments) => match arguments.definition() {
            Err(problem) => failed(json, &problem, exit::USAGE),
            Ok(definition) if arguments.dockerfile => print_dockerfile(&definition, &arguments),
            Ok(definition) => {
                let work = move |stop: &AtomicBool, tell: &mut dyn FnMut(Progress<'_>)| {
                    build(&store, &definition, &arguments, stop, tell)
                        .map(|image| Done::Made(Box::new(image)))
                };
                stoppable(json, work).await
            }
        },
        ImageVerb::Import(arguments) => match arguments.name() {
            Err(problem) => failed(json, &problem, exit::USAGE),
            Ok(named) => {
                let work = move |stop: &AtomicBool, tell: &mut dyn FnMut(Progress<'_>)| {
                    import(&store, &arguments.file, &named, stop, tell)
                        .map(|image| Done::Made(Box::new(image)))
                };
                stoppable(json, work).await
            }
        },
        ImageVerb::Prune { all, .. } => {
            let work = move |stop: &AtomicBool, tell: &mut dyn FnMut(Progress<'_>)| {
                let mut waits = || tell(Progress::Waiting);
                store.change(PATIENCE, stop, &mut waits)?.prune(all).map(Done::Pruned)
            };
            stoppable(json, work).await
        }
        ImageVerb::Remove { name, .. } => {
            let work = move |stop: &AtomicBool, tell: &mut dyn FnMut(Progress<'_>)| {
                let mut waits = || tell(Progress::Waiting);
                let removed = store.change(PATIENCE, stop, &mut waits)?.remove(&name)?;
                Ok(Done::Removed(removed.into_iter().collect()))
            };
            stoppable(json, work).await
        }
    })
}

/// What was done.
enum Done {
    Made(Box<Image>),
    Removed(Vec<Image>),
    Pruned(Pruned),
}

/// Does something that waits on a thread of its own, and has it stop when somebody wants that.
async fn stoppable(
    json: bool,
    work: impl FnOnce(&AtomicBool, &mut dyn FnMut(Progress<'_>)) -> Result<Done, ImageError>
    + Send
    + 'static,
) -> u8 {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return failed(json, &Problem::runtime(&error), exit::FAILED),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut working = {
        let stop = Arc::clone(&stop);
        tokio::task::spawn_blocking(move || {
            let mut teller = Teller::new(json);
            let done = work(&stop, &mut |progress| teller.tell(progress));
            teller.clear();
            done
        })
    };
    let mut asked = None;
    let done = tokio::select! {
        done = &mut working => Some(done),
        signal = signals.end() => {
            asked = Some(signal);
            stop.store(true, Ordering::Relaxed);
            // What is left if this is not enough is no image, and goes with the next one.
            tokio::time::timeout(CLEARING, working).await.ok()
        }
    };
    let done = match done {
        Some(Ok(done)) => done,
        Some(Err(error)) => {
            return failed(json, &Problem::runtime(&io::Error::other(error)), exit::FAILED);
        }
        None => Err(ImageError::Stopped),
    };
    match done {
        Ok(done) => {
            ended(json, &done);
            0
        }
        Err(error) => {
            let code = asked.map_or(exit::FAILED, Asked::exit_code);
            failed(json, &Problem::image(&error), code)
        }
    }
}

fn seconds() -> u64 {
    now().0 / 1_000
}

fn build(
    store: &Store,
    definition: &Definition,
    arguments: &BuildArguments,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<Image, ImageError> {
    let limits = BuildLimits::default();
    let now = seconds();
    let builder = match arguments.with {
        With::Mmdebstrap => {
            let host = Host::here(std::env::var_os("PATH").as_ref());
            return Bootstrap { definition, store, host: &host, now, limits, stop }.build(tell);
        }
        With::Docker => Builder::Docker,
        With::Podman => Builder::Podman,
    };
    let (base, unpack) = (arguments.base.as_deref(), UnpackLimits::default());
    let environment = &[];
    EngineBuild { definition, store, builder, base, environment, now, limits, unpack, stop }
        .build(tell)
}

fn print_dockerfile(definition: &Definition, arguments: &BuildArguments) -> u8 {
    let base = arguments.base.clone().unwrap_or_else(|| usual_base(definition));
    match dockerfile(definition, &base) {
        Ok(text) => {
            streams::print(text.as_bytes());
            0
        }
        Err(error) => failed(false, &Problem::image(&error), exit::FAILED),
    }
}

fn import(
    store: &Store,
    archive: &Path,
    (name, naming): &(String, Naming),
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<Image, ImageError> {
    let (limits, patience) = (UnpackLimits::default(), PATIENCE);
    let (naming, now) = (*naming, seconds());
    Import { archive, name, naming, store, now, patience, limits, stop }.import(tell)
}

/// An image, for programs.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    names: &'a [String],
    key: &'a str,
    root: &'a Path,
    bytes: u64,
    made_with: &'a str,
    made_at: String,
    env: &'a std::collections::BTreeMap<String, String>,
}

impl<'a> From<&'a Image> for Shown<'a> {
    fn from(image: &'a Image) -> Self {
        let Image { names, root, bytes, about } = image;
        Self {
            names,
            key: about.key.as_str(),
            root,
            bytes: *bytes,
            made_with: &about.made_with,
            made_at: moment(about.made_at, "%Y-%m-%dT%H:%M:%SZ"),
            env: &about.env,
        }
    }
}

/// A moment in universal time.
fn moment(seconds: u64, form: &str) -> String {
    let at = i64::try_from(seconds).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
    at.map_or_else(String::new, |at| at.strftime(form).to_string())
}

/// `1.9 GB`
fn size(bytes: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = (bytes.saturating_mul(10) + unit / 2) / unit;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match bytes {
        0..1_000_000_000 => format!("{} MB", tenths(1_000_000)),
        _ => format!("{} GB", tenths(1_000_000_000)),
    }
}

fn listed(json: bool, store: &Store, images: &[Image]) -> u8 {
    if json {
        #[derive(Serialize)]
        struct Listed<'a> {
            version: u32,
            place: &'a Path,
            images: Vec<Shown<'a>>,
        }
        let images = images.iter().map(Shown::from).collect();
        let listed = Listed { version: VERSION, place: store.place(), images };
        let text = serde_json::to_string_pretty(&listed).unwrap_or_default() + "\n";
        streams::print(text.as_bytes());
        return 0;
    }
    if images.is_empty() {
        streams::tell("there is no image yet; make one: cofferdam image build");
        return 0;
    }
    let mut table = Table::new(["NAME", "KEY", "SIZE", "MADE", "WITH"]);
    for image in images {
        let name = match image.names.is_empty() {
            true => "(old)".to_owned(),
            false => image.names.join(", "),
        };
        let about = &image.about;
        let made = moment(about.made_at, "%Y-%m-%d %H:%M");
        let key = about.key.short().to_owned();
        table.row(vec![name, key, size(image.bytes), made, about.made_with.clone()]);
    }
    let all: u64 = images.iter().map(|image| image.bytes).sum();
    let text = format!("{}\n", table.text(stdout_width()));
    streams::print(text.as_bytes());
    if images.len() > 1 {
        streams::tell(&format!("{} images, {}", images.len(), size(all)));
    }
    0
}

fn ended(json: bool, done: &Done) {
    if json {
        let line = match done {
            Done::Made(image) => {
                json!({ "event": "ended", "image": Shown::from(&**image) })
            }
            Done::Removed(images) => {
                let removed: Vec<Shown<'_>> = images.iter().map(Shown::from).collect();
                json!({ "event": "ended", "removed": removed })
            }
            Done::Pruned(Pruned { images, remains, kept }) => {
                let removed: Vec<Shown<'_>> = images.iter().map(Shown::from).collect();
                let kept = kept.iter().map(|kept| json!({ "place": kept.place, "why": kept.why }));
                let kept: Vec<_> = kept.collect();
                json!({ "event": "ended", "removed": removed, "remains": remains, "kept": kept })
            }
        };
        streams::print(format!("{line}\n").as_bytes());
        return;
    }
    let line = |image: &Image, word: &str| {
        let name = image.names.first().map_or_else(|| image.about.key.short(), String::as_str);
        let root = tame_line(&image.root.to_string_lossy());
        format!("{word}{name:<12}{:>9}  {root}\n", size(image.bytes))
    };
    let text: String = match done {
        Done::Made(image) => line(image, ""),
        Done::Removed(images) => images.iter().map(|image| line(image, "removed ")).collect(),
        Done::Pruned(Pruned { images, remains, kept }) => {
            for kept in kept {
                let place = kept.place.to_string_lossy();
                streams::tell(&tame_line(&format!("kept {place}: {}", kept.why)));
            }
            let gone = images.iter().map(|image| line(image, "removed "));
            let place = |place: &PathBuf| tame_line(&place.to_string_lossy());
            let rest =
                remains.iter().map(|it| format!("removed what was no image: {}\n", place(it)));
            gone.chain(rest).collect()
        }
    };
    streams::print(text.as_bytes());
}

fn failed(json: bool, problem: &Problem, code: u8) -> u8 {
    if json {
        streams::print(&events::Event::Failed { problem }.line());
    } else {
        streams::tell(&problem.to_string());
    }
    code
}
