//! Compiles the programs that run in and beside every sandbox as static
//! executables, for the library to carry.
//!
//! They are built by a cargo of their own, in a target directory of their own,
//! because they need another profile and other flags than the program that
//! carries them.
#![expect(clippy::disallowed_methods, reason = "a build script runs the compiler")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use sha2::{Digest, Sha256};

const PROGRAMS: [(&str, &str, &str); 2] = [
    ("cofferdam-native-supervisor", "cofferdam-supervisor", "SUPERVISOR"),
    ("cofferdam-aide", "cofferdam-aide", "AIDE"),
];

const SOURCES: [&str; 6] =
    ["aide", "aide-protocol", "guest", "guest-protocol", "native-supervisor", "types"];

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            println!("cargo::error={cause}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("..");
    let workspace = crates.join("..");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", crates.join(source).join("src").display());
        println!("cargo::rerun-if-changed={}", crates.join(source).join("Cargo.toml").display());
    }
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.lock").display());
    let target = variable("TARGET")?;
    let directory = shared_directory(Path::new(&variable("OUT_DIR")?))?;

    let mut cargo = Command::new(variable("CARGO")?);
    cargo.current_dir(&workspace).args(["build", "--locked", "--profile", "embedded"]);
    for (package, program, _) in PROGRAMS {
        cargo.args(["--package", package, "--bin", program]);
    }
    cargo.arg("--target").arg(&target).arg("--target-dir").arg(&directory);
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=pie");
    // What the outer cargo set for this build is not meant for that one.
    for (name, _) in env::vars_os() {
        let inherited = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_CFG_")
                || name.starts_with("CARGO_FEATURE_")
                || name.starts_with("CARGO_PROFILE_")
                || [
                    "CARGO_ENCODED_RUSTFLAGS",
                    "CARGO_BUILD_TARGET",
                    "CARGO_TARGET_DIR",
                    "RUSTC_WRAPPER",
                    "RUSTC_WORKSPACE_WRAPPER",
                    "RUSTC_LINKER",
                ]
                .contains(&name)
        });
        if inherited {
            cargo.env_remove(name);
        }
    }
    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).replace('\n', "\\n");
        return Err(format!("the embedded programs do not compile: {text}"));
    }
    for (_, program, name) in PROGRAMS {
        let path = directory.join(&target).join("embedded").join(program);
        println!("cargo::rustc-env={name}_PROGRAM={}", path.display());
        let bytes = std::fs::read(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let hash = Sha256::digest(&bytes);
        let short: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        println!("cargo::rustc-env={name}_HASH={short}");
    }
    Ok(())
}

/// One directory for all profiles of the outer build: the embedded programs are
/// the same in each.
fn shared_directory(out: &Path) -> Result<PathBuf, String> {
    // OUT_DIR is TARGET_DIR/[TRIPLE/]PROFILE/build/PACKAGE-HASH/out.
    let target = out.ancestors().nth(4).ok_or("OUT_DIR is shorter than expected")?;
    Ok(target.join("embedded-programs"))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("{name} is not set: run this through cargo"))
}
