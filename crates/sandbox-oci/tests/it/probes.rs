//! The catalogue's probes, run inside containers. They live beside the project; without
//! them these tests have nothing to run and say so.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use cofferdam_sandbox::conformance::probes::{about_limits, probe, roomy};
use cofferdam_sandbox_oci::Kind;

use crate::engines::{Lab, block_on};

fn directory() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/security/probes");
    let found = std::fs::canonicalize(beside).ok().filter(|path| path.join("run-all.sh").exists());
    if found.is_none() {
        eprintln!("skipped: the probes are not beside the project");
    }
    found
}

fn every_inside_probe_passes(kind: Kind) {
    let Some(probes) = directory() else { return };
    let Some(lab) = Lab::mapping_users(kind) else { return };
    // Things of the host's that must not be seen.
    let canary = tempfile::Builder::new().prefix("canary-").tempfile_in("/tmp").unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("cofferdam-canary-{}-{}", kind.name(), std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract_socket = UnixListener::bind_addr(&address).unwrap();
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let file_name = canary.path().file_name().unwrap().to_str().unwrap().to_owned();
    let mut variables = vec![
        ("PROBE_HOST_TMP_CANARY", file_name),
        ("PROBE_HOST_ABSTRACT", name),
        ("PROBE_SERVER_PORT", server.local_addr().unwrap().port().to_string()),
        ("PROBE_HOST_HOSTNAME", host_name),
        ("PROBE_HOST_MACHINE_ID", machine.trim().to_owned()),
    ];
    variables.extend(about_limits());
    let verdicts =
        block_on(async { probe(&lab.backend(), roomy(), &probes, &[], &variables).await });
    let verdicts = verdicts.unwrap();
    verdicts.lines().for_each(|line| eprintln!("{line}"));
    assert_eq!(verdicts.of_kind("FAIL"), [""; 0]);
    // 049 to 051 want a proxy and 067 a time limit.
    assert_eq!(verdicts.of_kind("SKIP"), ["049", "050", "051", "067"]);
    // The kernel may end a bomb before it can speak.
    let silent = verdicts.of_kind("NOVERDICT");
    assert!(silent.iter().all(|number| ["056", "057"].contains(number)), "{silent:?}");
    assert!(verdicts.of_kind("PASS").len() >= 40);
    lab.assert_empty();
}

#[test]
fn every_inside_probe_passes_on_docker() {
    every_inside_probe_passes(Kind::Docker);
}

#[test]
fn every_inside_probe_passes_on_podman() {
    every_inside_probe_passes(Kind::Podman);
}

#[test]
fn every_inside_probe_passes_on_crun() {
    every_inside_probe_passes(Kind::Crun);
}

#[test]
fn every_inside_probe_passes_on_runc() {
    every_inside_probe_passes(Kind::Runc);
}
