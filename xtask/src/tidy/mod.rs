//! Tidy: the rules of the repository that no compiler checks.
//!
//! Each check is a pure function from text to violations. This file finds the
//! text, runs every check on it and prints what they found: all of it, so that
//! one run is enough to repair everything.

mod arrows;
mod layers;
mod manifests;
mod repository;
mod rust_files;
mod source;
mod tables;
mod text_files;
mod violation;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use repository::{Repository, TextFile};
use violation::Violation;

/// Check the rules of the repository that no compiler checks.
#[derive(Args)]
pub(crate) struct Tidy {}

impl Tidy {
    /// Checks everything, prints what is wrong, and fails if anything is.
    pub(crate) fn run(&self, root: &Path) -> anyhow::Result<ExitCode> {
        let repository = Repository::read(root)?;
        let violations = check(&repository);
        let mut out = io::stdout().lock();
        for violation in &violations {
            writeln!(out, "{violation}")?;
        }
        let files = repository.files.len();
        if violations.is_empty() {
            writeln!(out, "tidy: {files} files, nothing to repair")?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out, "tidy: {files} files, {} to repair", violations.len())?;
        Ok(ExitCode::FAILURE)
    }
}

/// Every violation in the repository, in the order of files and lines.
fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = arrows::check(&repository.packages);
    violations.extend(manifests::check(&repository.packages));
    violations.extend(manifests::lock_file(&repository.tracked));
    for file in &repository.files {
        violations.extend(check_file(file));
    }
    violations.sort();
    violations
}

fn check_file(file: &TextFile) -> Vec<Violation> {
    let mut violations = text_files::check(file);
    if file.has_extension("rs") {
        violations.extend(rust_files::check(file, tables::UNSAFE));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let repository = Repository::read(&crate::repository_root().unwrap()).unwrap();
        let violations: Vec<String> =
            check(&repository).iter().map(|violation| violation.to_string()).collect();
        assert!(violations.is_empty(), "\n{}", violations.join("\n"));
    }

    #[test]
    fn the_repository_is_read_at_all() {
        let repository = Repository::read(&crate::repository_root().unwrap()).unwrap();
        assert!(repository.packages.iter().any(|package| package.name == "xtask"));
        assert!(repository.files.iter().any(|file| file.path == "xtask/src/main.rs"));
        assert!(repository.files.iter().any(|file| file.path == ".cargo/config.toml"));
    }
}
