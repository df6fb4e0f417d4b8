//! What went wrong, in a form that can be sent: the step and the system's error.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was being done.
    pub step: String,
    /// The system's error number; 0 where there is none.
    pub errno: i32,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.errno == 0 {
            return formatter.write_str(&self.step);
        }
        write!(formatter, "{}: {}", self.step, io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// A failure that is not the system's.
    pub fn new(step: impl Into<String>) -> Self {
        Self { step: step.into(), errno: 0 }
    }
}

/// Names the step that an error belongs to.
pub trait Step<T> {
    /// Names the step.
    ///
    /// # Errors
    /// The same, named.
    fn step(self, step: impl AsRef<str>) -> Result<T, Failure>;

    /// As [`Self::step`], with words that are put together only when needed.
    ///
    /// # Errors
    /// The same, named.
    fn step_with(self, step: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T> Step<T> for rustix::io::Result<T> {
    fn step(self, step: impl AsRef<str>) -> Result<T, Failure> {
        self.step_with(|| step.as_ref().to_owned())
    }

    fn step_with(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure { step: step(), errno: error.raw_os_error() })
    }
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, step: impl AsRef<str>) -> Result<T, Failure> {
        self.step_with(|| step.as_ref().to_owned())
    }

    fn step_with(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            step: step(),
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

/// Goes on whatever the result is. The comment at the call says why that is
/// right there.
pub fn ignore<T, E>(_result: Result<T, E>) {}
