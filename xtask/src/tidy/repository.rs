//! Repository: the facts the checks work on, read once.
//!
//! Files are those git tracks or would track, so that a new file is checked
//! before it is committed. Packages are what cargo says they are.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// What is checked.
pub(super) struct Repository {
    /// The packages of the workspace.
    pub(super) packages: Vec<Package>,
    /// Paths git tracks.
    pub(super) tracked: Vec<String>,
    /// The text files among the paths git tracks or would track.
    pub(super) files: Vec<TextFile>,
}

/// One package of the workspace.
pub(super) struct Package {
    /// Its name.
    pub(super) name: String,
    /// What it says of itself.
    pub(super) description: Option<String>,
    /// Path of its manifest from the repository's root.
    pub(super) manifest: String,
    /// The manifest's text.
    pub(super) text: String,
    /// What it depends on, other workspace members or not.
    pub(super) dependencies: Vec<Dependency>,
}

/// One dependency of a package.
pub(super) struct Dependency {
    /// The package depended on.
    pub(super) name: String,
    /// What for.
    pub(super) kind: Kind,
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The crate itself.
    Normal,
    /// Its build script.
    Build,
    /// Its tests.
    Dev,
}

/// One text file.
pub(super) struct TextFile {
    /// Path from the repository's root.
    pub(super) path: String,
    /// Its content.
    pub(super) text: String,
}

impl TextFile {
    /// Whether the path ends in a dot and this.
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension() == Some(OsStr::new(extension))
    }

    /// Whether it is a script without an extension, as `test` and `.ci/run` are.
    pub(super) fn is_script(&self) -> bool {
        Path::new(&self.path).extension().is_none()
    }
}

impl Repository {
    /// Reads the repository at this root.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let tracked = list_files(root, &["--cached"])?;
        let mut paths = list_files(root, &["--cached", "--others", "--exclude-standard"])?;
        paths.sort();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths.into_iter().filter(|path| is_checked(path)) {
            files.extend(read_text(root, path)?);
        }
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
        let metadata = output_of(root, &cargo, &arguments)?;
        let packages = parse_metadata(&metadata, root)?;
        Ok(Self { packages, tracked, files })
    }
}

/// Whether a path's kind is one the checks know. A name without an extension is
/// a script, or as good as one.
fn is_checked(path: &str) -> bool {
    match Path::new(path).extension().map(OsStr::to_str) {
        None => true,
        Some(extension) => extension
            .is_some_and(|known| ["md", "rs", "sh", "toml", "yaml", "yml"].contains(&known)),
    }
}

/// The file's text; `None` if it is gone from the work tree, no regular file, or
/// no text.
fn read_text(root: &Path, path: String) -> anyhow::Result<Option<TextFile>> {
    let full = root.join(&path);
    if !fs::symlink_metadata(&full).is_ok_and(|stat| stat.is_file()) {
        return Ok(None);
    }
    let bytes = fs::read(&full).with_context(|| format!("cannot read {path}"))?;
    Ok(String::from_utf8(bytes).ok().map(|text| TextFile { path, text }))
}

fn list_files(root: &Path, which: &[&str]) -> anyhow::Result<Vec<String>> {
    // The clone may belong to another user, as in a container or under sudo; and
    // listing files is no reason to run a program its configuration names.
    let mut arguments =
        vec!["-c", "safe.directory=*", "-c", "core.fsmonitor=false", "ls-files", "-z"];
    arguments.extend(which);
    let listing = output_of(root, OsStr::new("git"), &arguments)
        .context("tidy asks git which files there are: run it in a clone")?;
    let paths = listing.split('\0').filter(|path| !path.is_empty());
    Ok(paths.map(str::to_owned).collect())
}

#[expect(
    clippy::disallowed_methods,
    reason = "git and cargo know what belongs to the repository; they run on the developer's \
              machine, as tidy does"
)]
fn output_of(root: &Path, program: &OsStr, arguments: &[&str]) -> anyhow::Result<String> {
    let shown = || format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("cannot run `{}`", shown()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}", shown(), said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` wrote no UTF-8", shown()))
}

/// The part of `cargo metadata` that is needed.
#[derive(Deserialize)]
struct RawMetadata {
    packages: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    description: Option<String>,
    manifest_path: String,
    dependencies: Vec<RawDependency>,
}

#[derive(Deserialize)]
struct RawDependency {
    name: String,
    kind: Option<String>,
}

fn parse_metadata(json: &str, root: &Path) -> anyhow::Result<Vec<Package>> {
    let raw: RawMetadata =
        serde_json::from_str(json).context("cargo metadata is not as expected")?;
    // Cargo's paths have no links in them; the root may.
    let root = fs::canonicalize(root).context("the root of the repository is not there")?;
    raw.packages.into_iter().map(|package| package.complete(&root)).collect()
}

impl RawPackage {
    fn complete(self, root: &Path) -> anyhow::Result<Package> {
        let text = fs::read_to_string(&self.manifest_path)
            .with_context(|| format!("cannot read {}", self.manifest_path))?;
        let real = fs::canonicalize(&self.manifest_path).context("a manifest vanished")?;
        let manifest = real.strip_prefix(root).unwrap_or(&real);
        let mut dependencies = Vec::new();
        for dependency in self.dependencies {
            let kind = match dependency.kind.as_deref() {
                None => Kind::Normal,
                Some("build") => Kind::Build,
                Some("dev") => Kind::Dev,
                Some(other) => bail!("unknown kind of dependency {other}"),
            };
            dependencies.push(Dependency { name: dependency.name, kind });
        }
        Ok(Package {
            name: self.name,
            description: self.description,
            manifest: manifest.to_string_lossy().into_owned(),
            text,
            dependencies,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_with_kinds_and_relative_paths() {
        let root = crate::repository_root().unwrap();
        let manifest = root.join("xtask/Cargo.toml");
        let json = serde_json::json!({"packages": [{
            "name": "xtask",
            "description": null,
            "manifest_path": manifest,
            "dependencies": [
                {"name": "a", "kind": null},
                {"name": "b", "kind": "dev"},
                {"name": "c", "kind": "build"},
            ],
        }]});
        let packages = parse_metadata(&json.to_string(), &root).unwrap();
        let [package] = packages.as_slice() else { panic!("one package") };
        assert_eq!(package.manifest, "xtask/Cargo.toml");
        assert!(package.text.contains("[package]"));
        let kinds: Vec<_> =
            package.dependencies.iter().map(|found| (found.name.as_str(), found.kind)).collect();
        assert_eq!(kinds, [("a", Kind::Normal), ("b", Kind::Dev), ("c", Kind::Build)]);
    }

    #[test]
    fn files_are_chosen_by_extension_and_scripts_by_having_none() {
        for path in ["a/b.rs", "Cargo.toml", ".github/workflows/ci.yml", "test", ".ci/run"] {
            assert!(is_checked(path), "{path}");
        }
        for path in ["Cargo.lock", "a.png", "a.json"] {
            assert!(!is_checked(path), "{path}");
        }
    }

    #[test]
    fn a_program_that_fails_is_named_with_what_it_said() {
        let root = crate::repository_root().unwrap();
        let error = output_of(&root, OsStr::new("git"), &["no-such-command"]).unwrap_err();
        assert!(error.to_string().starts_with("`git no-such-command` failed: "), "{error}");
    }
}
