//! The back end: from a spec to a running sandbox.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use cofferdam_egress::{Resolve, SystemResolver};
use cofferdam_native_supervisor::remains;
use cofferdam_native_supervisor::wire::{
    Built, First, FirstPlan, NetworkPlan, Order, Patience, Plan, Report, RootPlan, WorkspacePlan,
};
use cofferdam_sandbox::{
    Audit, Backend, Capabilities, Changes, Fact, Lifetime, OpenError, Reconciled, Room, RoomError,
    Root, Snapshot, Spec, Workspace,
};
use cofferdam_types::{Kept, Limits, Network, SandboxId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

use crate::aside::aside;
use crate::claim::Tenancies;
use crate::control::Control;
use crate::egress::Egress;
use crate::engine::{CAPABILITIES, Engine, first_by};
use crate::explain::in_step;
use crate::reaper::Reaped;
use crate::room::SupervisedRoom;
use crate::starter::{Started, Starter};
use crate::state::State;
use crate::warm::{Likeness, Pool, Warm};
use crate::{claim, describe, examine, explain, homes, reconcile, state};

/// How long a workspace's directory that another sandbox works on is waited for.
const PATIENCE: Duration = Duration::from_secs(45);

/// A sandbox that was just made has the processors to itself for so long before something is
/// got ready for the next one.
const HEAD_START: Duration = Duration::from_millis(15);

/// The back end.
pub struct Supervised {
    home: PathBuf,
    tenancies: Tenancies,
    patience: Duration,
    weakness: Weakness,
    engine: Option<Arc<dyn Engine>>,
    resolver: Arc<dyn Resolve>,
    starter: Starter,
    hidden: OnceLock<Vec<PathBuf>>,
    /// Containers that wait for sandboxes.
    pool: Pool,
    /// This process has one sandbox and ends after it.
    ends_soon: AtomicBool,
    /// What is done while nobody waits for it, as long as there is somebody to do it for.
    aside: Mutex<JoinSet<()>>,
    presence: Arc<()>,
    /// The supervisors of sandboxes that this process holds, for forks of them.
    held: Mutex<HashMap<SandboxId, Weak<Control>>>,
}

/// What is left out of a sandbox, in tests that show that their probes can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Nothing.
    None,
    /// The system-call filter.
    NoSystemCallFilter,
}

impl Supervised {
    /// Keeps its sandboxes' directories in `home`.
    #[must_use]
    pub fn new(home: PathBuf) -> Self {
        Self {
            tenancies: Tenancies::new(home.clone()),
            starter: Starter::new(home.clone()),
            home,
            patience: PATIENCE,
            weakness: Weakness::None,
            engine: None,
            resolver: Arc::new(SystemResolver),
            hidden: OnceLock::new(),
            pool: Pool::default(),
            ends_soon: AtomicBool::new(false),
            aside: Mutex::default(),
            presence: Arc::default(),
            held: Mutex::default(),
        }
    }

    /// Has an engine start the first processes.
    #[must_use]
    pub fn hiring_from(self, engine: Arc<dyn Engine>) -> Self {
        Self { engine: Some(engine), ..self }
    }

    /// Has so many containers wait for sandboxes, of limits that were wanted before; without
    /// an engine a supervisor, once one was wanted.
    #[must_use]
    pub fn keeping_warm(mut self, size: usize) -> Self {
        self.pool.size = size;
        self
    }

    /// Waits this long for a workspace's directory that another sandbox works on.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Leaves something out, for tests of tests.
    #[must_use]
    pub fn weakened(self, weakness: Weakness) -> Self {
        Self { weakness, ..self }
    }

    /// Has the proxy look up names elsewhere than the host does.
    #[must_use]
    pub fn resolving_by(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    async fn make(&self, mut spec: Spec) -> Result<SupervisedRoom, OpenError> {
        self.starter.reap();
        let (workspace, with_it) = self.workspace(&spec).await?;
        if workspace.kept() == Kept::InMemory {
            spec.limits = spec.limits.with_workspace_in_memory();
        }
        let raised = match self.take_warm(&spec, &workspace) {
            Some(begun) => {
                let raised = self.raise(&spec, begun, &workspace, &with_it).await.ok();
                if raised.is_none() {
                    // Its supervisor knows the directory by another name.
                    drop(aside(|| remains::remove_state(&state::path(&self.home, spec.id))));
                }
                raised
            }
            None => None,
        };
        let raised = match raised {
            Some(raised) => raised,
            // Also where the warm one had gone cold: whatever is wrong is told by a new one.
            None => match self.cold(&spec, &workspace, &with_it).await {
                Err(error) if self.engine.as_ref().is_some_and(|engine| engine.forget()) => {
                    match self.cold(&spec, &workspace, &with_it).await {
                        // The first one's supervisor is not done with it: the first error
                        // tells more.
                        Err(OpenError::Step { source, .. })
                            if source.kind() == std::io::ErrorKind::AlreadyExists =>
                        {
                            return Err(error);
                        }
                        raised => raised?,
                    }
                }
                raised => raised?,
            },
        };
        let Raised { path, control, child, built } = raised;
        self.warm_up(&spec, &workspace);
        let room = self.hold(spec.id, path, control, built, &spec.limits, &spec.network);
        let waits = self.patience_at_the_end() == Patience::Enough;
        let room = SupervisedRoom { supervisor: Some(child), waits, ..room.await? };
        if room.isolation.grade < spec.require {
            let error = OpenError::TooWeak {
                wanted: spec.require,
                got: room.isolation.grade,
                why: describe::weaknesses(&room.isolation),
            };
            // It is not going to be used; the error tells more than its end.
            drop(Box::new(room).close().await);
            return Err(error);
        }
        Ok(room)
    }

    async fn cold(
        &self,
        spec: &Spec,
        workspace: &WorkspacePlan,
        with_it: &[OwnedFd],
    ) -> Result<Raised, OpenError> {
        let begun = aside(|| self.begin(spec, workspace))?;
        self.raise(spec, begun, workspace, with_it).await
    }

    /// What a sandbox begins with: a directory, and who starts its first process.
    fn begin(&self, spec: &Spec, workspace: &WorkspacePlan) -> Result<Begun, OpenError> {
        let state = state::make(&self.home, spec.id).map_err(|source| OpenError::Step {
            step: format!("make a directory in {}", self.home.display()),
            source,
        })?;
        let first = match (&self.engine, workspace) {
            (None, _) => FirstPlan::Cloned,
            (Some(engine), WorkspacePlan::Fork(_)) => engine.first_of_fork(spec, &state.path)?,
            (Some(engine), _) => first_by(engine.as_ref(), spec, &state)?,
        };
        Ok(Begun { state, first, supervisor: None })
    }

    /// The same with a container that waits, if there is one.
    fn take_warm(&self, spec: &Spec, workspace: &WorkspacePlan) -> Option<Begun> {
        if matches!(workspace, WorkspacePlan::Fork(_)) {
            return None;
        }
        let warm = self.pool.take(&Likeness::of(spec))?;
        if !aside(|| warm.arrives()) {
            return None;
        }
        let Warm { mut state, hire, socket, supervisor, .. } = warm;
        state.rename(&self.home, spec.id).ok()?;
        let first = FirstPlan::Hired(hire);
        Some(Begun { state, first, supervisor: Some((socket, supervisor)) })
    }

    /// Has a container wait for the next sandbox like this one, or a supervisor where no engine
    /// is asked. This one does not wait for that.
    fn warm_up(&self, spec: &Spec, workspace: &WorkspacePlan) {
        let starter = self.starter.clone();
        let Some(engine) = &self.engine else {
            if self.pool.size > 0 {
                self.later(move || starter.prepare());
            }
            return;
        };
        let fork = matches!(workspace, WorkspacePlan::Fork(_));
        if fork || !engine.keeps_warm() || !self.pool.wants(&Likeness::of(spec)) {
            return;
        }
        // What was given to this one is not for the next.
        let spec = Spec { outlets: None, ..spec.clone() };
        let engine = Arc::clone(engine);
        let (home, pool) = (self.home.clone(), self.pool.clone());
        self.later(move || pool.put(Warm::prepare(engine.as_ref(), &spec, &home, &starter)));
    }

    /// Does something in a thread of its own, once the sandbox that was just made had time for
    /// its first command; unless nobody makes sandboxes any more by then.
    fn later(&self, work: impl FnOnce() + Send + 'static) {
        let presence = Arc::downgrade(&self.presence);
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        while aside.try_join_next().is_some() {}
        aside.spawn_blocking(move || {
            std::thread::sleep(HEAD_START);
            if presence.strong_count() > 0 {
                work();
            }
        });
    }

    /// Has a supervisor make a sandbox of what it begins with.
    async fn raise(
        &self,
        spec: &Spec,
        begun: Begun,
        workspace: &WorkspacePlan,
        with_it: &[OwnedFd],
    ) -> Result<Raised, OpenError> {
        let Begun { state, first, supervisor } = begun;
        let plan = self.plan(spec, state.path.clone(), first, workspace.clone())?;
        let mut beside = vec![state.lock.as_fd()];
        beside.extend(with_it.iter().map(AsFd::as_fd));
        if let Some(outlets) = &spec.outlets {
            beside.extend([&outlets.stdout, &outlets.stderr].map(AsFd::as_fd));
        }
        let (outlets, patience) = (spec.outlets.is_some(), self.patience_at_the_end());
        let first = First::Plan { plan: Box::new(plan.clone()), outlets, patience };
        let (control, child) = self.start(supervisor, &first, &beside).await?;
        let path = state.hand_over();
        match control.answer().await {
            Ok((Report::Ready(built), beside)) => {
                let connection = beside.into_iter().next();
                Ok(Raised { path, control, child, built: (built, connection) })
            }
            Ok((Report::Failed(failure), _)) => Err(explain::failure(&failure, &plan)),
            Ok(_) => Err(unusable("the supervisor's first answer is not understood")),
            Err(error) => Err(unusable(&format!("the supervisor failed: {error}"))),
        }
    }

    /// Has a supervisor ready for the next sandbox, so that starting it and
    /// whatever the caller does until then happen side by side.
    pub fn prepare(&self) {
        self.starter.prepare();
    }

    /// As [`Self::prepare`], sooner: the supervisor is a fork of this process. For
    /// the very beginning of a program, while it has one thread, little memory and
    /// no secret in it: the guest gets a copy of that memory, though not of the
    /// environment and the arguments. And for one that ends with its sandbox: it does not
    /// wait for a supervisor that has nothing left to do but clear away.
    pub fn prepare_by_fork(&self) {
        self.ends_soon.store(true, Ordering::Relaxed);
        self.starter.prepare_by_fork();
    }

    /// What is waited for when a sandbox ends.
    fn patience_at_the_end(&self) -> Patience {
        if self.ends_soon.load(Ordering::Relaxed) { Patience::Little } else { Patience::Enough }
    }

    /// Takes this supervisor, the one that is ready, or starts one, and gives it its plan.
    async fn start(
        &self,
        waiting: Option<Started>,
        first: &First,
        beside: &[BorrowedFd<'_>],
    ) -> Result<(Control, Reaped), OpenError> {
        let (socket, child) = match waiting.or_else(|| self.starter.take_ready()) {
            Some(started) => started,
            None => self.starter.spawn()?,
        };
        let control = Control::new(socket).map_err(in_step("speak with the supervisor"))?;
        control.begin(first, beside).await.map_err(in_step("give the supervisor its plan"))?;
        Ok((control, child))
    }

    /// Where the workspace's files come from, and what the supervisor needs for
    /// that: the claim on a directory, or what a fork begins from.
    async fn workspace(&self, spec: &Spec) -> Result<(WorkspacePlan, Vec<OwnedFd>), OpenError> {
        Ok(match &spec.workspace {
            Workspace::Scratch => (WorkspacePlan::Scratch, Vec::new()),
            Workspace::Directory(path) => {
                let keep = match spec.changes {
                    Changes::OnDisk => Kept::OnDisk,
                    Changes::InMemory => Kept::InMemory,
                };
                let path = self.directory(path)?;
                let claim = claim::claim(&self.tenancies, &path, self.patience).await?;
                (WorkspacePlan::Directory(path, keep), vec![claim.into()])
            }
            Workspace::View(path) => (WorkspacePlan::View(self.directory(path)?), Vec::new()),
            Workspace::Fork(snapshot) => {
                let (layers, namespaces) = self.borrow(snapshot).await?;
                (WorkspacePlan::Fork(layers), namespaces)
            }
        })
    }

    fn plan(
        &self,
        spec: &Spec,
        state: PathBuf,
        first: FirstPlan,
        workspace: WorkspacePlan,
    ) -> Result<Plan, OpenError> {
        Ok(Plan {
            id: spec.id.to_string(),
            state,
            mount_point: state::mount_point(&self.home),
            limits: spec.limits.clone(),
            reach: spec.network.clone(),
            network: match spec.network {
                Network::None => NetworkPlan::None,
                Network::Allow(_) => NetworkPlan::Proxy(cofferdam_egress::PORT),
                Network::Open => NetworkPlan::Host,
            },
            workspace,
            root: match &spec.root {
                Root::Host { readable } => {
                    let readable = self.directories(readable)?;
                    match self.hidden() {
                        [] => RootPlan::Host(readable),
                        hidden => RootPlan::HostBut(readable, hidden.to_vec()),
                    }
                }
                Root::Image { directory, readable } => {
                    RootPlan::Image(self.directory(directory)?, self.directories(readable)?)
                }
            },
            first,
            linger_ms: match spec.lifetime {
                Lifetime::Owned => None,
                Lifetime::Lingering(span) => {
                    Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
                }
            },
            audit: spec.audit == Audit::On && self.weakness == Weakness::None,
            without_filter: self.weakness == Weakness::NoSystemCallFilter,
        })
    }

    /// Directories of the host's programs that no sandbox shows, looked for once.
    fn hidden(&self) -> &[PathBuf] {
        let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
        self.hidden.get_or_init(|| homes::among_programs(home(), &self.home))
    }

    fn directories(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, OpenError> {
        paths.iter().map(|path| self.directory(path)).collect()
    }

    /// A directory that a sandbox may be given: it exists, and this product's
    /// own files are not in it.
    fn directory(&self, path: &Path) -> Result<PathBuf, OpenError> {
        let invalid =
            |cause: String, remedy: &str| OpenError::Invalid { cause, remedy: remedy.to_owned() };
        let real = std::fs::canonicalize(path).map_err(|error| {
            invalid(format!("{}: {error}", path.display()), "name a directory that exists")
        })?;
        if !real.is_dir() {
            return Err(invalid(format!("{} is not a directory", path.display()), "name one"));
        }
        if real.to_str().is_none() {
            let cause = format!("the path {} is not UTF-8", path.display());
            return Err(invalid(cause, "rename what is not, or use a directory elsewhere"));
        }
        let home = std::fs::canonicalize(&self.home).unwrap_or_else(|_| self.home.clone());
        if home.starts_with(&real) || real.starts_with(&home) {
            return Err(invalid(
                format!("{} holds the sandboxes' own files ({})", path.display(), home.display()),
                "use another directory, or set COFFERDAM_HOME to a place outside it",
            ));
        }
        Ok(real)
    }

    /// What a fork of this snapshot begins from.
    async fn borrow(&self, snapshot: &Snapshot) -> Result<(Vec<String>, Vec<OwnedFd>), OpenError> {
        let control = self.held(snapshot.sandbox).ok_or(OpenError::Gone(snapshot.sandbox))?;
        match control.ask(Order::Lend(snapshot.number)).await {
            Ok((Report::Lent(Ok(layers)), namespaces)) => Ok((layers, namespaces)),
            Ok((Report::Lent(Err(failure)), _)) => Err(OpenError::Invalid {
                cause: failure.to_string(),
                remedy: "take a snapshot first".to_owned(),
            }),
            Ok(_) | Err(_) => Err(OpenError::Gone(snapshot.sandbox)),
        }
    }

    fn held(&self, id: SandboxId) -> Option<Arc<Control>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(&id).and_then(Weak::upgrade)
    }

    fn remember(&self, id: SandboxId, control: &Arc<Control>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, control| control.strong_count() > 0);
        held.insert(id, Arc::downgrade(control));
    }

    async fn hold(
        &self,
        id: SandboxId,
        path: PathBuf,
        control: Control,
        (built, first): (Built, Option<OwnedFd>),
        limits: &Limits,
        network: &Network,
    ) -> Result<SupervisedRoom, OpenError> {
        let egress = match network {
            Network::Allow(rules) => {
                let listener = match control.ask(Order::Egress).await {
                    Ok((Report::Egress, descriptors)) => descriptors.into_iter().next(),
                    _ => None,
                };
                let listener = listener
                    .ok_or_else(|| unusable("the sandbox has no listener for the proxy"))?;
                let resolver = Arc::clone(&self.resolver);
                Some(
                    Egress::serve(listener, rules, resolver, &path)
                        .map_err(in_step("serve the proxy"))?,
                )
            }
            _ => None,
        };
        let control = Arc::new(control);
        self.remember(id, &control);
        Ok(SupervisedRoom {
            id,
            first: Mutex::new(first),
            isolation: describe::isolation(&built, self.name(), limits, network),
            state: path,
            control,
            egress,
            supervisor: None,
            waits: true,
        })
    }

    async fn take_up(&self, id: SandboxId) -> Result<SupervisedRoom, OpenError> {
        let path = state::path(&self.home, id);
        let gone = || OpenError::Gone(id);
        let handle = state::handle(&path).map_err(|_| gone())?;
        let plan = remains::kept_plan(&path)
            .map_err(|failure| unusable(&failure.to_string()))?
            .ok_or_else(gone)?;
        let control = match Control::connect(handle.as_fd()) {
            Ok(control) => control,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(unusable("its supervisor does not take up any of those who wait"));
            }
            Err(_) => return Err(gone()),
        };
        let built = match control.ask(Order::Describe).await {
            Ok((Report::Ready(built), connection)) => (built, connection.into_iter().next()),
            Ok((Report::Failed(failure), _)) => return Err(unusable(&failure.to_string())),
            Ok(_) => return Err(gone()),
            Err(RoomError::Refused(cause)) => return Err(unusable(&cause)),
            Err(_) => return Err(gone()),
        };
        self.hold(id, path, control, built, &plan.limits, &plan.reach).await
    }
}

/// What a sandbox begins with.
struct Begun {
    state: State,
    first: FirstPlan,
    /// The supervisor that holds its first process already.
    supervisor: Option<Started>,
}

/// A sandbox that was just made.
struct Raised {
    path: PathBuf,
    control: Control,
    child: Reaped,
    built: (Built, Option<OwnedFd>),
}

fn unusable(cause: &str) -> OpenError {
    OpenError::Unusable { cause: cause.to_owned(), remedy: "run `cofferdam doctor`".to_owned() }
}

impl Backend for Supervised {
    fn name(&self) -> &'static str {
        self.engine.as_ref().map_or("native", |engine| engine.name())
    }

    fn capabilities(&self) -> Capabilities {
        let all = self.engine.as_ref().map_or(CAPABILITIES, |engine| engine.capabilities());
        Capabilities { audits: all.audits && self.weakness == Weakness::None, ..all }
    }

    fn examine(&self) -> Vec<Fact> {
        match &self.engine {
            Some(engine) => engine.examine(),
            None => examine::examine(),
        }
    }

    fn open(&self, spec: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        async move { Ok(Box::new(self.make(spec).await?) as Box<dyn Room>) }.boxed()
    }

    fn reattach(&self, id: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        async move { Ok(Box::new(self.take_up(id).await?) as Box<dyn Room>) }.boxed()
    }

    fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
        async move {
            let (home, engine) = (self.home.clone(), self.engine.clone());
            // Mostly there is nothing to remove, and to look is quicker than a thread.
            if engine.is_none()
                && let Some(found) = reconcile::all_alive(&home)
            {
                return Ok(found);
            }
            // Disks and engines take their time; whoever waits for this may give up.
            let removing = tokio::task::spawn_blocking(move || {
                let mut found = reconcile::reconcile(&home)?;
                if let Some(engine) = engine {
                    let swept = engine.sweep(&|| state::held_containers(&home));
                    found.left.extend(swept.left);
                    found.removed.extend(swept.removed);
                    found.removed.sort_unstable();
                    found.removed.dedup();
                }
                Ok(found)
            });
            removing.await.unwrap_or_else(|error| {
                Err(RoomError::Step {
                    step: "remove what was left".to_owned(),
                    source: std::io::Error::other(error),
                })
            })
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
