//! The seam: what a back end does, and what it says of itself.
//!
//! A back end builds an isolated place with the limits it was given, starts the
//! guest in it as the first process, and hands over a byte stream to it. All
//! else (commands, files, tunnels) is built once, over the guest, in this crate.
//! The caller has decided what is allowed; a back end enforces it as given,
//! never widens it, and says in [`Isolation`] what the place really got.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_types::{AuditRecord, Limits, Network, SandboxId};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

/// Where the task's files are, in every sandbox of every back end.
pub const WORKSPACE: &str = "/workspace";

/// Something that can make sandboxes.
pub trait Backend: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What its sandboxes can do beyond the promises that all make.
    fn capabilities(&self) -> Capabilities;

    /// What this machine has that the back end needs or can use, found without
    /// making a sandbox.
    fn examine(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// Makes a sandbox. Nothing is left behind when it fails.
    fn open(&self, spec: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>>;

    /// Takes up a sandbox that outlived the process that made it.
    fn reattach(&self, id: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>>;

    /// Finds what earlier processes left and removes it; sandboxes that are
    /// alive and may be reattached are listed and left alone.
    fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>>;
}

/// One sandbox, as its back end holds it. Dropping an [`Lifetime::Owned`] room
/// ends the sandbox; [`Room::close`] also waits until nothing of it is left.
pub trait Room: Send + Sync {
    /// Its name.
    fn id(&self) -> SandboxId;

    /// What it really got.
    fn isolation(&self) -> &Isolation;

    /// Variables that commands here have unless they are told otherwise: those of an
    /// image.
    fn defaults(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Variables that commands here need besides their own: where the proxy is,
    /// say.
    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// A new stream to the guest. It replaces the one before it.
    fn dial(&self) -> BoxFuture<'_, Result<GuestStream, RoomError>>;

    /// How many processes the kernel has killed here for lack of memory.
    fn oom_kills(&self) -> BoxFuture<'_, Result<u64, RoomError>>;

    /// Freezes the workspace as it is now; new sandboxes can begin from it with
    /// [`Workspace::Fork`] as long as this sandbox lives.
    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, RoomError>>;

    /// What was done in the sandbox since a place in its trail, and where the trail ends
    /// now. Costs what is returned, not what was there before.
    fn audit(
        &self,
        since: TrailMark,
    ) -> BoxFuture<'_, Result<(Vec<AuditRecord>, TrailMark), RoomError>>;

    /// Ends what goes out of the sandbox, for good, and waits, but not for ever, until
    /// [`Room::audit`] has all of it: a connection is recorded when it ends. A back end
    /// through whose own hands nothing goes out has nothing to end.
    fn end_egress(&self) -> BoxFuture<'_, ()>;

    /// Lets a sandbox with [`Lifetime::Lingering`] linger from here on. Until then it is
    /// owned: one that its maker gives up on while it is made leaves nothing.
    fn keep(&self) -> BoxFuture<'_, Result<(), RoomError>> {
        Box::pin(async { Ok(()) })
    }

    /// Ends every process, keeps the workspace's changes where they belong, and
    /// removes the rest. Returns when nothing is left.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), RoomError>>;
}

/// A place in the audit trail of one sandbox; its beginning by default. The numbers mean
/// something to the back end alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailMark(pub [u64; 2]);

/// A byte stream to a guest.
pub type GuestStream = Box<dyn Stream>;

/// What a guest stream can do.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A sandbox to be made: complete, with no "default elsewhere".
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name.
    pub id: SandboxId,
    /// What it may use.
    pub limits: Limits,
    /// What it may reach.
    pub network: Network,
    /// Where its files come from and go to.
    pub workspace: Workspace,
    /// Where changes to a directory of the host are kept until they are applied.
    pub changes: Changes,
    /// What its programs are.
    pub root: Root,
    /// What ends it.
    pub lifetime: Lifetime,
    /// Whether its acts are recorded.
    pub audit: Audit,
    /// The least isolation that will do.
    pub require: Grade,
    /// Where its first command writes what it streams, if not to the guest. Only of use where
    /// the back end says so in its [`Capabilities`].
    pub outlets: Option<Outlets>,
}

/// Pipes that a command writes to by itself. The guest has nothing to do with what goes through
/// them, and keeps nothing of it for hosts that come back.
#[derive(Clone, Debug)]
pub struct Outlets {
    /// The end that is its stdout.
    pub stdout: Arc<OwnedFd>,
    /// The end that is its stderr.
    pub stderr: Arc<OwnedFd>,
}

impl Spec {
    /// An empty workspace on the host's programs, closed to the network, owned
    /// by the caller, with default limits.
    #[must_use]
    pub fn scratch() -> Self {
        Self {
            id: SandboxId::generate(),
            limits: Limits::default(),
            network: Network::None,
            workspace: Workspace::Scratch,
            changes: Changes::OnDisk,
            root: Root::Host { readable: Vec::new() },
            lifetime: Lifetime::Owned,
            audit: Audit::On,
            require: Grade::Contained,
            outlets: None,
        }
    }
}

/// Where the files of `/workspace` come from and go to.
#[derive(Clone, Debug)]
pub enum Workspace {
    /// Empty at the start, thrown away at the end.
    Scratch,
    /// A directory of the host. The sandbox changes its own layer over it; the
    /// changes are applied to the directory when the sandbox closes.
    ///
    /// At most one sandbox at a time works on a directory. Opening waits for
    /// another one's end, but not for ever; it first applies what a dead one has
    /// left, and fails with [`OpenError::Occupied`] where it cannot.
    Directory(PathBuf),
    /// A directory of the host, only to be looked at: what the sandbox changes is
    /// its own and thrown away at the end. Whoever works on the directory
    /// meanwhile is not in its way, nor it in theirs.
    View(PathBuf),
    /// Begins as another sandbox's workspace was at the snapshot; thrown away at
    /// the end.
    Fork(Snapshot),
}

/// Where changes to a directory of the host are kept until they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// On the host's disk, where they survive whatever dies.
    OnDisk,
    /// In memory, on a file system of limited size for whoever runs this; they
    /// are lost if the machine or the sandbox's supervisor dies.
    InMemory,
}

/// A workspace, frozen. Only the back end that made it knows how to use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The sandbox it was taken of.
    pub sandbox: SandboxId,
    /// Which of that sandbox's snapshots it is.
    pub number: u32,
}

/// What the programs inside are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The host's, read-only, without anyone's home and without secrets.
    Host {
        /// Further directories of the host that may be read, at the same path:
        /// a tool chain that lives in a home, say.
        readable: Vec<PathBuf>,
    },
    /// Those of a root file system, read-only.
    Image {
        /// Where it is unpacked.
        directory: PathBuf,
        /// Directories of the host that may be read, at the same path: what the image has
        /// there is not seen.
        readable: Vec<PathBuf>,
    },
}

/// What ends a sandbox, besides [`Room::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The death of the process that made it, of whatever kind.
    Owned,
    /// Nobody being attached for this long, once it is [kept](Room::keep).
    Lingering(Duration),
}

/// Whether acts are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    /// They are.
    On,
    /// They are not.
    Off,
}

/// How strong an isolation is. Later ones include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Own namespaces and file system, no capability, a system-call filter, and
    /// limits at least on each process.
    Contained,
    /// And limits on memory, CPU, processes and disk that hold for the sandbox
    /// as a whole.
    Bounded,
    /// And a kernel of its own.
    Virtual,
}

impl Grade {
    /// All of them, the weakest first.
    pub const ALL: [Self; 3] = [Self::Contained, Self::Bounded, Self::Virtual];

    /// The grade of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grade| grade.to_string() == name)
    }

    /// The least that will do for a job. Its grade was checked when it was made; one that
    /// is not known here was made by a later release, and nothing weaker will do.
    #[must_use]
    pub fn required(name: Option<&str>) -> Self {
        name.map_or(Self::Contained, |name| Self::named(name).unwrap_or(Self::Virtual))
    }
}

impl std::fmt::Display for Grade {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Contained => "contained",
            Self::Bounded => "bounded",
            Self::Virtual => "virtual",
        })
    }
}

/// What a sandbox really got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The back end.
    pub backend: String,
    /// How strong it is.
    pub grade: Grade,
    /// Each part of it, in words.
    pub facts: Vec<Fact>,
}

/// One part of an isolation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Which part: `memory`, `landlock`, …
    pub part: String,
    /// What it is here.
    pub value: String,
    /// Why it is weaker than it could be, and what would mend that.
    pub weakness: Option<String>,
}

/// What a back end can do beyond the promises that all make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Its sandboxes can outlive the process that made them.
    pub lingers: bool,
    /// It can fork a workspace.
    pub forks: bool,
    /// The most that its sandboxes can be.
    pub strongest: Grade,
    /// It records what sandboxes do.
    pub audits: bool,
    /// The CPU time that it tells of a command is what the command had, also where it was
    /// kept waiting for its turn.
    pub measures_cpu: bool,
    /// A first command can write to [`Outlets`] of its maker's.
    pub outlets: bool,
}

impl Capabilities {
    /// Nothing beyond the promises.
    pub const NONE: Self = Self {
        lingers: false,
        forks: false,
        strongest: Grade::Contained,
        audits: false,
        measures_cpu: false,
        outlets: false,
    };
}

/// What [`Backend::reconcile`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Alive, and may be reattached.
    pub alive: Vec<SandboxId>,
    /// Dead; their remains were removed.
    pub removed: Vec<SandboxId>,
    /// What could not be removed, each with the reason. It does not keep the rest.
    pub left: Vec<String>,
}

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The machine lacks something.
    #[error("{cause}")]
    Unusable {
        /// What it lacks.
        cause: String,
        /// What would mend it.
        remedy: String,
    },
    /// The caller asked for more than the machine can give.
    #[error("the sandbox would be {got}, but {wanted} is required: {why}")]
    TooWeak {
        /// What was required.
        wanted: Grade,
        /// What it would have been.
        got: Grade,
        /// The weak parts.
        why: String,
    },
    /// The caller asked for something that makes no sense.
    #[error("{cause}")]
    Invalid {
        /// What makes no sense.
        cause: String,
        /// What would.
        remedy: String,
    },
    /// The workspace's directory is not free: another sandbox works on it, or a
    /// dead one left changes that cannot be applied.
    #[error("{cause}")]
    Occupied {
        /// Who or what is in the way.
        cause: String,
        /// How the directory gets free.
        remedy: String,
    },
    /// No such sandbox is alive.
    #[error("no sandbox {0} is alive")]
    Gone(SandboxId),
    /// A step of making it failed.
    #[error("cannot make the sandbox: {step}")]
    Step {
        /// The step.
        step: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// Why something could not be done with a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// The sandbox is gone.
    #[error("the sandbox is gone: {0}")]
    Gone(String),
    /// The back end cannot do it.
    #[error("{0}")]
    Refused(String),
    /// A step failed.
    #[error("{step}")]
    Step {
        /// The step.
        step: String,
        /// The error of the system.
        source: std::io::Error,
    },
}
