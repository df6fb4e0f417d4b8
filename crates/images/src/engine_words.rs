//! What an engine has to be told on this machine so that its builds run at all.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};

use crate::engine::Builder;

/// What Podman asks for by itself, and gets on machines that let it.
const OPEN_FILES: u64 = 1_048_576;

/// The most processes that there are, if nobody says.
const PROCESSES: u64 = 32_768;

/// Words for an engine's command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EngineWords {
    /// Before the verb.
    global: Vec<String>,
    /// Behind `build`.
    build: Vec<String>,
}

impl EngineWords {
    /// What this machine needs. Docker's daemon has limits of its own; Podman asks for more than
    /// machines that are containers themselves may give.
    pub(crate) fn here(builder: Builder, runc: Option<&PathBuf>) -> Self {
        let network = "--network=host".to_owned();
        if builder == Builder::Docker {
            return Self { global: Vec::new(), build: vec![network] };
        }
        let most = fs::read_to_string("/proc/sys/kernel/pid_max").ok();
        let most = most.and_then(|text| text.trim().parse().ok()).unwrap_or(PROCESSES);
        let open_files = allowed(Resource::Nofile, OPEN_FILES);
        let processes = allowed(Resource::Nproc, most.min(PROCESSES));
        Self::of_podman(network, open_files, processes, has_hybrid_groups(), runc)
    }

    fn of_podman(
        network: String,
        open_files: u64,
        processes: u64,
        hybrid: bool,
        runc: Option<&PathBuf>,
    ) -> Self {
        let mut global = Vec::new();
        let mut build = vec![
            network,
            format!("--ulimit=nofile={open_files}:{open_files}"),
            format!("--ulimit=nproc={processes}:{processes}"),
        ];
        // crun, its usual runtime, refuses machines with both versions of control groups.
        match (hybrid, runc) {
            (false, _) => {}
            (true, Some(runc)) => global.push(format!("--runtime={}", runc.display())),
            (true, None) => build.push("--isolation=chroot".to_owned()),
        }
        Self { global, build }
    }

    pub(crate) fn of_all(&self) -> &[String] {
        &self.global
    }

    pub(crate) fn of_build(&self) -> Vec<String> {
        self.build.clone()
    }
}

/// As much as is wanted, but no more than this process may have.
fn allowed(resource: Resource, wanted: u64) -> u64 {
    getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted))
}

/// Whether control groups of version 2 have controllers beside those of version 1.
fn has_hybrid_groups() -> bool {
    let controllers = fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers");
    controllers.is_ok_and(|controllers| !controllers.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podman_asks_for_no_more_than_there_is() {
        let runc = PathBuf::from("/usr/sbin/runc");
        let of = |hybrid, runc| {
            EngineWords::of_podman("--network=host".to_owned(), 20, 10, hybrid, runc)
        };
        let words = of(true, Some(&runc));
        assert_eq!(words.of_all(), ["--runtime=/usr/sbin/runc"]);
        assert_eq!(
            words.of_build(),
            ["--network=host", "--ulimit=nofile=20:20", "--ulimit=nproc=10:10"]
        );
        assert!(of(true, None).of_build().contains(&"--isolation=chroot".to_owned()));
        assert!(of(false, Some(&runc)).of_all().is_empty());
        let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert!(allowed(Resource::Nofile, u64::MAX) <= most);
    }
}
