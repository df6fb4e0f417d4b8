//! Sandboxes whose kernel is a program, gVisor's Sentry: how its runtime, runsc, is told.
//!
//! It is no engine that is asked for a container. The supervisor makes a sandbox as it makes
//! native ones, and its first process becomes the runtime
//! (`cofferdam_native_supervisor::sentry`): here is what it is told then.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cofferdam_native_supervisor::identity::AGENT;
use cofferdam_native_supervisor::sentry::{BUNDLE, ENTER, HIDDEN, PROGRAM, ROOM, STATE};
use cofferdam_sandbox::{Capabilities, Fact, Grade, OpenError, Reconciled, Spec};
use cofferdam_supervised::{Engine, FirstPlan, Sentry};
use cofferdam_types::Network;
use serde_json::{Value, json};

use crate::container;
use crate::engine::ContainerEngine;
use crate::errand::ask;
use crate::examine;

/// The oldest release that will do: before, its default platform was ptrace, and files were
/// served in another way.
const OLDEST: u32 = 20_240_101;

/// What its processes take themselves is some 20 MB; less than this leaves nothing to use.
const LEAST_MEMORY: u64 = 64 << 20;

/// How it is installed.
pub(crate) const INSTALL: &str = "install a release of 2024 or later: sudo apt install \
    runsc/bookworm-backports, or see https://gvisor.dev/docs/user_guide/install/";

/// gVisor's runtime, for the sandboxes of one home.
pub(crate) struct Gvisor {
    runtime: ContainerEngine,
    /// Its program, once one was seen whose release will do.
    program: OnceLock<PathBuf>,
}

impl Gvisor {
    pub(crate) fn new(runtime: ContainerEngine) -> Self {
        Self { runtime, program: OnceLock::new() }
    }

    fn program(&self) -> Result<PathBuf, OpenError> {
        if let Some(program) = self.program.get() {
            return Ok(program.clone());
        }
        let program = self.runtime.needed_program()?;
        let version = ask(&program, ["--version"], &self.runtime.environment, None);
        let version = version.map_err(|refusal| self.runtime.refused(&refusal))?;
        match trouble_with(&version) {
            Some(remedy) => Err(OpenError::Unusable {
                cause: format!("{} is too old", version.lines().next().unwrap_or("runsc").trim()),
                remedy,
            }),
            None => Ok(self.program.get_or_init(|| program).clone()),
        }
    }
}

impl Engine for Gvisor {
    fn name(&self) -> &'static str {
        self.runtime.kind.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lingers: true,
            forks: true,
            strongest: Grade::Virtual,
            audits: true,
            measures_cpu: false,
            outlets: false,
        }
    }

    fn first(&self, spec: &Spec, _state: &Path) -> Result<FirstPlan, OpenError> {
        if !rustix::process::geteuid().is_root() {
            return Err(OpenError::Unusable {
                cause: "runsc's sandboxes need a range of ids, which only root can give them"
                    .to_owned(),
                remedy: "run as root, or use --sandbox native or --sandbox podman if the host's \
                         kernel may be shared"
                    .to_owned(),
            });
        }
        if spec.limits.memory < LEAST_MEMORY {
            return Err(OpenError::Invalid {
                cause: format!("{} bytes of memory do not do for a kernel", spec.limits.memory),
                remedy: format!("give it at least {} MB", LEAST_MEMORY >> 20),
            });
        }
        Ok(FirstPlan::Served(Sentry {
            program: self.program()?,
            entry: self.runtime.entry()?,
            words: words(spec),
            configuration: configuration(spec).to_string(),
        }))
    }

    fn first_of_fork(&self, spec: &Spec, state: &Path) -> Result<FirstPlan, OpenError> {
        self.first(spec, state)
    }

    /// The room has to be there before the kernel that serves it.
    fn keeps_warm(&self) -> bool {
        false
    }

    fn forget(&self) -> bool {
        false
    }

    fn examine(&self) -> Vec<Fact> {
        examine::examine(&self.runtime)
    }

    /// Its processes end with the supervisor's, and what it knows of them is in their room.
    fn sweep(&self, _held: &dyn Fn() -> HashSet<String>) -> Reconciled {
        Reconciled::default()
    }
}

/// Of several programs the first whose release will do, else the first: a distribution's old
/// one does not hide what somebody put beside it.
pub(crate) fn choose(
    programs: impl Iterator<Item = PathBuf>,
    environment: &[(String, String)],
) -> Option<PathBuf> {
    let mut programs: Vec<PathBuf> = programs.collect();
    let fits = |program: &PathBuf| {
        let version = ask(program, ["--version"], environment, None);
        version.is_ok_and(|version| trouble_with(&version).is_none())
    };
    let index = match programs.len() {
        0 => return None,
        1 => 0,
        _ => programs.iter().position(fits).unwrap_or(0),
    };
    Some(programs.swap_remove(index))
}

/// What is wrong with a release, from what it says of itself, and what would mend that.
pub(crate) fn trouble_with(version: &str) -> Option<String> {
    // `release-20240729.0`, or Debian's `0.0~20240729.0`.
    let numbers = version.split(|each: char| !each.is_ascii_digit());
    let date = numbers.filter(|number| number.len() == 8).find_map(|date| date.parse::<u32>().ok());
    // One that somebody built says nothing, and is taken at its word.
    date.is_some_and(|date| date < OLDEST).then(|| INSTALL.to_owned())
}

/// What the runtime is told to do.
fn words(spec: &Spec) -> Vec<String> {
    let network = match spec.network {
        Network::None => "none",
        // The Sentry's own network could be reached by nobody: with a proxy, it has that of
        // a namespace in which there is nothing else.
        Network::Allow(_) | Network::Open => "host",
    };
    let words = [
        &format!("--root={STATE}"),
        &format!("--network={network}"),
        "--platform=systrap",
        // The supervisor's groups are around it.
        "--ignore-cgroups",
        // What serves the files is not what runs the code.
        "--directfs=false",
        // What is written is seen outside, and counted there.
        "--overlay2=none",
        "--file-access-mounts=shared",
        "run",
        &format!("--bundle={BUNDLE}"),
        &container::name(spec.id),
    ];
    words.map(str::to_owned).to_vec()
}

/// The bundle.
fn configuration(spec: &Spec) -> Value {
    let bind = |source: String, target: &str, access: &str| {
        json!({"destination": target, "type": "bind", "source": source,
               "options": ["rbind", access, "nosuid", "nodev"]})
    };
    let writable = ["/workspace", "/tmp", "/home/agent", "/dev/shm"];
    let mut mounts = vec![json!({"destination": "/proc", "type": "proc", "source": "proc"})];
    mounts.extend(writable.map(|place| bind(format!("{ROOM}{place}"), place, "rw")));
    // Its own would show more than those of other sandboxes.
    mounts.push(bind(format!("{ROOM}/sys"), "/sys", "ro"));
    mounts.extend(HIDDEN.map(|place| bind(format!("{ROOM}{place}"), place, "ro")));
    let mut namespaces = vec!["pid", "ipc", "uts", "mount"];
    if spec.network == Network::None {
        namespaces.push("network");
    }
    let namespaces: Vec<Value> =
        namespaces.into_iter().map(|kind| json!({ "type": kind })).collect();
    let open_files = container::open_files(&spec.limits);
    let nothing: [&str; 0] = [];
    json!({
        "ociVersion": "1.0.2",
        "hostname": "cofferdam",
        "root": {"path": ROOM, "readonly": true},
        "process": {
            "terminal": false,
            "user": {"uid": AGENT, "gid": AGENT},
            "args": [PROGRAM, ENTER],
            "env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": nothing, "effective": nothing, "inheritable": nothing,
                "permitted": nothing, "ambient": nothing,
            },
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "hard": open_files, "soft": open_files},
                {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            ],
        },
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn releases_are_told_by_their_date() {
        for old in
            ["runsc version 0.0~20221219.0\nspec: 1.0.2-dev", "runsc version release-20231218.0"]
        {
            assert!(trouble_with(old).unwrap().contains("backports"), "{old}");
        }
        for fits in [
            "runsc version 0.0~20240729.0\nspec: 1.0.2-dev",
            "runsc version release-20260101.0",
            "runsc version HEAD",
        ] {
            assert_eq!(trouble_with(fits), None, "{fits}");
        }
    }

    #[test]
    fn an_old_release_does_not_hide_a_newer_one() {
        let place = tempfile::tempdir().unwrap();
        let program = |name: &str, version: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\necho runsc version {version}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let old = program("old", "0.0~20221219.0");
        let new = program("new", "release-20240729.0");
        let choose = |all: &[&PathBuf]| choose(all.iter().map(|path| (*path).clone()), &[]);
        assert_eq!(choose(&[&old, &new]), Some(new));
        assert_eq!(choose(&[&old]), Some(old.clone()));
        assert_eq!(choose(&[&old, &old]), Some(old));
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn a_bundle_has_no_right_and_only_places_of_the_room_to_write_to() {
        let spec = Spec::scratch();
        let text = configuration(&spec);
        for set in ["bounding", "effective", "inheritable", "permitted", "ambient"] {
            assert_eq!(text["process"]["capabilities"][set], json!([]));
        }
        assert_eq!(text["root"]["readonly"], true);
        for mount in text["mounts"].as_array().unwrap() {
            let source = mount["source"].as_str().unwrap();
            let writable =
                mount["options"].as_array().is_some_and(|all| all.contains(&json!("rw")));
            assert!(!writable || source.starts_with(ROOM), "{mount}");
        }
        assert!(words(&spec).contains(&"--network=none".to_owned()));
        let namespaces = text["linux"]["namespaces"].as_array().unwrap();
        assert!(namespaces.contains(&json!({"type": "network"})));
    }
}
