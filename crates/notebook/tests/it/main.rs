//! Whole jobs as notebooks: as text, by our own reading of the format, and by Jupyter's.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod bounds;
mod checked;
mod jupyter;
mod reading;
mod sessions;
mod world;
