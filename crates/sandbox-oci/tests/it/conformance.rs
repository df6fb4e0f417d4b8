//! The promises of every back end, kept by containers.

use std::sync::Arc;

use cofferdam_sandbox::{Sandbox, Spec, conformance};
use cofferdam_sandbox_oci::Kind;
use cofferdam_testkit::OrdinaryUser;
use cofferdam_types::Limits;

use crate::engines::{Lab, block_on};

fn behaves_like_a_sandbox(kind: Kind) {
    let Some(lab) = Lab::new(kind) else { return };
    let report = block_on(conformance::run_all(|| Arc::new(lab.backend())));
    eprintln!("{report}");
    report.assert_passed();
    lab.assert_empty();
}

#[test]
fn docker_behaves_like_a_sandbox() {
    behaves_like_a_sandbox(Kind::Docker);
}

#[test]
fn podman_behaves_like_a_sandbox() {
    behaves_like_a_sandbox(Kind::Podman);
}

#[test]
fn crun_behaves_like_a_sandbox() {
    behaves_like_a_sandbox(Kind::Crun);
}

#[test]
fn runc_behaves_like_a_sandbox() {
    behaves_like_a_sandbox(Kind::Runc);
}

#[test]
fn runsc_behaves_like_a_sandbox() {
    behaves_like_a_sandbox(Kind::Runsc);
}

/// The same with users of their own, which changes whose files are whose.
#[test]
fn docker_that_maps_users_behaves_like_a_sandbox() {
    let Some(lab) = Lab::mapping_users(Kind::Docker) else { return };
    let report = block_on(conformance::run_all(|| Arc::new(lab.backend())));
    eprintln!("{report}");
    report.assert_passed();
    lab.assert_empty();
}

#[test]
fn podman_behaves_like_a_sandbox_for_an_ordinary_user() {
    eprintln!(
        "{}",
        OrdinaryUser::WithRange.runs(&["conformance::podman_behaves_like_a_sandbox"]).unwrap()
    );
}

/// The usual limits are for two processors, and a machine may have one.
#[test]
fn more_processors_may_be_allowed_than_there_are() {
    for kind in [Kind::Docker, Kind::Podman] {
        let Some(lab) = Lab::new(kind) else { continue };
        block_on(async {
            let limits = Limits { milli_cpus: 10_000_000, ..Limits::default() };
            let spec = Spec { limits, ..Spec::scratch() };
            let sandbox = Sandbox::open(&lab.backend(), spec).await.unwrap();
            sandbox.close().await.unwrap();
        });
        lab.assert_empty();
    }
}
