//! Chores of the repository, run as `cargo xtask CHORE`.
//!
//! Each chore is one module with its arguments and a `run`. To add one, add the
//! module and a variant of [`Chore`].

mod bench;
mod build;
mod crash;
mod tidy;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Measure the product
    Bench(bench::Bench),
    /// Build `cofferdam exec` as a small static program of its own, and say where it is
    Exec(build::Exec),
    /// Kill servers in every state of a job, and see that nothing is lost
    Crash(crash::Crash),
    /// Check the rules of the repository that no compiler checks
    Tidy(tidy::Tidy),
}

fn main() -> anyhow::Result<ExitCode> {
    let root = repository_root()?;
    match Arguments::parse().chore {
        Chore::Bench(chore) => chore.run(&root),
        Chore::Exec(chore) => chore.run(&root),
        Chore::Crash(chore) => chore.run(&root),
        Chore::Tidy(chore) => chore.run(&root),
    }
}

/// The repository's root. Cargo tells where this package is when it runs it; a
/// path fixed at compile time would name another clone after a shared build.
fn repository_root() -> anyhow::Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.context("CARGO_MANIFEST_DIR is not set: run this as `cargo xtask`")?;
    let root = package.parent().context("the package xtask has no directory above it")?;
    Ok(root.to_owned())
}
