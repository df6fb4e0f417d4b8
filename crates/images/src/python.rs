//! What pip installs into an image, for whoever has it made.

use crate::definition::{Definition, Kit};
use crate::error::ImageError;

/// Files for pip. What somebody asks for comes before what the product has: of a package that is
/// asked for, no version is fixed here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PipFiles {
    /// What is to be installed, a line each.
    pub(crate) requirements: Vec<String>,
    /// Versions of what that brings along.
    pub(crate) constraints: Vec<String>,
}

impl PipFiles {
    /// Those of a definition; `None` if there is nothing to be installed.
    pub(crate) fn of(definition: &Definition) -> Result<Option<Self>, ImageError> {
        let mut files = Self::default();
        if definition.parts.contains(&Kit::Python) {
            for (name, text) in Kit::Python.recipe()?.files() {
                let list = match *name {
                    "constraints.txt" => &mut files.constraints,
                    _ => &mut files.requirements,
                };
                list.extend(without(text, &definition.pip));
            }
        }
        let mut own = definition.pip.clone();
        own.sort_unstable();
        own.dedup();
        files.requirements.extend(own);
        Ok((!files.requirements.is_empty()).then_some(files))
    }
}

/// Lines of a file without those on packages that somebody asks for.
fn without(text: &str, asked: &[String]) -> Vec<String> {
    let name = |line: &str| {
        let end =
            line.find(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter));
        let (name, _) = line.split_at(end.unwrap_or(line.len()));
        name.to_lowercase().replace(['.', '_'], "-")
    };
    let asked: Vec<String> = asked.iter().map(|line| name(line)).collect();
    let says = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let lines = text.lines().map(str::trim).filter(says);
    lines.filter(|line| !asked.contains(&name(line))).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_asked_for_is_not_constrained() {
        let constraints = "# all\nnumpy==2.4.6\n\njupyter_core==5.9.1\nnumpydoc==1\n";
        let asked = ["NumPy[x]<2".to_owned(), "jupyter-core".to_owned()];
        assert_eq!(without(constraints, &asked), ["numpydoc==1"]);
        assert_eq!(without(constraints, &[]).len(), 3);
    }

    #[test]
    fn a_package_of_the_product_may_be_asked_for_in_another_version() {
        let of = |pip: &[&str]| {
            let pip = pip.iter().map(|word| (*word).to_owned()).collect();
            PipFiles::of(&Definition { pip, ..Definition::agent().unwrap() }).unwrap().unwrap()
        };
        let about = |files: &PipFiles| {
            let all = files.requirements.iter().chain(&files.constraints);
            let lines = all.filter(|line| line.starts_with("matplotlib="));
            lines.cloned().collect::<Vec<_>>()
        };
        let usual = of(&[]);
        assert!(!about(&usual).is_empty(), "{usual:?}");
        let asked = of(&["matplotlib==3.8.4"]);
        assert_eq!(about(&asked), ["matplotlib==3.8.4"]);
        assert_eq!(asked.requirements.len(), usual.requirements.len());
        let none = Definition { parts: Vec::new(), ..Definition::agent().unwrap() };
        assert_eq!(PipFiles::of(&Definition { pip: Vec::new(), ..none }).unwrap(), None);
    }
}
