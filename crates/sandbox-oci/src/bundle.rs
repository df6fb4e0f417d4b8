//! A container as a bundle of the Open Container Initiative, for runtimes without a daemon.

use std::fs;
use std::io;
use std::path::Path;

use cofferdam_native_supervisor::identity::{RANGE_LENGTH, RANGE_START};
use serde_json::{Value, json};

use crate::container::Container;

/// Writes the bundle: what the runtime is to do, over a root of nothing.
pub(crate) fn write(bundle: &Path, root: &Path, container: &Container) -> io::Result<()> {
    fs::create_dir(bundle)?;
    let text = serde_json::to_vec_pretty(&configuration(root, container))?;
    fs::write(bundle.join("config.json"), text)
}

const PERIOD_US: u64 = 100_000;

fn configuration(root: &Path, container: &Container) -> Value {
    let limits = &container.limits;
    let agent = container.users.agent();
    let mut namespaces = vec!["user", "pid", "ipc", "uts", "mount", "cgroup"];
    if !container.open_network {
        namespaces.push("network");
    }
    let namespaces: Vec<Value> =
        namespaces.into_iter().map(|kind| json!({ "type": kind })).collect();
    let quiet = ["nosuid", "noexec", "nodev"];
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc", "options": quiet}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
               "options": ["nosuid", "strictatime", "mode=755", "size=64k"]}),
    ];
    mounts.extend(container.files.iter().map(|(source, target)| {
        json!({"destination": target, "type": "bind", "source": source,
               "options": ["bind", "ro", "nosuid", "nodev"]})
    }));
    let range = json!({"containerID": 0, "hostID": RANGE_START, "size": RANGE_LENGTH});
    let nothing: [&str; 0] = [];
    json!({
        "ociVersion": "1.0.2",
        "hostname": "cofferdam",
        "root": {"path": root, "readonly": true},
        "process": {
            "terminal": false,
            "user": {"uid": agent, "gid": agent},
            "args": Container::command(),
            "env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "cwd": "/",
            "noNewPrivileges": true,
            "oomScoreAdj": 500,
            "capabilities": {
                "bounding": nothing, "effective": nothing, "inheritable": nothing,
                "permitted": nothing, "ambient": nothing,
            },
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "hard": container.open_files, "soft": container.open_files},
                {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            ],
        },
        "mounts": mounts,
        "linux": {
            "namespaces": namespaces,
            "uidMappings": [range],
            "gidMappings": [range],
            "cgroupsPath": format!("/{}", container.name),
            "maskedPaths": [
                "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
                "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
            ],
            "readonlyPaths": [
                "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
            ],
            "resources": {
                "devices": [{"allow": false, "access": "rwm"}],
                "memory": {"limit": limits.memory, "swap": limits.memory},
                "pids": {"limit": limits.pids},
                "cpu": {
                    "period": PERIOD_US,
                    "quota": u64::from(limits.milli_cpus) * PERIOD_US / 1000,
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use cofferdam_types::Limits;

    use super::*;
    use crate::container::Users;

    #[test]
    fn a_bundle_has_no_right_no_network_and_every_limit() {
        let container = Container {
            name: "cofferdam-1".to_owned(),
            home: "h".to_owned(),
            users: Users::OwnRange,
            limits: Limits { milli_cpus: 1500, ..Limits::default() },
            open_files: 20_000,
            processes: 32_768,
            open_network: false,
            files: [("/state/door".into(), "/.door"), ("/p".into(), "/.program")],
        };
        let text = configuration(Path::new("/root"), &container);
        for set in ["bounding", "effective", "inheritable", "permitted", "ambient"] {
            assert_eq!(text["process"]["capabilities"][set], json!([]));
        }
        assert_eq!(text["process"]["user"]["uid"], 1000);
        assert_eq!(text["linux"]["uidMappings"][0]["hostID"], 1_900_000_000);
        assert_eq!(text["linux"]["resources"]["cpu"]["quota"], 150_000);
        assert_eq!(text["linux"]["resources"]["memory"]["swap"], container.limits.memory);
        let namespaces = text["linux"]["namespaces"].as_array().unwrap();
        assert!(namespaces.contains(&json!({"type": "network"})));
        let open = Container { open_network: true, ..container };
        let text = configuration(Path::new("/root"), &open);
        let namespaces = text["linux"]["namespaces"].as_array().unwrap();
        assert!(!namespaces.contains(&json!({"type": "network"})));
    }
}
