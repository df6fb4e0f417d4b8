//! Forks: a new sandbox that begins with the files of another, however many.

use std::time::Instant;

use anyhow::{Context as _, bail};
use cofferdam_sandbox::{Sandbox, Spec, Workspace};

use super::Setting;
use super::library::Library;
use super::order::Order;
use super::report::{Table, milliseconds};
use super::sample::Samples;

/// Workspaces of so many directories, with [`FILES`] files each.
const DIRECTORIES: [usize; 2] = [1, 100];

/// Files in a directory.
const FILES: usize = 100;

/// A workspace that is forked again and again.
struct Source {
    files: usize,
    sandbox: Sandbox,
    snapshots: Vec<std::time::Duration>,
    forks: Vec<std::time::Duration>,
    /// How many files the last fork had.
    found: usize,
}

/// Measures and tells.
pub(super) fn measure(setting: &Setting, order: &mut Order) -> anyhow::Result<Table> {
    let library = &setting.library;
    let columns = [
        "files",
        "snapshot median ms",
        "p95 ms",
        "fork median ms",
        "p95 ms",
        "files in the fork",
        "samples",
    ];
    let mut table = Table::new("6. Workspace forks", &columns);
    let mut sources = Vec::new();
    for directories in DIRECTORIES {
        sources.push(library.wait(Source::make(library, directories))?);
    }
    for number in order.turns(&[setting.scale.forks; 2]) {
        let Some(source) = sources.get_mut(number) else { continue };
        library.wait(source.fork(library))?;
    }
    for source in sources {
        let Source { files, sandbox, snapshots, forks, found } = source;
        library.wait(async { Ok(sandbox.close().await?) })?;
        let snapshots = Samples::of(snapshots).context("no snapshot was taken")?;
        let forks = Samples::of(forks).context("no fork was made")?;
        if found != files {
            bail!("a fork of {files} files has {found}");
        }
        table.row([
            files.to_string(),
            milliseconds(snapshots.median()),
            milliseconds(snapshots.p95()),
            milliseconds(forks.median()),
            milliseconds(forks.p95()),
            found.to_string(),
            snapshots.count().to_string(),
        ]);
    }
    table.note("fork: a whole sandbox is made, to the guest's answer; each snapshot adds a layer");
    Ok(table)
}

impl Source {
    async fn make(library: &Library, directories: usize) -> anyhow::Result<Self> {
        let sandbox = library.open().await?;
        let script = format!(
            "d=0; while [ $d -lt {directories} ]; do mkdir $d; \
             f=0; while [ $f -lt {FILES} ]; do echo $f > $d/$f; f=$((f + 1)); done; \
             d=$((d + 1)); done"
        );
        let made = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await?;
        if made.outcome.shell_code() != 0 {
            bail!(
                "cannot make files: {:?}: {}",
                made.outcome,
                String::from_utf8_lossy(&made.stderr)
            );
        }
        let files = directories * FILES;
        Ok(Self { files, sandbox, snapshots: Vec::new(), forks: Vec::new(), found: 0 })
    }

    async fn fork(&mut self, library: &Library) -> anyhow::Result<()> {
        let start = Instant::now();
        let snapshot = self.sandbox.snapshot().await?;
        let taken = start.elapsed();
        let spec = Spec { workspace: Workspace::Fork(snapshot), ..Spec::scratch() };
        let fork = Sandbox::open(library.backend(), spec).await?;
        self.forks.push(start.elapsed() - taken);
        self.snapshots.push(taken);
        let list = fork.shell("find . -type f | wc -l");
        let listed = fork.run(fork.next_call_id(), list).await?;
        fork.close().await?;
        let listed = String::from_utf8_lossy(&listed.stdout).trim().to_owned();
        self.found = listed.parse().with_context(|| format!("`wc -l` said {listed:?}"))?;
        Ok(())
    }
}
