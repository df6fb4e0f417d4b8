//! The suite that every store must pass: one case for each promise.
//!
//! A store proves itself in its own tests:
//!
//! ```ignore
//! #[tokio::test]
//! async fn sqlite_behaves_like_a_store() {
//!     conformance::run_all(|| Box::pin(fresh_store())).await.assert_passed();
//! }
//! ```
//!
//! Each case gets a new and empty store. What needs a crash, a full disk or a
//! second server is for the tests of each store.

mod events;
mod keeping;
mod lab;
mod leases;
mod orders;
mod queries;
mod queue;
mod report;
mod resting;
mod submissions;
mod users;
mod walk;
mod watching;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use crate::store::Store;

pub use lab::{Failure, Lab};
pub use report::{Report, Row, Verdict};

/// How long a case may take.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

type Body = for<'a> fn(&'a Lab) -> BoxFuture<'a, Result<(), Failure>>;

/// One promise, and how it is tried.
#[derive(Clone, Copy)]
pub struct Case {
    /// The promise, as a sentence.
    pub name: &'static str,
    body: Body,
}

impl Case {
    /// Tries the promise with a new and empty store.
    ///
    /// # Errors
    /// When it was broken.
    pub async fn run(&self, store: Arc<dyn Store>) -> Result<(), Failure> {
        let lab = Lab::new(store);
        match tokio::time::timeout(CASE_TIMEOUT, (self.body)(&lab)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure(format!("not done within {CASE_TIMEOUT:?}"))),
        }
    }
}

/// Makes a list of cases of functions and the promises they try.
macro_rules! promises {
    ($($function:ident: $name:literal;)*) => {
        pub(super) fn cases() -> Vec<$crate::conformance::Case> {
            vec![$($crate::conformance::Case {
                name: $name,
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
        submissions::cases(),
        events::cases(),
        leases::cases(),
        queue::cases(),
        orders::cases(),
        resting::cases(),
        queries::cases(),
        keeping::cases(),
        users::cases(),
        watching::cases(),
        walk::cases(),
    ]
    .concat()
}

/// Tries every case, one after the other, each with a new and empty store.
pub async fn run_all(make: impl Fn() -> BoxFuture<'static, Arc<dyn Store>>) -> Report {
    run_cases(make, &cases()).await
}

/// Tries some cases.
pub async fn run_cases(
    make: impl Fn() -> BoxFuture<'static, Arc<dyn Store>>,
    cases: &[Case],
) -> Report {
    let mut report = Report::default();
    for case in cases {
        let store = make().await;
        let start = Instant::now();
        let verdict = match case.run(store).await {
            Ok(()) => Verdict::Passed,
            Err(Failure(reason)) => Verdict::Failed(reason),
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
