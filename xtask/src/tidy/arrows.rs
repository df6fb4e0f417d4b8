//! Arrows: no workspace crate depends on one it may not depend on.

use super::layers::{FOR_TESTS, LAYERS, allowed, matches};
use super::repository::{Kind, Package};
use super::violation::Violation;

/// Checks the dependencies between the packages of the workspace.
pub(super) fn check(packages: &[Package]) -> Vec<Violation> {
    let known = |name: &str| packages.iter().any(|package| package.name == name);
    let mut violations = Vec::new();
    for package in packages {
        let name = short(&package.name);
        let Some(uses) = allowed(LAYERS, name) else {
            violations.push(Violation::new(
                &package.manifest,
                line_of_name(&package.text),
                format!("crate {name} has no place in the layers"),
                "add it to the table (xtask/src/tidy/layers.rs) and to ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|other| known(&other.name)) {
            let other = short(&dependency.name);
            let in_row = uses.iter().any(|pattern| matches(pattern, other));
            // Adapters of one seam prove themselves without each other.
            let siblings = name.contains('-') && name.split('-').next() == other.split('-').next();
            let for_tests = FOR_TESTS.contains(&other) && !siblings;
            let in_tests = dependency.kind == Kind::Dev && (for_tests || other == name);
            if !in_row && !in_tests {
                violations.push(Violation::new(
                    &package.manifest,
                    line_of_dependency(&package.text, &dependency.name, dependency.kind),
                    format!("{name} may not depend on {other}"),
                    remedy(name, uses),
                ));
            }
        }
    }
    violations
}

fn remedy(name: &str, uses: &[&str]) -> String {
    let may = match uses {
        [] => "no other crate of the workspace".to_owned(),
        some => some.join(", "),
    };
    format!("{name} may use: {may}; invert the arrow with a trait, or move the code")
}

/// A package's name as the table has it.
fn short(name: &str) -> &str {
    name.strip_prefix("cofferdam-").unwrap_or(name)
}

fn line_of_name(manifest: &str) -> usize {
    manifest.lines().position(|line| line.starts_with("name")).map_or(1, |index| index + 1)
}

/// The line that names a dependency, in the section of its kind; 1 if it is
/// written in a way this does not see.
fn line_of_dependency(manifest: &str, name: &str, kind: Kind) -> usize {
    let section = match kind {
        Kind::Normal => "dependencies",
        Kind::Build => "build-dependencies",
        Kind::Dev => "dev-dependencies",
    };
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            // Also `[target.'cfg(…)'.dependencies]` and `[dependencies.name]`.
            let table = header.strip_suffix(name).and_then(|head| head.strip_suffix('.'));
            let of_kind = |head: &str| head.rsplit('.').next() == Some(section);
            if table.is_some_and(of_kind) {
                return index + 1;
            }
            inside = of_kind(header);
        } else if inside && line.split(['.', '=', ' ']).next() == Some(name) {
            return index + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::repository::Dependency;

    fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        Package {
            name: name.to_owned(),
            description: Some("something".to_owned()),
            manifest: format!("crates/{name}/Cargo.toml"),
            text: String::new(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: *kind })
                .collect(),
        }
    }

    fn causes(packages: &[Package]) -> Vec<String> {
        check(packages).into_iter().map(|violation| violation.cause).collect()
    }

    #[test]
    fn an_arrow_of_the_table_is_fine() {
        let packages = [
            package("cofferdam-types", &[("serde", Kind::Normal)]),
            package("cofferdam-store", &[("cofferdam-types", Kind::Normal)]),
            package("cofferdam-store-sqlite", &[("cofferdam-store", Kind::Normal)]),
            package("cofferdam", &[("cofferdam-store-sqlite", Kind::Normal)]),
        ];
        assert_eq!(causes(&packages), Vec::<String>::new());
    }

    #[test]
    fn a_reversed_arrow_is_found_with_its_line() {
        let mut types = package("cofferdam-types", &[("cofferdam-store", Kind::Normal)]);
        types.text = "[package]\nname = \"cofferdam-types\"\n\n[dependencies]\n\
                      cofferdam-store.workspace = true\n"
            .to_owned();
        let violations = check(&[types, package("cofferdam-store", &[])]);
        assert_eq!(
            violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["crates/cofferdam-types/Cargo.toml:5: types may not depend on store\n    \
              help: types may use: no other crate of the workspace; invert the arrow with a \
              trait, or move the code"]
        );
    }

    #[test]
    fn an_adapter_may_not_use_another_not_even_to_build_or_test() {
        for kind in [Kind::Normal, Kind::Build, Kind::Dev] {
            let packages = [
                package("cofferdam-sandbox-oci", &[("cofferdam-sandbox-native", kind)]),
                package("cofferdam-sandbox-native", &[]),
            ];
            assert_eq!(causes(&packages), ["sandbox-oci may not depend on sandbox-native"]);
        }
    }

    #[test]
    fn tests_may_use_the_testkit_and_the_product_may_not() {
        let with = |kind| {
            let packages = [
                package("cofferdam-engine", &[("cofferdam-testkit", kind)]),
                package("cofferdam-testkit", &[]),
            ];
            causes(&packages)
        };
        assert_eq!(with(Kind::Dev), Vec::<String>::new());
        assert_eq!(with(Kind::Normal), ["engine may not depend on testkit"]);
    }

    #[test]
    fn a_crate_without_a_row_is_told_where_to_go() {
        let violations = check(&[package("cofferdam-utilities", &[])]);
        let [violation] = violations.as_slice() else { panic!("{violations:?}") };
        assert_eq!(violation.cause, "crate utilities has no place in the layers");
        assert!(violation.remedy.contains("ARCHITECTURE.md"), "{}", violation.remedy);
    }

    #[test]
    fn a_dependency_is_found_in_the_section_of_its_kind() {
        let manifest = "[package]\nname = \"b\"\n[dependencies]\na-b = \"1\"\na = \"1\"\n\
                        [dev-dependencies]\na.workspace = true\n\
                        [target.'cfg(unix)'.build-dependencies]\na = \"1\"\n\
                        [dependencies.c]\npath = \"c\"\n";
        assert_eq!(line_of_dependency(manifest, "a", Kind::Normal), 5);
        assert_eq!(line_of_dependency(manifest, "a", Kind::Dev), 7);
        assert_eq!(line_of_dependency(manifest, "a", Kind::Build), 9);
        assert_eq!(line_of_dependency(manifest, "c", Kind::Normal), 10);
        assert_eq!(line_of_dependency(manifest, "d", Kind::Normal), 1);
    }
}
