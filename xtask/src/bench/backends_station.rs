//! A station: one back end, with and without containers that wait for sandboxes.
//!
//! What is waited for is never measured: a turn begins when a container waits, and ends when
//! the next one does, so that no engine works while somebody else has a turn.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cofferdam_guest_protocol::WriteMode;
use cofferdam_sandbox::{Range, Sandbox, Spec};
use cofferdam_sandbox_native::Native;
use cofferdam_sandbox_oci::{Kind, backend_in};

use super::library::{Library, run_true};
use super::process_table;

/// The size of a file.
const SIZE: usize = 1 << 20;

/// After this time a supervisor that was started is surely waiting for its plan.
const READY: Duration = Duration::from_millis(3);

/// How long an engine may take to have a container wait, or to remove one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at what an engine does.
const PAUSE: Duration = Duration::from_millis(5);

/// Programs that run while an engine does something.
const ERRANDS: [&str; 4] = ["docker", "podman", "crun", "runc"];

/// One back end.
pub(super) struct Station {
    pub(super) name: &'static str,
    /// Its engine; the native back end has none.
    pub(super) kind: Option<Kind>,
    directory: PathBuf,
    cold: Option<Native>,
    pool: Option<Native>,
    /// Of each start from the pool: the time until it was open, and that of `true`.
    pub(super) parts: RefCell<Vec<(Duration, Duration)>>,
}

impl Station {
    /// A back end that keeps its sandboxes in a directory, tried with one sandbox.
    ///
    /// # Errors
    /// When that does not work.
    pub(super) fn open(
        kind: Option<Kind>,
        directory: PathBuf,
        environment: Vec<(String, String)>,
        library: &Library,
    ) -> anyhow::Result<Self> {
        let (cold, pool) = (directory.join("cold"), directory.join("pool"));
        let (cold, pool) = match kind {
            None => (Native::new(cold), Native::new(pool)),
            Some(kind) => (
                backend_in(kind, cold, environment.clone()),
                backend_in(kind, pool, environment).keeping_warm(1),
            ),
        };
        let station = Self {
            name: kind.map_or("native", Kind::name),
            kind,
            directory,
            cold: Some(cold),
            pool: Some(pool),
            parts: RefCell::default(),
        };
        // The first leaves copies of the programs; those that follow find them.
        for _ in 0..2 {
            station.fresh(library)?;
        }
        Ok(station)
    }

    /// The directories of its sandboxes that are not from the pool.
    pub(super) fn home(&self) -> PathBuf {
        self.directory.join("cold")
    }

    /// A sandbox that is not from the pool.
    pub(super) fn sandbox(&self, library: &Library) -> anyhow::Result<Sandbox> {
        let backend = self.cold.as_ref().context("the back end is closed")?;
        library.wait(async { Ok(Sandbox::open(backend, Spec::scratch()).await?) })
    }

    /// The time from nothing to the end of `true`.
    pub(super) fn fresh(&self, library: &Library) -> anyhow::Result<Duration> {
        let backend = self.cold.as_ref().context("the back end is closed")?;
        let (open, run) = start(library, backend)?;
        self.settle()?;
        Ok(open + run)
    }

    /// The same, with a container that waits, or a supervisor where there are no containers.
    pub(super) fn pooled(&self, library: &Library) -> anyhow::Result<Duration> {
        let backend = self.pool.as_ref().context("the back end is closed")?;
        if !self.has_containers() {
            backend.prepare();
            std::thread::sleep(READY);
        } else if !self.one_waits() {
            // Nobody wanted one until now, or none for a long time.
            start(library, backend)?;
            self.settle()?;
        }
        let (open, run) = start(library, backend)?;
        self.settle()?;
        self.parts.borrow_mut().push((open, run));
        Ok(open + run)
    }

    /// Whether its sandboxes begin in containers, which can wait for them.
    pub(super) fn has_containers(&self) -> bool {
        self.kind.is_some_and(|kind| kind != Kind::Runsc)
    }

    /// Whether a container waits, with nothing left to do for anybody.
    fn one_waits(&self) -> bool {
        let states = states(&self.directory.join("pool"));
        // The supervisor begins with a log, and takes the door away when the container's
        // first process has come in.
        let arrived = states
            .iter()
            .all(|state| state.join("engine.log").exists() && !state.join("door").exists());
        states.len() == 1 && arrived && !errand_under_way()
    }

    /// Waits until sandboxes that were closed are gone, and the next one can come.
    fn settle(&self) -> anyhow::Result<()> {
        let pooled = self.has_containers() && !states(&self.directory.join("pool")).is_empty();
        wait_until(|| !errand_under_way() && (!pooled || self.one_waits()))
            .with_context(|| format!("{} has no container wait", self.name))
    }

    /// Ends the containers that wait.
    pub(super) fn end_pool(&mut self) -> anyhow::Result<()> {
        drop(self.pool.take());
        let home = self.directory.join("pool");
        wait_until(|| states(&home).is_empty()).context("a container of the pool does not end")
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        drop((self.cold.take(), self.pool.take()));
        let homes = ["cold", "pool"].map(|name| self.directory.join(name));
        // Supervisors have the engine remove their containers; it ends thereafter. What it
        // does not remove in time is removed with its own directory.
        drop(wait_until(|| homes.iter().all(|home| states(home).is_empty())));
    }
}

/// The times until a sandbox is open, and of `true` in it. Closing it is not measured.
fn start(library: &Library, backend: &Native) -> anyhow::Result<(Duration, Duration)> {
    library.wait(async {
        let begun = Instant::now();
        let sandbox = Sandbox::open(backend, Spec::scratch()).await?;
        let open = begun.elapsed();
        run_true(&sandbox).await?;
        let all = begun.elapsed();
        sandbox.close().await?;
        Ok((open, all - open))
    })
}

/// The time of `true` in a sandbox that runs.
pub(super) fn command(library: &Library, sandbox: &Sandbox) -> anyhow::Result<Duration> {
    library.wait(async {
        let begun = Instant::now();
        run_true(sandbox).await?;
        Ok(begun.elapsed())
    })
}

/// The time to write a file.
pub(super) fn write(library: &Library, sandbox: &Sandbox) -> anyhow::Result<Duration> {
    let bytes = content();
    library.wait(async {
        let begun = Instant::now();
        sandbox.files().write("file", bytes.into(), WriteMode::Replace, 0o644).await?;
        Ok(begun.elapsed())
    })
}

/// The time to read it.
pub(super) fn read(library: &Library, sandbox: &Sandbox) -> anyhow::Result<Duration> {
    let limit = u64::try_from(SIZE)?;
    library.wait(async {
        let begun = Instant::now();
        let content = sandbox.files().read("file", Range::first(limit)).await?;
        let taken = begun.elapsed();
        if content.bytes.len() != SIZE {
            bail!("a file of {SIZE} bytes came as one of {}", content.bytes.len());
        }
        Ok(taken)
    })
}

/// What is in the file.
pub(super) fn content() -> Vec<u8> {
    (0..=u8::MAX).cycle().take(SIZE).collect()
}

/// The directories of sandboxes that are in a home.
pub(super) fn states(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let all = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    all.map(|entry| entry.path()).collect()
}

/// Whether a program of an engine that we wait for runs.
fn errand_under_way() -> bool {
    let below = process_table::below(process_table::own(), &process_table::all());
    below.iter().filter(|entry| !entry.ended).any(|entry| {
        let program = process_table::program(entry.process);
        let name = program.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
        name.is_some_and(|name| ERRANDS.contains(&name))
    })
}

fn wait_until(condition: impl Fn() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() >= deadline {
            bail!("waited for {} s in vain", PATIENCE.as_secs());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sandboxes_share_is_no_sandbox() {
        let home = tempfile::tempdir().unwrap();
        for name in [".shared", "one"] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        assert_eq!(states(home.path()), [home.path().join("one")]);
        assert!(states(&home.path().join("none")).is_empty());
    }

    #[test]
    fn a_file_is_as_long_as_it_is_said_to_be() {
        assert_eq!(content().len(), SIZE);
    }
}
