//! The container that is wanted, whoever makes it.

use std::path::{Path, PathBuf};

use cofferdam_native_supervisor::hire::{DOOR, ENTER};
use cofferdam_native_supervisor::identity::{AGENT, UNMAPPED_AGENT};
use cofferdam_sandbox::Spec;
use cofferdam_types::{Limits, Network, SandboxId};
use rustix::process::Resource;

/// Where the container has its program.
pub(crate) const PROGRAM: &str = "/.cofferdam-program";

/// What every container's name begins with.
pub(crate) const PREFIX: &str = "cofferdam-";

/// The least number of open files: the first process needs some before it lowers its limit.
const OPEN_FILES: u64 = 1024;

/// The most processes of one user: the most that there are by default on one machine, which
/// is as far as Podman lets itself raise it.
const PROCESSES: u64 = 32_768;

/// A container, as far as engines are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Which of this product's homes it belongs to.
    pub(crate) home: String,
    pub(crate) users: Users,
    pub(crate) limits: Limits,
    pub(crate) open_files: u64,
    /// How many processes the user may have whatever else is limited: engines have ideas of
    /// their own otherwise.
    pub(crate) processes: u64,
    /// It shares the host's network.
    pub(crate) open_network: bool,
    /// Files of the host, shown read-only: source and target.
    pub(crate) files: [(PathBuf, &'static str); 2],
}

/// Who its processes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// An id of the host's that nobody has.
    Unmapped,
    /// `agent`, in the supervisor's range of ids that nobody has.
    OwnRange,
    /// `agent`, in a range that the daemon has for that.
    DaemonsRange,
    /// `agent`, who outside is whoever asks.
    Caller,
}

impl Users {
    /// The user inside.
    pub(crate) fn agent(self) -> u32 {
        match self {
            Self::Unmapped => UNMAPPED_AGENT,
            Self::OwnRange | Self::DaemonsRange | Self::Caller => AGENT,
        }
    }
}

impl Container {
    /// The one for a sandbox whose directory on the host is `state`.
    pub(crate) fn of(
        spec: &Spec,
        state: &Path,
        program: &Path,
        home: String,
        users: Users,
    ) -> Self {
        Self {
            name: name(spec.id),
            home,
            users,
            limits: spec.limits.clone(),
            open_files: open_files(&spec.limits),
            processes: allowed(Resource::Nproc, PROCESSES),
            open_network: spec.network == Network::Open,
            files: [(state.join("door"), DOOR), (program.to_path_buf(), PROGRAM)],
        }
    }

    /// What it runs.
    pub(crate) fn command() -> [&'static str; 2] {
        [PROGRAM, ENTER]
    }
}

/// The name of a sandbox's container.
pub(crate) fn name(id: SandboxId) -> String {
    format!("{PREFIX}{id}")
}

/// The sandbox of a container by this name.
pub(crate) fn sandbox(name: &str) -> Option<SandboxId> {
    name.trim().strip_prefix(PREFIX)?.parse().ok()
}

/// How many files the first process of a sandbox with these limits may open.
pub(crate) fn open_files(limits: &Limits) -> u64 {
    allowed(Resource::Nofile, u64::from(limits.open_files).max(OPEN_FILES))
}

/// Engines raise a limit to what they are told and fail where they may not, as on machines
/// that are containers themselves: they are told no more than this process has.
fn allowed(resource: Resource, wanted: u64) -> u64 {
    rustix::process::getrlimit(resource).maximum.map_or(wanted, |own| own.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_found_again_by_its_name() {
        let id = SandboxId::generate();
        assert_eq!(sandbox(&name(id)), Some(id));
        assert_eq!(sandbox("cofferdam-postgres"), None);
        assert_eq!(sandbox(&id.to_string()), None);
    }

    #[test]
    fn no_more_open_files_are_asked_for_than_there_are() {
        let most = rustix::process::getrlimit(Resource::Nofile).maximum;
        assert_eq!(allowed(Resource::Nofile, u64::MAX), most.unwrap_or(u64::MAX));
        assert_eq!(allowed(Resource::Nofile, 16), 16);
    }
}
