//! The catalogue's probes, run inside native sandboxes, and inside weakened ones
//! to show that they can fail.
//!
//! They live beside the project; without them these tests have nothing to run
//! and say so. The conformance suite has its own cases either way.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_sandbox::conformance::probes::{Canaries, Verdicts, beside, probe, roomy};
use cofferdam_sandbox::{Backend, Root, Sandbox, Spec};
use cofferdam_sandbox_native::Weakness;
use cofferdam_types::{Network, Outcome};

use crate::home::{Home, block_on};
use crate::ordinary_user;

/// Where the probes are, if they are there.
pub(crate) fn directory() -> Option<PathBuf> {
    let found = beside(Path::new(env!("CARGO_MANIFEST_DIR")));
    if found.is_none() {
        eprintln!("skipped: the probes are not beside the project");
    }
    found
}

/// Runs probes one by one in one sandbox.
pub(crate) async fn verdicts(
    backend: &dyn Backend,
    spec: Spec,
    probes: &Path,
    numbers: &[&str],
    variables: &[(&str, String)],
) -> Verdicts {
    let verdicts = probe(backend, spec, probes, numbers, variables).await.unwrap();
    verdicts.lines().for_each(|line| eprintln!("{line}"));
    verdicts
}

#[test]
fn every_inside_probe_passes() {
    let Some(probes) = directory() else { return };
    block_on(async {
        let home = Home::new();
        let canaries = Canaries::lay().unwrap();
        let variables = canaries.variables();
        let verdicts = verdicts(&home.native(), roomy(), &probes, &[], &variables).await;
        assert_eq!(verdicts.of_kind("FAIL"), [""; 0]);
        // 049 to 051 want a proxy and 067 a time limit: tests of their own below.
        assert_eq!(verdicts.of_kind("SKIP"), ["049", "050", "051", "067"]);
        // The kernel may end a bomb before it can speak.
        let silent = verdicts.of_kind("NOVERDICT");
        assert!(silent.iter().all(|number| ["056", "057"].contains(number)), "{silent:?}");
        assert!(verdicts.of_kind("PASS").len() >= 40);
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
        let failed = verdicts.of_kind("FAIL");
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
        assert!(!verdicts.of_kind("FAIL").is_empty(), "{verdicts:?}");
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
