//! The container engines that sandboxes are compared with, made ready to run
//! the host's own `true`: the same program in every row.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::docker::Docker;
use super::program;
use super::stopwatch::{self, Stopwatch};

/// The programs that are put into the root file system.
const PROGRAMS: [&str; 2] = ["true", "sleep"];

/// Where crun finds controllers that it does not want to see.
const UNIFIED: &str = "/sys/fs/cgroup/unified";

/// What the engines need.
pub(super) struct Engines {
    /// A bundle for the runtimes of the Open Container Initiative.
    pub(super) bundle: anyhow::Result<PathBuf>,
    pub(super) docker: anyhow::Result<Docker>,
}

impl Engines {
    /// Prepares all of them; what cannot be prepared says why.
    pub(super) fn prepare(directory: &Path) -> Self {
        let bundle = directory.join("bundle");
        let made = make_bundle(&bundle);
        let docker = match &made {
            Ok(()) => Docker::prepare(&directory.join("docker"), &bundle.join("rootfs")),
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        Self { bundle: made.map(|()| bundle), docker }
    }

    /// The engines and programs whose versions matter to the numbers.
    pub(super) fn versions(names: &[&str]) -> String {
        let said = names.iter().filter_map(|name| {
            let path = program::find(name).ok()?;
            let said = program::output(program::command(path).arg("--version")).ok()?;
            said.lines().next().map(|line| line.trim().to_owned())
        });
        let said: Vec<String> = said.collect();
        if said.is_empty() { format!("none of {}", names.join(", ")) } else { said.join("; ") }
    }

    /// A command that runs `true` in a container of this runtime.
    pub(super) fn runtime(&self, name: &str) -> anyhow::Result<Command> {
        let bundle = self.bundle.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let mut command = program::command(program::find(name)?);
        command.args(["run", "--bundle"]).arg(bundle);
        command.arg(format!("cofferdam-bench-{name}-{}", std::process::id()));
        Ok(command)
    }
}

/// A stopwatch for a command that crun refuses to run on a host with control
/// groups of both versions: it runs where those of version 2 cannot be seen.
pub(super) fn without_unified_groups(command: &Command) -> anyhow::Result<Stopwatch> {
    let script = format!("umount {UNIFIED} && exec \"$@\"");
    let mut outer = program::command(program::find("unshare")?);
    outer.args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script, "sh"]);
    outer.arg(std::env::current_exe()?).args(stopwatch::ARGUMENTS);
    outer.arg(command.get_program()).args(command.get_args());
    Stopwatch::start(&mut outer)
}

fn make_bundle(bundle: &Path) -> anyhow::Result<()> {
    let root = bundle.join("rootfs");
    for directory in ["bin", "dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(root.join(directory))?;
    }
    for name in PROGRAMS {
        let path = program::find(name)?;
        fs::copy(&path, root.join("bin").join(name))?;
        for library in libraries(&path)? {
            let place = root.join(library.strip_prefix("/")?);
            fs::create_dir_all(place.parent().context("a library has a directory")?)?;
            fs::copy(&library, place)?;
        }
    }
    fs::write(bundle.join("config.json"), serde_json::to_vec_pretty(&configuration())?)?;
    Ok(())
}

fn libraries(path: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    // A static program has none, and that is then what the loader says.
    let listed = program::output(program::command(program::find("ldd")?).arg(path));
    Ok(listed.map(|text| text.lines().filter_map(library).collect()).unwrap_or_default())
}

/// The file that a line of `ldd` names: `NAME => FILE (ADDRESS)` or
/// `FILE (ADDRESS)`.
fn library(line: &str) -> Option<PathBuf> {
    let named = line.split_once("=>").map_or(line, |(_, file)| file);
    let file = named.split_ascii_whitespace().next()?;
    file.starts_with('/').then(|| PathBuf::from(file))
}

/// What the runtimes' own `spec` proposes, less what needs a right that not all
/// of them have: own namespaces, no capability, no network, a read-only root.
fn configuration() -> Value {
    let mount = |place: &str, kind: &str, options: &[&str]| json!({ "destination": place, "type": kind, "source": kind, "options": options });
    let plain = ["nosuid", "noexec", "nodev"];
    let namespaces = ["pid", "network", "ipc", "uts", "mount"];
    json!({
        "ociVersion": "1.0.0",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bin/true"],
            "env": ["PATH=/bin"],
            "cwd": "/",
            "capabilities": {},
            "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024 }],
            "noNewPrivileges": true
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "bench",
        "mounts": [
            mount("/proc", "proc", &[]),
            mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666"]),
            mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777"]),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
            mount("/tmp", "tmpfs", &plain),
        ],
        "linux": {
            "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
            "namespaces": namespaces.map(|kind| json!({ "type": kind })),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_lists_files_in_two_ways() {
        let found = [
            "\tlinux-vdso.so.1 (0x00007f3315d80000)",
            "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f3315b83000)",
            "\t/lib64/ld-linux-x86-64.so.2 (0x00007f3315d82000)",
            "\tlibgone.so => not found",
        ]
        .map(library);
        let file = |path: &str| Some(PathBuf::from(path));
        let libc = file("/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(found, [None, libc, file("/lib64/ld-linux-x86-64.so.2"), None]);
    }
}
