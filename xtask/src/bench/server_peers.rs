//! The peers: minimal orchestrators as one would begin to write them, with two
//! well-known frameworks. They are installed once, below `target`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::program;
use super::server_process::Running;

const FASTAPI: &str = include_str!("peers/fastapi_app.py");
const EXPRESS: &str = include_str!("peers/express_app.js");

/// What is installed for each.
const PYTHON_PACKAGES: [&str; 2] = ["fastapi==0.162.4", "uvicorn[standard]==0.54.0"];
const NODE_PACKAGE: &str = "express@5.3.0";

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    FastApi,
    Express,
}

impl Peer {
    pub(super) const ALL: [Self; 2] = [Self::FastApi, Self::Express];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FastApi => "FastAPI + uvicorn, a dictionary",
            Self::Express => "Express, a dictionary",
        }
    }

    /// Starts it; installs it if that was not done yet.
    pub(super) fn start(self, root: &Path) -> anyhow::Result<Running> {
        let home = root.join("target").join("bench-peers");
        match self {
            Self::FastApi => {
                let python = python(&home)?;
                let place = home.join("fastapi");
                keep(&place, "fastapi_app.py", FASTAPI)?;
                let mut command = program::command(python);
                // What it would log is left out, which makes it faster.
                command.args(["-m", "uvicorn", "fastapi_app:app", "--host", "127.0.0.1"]);
                command.args(["--no-access-log", "--log-level", "warning", "--port"]);
                Running::peer(command.current_dir(place))
            }
            Self::Express => {
                let node = program::find("node")?;
                let place = node_modules(&home)?;
                keep(&place, "express_app.js", EXPRESS)?;
                let mut command = program::command(node);
                command.arg("express_app.js").env("NODE_ENV", "production");
                Running::peer(command.current_dir(place))
            }
        }
    }
}

/// What is installed, in words.
pub(super) fn versions() -> String {
    let mut words: Vec<String> = PYTHON_PACKAGES.map(str::to_owned).to_vec();
    words.push(NODE_PACKAGE.to_owned());
    for name in ["python3", "node"] {
        let said = program::output(program::command(name).arg("--version"));
        words.push(
            said.map_or_else(|_| format!("no {name}"), |text| format!("{name} {}", text.trim())),
        );
    }
    words.join(", ")
}

fn keep(place: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(place)?;
    Ok(fs::write(place.join(name), text)?)
}

/// Python, with the packages.
fn python(home: &Path) -> anyhow::Result<PathBuf> {
    let place = home.join("python");
    let python = place.join("bin").join("python");
    let wanted = PYTHON_PACKAGES.join(" ");
    installed(&place, &wanted, || {
        let mut make = program::command(program::find("python3")?);
        program::output(make.args(["-m", "venv"]).arg(&place))?;
        let mut install = program::command(&python);
        install.args(["-m", "pip", "install", "--quiet"]).args(PYTHON_PACKAGES);
        program::output(&mut install).context("pip install")
    })?;
    Ok(python)
}

/// A directory with the packages of Node.
fn node_modules(home: &Path) -> anyhow::Result<PathBuf> {
    let place = home.join("express");
    installed(&place, NODE_PACKAGE, || {
        fs::create_dir_all(&place)?;
        let mut install = program::command(program::find("npm")?);
        install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&place);
        program::output(install.arg(NODE_PACKAGE)).context("npm install")
    })?;
    Ok(place)
}

/// Installs what is wanted unless it is there.
fn installed(
    place: &Path,
    wanted: &str,
    install: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let mark = place.join("installed.txt");
    if fs::read_to_string(&mark).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    install()?;
    Ok(fs::write(mark, wanted)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_not_installed_again() {
        let place = tempfile::tempdir().unwrap();
        let mut count = 0;
        for wanted in ["a==1", "a==1", "a==2"] {
            let install = || {
                count += 1;
                Ok(String::new())
            };
            installed(place.path(), wanted, install).unwrap();
        }
        assert_eq!(count, 2);
        assert!(installed(place.path(), "b", || anyhow::bail!("no")).is_err());
        assert!(installed(place.path(), "b", || anyhow::bail!("no")).is_err(), "not marked");
    }
}
