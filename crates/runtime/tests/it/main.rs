//! A job, driven in a real sandbox with a model that does as it is told.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests may panic")]

mod adoption;
mod bill;
mod digest;
mod lab;
mod recall;
