//! Memory of one sandbox that has nothing to do, on each back end: its supervisor's, that of
//! its own processes, and that of what its engine keeps beside it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cofferdam_sandbox_oci::Kind;
use serde_json::Value;

use super::backends_station::{Station, states};
use super::library::Library;
use super::process_table::{self, Entry};
use super::program;

/// How long a sandbox has had nothing to do when it is measured.
const IDLE: Duration = Duration::from_secs(3);

/// What an engine keeps beside a container begins so.
const KEEPERS: [&str; 2] = ["containerd-shim", "conmon"];

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share {
    pub(super) supervisor: f64,
    pub(super) inside: f64,
    pub(super) keeper: f64,
    pub(super) processes: usize,
}

/// Of a sandbox of this back end. `client` asks its engine, where that has one to ask.
pub(super) fn of_sandbox(
    station: &Station,
    client: Option<Command>,
    library: &Library,
) -> anyhow::Result<Share> {
    let sandbox = station.sandbox(library)?;
    std::thread::sleep(IDLE);
    let measured = measure(station, client);
    library.wait(async { Ok(sandbox.close().await?) })?;
    measured
}

/// Of a container that an engine was asked for by its own command.
pub(super) fn of_container(mut client: Command, name: &str) -> anyhow::Result<Share> {
    let first = asked(&mut client, name)?;
    Ok(Share::of(None, first, &process_table::all()))
}

fn measure(station: &Station, client: Option<Command>) -> anyhow::Result<Share> {
    let home = station.home();
    let all = process_table::all();
    let own = process_table::own();
    let supervisor = all.iter().find(|entry| {
        let place = fs::read_link(format!("/proc/{}/cwd", entry.process));
        entry.parent == own && place.is_ok_and(|place| place.starts_with(&home))
    });
    let supervisor = supervisor.context("the sandbox has no supervisor")?.process;
    let first = match station.kind {
        None | Some(Kind::Runsc) => supervisor,
        Some(kind) => first_process(kind, &home, client)?,
    };
    Ok(Share::of(Some(supervisor), first, &all))
}

impl Share {
    /// That of a supervisor, of what is below a first process and that itself, and of who
    /// keeps it.
    fn of(supervisor: Option<i32>, first: i32, all: &[Entry]) -> Self {
        let memory = |process: &i32| process_table::memory(*process).unwrap_or_default();
        let mut inside: Vec<i32> =
            process_table::below(first, all).iter().map(|entry| entry.process).collect();
        if supervisor != Some(first) {
            inside.push(first);
        }
        let parent = all.iter().find(|entry| entry.process == first).map(|entry| entry.parent);
        let keeper = parent.filter(|parent| is_keeper(*parent));
        Self {
            supervisor: supervisor.iter().map(memory).sum(),
            inside: inside.iter().map(memory).sum(),
            keeper: keeper.iter().map(memory).sum(),
            processes: inside.len() + supervisor.iter().chain(&keeper).count(),
        }
    }

    /// All of it.
    pub(super) fn sum(&self) -> f64 {
        self.supervisor + self.inside + self.keeper
    }
}

fn is_keeper(process: i32) -> bool {
    let program = process_table::program(process);
    let name = program.as_deref().and_then(Path::file_name);
    name.is_some_and(|name| KEEPERS.iter().any(|keeper| name.to_string_lossy().starts_with(keeper)))
}

/// The number of the first process in the container of the one sandbox of a home.
fn first_process(kind: Kind, home: &Path, client: Option<Command>) -> anyhow::Result<i32> {
    let states = states(home);
    let [state] = states.as_slice() else {
        bail!("there are {} sandboxes where one should be", states.len());
    };
    let name = fs::read_to_string(state.join("container")).context("read the container's name")?;
    // Runtimes keep the number in a file of each container.
    let (file, field) = match kind {
        Kind::Docker | Kind::Podman => {
            return asked(&mut client.context("the engine cannot be asked")?, &name);
        }
        Kind::Crun => ("status", "pid"),
        Kind::Runc => ("state.json", "init_process_pid"),
        Kind::Runsc => bail!("its first process is the supervisor's"),
    };
    let place = home.join(".shared/containers").join(kind.name()).join(&name).join(file);
    let text = fs::read(&place).with_context(|| place.display().to_string())?;
    let told: Value = serde_json::from_slice(&text)?;
    let number = told.get(field).and_then(Value::as_i64).context("the runtime tells no number")?;
    Ok(i32::try_from(number)?)
}

fn asked(client: &mut Command, name: &str) -> anyhow::Result<i32> {
    let said = program::output(client.args(["inspect", "--format", "{{.State.Pid}}", name]))?;
    said.trim().parse().with_context(|| format!("the engine says {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_counted_twice() {
        let entry = |process, parent| Entry { process, parent, ended: false };
        let all = [entry(-2, -1), entry(-3, -2), entry(-4, -3)];
        // Of the native back end all is below the supervisor.
        assert_eq!(Share::of(Some(-2), -2, &all).processes, 3);
        assert_eq!(Share::of(Some(-9), -3, &all).processes, 3);
        assert_eq!(Share::of(None, -3, &all).processes, 2);
    }
}
