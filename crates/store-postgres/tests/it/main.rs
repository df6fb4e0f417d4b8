//! The store on a real PostgreSQL.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests may panic")]

mod conformance;
mod crash;
mod fixture;
mod lost;
mod schema;
mod secured;
mod together;
