//! Manifests: every crate obeys the workspace's lints and says what it is, and
//! the exact versions of what it uses are kept.

use super::repository::Package;
use super::violation::Violation;

/// Checks the manifest of each package.
pub(super) fn check(packages: &[Package]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in packages {
        if !inherits_lints(&package.text) {
            violations.push(Violation::new(
                &package.manifest,
                1,
                "the crate does not inherit the workspace's lints",
                "add a section `[lints]` with `workspace = true`",
            ));
        }
        if package.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
            violations.push(Violation::new(
                &package.manifest,
                1,
                "the crate has no description",
                "add `description = \"…\"`: one line that says what it holds",
            ));
        }
    }
    violations
}

/// Checks that the lock file is among the files git tracks.
pub(super) fn lock_file(tracked: &[String]) -> Option<Violation> {
    if tracked.iter().any(|path| path == "Cargo.lock") {
        return None;
    }
    Some(Violation::new(
        "Cargo.lock",
        1,
        "the lock file is not tracked",
        "`git add Cargo.lock`: one build is every build",
    ))
}

/// Whether a manifest has `workspace = true` in `[lints]`, or
/// `lints.workspace = true` before any section.
fn inherits_lints(manifest: &str) -> bool {
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let assignment: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        match section {
            "[lints]" if assignment == "workspace=true" => return true,
            "" if assignment == "lints.workspace=true" => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_are_inherited_in_either_spelling_and_nowhere_else() {
        assert!(inherits_lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"));
        assert!(inherits_lints("lints.workspace = true\n[package]\nname = \"a\"\n"));
        assert!(!inherits_lints("[package]\nversion.workspace = true\n[lints]\n"));
        assert!(!inherits_lints("[lints]\n[dependencies]\nworkspace = true\n"));
        assert!(!inherits_lints("[lints]\n# workspace = true\n"));
    }

    #[test]
    fn a_crate_without_lints_and_description_has_two_violations() {
        let package = Package {
            name: "cofferdam-types".to_owned(),
            description: Some("  ".to_owned()),
            manifest: "crates/types/Cargo.toml".to_owned(),
            text: "[package]\n".to_owned(),
            dependencies: Vec::new(),
        };
        let causes: Vec<_> = check(&[package]).into_iter().map(|found| found.cause).collect();
        assert_eq!(
            causes,
            ["the crate does not inherit the workspace's lints", "the crate has no description"]
        );
    }

    #[test]
    fn a_lock_file_that_git_does_not_track_is_a_violation() {
        assert_eq!(lock_file(&["Cargo.toml".to_owned(), "Cargo.lock".to_owned()]), None);
        assert!(lock_file(&["crates/guest-protocol/fuzz/Cargo.lock".to_owned()]).is_some());
    }
}
