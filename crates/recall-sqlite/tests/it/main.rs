//! The index, and how well it finds.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod broken;
mod finding;
mod keeping;
mod plain;
mod quality;
mod together;
mod world;
