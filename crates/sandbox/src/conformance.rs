//! The suite that every back end must pass: one case for each promise.
//!
//! A back end proves itself in its own tests:
//!
//! ```ignore
//! #[tokio::test]
//! async fn native_behaves_like_a_sandbox() {
//!     conformance::run_all(|| Arc::new(NativeBackend::for_tests())).await.assert_passed();
//! }
//! ```
//!
//! Cases use what any Debian root has: a shell, coreutils, and where nothing
//! else will do, bash or perl. Each bounds its own time and closes what it opens.

mod audit;
mod commands;
mod endings;
mod files;
mod forks;
mod identity;
mod lab;
mod lifetime;
mod limits;
mod network;
mod output;
pub mod probes;
mod report;
mod workspace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use crate::backend::{Backend, Capabilities};

pub use lab::{Failure, Lab};
pub use report::{Report, Row, Verdict};

/// How long a case may take.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

/// What a back end must claim for a case to be of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: all promise this.
    Nothing,
    /// [`Capabilities::lingers`].
    Lingering,
    /// [`Capabilities::forks`].
    Forks,
    /// [`Capabilities::audits`].
    Audits,
    /// [`Capabilities::measures_cpu`].
    CpuTime,
    /// [`Capabilities::outlets`].
    Outlets,
}

impl Needs {
    fn met_by(self, capabilities: Capabilities) -> bool {
        match self {
            Self::Nothing => true,
            Self::Lingering => capabilities.lingers,
            Self::Forks => capabilities.forks,
            Self::Audits => capabilities.audits,
            Self::CpuTime => capabilities.measures_cpu,
            Self::Outlets => capabilities.outlets,
        }
    }
}

type Body = for<'a> fn(&'a Lab<'a>) -> BoxFuture<'a, Result<(), Failure>>;

/// One promise, and how it is tried.
#[derive(Clone, Copy)]
pub struct Case {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// What the back end must claim.
    pub needs: Needs,
    body: Body,
}

impl Case {
    /// Tries the promise, and closes whatever was opened for that.
    ///
    /// # Errors
    /// When it was broken, or does not apply.
    pub async fn run(&self, backend: &dyn Backend) -> Result<(), Failure> {
        if !self.needs.met_by(backend.capabilities()) {
            let name = backend.name();
            return Err(Failure::NotApplicable(format!("{name} does not claim {:?}", self.needs)));
        }
        let lab = Lab::new(backend);
        let outcome = match tokio::time::timeout(CASE_TIMEOUT, (self.body)(&lab)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::Broken(format!("not done within {CASE_TIMEOUT:?}"))),
        };
        let closed = lab.close_all().await;
        outcome.and(closed)
    }
}

/// Makes a list of cases of functions and the promises they try.
macro_rules! promises {
    ($($function:ident, $needs:ident: $name:literal;)*) => {
        pub(super) fn cases() -> Vec<$crate::conformance::Case> {
            vec![$($crate::conformance::Case {
                name: $name,
                needs: $crate::conformance::Needs::$needs,
                body: |lab| Box::pin($function(lab)),
            }),*]
        }
    };
}
use promises;

/// Every case.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        commands::cases(),
        endings::cases(),
        output::cases(),
        identity::cases(),
        limits::cases(),
        network::cases(),
        files::cases(),
        workspace::cases(),
        lifetime::cases(),
        forks::cases(),
        audit::cases(),
    ]
    .concat()
}

/// Tries every case, one after the other, each with a back end of its own.
pub async fn run_all(make: impl Fn() -> Arc<dyn Backend>) -> Report {
    run_cases(make, &cases()).await
}

/// Tries some cases.
pub async fn run_cases(make: impl Fn() -> Arc<dyn Backend>, cases: &[Case]) -> Report {
    let mut report = Report::default();
    for case in cases {
        let backend = make();
        let start = Instant::now();
        let verdict = match case.run(backend.as_ref()).await {
            Ok(()) => Verdict::Passed,
            Err(Failure::NotApplicable(reason)) => Verdict::Skipped(reason),
            Err(Failure::Broken(reason)) => Verdict::Failed(reason),
        };
        report.rows.push(Row { name: case.name, verdict, took: start.elapsed() });
    }
    report
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_cases_have_the_same_name() {
        let cases = cases();
        let names: HashSet<&str> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
    }
}
