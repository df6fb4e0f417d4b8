//! What this machine has of an engine, and what would mend what it lacks.

use std::fs;

use cofferdam_sandbox::Fact;

use crate::engine::{ContainerEngine, Kind};
use crate::errand::Refusal;

/// Looks at an engine without making a container.
pub(crate) fn examine(engine: &ContainerEngine) -> Vec<Fact> {
    let kind = engine.kind;
    let fact = |part: &str, value: String, weakness| Fact {
        part: format!("{} {part}", kind.name()),
        value,
        weakness,
    };
    let Some(program) = engine.program() else {
        return vec![fact("program", "not installed".to_owned(), Some(install(kind)))];
    };
    let mut facts = vec![fact("program", program.display().to_string(), None)];
    let words: &[&str] = match kind {
        Kind::Docker => &["version", "--format={{.Server.Version}}"],
        Kind::Podman => &["version", "--format={{.Client.Version}}"],
        Kind::Crun | Kind::Runc => &["--version"],
    };
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    facts.push(match engine.ask(&words, None) {
        Ok(version) => {
            fact("version", version.lines().next().unwrap_or_default().trim().to_owned(), None)
        }
        Err(refusal) => fact("answer", refusal.to_string(), Some(remedy(kind, &refusal))),
    });
    facts
}

/// What would mend that an engine did not do it.
pub(crate) fn remedy(kind: Kind, refusal: &Refusal) -> String {
    let said = refusal.to_string();
    match (kind, refusal) {
        (_, Refusal::NotRun(..)) => install(kind),
        (Kind::Docker, _) if said.contains("permission denied") => {
            "run as root, or use --sandbox podman or --sandbox native".to_owned()
        }
        (Kind::Docker, Refusal::Silent(..)) => {
            "restart the daemon: sudo systemctl restart docker".to_owned()
        }
        (Kind::Docker, _) if said.contains("daemon running") || said.contains("connect") => {
            "start the daemon: sudo systemctl start docker, or name another by DOCKER_HOST"
                .to_owned()
        }
        _ => format!("try `{} info`, or use --sandbox native", kind.name()),
    }
}

fn install(kind: Kind) -> String {
    let package = match kind {
        Kind::Docker => "docker.io",
        Kind::Podman => "podman uidmap",
        Kind::Crun => "crun",
        Kind::Runc => "runc",
    };
    format!("install it: sudo apt install {package}")
}

/// Whether this machine has controllers in both versions of control groups.
pub(crate) fn has_hybrid_groups() -> bool {
    fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers")
        .is_ok_and(|controllers| !controllers.trim().is_empty())
}
