//! What code cells and the desktop need of this machine: what of it is there, and how to
//! get the rest.

use std::fmt::Write as _;
use std::path::PathBuf;

use cofferdam_sandbox::Fact;
use cofferdam_setup::{Found, Host, Origin, Part, Program};
use serde::Serialize;

/// A part, as it is on this machine.
#[derive(Debug, Serialize)]
pub(crate) struct Provision {
    part: String,
    /// The program; none if it is missing.
    pub(crate) path: Option<PathBuf>,
    /// Whether it was set up or is the machine's own.
    origin: Option<&'static str>,
    /// How to get it.
    remedy: Option<String>,
}

impl Provision {
    pub(crate) fn of(part: Part, found: &Found) -> Self {
        let program = found.of(part);
        Self {
            part: part.to_string(),
            path: program.map(|program| program.path.clone()),
            origin: program.map(|program| match program.origin {
                Origin::Prefix(_) => "prefix",
                Origin::Host => "host",
            }),
            remedy: program.is_none().then(|| remedy(part)),
        }
    }

    pub(crate) fn fact(&self) -> Fact {
        Fact {
            part: self.part.clone(),
            value: shown(self.path.as_ref()),
            weakness: self.remedy.clone(),
        }
    }
}

fn remedy(part: Part) -> String {
    format!("install it: cofferdam setup {part}")
}

fn shown(path: Option<&PathBuf>) -> String {
    match path {
        Some(path) => cofferdam_view::tame_line(&path.to_string_lossy()),
        None => "missing".to_owned(),
    }
}

/// What can be set up.
pub(crate) fn parts(found: &Found) -> Vec<Fact> {
    let mut facts: Vec<Fact> =
        Part::ALL.iter().map(|part| Provision::of(*part, found).fact()).collect();
    let lab = found.lab.as_ref().map(|Program { path, .. }| path);
    facts.push(Fact {
        part: "JupyterLab".to_owned(),
        value: shown(lab),
        weakness: lab.is_none().then(|| remedy(Part::Python)),
    });
    facts
}

/// What a desktop consists of: the first of these sets of programs that is whole is used,
/// and else a package brings one.
const DESKTOP: &[(&str, &[&[&str]], &str)] = &[
    ("X server", &[&["Xvnc"], &["Xvfb", "x11vnc"]], "tigervnc-standalone-server"),
    ("window manager", &[&["openbox"], &["fluxbox"]], "openbox"),
    ("browser", &[&["chromium"], &["chromium-browser"], &["google-chrome"]], "chromium"),
    ("scripts", &[&["xdotool"]], "xdotool"),
    ("recording", &[&["ffmpeg"]], "ffmpeg"),
];

/// What the desktop needs, and what is good to have on it.
pub(crate) fn desktop(host: &Host) -> Vec<Fact> {
    let facts = DESKTOP.iter().map(|(part, sets, package)| {
        let whole = |set: &&&[&str]| set.iter().all(|name| host.shown_program(name).is_some());
        let set = sets.iter().find(whole);
        Fact {
            part: (*part).to_owned(),
            value: set.map_or("missing".to_owned(), |set| set.join(", ")),
            weakness: set.is_none().then(|| format!("install it: apt-get install {package}")),
        }
    });
    facts.collect()
}

/// Facts as lines, what is weak or missing with a remedy below.
pub(crate) fn rendered(facts: &[Fact]) -> String {
    let mut text = String::new();
    for fact in facts {
        // Writing to a string does not fail.
        writeln!(text, "{:<19} {}", fact.part, fact.value).ok();
        for line in fact.weakness.iter().flat_map(|text| text.lines()) {
            writeln!(text, "{:<19} ! {line}", "").ok();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_remedy() {
        let facts = parts(&Found::default());
        assert_eq!(facts.len(), Part::ALL.len() + 1);
        for fact in &facts {
            assert_eq!(fact.value, "missing");
            assert!(fact.weakness.as_ref().unwrap().contains("cofferdam setup "), "{fact:?}");
        }
        let path = PathBuf::from("/usr/bin/deno");
        let deno = Some(Program { path, origin: Origin::Host });
        let facts = parts(&Found { deno, ..Found::default() });
        let fact = facts.iter().find(|fact| fact.part == "typescript").unwrap();
        assert_eq!((fact.value.as_str(), fact.weakness.as_deref()), ("/usr/bin/deno", None));
    }

    #[test]
    fn either_kind_of_x_server_will_do_if_it_is_whole() {
        let bin = tempfile::tempdir().unwrap();
        let directory = bin.path().canonicalize().unwrap();
        let host = Host {
            shown: vec![directory.clone()],
            roots: vec![directory.clone()],
            path: Vec::new(),
        };
        let server = |host: &Host| desktop(host).remove(0);
        let put = |name: &str| {
            std::fs::write(directory.join(name), "").unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(directory.join(name), mode).unwrap();
        };
        put("Xvfb");
        assert_eq!(server(&host).value, "missing");
        assert!(server(&host).weakness.unwrap().ends_with("tigervnc-standalone-server"));
        put("x11vnc");
        assert_eq!(server(&host).value, "Xvfb, x11vnc");
        put("Xvnc");
        assert_eq!((server(&host).value.as_str(), server(&host).weakness), ("Xvnc", None));
    }
}
