//! What this machine has that native sandboxes need or can use, without making
//! one.

use std::fs;

use cofferdam_native_supervisor::places::Places;
use cofferdam_native_supervisor::{sys, template};
use cofferdam_sandbox::Fact;

use crate::explain::Restrictions;

/// Looks at the machine.
pub(crate) fn examine() -> Vec<Fact> {
    let finding =
        |part: &str, value: String, weakness| Fact { part: part.to_owned(), value, weakness };
    let kernel = rustix::system::uname();
    let landlock = sys::landlock_version();
    let restrictions = Restrictions::read();
    let user = match rustix::process::geteuid().as_raw() {
        0 => "root".to_owned(),
        uid => format!("ordinary user {uid}"),
    };
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let overlay =
        file_systems.lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay");
    let (groups, group_trouble) = control_groups();
    vec![
        finding("kernel", kernel.release().to_string_lossy().into_owned(), None),
        finding("user", user, None),
        finding(
            "user namespaces",
            match (restrictions.none_allowed, restrictions.disabled, restrictions.apparmor) {
                (true, ..) => "none allowed",
                (_, true, _) => "not for ordinary users",
                (.., true) => "restricted by AppArmor",
                _ => "allowed",
            }
            .to_owned(),
            restrictions.remedy(),
        ),
        finding("control groups", groups, group_trouble),
        finding(
            "landlock",
            if landlock > 0 { format!("version {landlock}") } else { "none".to_owned() },
            (landlock == 0).then(|| {
                "boot with landlock in lsm= to add a second fence; sandboxes work without"
                    .to_owned()
            }),
        ),
        overlays(overlay, memory_has_attributes()),
        disk_quota(),
    ]
}

fn overlays(loaded: bool, hiding_in_memory: bool) -> Fact {
    let (value, weakness) = match (loaded, hiding_in_memory) {
        (false, _) => ("not loaded", Some("load it: sudo modprobe overlay")),
        (true, true) => ("yes", None),
        (true, false) => (
            "yes, but in memory no directory of a lower layer can be removed",
            Some(
                "in forks, and with --changes memory, `rm -r` of what was there before fails: \
                 Linux 6.6 or newer can",
            ),
        ),
    };
    Fact {
        part: "overlay file system".to_owned(),
        value: value.to_owned(),
        weakness: weakness.map(str::to_owned),
    }
}

/// Whether files in memory have attributes of users', by which a layer says that a directory
/// hides what is below it.
fn memory_has_attributes() -> bool {
    let none = rustix::fs::XattrFlags::empty();
    rustix::fs::memfd_create("attributes", rustix::fs::MemfdFlags::CLOEXEC)
        .and_then(|file| rustix::fs::fsetxattr(&file, "user.overlay.trial", b"y", none))
        .is_ok()
}

fn disk_quota() -> Fact {
    let root = rustix::process::geteuid().as_raw() == 0;
    let (directories, weakness) = match (root, template::image_maker()) {
        (true, Some(_)) => ("a sized image on disk", None),
        (true, None) => (
            "each file",
            Some(
                "install mkfs.ext4 (Debian package e2fsprogs), or use --changes memory".to_owned(),
            ),
        ),
        (false, _) => ("each file, or with --changes memory a sized file system in memory", None),
    };
    Fact {
        part: "disk quota".to_owned(),
        value: format!(
            "scratch workspaces: a sized file system in memory; changes to directories: {directories}"
        ),
        weakness,
    }
}

fn control_groups() -> (String, Option<String>) {
    let unified = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").is_ok();
    let version = if unified { "version 2" } else { "version 1" };
    let (groups, trouble) = usable_groups(&Places::find().usable());
    (format!("{version}, {groups}"), trouble)
}

/// What groups of these controllers are worth, and what would mend what they lack.
fn usable_groups(usable: &[String]) -> (String, Option<String>) {
    if usable.is_empty() {
        let remedy = "limits hold for each process only; run as root, or let systemd delegate the \
                      controllers: systemd-run --user --scope -p Delegate=yes cofferdam …";
        return ("none can be made by this user".to_owned(), Some(remedy.to_owned()));
    }
    let needed = ["memory", "cpu", "pids"].into_iter();
    let lacking: Vec<_> = needed.filter(|name| !usable.iter().any(|has| has == name)).collect();
    let trouble = (!lacking.is_empty()).then(|| {
        format!(
            "no limit of a sandbox as a whole: {}; a service gets all with Delegate=yes in its unit",
            lacking.join(", ")
        )
    });
    (format!("usable: {}", usable.join(", ")), trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_whose_layers_in_memory_cannot_hide_is_told() {
        assert_eq!(overlays(true, true).weakness, None);
        assert!(overlays(true, false).weakness.is_some_and(|text| text.contains("6.6")));
        assert!(overlays(false, true).weakness.is_some_and(|text| text.contains("modprobe")));
    }

    #[test]
    fn a_controller_that_is_lacking_is_named_with_the_remedy() {
        let judged = |usable: &[&str]| {
            let usable: Vec<_> = usable.iter().map(|name| (*name).to_owned()).collect();
            usable_groups(&usable)
        };
        let all = judged(&["memory", "cpu", "pids", "freezer"]);
        assert_eq!(all, ("usable: memory, cpu, pids, freezer".to_owned(), None));
        let (said, trouble) = judged(&["memory", "pids"]);
        assert_eq!(said, "usable: memory, pids");
        assert!(trouble.is_some_and(|text| text.contains(": cpu; ") && text.contains("Delegate")));
        let (said, trouble) = judged(&[]);
        assert!(said.starts_with("none") && trouble.is_some());
    }
}
