//! What this machine has of an engine, and what would mend what it lacks.

use std::fs;

use cofferdam_sandbox::Fact;

use crate::engine::{ContainerEngine, Kind};
use crate::errand::Refusal;
use crate::gvisor;

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
        Kind::Crun | Kind::Runc | Kind::Runsc => &["--version"],
    };
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    facts.push(match engine.ask(&words, None) {
        Ok(version) => {
            let trouble = if kind == Kind::Runsc { gvisor::trouble_with(&version) } else { None };
            let version = version.lines().next().unwrap_or_default().trim().to_owned();
            fact("version", version, trouble)
        }
        Err(refusal) => fact("answer", refusal.to_string(), Some(remedy(kind, &refusal))),
    });
    match range_of_ids(engine) {
        Ok(true) => facts.push(fact("ids", "a range of the user's own".to_owned(), None)),
        Ok(false) => {}
        Err(refusal) => {
            facts.push(fact("ids", refusal.to_string(), Some(remedy(kind, &refusal))));
        }
    }
    facts
}

/// Sees to it that an engine that needs a range of ids of the user's has one; whether it
/// needs one.
pub(crate) fn range_of_ids(engine: &ContainerEngine) -> Result<bool, Refusal> {
    if engine.kind != Kind::Podman || rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    let maps = "{{len .Host.IDMappings.UIDMap}} {{len .Host.IDMappings.GIDMap}}";
    let words = ["info".to_owned(), format!("--format={maps}")];
    // Alone, the user's own id is mapped and no other.
    if engine.ask(&words, None)?.split_whitespace().any(|maps| maps == "1") {
        return Err(Refusal::Said(NO_RANGE.to_owned()));
    }
    Ok(true)
}

/// What is said of a user without one.
const NO_RANGE: &str = "the user has no range of ids in /etc/subuid and /etc/subgid";

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
        (Kind::Podman, _) if said.contains("newuidmap") || said.contains("newgidmap") => {
            "install what gives users ids: sudo apt install uidmap".to_owned()
        }
        (Kind::Podman, _) if said.contains("/etc/sub") => {
            "give the user a range: sudo usermod --add-subuids 100000-165535 --add-subgids \
             100000-165535 NAME, then `podman system migrate`"
                .to_owned()
        }
        (Kind::Docker | Kind::Podman, _) => {
            format!("try `{} info`, or use --sandbox native", kind.name())
        }
        _ => format!("try `{} --version`, or use --sandbox native", kind.name()),
    }
}

fn install(kind: Kind) -> String {
    let package = match kind {
        Kind::Docker => "docker.io",
        Kind::Podman => "podman uidmap",
        Kind::Crun => "crun",
        Kind::Runc => "runc",
        Kind::Runsc => return gvisor::INSTALL.to_owned(),
    };
    format!("install it: sudo apt install {package}")
}

/// Whether this machine has controllers in both versions of control groups.
pub(crate) fn has_hybrid_groups() -> bool {
    fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers")
        .is_ok_and(|controllers| !controllers.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn what_engines_complain_of_has_its_repair() {
        let missing = |name: &str| Refusal::NotRun(name.to_owned(), ErrorKind::NotFound.into());
        let said = |text: &str| Refusal::Said(text.to_owned());
        for (kind, refusal, repair) in [
            (Kind::Docker, missing("docker"), "apt install docker.io"),
            (Kind::Crun, missing("crun"), "apt install crun"),
            (
                Kind::Docker,
                said(
                    "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
                ),
                "systemctl start docker",
            ),
            (
                Kind::Docker,
                said("permission denied while trying to connect to the Docker daemon socket"),
                "run as root",
            ),
            (Kind::Docker, Refusal::Silent("docker".to_owned(), 20), "systemctl restart docker"),
            (
                Kind::Podman,
                said(
                    "command required for rootless mode with multiple IDs: exec: \"newuidmap\": executable file not found in $PATH",
                ),
                "apt install uidmap",
            ),
            (
                Kind::Podman,
                said(
                    "keep-id requires additional UIDs or GIDs defined in /etc/subuid and /etc/subgid",
                ),
                "usermod --add-subuids",
            ),
            (Kind::Podman, said(NO_RANGE), "usermod --add-subuids"),
            (Kind::Podman, said("it is Monday"), "podman info"),
        ] {
            let remedy = remedy(kind, &refusal);
            assert!(remedy.contains(repair), "{refusal}: {remedy}");
        }
    }
}
