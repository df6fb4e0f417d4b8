//! Builds of the product's programs: what is measured or given away is never a debug build.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

use crate::bench::program::{self, Companion};

/// Build `cofferdam exec` as a small program of its own, and say where it is.
#[derive(Args)]
pub(crate) struct Exec;

impl Exec {
    pub(crate) fn run(&self, root: &Path) -> anyhow::Result<ExitCode> {
        writeln!(io::stdout().lock(), "{}", exec(root)?.display())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Builds a package for release; returns where its program is.
pub(crate) fn release(root: &Path, package: &str) -> anyhow::Result<PathBuf> {
    build(cargo().arg("--release"), root, package)
}

/// The same for `exec` as a program of its own. It is a static one: at a start as short as this
/// one's, finding libraries takes longer than anything else.
pub(crate) fn exec(root: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["--profile", "embedded", "--target", "host-tuple"]);
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=pie");
    build(&mut cargo, root, "cofferdam-exec")
}

fn cargo() -> Command {
    let mut cargo = program::command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--message-format", "json-render-diagnostics"]);
    cargo
}

fn build(cargo: &mut Command, root: &Path, package: &str) -> anyhow::Result<PathBuf> {
    cargo.args(["--package", package, "--manifest-path"]).arg(root.join("Cargo.toml"));
    let child = cargo.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
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
pub(crate) fn hand_over(root: &Path) -> anyhow::Result<ExitCode> {
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
