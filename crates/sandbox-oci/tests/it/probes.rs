//! The catalogue's probes, run inside containers. They live beside the project; without
//! them these tests have nothing to run and say so.

use std::path::Path;

use cofferdam_sandbox::conformance::probes::{Canaries, beside, probe, roomy};
use cofferdam_sandbox_oci::Kind;
use cofferdam_testkit::OrdinaryUser;

use crate::engines::{Lab, block_on};

fn every_inside_probe_passes(kind: Kind) {
    let Some(probes) = beside(Path::new(env!("CARGO_MANIFEST_DIR"))) else {
        eprintln!("skipped: the probes are not beside the project");
        return;
    };
    let Some(lab) = Lab::mapping_users(kind) else { return };
    let canaries = Canaries::lay().unwrap();
    let variables = canaries.variables();
    let verdicts =
        block_on(async { probe(&lab.backend(), roomy(), &probes, &[], &variables).await });
    let verdicts = verdicts.unwrap();
    verdicts.lines().for_each(|line| eprintln!("{line}"));
    let failed = verdicts.of_kind("FAIL");
    let complaints: Vec<_> = verdicts.lines().filter(|line| line.starts_with("FAIL ")).collect();
    assert_eq!(complaints.len(), failed.len());
    assert!(complaints.iter().all(|line| is_mistaken(kind, line)), "{complaints:?}");
    // 049 to 051 want a proxy and 067 a time limit.
    assert_eq!(verdicts.of_kind("SKIP"), ["049", "050", "051", "067"]);
    // The kernel may end a bomb before it can speak. To the Sentry's host every process is
    // several, and what is written is in the Sentry's memory too: so that bombs of processes
    // and of files are bombs of memory there.
    let silent = verdicts.of_kind("NOVERDICT");
    let bombs = match kind {
        Kind::Runsc => &["056", "057", "058", "060"][..],
        _ => &["056", "057"],
    };
    assert!(silent.iter().all(|number| bombs.contains(number)), "{silent:?}");
    assert!(verdicts.of_kind("PASS").len() + silent.len() + failed.len() >= 40);
    lab.assert_empty();
}

/// Whether a probe takes what a kernel does not show for what is not there.
fn is_mistaken(kind: Kind, complaint: &str) -> bool {
    // The Sentry's /proc does not tell whether new privileges are refused; the conformance suite
    // asks, and they are. Of what else the probe looks at nothing may be amiss.
    let privileges = complaint == "FAIL 028 privileges-dropped: NoNewPrivs=0";
    // It counts time in which it was kept from the CPU as used.
    let cpu_time = complaint.starts_with("FAIL 063 cpu-hog: used ");
    kind == Kind::Runsc && (privileges || cpu_time)
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

#[test]
fn every_inside_probe_passes_on_runsc() {
    every_inside_probe_passes(Kind::Runsc);
}

#[test]
fn the_probes_say_the_same_for_an_ordinary_user_of_podman() {
    eprintln!(
        "{}",
        OrdinaryUser::WithRange.runs(&["probes::every_inside_probe_passes_on_podman"]).unwrap()
    );
}
