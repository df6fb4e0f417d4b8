//! The engines, as the native back end asks them for first processes.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_embedded::{SUPERVISOR, copy};
use cofferdam_sandbox::{Fact, OpenError, Reconciled, Spec};
use cofferdam_supervised::{Engine, FirstPlan, Hire, Supervised};
use cofferdam_types::Network;
use sha2::{Digest, Sha256};

use crate::container::{Container, Users, name, sandbox};
use crate::errand::{PATIENCE, Refusal, ask};
use crate::gvisor::Gvisor;
use crate::{arguments, bundle, examine, gvisor, image};

/// Variables that engines are told of: where their programs, sockets and settings are.
const PASSED_ON: &[&str] = &[
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "HOME",
    "PATH",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Where programs are, for a process without a PATH.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the root of runtimes' containers is. It holds nothing, and everybody may see that:
/// runtimes look at it as users of the container's.
const ROOTS: &str = "/run/cofferdam";

/// So often a container that cannot be removed is tried again, and after so long each.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// How long it is believed that an engine is still as it was, while it does what it is asked.
const MEMORY: Duration = Duration::from_secs(600);

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Docker daemon.
    Docker,
    /// Podman, which needs none.
    Podman,
    /// The runtime crun, by itself.
    Crun,
    /// The runtime runc, by itself.
    Runc,
    /// gVisor's runtime, whose sandboxes have a kernel of their own.
    Runsc,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Docker, Self::Podman, Self::Crun, Self::Runc, Self::Runsc];

    /// Its name, which is that of its program and of its back end.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Runsc => "runsc",
        }
    }

    /// Whether it keeps images and knows containers by label; else it is a runtime.
    pub(crate) fn is_manager(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }
}

/// The back end that has this engine start its sandboxes, kept in `home`.
#[must_use]
pub fn backend(kind: Kind, home: PathBuf) -> Supervised {
    let given = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    backend_in(kind, home, PASSED_ON.iter().filter_map(given).collect())
}

/// The same, with these variables for the engine's programs and no others.
#[must_use]
pub fn backend_in(kind: Kind, home: PathBuf, environment: Vec<(String, String)>) -> Supervised {
    let engine = ContainerEngine::new(kind, &home, environment);
    let engine: Arc<dyn Engine> = match kind {
        Kind::Runsc => Arc::new(Gvisor::new(engine)),
        _ => Arc::new(engine),
    };
    Supervised::new(home).hiring_from(engine)
}

/// One engine, for the sandboxes of one home.
pub(crate) struct ContainerEngine {
    pub(crate) kind: Kind,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) shelf: PathBuf,
    /// The home, as a word for labels.
    label: String,
    /// What the engine was last seen to be like, and when.
    seen: Mutex<Option<(Instant, Seen)>>,
}

/// What an engine is like.
#[derive(Clone, Copy)]
struct Seen {
    /// Its daemon gives containers a range of ids that nobody has.
    maps_users: bool,
}

impl ContainerEngine {
    fn new(kind: Kind, home: &Path, mut environment: Vec<(String, String)>) -> Self {
        if !environment.iter().any(|(name, _)| name == "PATH") {
            environment.push(("PATH".to_owned(), USUAL_PATH.to_owned()));
        }
        let digest = Sha256::digest(home.as_os_str().as_bytes());
        let label = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let shelf = home.join(".shared").join("containers");
        Self { kind, environment, shelf, label, seen: Mutex::new(None) }
    }

    /// A file that is there once the engine was asked for something.
    fn mark(&self) -> PathBuf {
        self.shelf.join(format!("{}.used", self.kind.name()))
    }

    /// Where its program is.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        match self.kind {
            Kind::Runsc => gvisor::choose(self.find_all("runsc"), &self.environment),
            kind => self.find(kind.name()),
        }
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        self.find_all(name).next()
    }

    fn find_all(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or("", |(_, path)| path.as_str());
        // Runtimes are root's, and a user's PATH may lack where root's programs are.
        let everywhere = std::env::split_paths(path).chain(std::env::split_paths(USUAL_PATH));
        everywhere.map(move |directory| directory.join(name)).filter(|path| path.is_file())
    }

    /// What it prints when asked this.
    pub(crate) fn ask(&self, words: &[String], input: Option<&[u8]>) -> Result<String, Refusal> {
        let program = self.program().ok_or_else(|| {
            Refusal::NotRun(self.kind.name().to_owned(), io::ErrorKind::NotFound.into())
        })?;
        ask(&program, self.in_front(words.to_vec()), &self.environment, input)
    }

    /// The words for the program, with those that it needs on this machine before them.
    fn in_front(&self, words: Vec<String>) -> Vec<String> {
        let mut all = Vec::new();
        match self.kind {
            Kind::Podman if examine::has_hybrid_groups() => {
                // crun, its usual runtime, refuses such machines.
                if let Some(runc) = self.find("runc") {
                    all.push(format!("--runtime={}", runc.display()));
                }
            }
            Kind::Crun | Kind::Runc => {
                all.push(format!("--root={}", self.shelf.join(self.kind.name()).display()));
            }
            _ => {}
        }
        all.extend(words);
        all
    }

    /// A command line of it, program and all.
    fn line(&self, program: &Path, words: Vec<String>) -> Vec<String> {
        let mut line = Vec::new();
        if self.kind == Kind::Crun && examine::has_hybrid_groups() {
            // It refuses a machine with both versions of control groups; so it gets to see
            // one.
            let hide = "umount /sys/fs/cgroup/unified && exec \"$@\"";
            let words = ["unshare", "--mount", "--propagation=private", "sh", "-c", hide, "sh"];
            line.extend(words.map(str::to_owned));
        }
        line.push(program.display().to_string());
        line.extend(self.in_front(words));
        line
    }

    /// Looks at the engine, and sees to it that it has our image.
    fn get_ready(&self) -> Result<Seen, Refusal> {
        let mut last = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, seen)) = *last
            && when.elapsed() < MEMORY
        {
            return Ok(seen);
        }
        let maps_users = match self.kind {
            Kind::Docker => {
                let words = ["info", "--format={{.SecurityOptions}}"].map(str::to_owned);
                let told = self.ask(&words, None).map_err(|refusal| {
                    // Old clients without a daemon complain of the words; asked for its
                    // version they complain of the daemon.
                    let words = ["version", "--format={{.Server.Version}}"].map(str::to_owned);
                    self.ask(&words, None).err().unwrap_or(refusal)
                });
                told?.contains("name=userns")
            }
            _ => {
                examine::range_of_ids(self)?;
                false
            }
        };
        let there = self.ask(&["image", "inspect", image::NAME].map(str::to_owned), None);
        if there.is_err() {
            let archive = image::archive().map_err(|error| Refusal::Said(error.to_string()))?;
            self.ask(&["import", "-", image::NAME].map(str::to_owned), Some(&archive))?;
        }
        let seen = Seen { maps_users };
        *last = Some((Instant::now(), seen));
        Ok(seen)
    }

    fn users(&self, spec: &Spec, seen: Seen) -> Result<Users, OpenError> {
        let root = rustix::process::geteuid().is_root();
        match (self.kind, root) {
            // Docker refuses the host's network to containers with users of their own.
            (Kind::Docker, true) if seen.maps_users && spec.network != Network::Open => {
                Ok(Users::DaemonsRange)
            }
            (Kind::Docker, true) => Ok(Users::Unmapped),
            (_, true) => Ok(Users::OwnRange),
            (Kind::Podman, false) => Ok(Users::Caller),
            (kind, false) => Err(OpenError::Unusable {
                cause: format!(
                    "{}'s containers belong to root, and an ordinary user cannot build a room in one",
                    kind.name()
                ),
                remedy: "use --sandbox podman or --sandbox native, or run as root".to_owned(),
            }),
        }
    }

    /// The program of containers, in a place of its own.
    pub(crate) fn entry(&self) -> Result<PathBuf, OpenError> {
        match copy::find(&self.shelf, &SUPERVISOR) {
            Ok(Some(_)) => Ok(self.shelf.join(SUPERVISOR.name)),
            _ => copy::keep(&self.shelf, 0o755, &SUPERVISOR),
        }
        .map_err(|source| failed("keep the program of containers", source))
    }

    /// Its program, or what would mend that there is none.
    pub(crate) fn needed_program(&self) -> Result<PathBuf, OpenError> {
        self.program().ok_or_else(|| {
            let missing = io::Error::from(io::ErrorKind::NotFound);
            self.refused(&Refusal::NotRun(self.kind.name().to_owned(), missing))
        })
    }

    pub(crate) fn refused(&self, refusal: &Refusal) -> OpenError {
        OpenError::Unusable {
            cause: format!("{}: {refusal}", self.kind.name()),
            remedy: examine::remedy(self.kind, refusal),
        }
    }
}

fn failed(step: &str, source: io::Error) -> OpenError {
    OpenError::Step { step: step.to_owned(), source }
}

impl Engine for ContainerEngine {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn first(&self, spec: &Spec, state: &Path) -> Result<FirstPlan, OpenError> {
        if state.to_str().is_none() || self.shelf.to_str().is_none() {
            return Err(OpenError::Unusable {
                cause: format!("{} is not UTF-8, as engines want paths", state.display()),
                remedy: "set COFFERDAM_HOME to a directory with another name".to_owned(),
            });
        }
        let program = self.needed_program()?;
        let entry = self.entry()?;
        // Whoever looks for remains need not ask engines that were never used.
        fs::write(self.mark(), "")
            .map_err(|source| failed("note that the engine is used", source))?;
        let seen = if self.kind.is_manager() {
            self.get_ready().map_err(|refusal| self.refused(&refusal))?
        } else {
            Seen { maps_users: false }
        };
        let users = self.users(spec, seen)?;
        let container = Container::of(spec, state, &entry, self.label.clone(), users);
        let (start, remove) = if self.kind.is_manager() {
            let start = arguments::start(self.kind, &container, image::NAME);
            (start, arguments::remove(&container.name))
        } else {
            let root = image::directory(Path::new(ROOTS))
                .map_err(|source| failed("make a root for containers", source))?;
            let place = state.join("bundle");
            bundle::write(&place, &root, &container)
                .map_err(|source| failed("write the container's bundle", source))?;
            let bundle = format!("--bundle={}", place.display());
            let start = ["run", "--detach", &bundle, &container.name].map(str::to_owned);
            let remove = ["delete", "--force", &container.name].map(str::to_owned);
            (start.to_vec(), remove.to_vec())
        };
        Ok(FirstPlan::Hired(Hire {
            engine: self.kind.name().to_owned(),
            container: container.name,
            start: self.line(&program, start),
            remove: self.line(&program, remove),
            environment: self.environment.clone(),
        }))
    }

    fn forget(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What was seen for this very attempt is no different now.
        seen.is_some_and(|(when, _)| when.elapsed() > PATIENCE * 4)
    }

    fn examine(&self) -> Vec<Fact> {
        examine::examine(self)
    }

    fn sweep(&self, held: &dyn Fn() -> HashSet<String>) -> Reconciled {
        let mut swept = Reconciled::default();
        if self.program().is_none() || !self.mark().exists() {
            return swept;
        }
        let listed = if self.kind.is_manager() {
            self.ask(&arguments::list(&self.label), None)
        } else {
            self.ask(&["list", "--quiet"].map(str::to_owned), None)
        };
        let listed = match listed {
            Ok(listed) => listed,
            Err(refusal) => {
                let asked = format!("ask {} for containers that were left", self.kind.name());
                swept.left.push(format!("{asked}: {refusal}"));
                return swept;
            }
        };
        // Only now: whoever has a container was known to hold it before there was one.
        let held = held();
        for id in listed.lines().filter_map(sandbox).filter(|id| !held.contains(&name(*id))) {
            let words = if self.kind.is_manager() {
                arguments::remove(&name(id))
            } else {
                ["delete", "--force", &name(id)].map(str::to_owned).to_vec()
            };
            // An engine may be at it itself, and in its own way.
            let mut outcome = self.ask(&words, None);
            for _ in 0..TRIES {
                if outcome.is_ok() {
                    break;
                }
                thread::sleep(PAUSE);
                outcome = self.ask(&words, None);
            }
            match outcome {
                Ok(_) => swept.removed.push(id),
                Err(refusal) => {
                    swept.left.push(format!("{} {}: {refusal}", self.kind.name(), name(id)))
                }
            }
        }
        swept
    }
}
