//! Both places for blobs: by the suite, and by what no suite can do to them.
#![expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod child;
mod disk;
mod object;
mod s3;
