//! The promises of every back end, kept by this one.

use std::sync::Arc;

use cofferdam_sandbox::conformance;

use crate::home::{Home, block_on};
use crate::ordinary_user;

#[test]
fn native_behaves_like_a_sandbox() {
    let home = Home::new();
    let report = block_on(conformance::run_all(|| Arc::new(home.native())));
    eprintln!("{report}");
    report.assert_passed();
    home.assert_empty();
}

#[test]
fn native_behaves_like_a_sandbox_for_an_ordinary_user() {
    ordinary_user::again(&["conformance::native_behaves_like_a_sandbox"]);
}
