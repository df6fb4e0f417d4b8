//! The catalogue's probes, run inside native sandboxes, and inside weakened ones
//! to show that they can fail.
//!
//! They live beside the project; without them these tests have nothing to run
//! and say so. The conformance suite has its own cases either way.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Backend, Root, Sandbox, Spec};
use cofferdam_sandbox_native::Weakness;
use cofferdam_types::{Limits, Network, Outcome};

use crate::home::{Home, block_on};
use crate::ordinary_user;

/// Where the probes are, if they are there.
pub(crate) fn directory() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/security/probes");
    let found = std::fs::canonicalize(beside).ok().filter(|path| path.join("run-all.sh").exists());
    if found.is_none() {
        eprintln!("skipped: the probes are not beside the project");
    }
    found
}

/// The probes that run inside a sandbox, by number.
fn inside(directory: &Path) -> Vec<(String, PathBuf)> {
    let mut probes: Vec<(String, PathBuf)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .filter(|path| std::fs::read_to_string(path).unwrap().contains("# where: inside"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.split('-').next().unwrap().to_owned(), path)
        })
        .collect();
    probes.sort();
    probes
}

/// Runs probes one by one in one sandbox; returns verdict and text by number.
pub(crate) async fn verdicts(
    backend: &dyn Backend,
    spec: Spec,
    probes: &Path,
    numbers: &[&str],
    variables: &[(&str, String)],
) -> BTreeMap<String, (String, String)> {
    let root = Root::Host { readable: vec![probes.to_path_buf()] };
    let sandbox = Sandbox::open(backend, Spec { root, ..spec }).await.unwrap();
    let mut verdicts = BTreeMap::new();
    for (number, probe) in inside(probes) {
        if !numbers.is_empty() && !numbers.contains(&number.as_str()) {
            continue;
        }
        let mut command = sandbox.command(cofferdam_guest_protocol::Program::Argv(vec![
            "sh".into(),
            probe.to_str().unwrap().into(),
        ]));
        let common =
            [("PROBE_WORKSPACE", "/workspace".to_owned()), ("PROBE_BACKEND", "ns".to_owned())];
        for (name, value) in common.iter().chain(variables) {
            command = command.env(*name, value.as_str());
        }
        let command = command.timeout(Some(Duration::from_secs(120)));
        let result = sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        let text = String::from_utf8_lossy(&result.stdout).into_owned();
        let verdict = text
            .lines()
            .rev()
            .find(|line| ["PASS ", "FAIL ", "SKIP ", "PLANT "].iter().any(|v| line.starts_with(v)))
            .map_or_else(|| format!("NOVERDICT {:?}", result.outcome), str::to_owned);
        eprintln!("{verdict}");
        let kind = verdict.split(' ').next().unwrap().to_owned();
        verdicts.insert(number, (kind, verdict));
    }
    sandbox.close().await.unwrap();
    verdicts
}

fn of_kind<'a>(verdicts: &'a BTreeMap<String, (String, String)>, kind: &str) -> Vec<&'a str> {
    verdicts.iter().filter(|(_, (k, _))| k == kind).map(|(number, _)| number.as_str()).collect()
}

fn roomy() -> Spec {
    let limits =
        Limits { memory: 2 << 30, disk: 1 << 30, output: Some(1 << 20), ..Limits::default() };
    Spec { limits, ..Spec::scratch() }
}

#[test]
fn every_inside_probe_passes() {
    let Some(probes) = directory() else { return };
    block_on(async {
        let home = Home::new();
        // Things of the host's that must not be seen.
        let canary = tempfile::Builder::new().prefix("canary-").tempfile_in("/tmp").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("cofferdam-canary-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _abstract_socket = UnixListener::bind_addr(&address).unwrap();
        let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let file_name = canary.path().file_name().unwrap().to_str().unwrap().to_owned();
        let variables = [
            ("PROBE_HOST_TMP_CANARY", file_name),
            ("PROBE_HOST_ABSTRACT", name),
            ("PROBE_SERVER_PORT", server.local_addr().unwrap().port().to_string()),
            ("PROBE_HOST_HOSTNAME", host_name),
            ("PROBE_HOST_MACHINE_ID", machine.trim().to_owned()),
            ("PROBE_PIDS_LIMIT", "512".to_owned()),
            ("PROBE_MEM_LIMIT_MB", "2048".to_owned()),
            ("PROBE_DISK_LIMIT_MB", "1024".to_owned()),
            ("PROBE_FLOOD", "1".to_owned()),
            ("PROBE_TTY_BAIT", "1".to_owned()),
            ("PROBE_STRICT_DNS", "0".to_owned()),
        ];
        let verdicts = verdicts(&home.native(), roomy(), &probes, &[], &variables).await;
        assert_eq!(of_kind(&verdicts, "FAIL"), [""; 0]);
        // 049 to 051 want a proxy and 067 a time limit: tests of their own below.
        assert_eq!(of_kind(&verdicts, "SKIP"), ["049", "050", "051", "067"]);
        // The kernel may end a bomb before it can speak.
        let silent = of_kind(&verdicts, "NOVERDICT");
        assert!(silent.iter().all(|number| ["056", "057"].contains(number)), "{silent:?}");
        assert!(of_kind(&verdicts, "PASS").len() >= 40);
        home.assert_empty();
    });
}

#[test]
fn a_deaf_command_ends_when_its_time_is_up() {
    let Some(probes) = directory() else { return };
    block_on(async {
        let home = Home::new();
        let root = Root::Host { readable: vec![probes.clone()] };
        let sandbox = Sandbox::open(&home.native(), Spec { root, ..roomy() }).await.unwrap();
        let script = format!("sh {}/067-timeout-kill.sh", probes.display());
        let command = sandbox.shell(script).env("PROBE_LONG", "1");
        let begun = Instant::now();
        let command = command.timeout(Some(Duration::from_secs(2)));
        let result = sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(7), "the time, and five seconds of grace");
        assert!(String::from_utf8_lossy(&result.stdout).contains("tick 1"), "output is kept");
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn without_the_filter_the_probes_of_the_kernel_fail() {
    let Some(probes) = directory() else { return };
    block_on(async {
        let home = Home::new();
        let weak = home.native().weakened(Weakness::NoSystemCallFilter);
        let numbers = ["028", "029", "031", "034", "038"];
        let verdicts = verdicts(&weak, roomy(), &probes, &numbers, &[]).await;
        let failed = of_kind(&verdicts, "FAIL");
        assert!(failed.contains(&"028") && failed.contains(&"029"), "{failed:?}");
        home.assert_empty();
    });
}

#[test]
fn with_the_hosts_network_the_probes_of_the_network_fail() {
    let Some(probes) = directory() else { return };
    block_on(async {
        let home = Home::new();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port().to_string();
        let spec = Spec { network: Network::Open, ..roomy() };
        // Both send nothing where there is more than a loopback interface.
        let variables = [("PROBE_SERVER_PORT", port)];
        let verdicts = verdicts(&home.native(), spec, &probes, &["042", "046"], &variables).await;
        assert!(!of_kind(&verdicts, "FAIL").is_empty(), "{verdicts:?}");
        home.assert_empty();
    });
}

#[test]
fn the_probes_say_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "probes::every_inside_probe_passes",
        "probes::a_deaf_command_ends_when_its_time_is_up",
        "probes::without_the_filter_the_probes_of_the_kernel_fail",
        "probes::with_the_hosts_network_the_probes_of_the_network_fail",
    ]);
}
