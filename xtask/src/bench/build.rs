//! Builds: what is measured is always a release build.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::program::{self, Companion};

/// Builds a package for release; returns where its program is.
pub(super) fn release(root: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = program::command(cargo);
    command.args(["build", "--release", "--message-format", "json-render-diagnostics"]);
    command.args(["--package", package, "--manifest-path"]).arg(root.join("Cargo.toml"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut child = Companion(child.context("start cargo")?);
    let messages = child.stdout.take().context("cargo has no stdout")?;
    let mut found = None;
    for message in BufReader::new(messages).lines() {
        found = program_of(&message?, package).or(found);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("cargo build ended with {status}");
    }
    found.with_context(|| format!("cargo build made no program {package}"))
}

/// The program that a message of cargo's says was built.
fn program_of(message: &str, name: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_it = message.pointer("/target/name")?.as_str()? == name;
    let path = message.get("executable")?.as_str()?;
    is_it.then(|| PathBuf::from(path))
}

/// Goes on as the release build of this program, with the same arguments.
pub(super) fn hand_over(root: &Path) -> anyhow::Result<ExitCode> {
    let path = release(root, "xtask")?;
    let mut command = program::command(&path);
    command.args(std::env::args_os().skip(1));
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    Err(command.exec()).with_context(|| format!("start {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_where_cargo_says() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":"/t/a"}"#;
        assert_eq!(program_of(message, "a"), Some(PathBuf::from("/t/a")));
        assert_eq!(program_of(message, "b"), None);
        let library = r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":null}"#;
        assert_eq!(program_of(library, "a"), None);
        assert_eq!(program_of("no message", "a"), None);
    }
}
