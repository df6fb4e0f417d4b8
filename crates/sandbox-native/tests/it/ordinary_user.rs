//! The same tests as an ordinary user, when root runs them.

use cofferdam_testkit::OrdinaryUser;

/// Runs tests of this program again as an ordinary user.
pub(crate) fn again(tests: &[&str]) {
    eprintln!("{}", OrdinaryUser::Unknown.runs(tests).unwrap());
}
