//! What a sandbox really got, in words.

use cofferdam_native_supervisor::wire::{Built, GroupKind, UserKind};
use cofferdam_sandbox::{Fact, Grade, Isolation};
use cofferdam_types::{Limits, Network};

/// Describes a sandbox that was built.
pub(crate) fn isolation(
    built: &Built,
    backend: &str,
    limits: &Limits,
    network: &Network,
) -> Isolation {
    let [memory, cpu, pids] = built.groups_hold;
    let bounded = memory && cpu && pids && built.sized_workspace;
    let groups = match built.groups {
        GroupKind::V2 => "control group v2",
        GroupKind::V1 => "control group v1",
        GroupKind::None => "none",
    };
    const DELEGATE: &str = "no control group limits this here: run as root, or where systemd \
                            delegates the memory, cpu and pids controllers (Delegate=yes)";
    let held = |holds: bool, otherwise: &str| -> (String, Option<String>) {
        if holds {
            (groups.to_owned(), None)
        } else {
            (otherwise.to_owned(), Some(DELEGATE.to_owned()))
        }
    };
    let fact = |part: &str, value: String, weakness: Option<String>| Fact {
        part: part.to_owned(),
        value,
        weakness,
    };
    let mut facts = vec![
        fact(
            "namespaces",
            {
                let user = (built.users != UserKind::Unmapped).then_some("user");
                let network = (*network != Network::Open).then_some("network");
                let rest = ["ipc", "uts", "cgroup"].map(Some);
                let all = [user, Some("mount"), Some("pid"), network].into_iter().chain(rest);
                all.flatten().collect::<Vec<_>>().join(", ")
            },
            None,
        ),
        fact(
            "users",
            match built.users {
                UserKind::OwnRange => "a range of their own",
                UserKind::Caller => "the caller's, alone",
                UserKind::Unmapped => "one that nobody has, in the host's user namespace",
            }
            .to_owned(),
            (built.users == UserKind::Unmapped).then(|| {
                "the engine makes no user namespace: start dockerd with --userns-remap=default"
                    .to_owned()
            }),
        ),
        fact("system calls", "allow-list".to_owned(), None),
        fact(
            "landlock",
            if built.landlock > 0 {
                format!("version {}", built.landlock)
            } else {
                "none".to_owned()
            },
            (built.landlock == 0 && !built.own_kernel)
                .then(|| "the kernel has no Landlock: boot one that lists it in lsm=".to_owned()),
        ),
        fact("network", network.to_string(), None),
    ];
    let (value, weakness) = held(memory, "a limit on each process");
    facts.push(fact("memory", value, weakness));
    let (value, weakness) = held(cpu, "a set of CPUs");
    facts.push(fact("cpu", value, weakness));
    let (value, weakness) = match built.own_kernel {
        true => ("its own kernel".to_owned(), None),
        false => held(pids, "a limit on the user namespace"),
    };
    facts.push(fact("processes", value, weakness));
    facts.push(if built.sized_workspace {
        fact("disk", format!("a file system of {} bytes", limits.disk), None)
    } else {
        fact(
            "disk",
            "a limit on each file".to_owned(),
            Some(
                "changes to a directory are kept on disk, where this user cannot limit their sum: \
                 keep them in memory (--changes memory), or run as root with mkfs.ext4 installed"
                    .to_owned(),
            ),
        )
    });
    let audit = match (built.audit, built.own_kernel) {
        (true, _) => "system calls",
        // It was not asked to tell of them, or does so in words that are not understood.
        (false, true) => "only what goes through a proxy",
        (false, false) => "off",
    };
    facts.push(fact("audit", audit.to_owned(), None));
    let kernel = if built.own_kernel { "its own, a program (gVisor)" } else { "the host's" };
    facts.push(fact("kernel", kernel.to_owned(), None));
    let grade = match (bounded, built.own_kernel) {
        (false, _) => Grade::Contained,
        (true, false) => Grade::Bounded,
        (true, true) => Grade::Virtual,
    };
    Isolation { backend: backend.to_owned(), grade, facts }
}

/// Why an isolation is not of a higher grade, in one line.
pub(crate) fn weaknesses(isolation: &Isolation) -> String {
    if isolation.grade == Grade::Bounded {
        return "kernel: native sandboxes share the host's".to_owned();
    }
    let weak = isolation
        .facts
        .iter()
        .filter_map(|fact| Some(format!("{}: {}", fact.part, fact.weakness.as_ref()?)));
    weak.collect::<Vec<_>>().join("; ")
}
