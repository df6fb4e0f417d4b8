//! A definition as a Dockerfile, which Docker's BuildKit and Podman read alike.
//!
//! The same definition gives the same text. What changes seldom comes first: Debian's packages,
//! then Python's, then npm's, each in a step that engines remember. What the building machine
//! knows about mirrors, proxies, logins and certificates is shown to the steps as secrets, which
//! need not be there, and stays out of the image, its history and the text.

use std::fmt::Write as _;

use crate::bootstrap::{PYTHONS, packages};
use crate::definition::Definition;
use crate::error::ImageError;
use crate::node::{self, Project};
use crate::python::PipFiles;

/// How a definition is rendered. Another number makes all images of engines anew.
const EDITION: &str = "dockerfile 2";

/// Where steps see what the machine lends.
pub(crate) const LENT: &str = "/run/cofferdam";

/// What the machine may lend, by the names that engines are told: for apt, for pip, for npm, for
/// all.
pub(crate) const FOR_APT: [&str; 2] = ["apt.conf", "debian.sources"];
pub(crate) const FOR_PIP: [&str; 4] =
    ["pip.conf", "etc/pip/pip.conf", "home/.config/pip/pip.conf", "home/.netrc"];
pub(crate) const FOR_NPM: [&str; 1] = ["npmrc"];
pub(crate) const FOR_ALL: &str = "trusted.crt";

/// What fetches wheels, and nothing that would have to run to be installed.
const PIP: &str = "python3 -m pip install --no-cache-dir --no-input --no-warn-script-location \
    --disable-pip-version-check --only-binary=:all: --progress-bar=off --no-user";

/// The image that a definition's image is built on, unless another is named: Debian's, or
/// Python's where the release has another Python.
#[must_use]
pub fn usual_base(definition: &Definition) -> String {
    let suite = &definition.suite;
    match foreign_python(definition) {
        Some(version) => format!("python:{version}-slim-{suite}"),
        None => format!("debian:{suite}-slim"),
    }
}

/// The Python that is wanted, if the release does not have it.
pub(crate) fn foreign_python(definition: &Definition) -> Option<&str> {
    let own = PYTHONS.iter().find(|(suite, _)| *suite == definition.suite);
    let own = own.map(|(_, version)| *version);
    definition.python.as_deref().filter(|wanted| Some(*wanted) != own)
}

/// What says how an engine makes an image of a definition.
pub(crate) fn renderer(base: &str) -> String {
    format!("{EDITION} {base}")
}

/// The Dockerfile of a definition.
///
/// # Errors
/// When the definition makes no sense, or a part of it is not there for this processor.
pub fn dockerfile(definition: &Definition, base: &str) -> Result<String, ImageError> {
    definition.check()?;
    check_base(base)?;
    let foreign = foreign_python(definition).is_some();
    let mut text = format!(
        "# The image {:?}, as `cofferdam image build` has an engine make it.\n\
         ARG BASE={base}\nFROM ${{BASE}} AS system\n",
        definition.name
    );
    let mut apt = packages(definition);
    if foreign {
        // The base brings its own Python; Debian's would stand beside it.
        apt.retain(|package| {
            let wanted = definition.apt.iter().any(|word| word == package);
            wanted || !matches!(*package, "python3" | "python3-pip" | "python-is-python3")
        });
    }
    apt.sort_unstable();
    apt.dedup();
    if !apt.is_empty() {
        let mut step = Step::new(&FOR_APT);
        install(&mut step, &apt);
        step.end(&mut text);
    }
    let projects = node::projects(definition)?;
    if !projects.is_empty() {
        text.push_str("\nFROM system AS node\n");
        let mut step = Step::new(&[&FOR_APT[..], &FOR_NPM].concat());
        npm(&mut step, &projects, apt.contains(&"npm"));
        step.end(&mut text);
        text.push_str("\nFROM system\n");
    }
    python(definition, &mut text)?;
    if !projects.is_empty() {
        text.push_str("COPY --from=node /cofferdam/ /usr/local/\n");
    }
    for (name, value) in &definition.env {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
        writeln!(text, "ENV {name}=\"{value}\"").ok();
    }
    Ok(text)
}

/// Whether this names an image and nothing else.
fn check_base(base: &str) -> Result<(), ImageError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let sound = base.len() <= 300
        && base.starts_with(|first: char| first.is_ascii_alphanumeric())
        && base.bytes().all(letter);
    if sound {
        return Ok(());
    }
    let reason = format!("{base:?} is no name of an image");
    Err(ImageError::Definition { of: Some("the base".to_owned()), reason })
}

/// A step that runs commands of a shell, until one fails.
struct Step {
    lent: Vec<&'static str>,
    commands: Vec<String>,
}

impl Step {
    fn new(lent: &[&'static str]) -> Self {
        let lent = lent.iter().copied().chain([FOR_ALL]).collect();
        Self { lent, commands: vec!["set -eu".to_owned()] }
    }

    fn run(&mut self, command: impl Into<String>) {
        self.commands.push(command.into());
    }

    /// Runs a command with words, one on each line.
    fn run_with<'a>(&mut self, command: &str, words: impl IntoIterator<Item = &'a str>, end: &str) {
        let mut text = command.to_owned();
        for word in words {
            text.push_str(" \\\n        ");
            text.push_str(&quoted(word));
        }
        text.push_str(end);
        self.commands.push(text);
    }

    /// Writes lines to a file.
    fn write<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>, path: &str) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_none() {
            self.run(format!(": > {path}"));
            return;
        }
        self.run_with("printf '%s\\n'", lines, &format!(" \\\n        > {path}"));
    }

    fn end(self, text: &mut String) {
        text.push_str("RUN ");
        for name in self.lent {
            let id = name.replace('/', "-");
            // Fetching is done by users without rights.
            writeln!(text, "--mount=type=secret,id={id},target={LENT}/{name},mode=0444 \\").ok();
            text.push_str("    ");
        }
        text.push_str(&self.commands.join("; \\\n    "));
        text.push('\n');
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn install(step: &mut Step, packages: &[&str]) {
    step.run(format!("export DEBIAN_FRONTEND=noninteractive APT_CONFIG={LENT}/apt.conf"));
    // apt fetches as a user without rights; not every base is made for that.
    step.run("chmod 1777 /tmp");
    step.run("apt-get update");
    let command = "apt-get install --yes --no-install-recommends";
    step.run_with(command, packages.iter().copied(), "");
    step.run("apt-get clean");
    step.run("rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*");
}

fn python(definition: &Definition, text: &mut String) -> Result<(), ImageError> {
    let Some(files) = PipFiles::of(definition)? else { return Ok(()) };
    let mut step = Step::new(&FOR_PIP);
    step.write(files.requirements.iter().map(String::as_str), "/tmp/requirements.txt");
    step.write(files.constraints.iter().map(String::as_str), "/tmp/constraints.txt");
    step.run("rm -f /usr/lib/python3*/EXTERNALLY-MANAGED");
    step.run(format!(
        "export HOME={LENT}/home XDG_CONFIG_DIRS={LENT}/etc PIP_CONFIG_FILE={LENT}/pip.conf \
         PIP_ROOT_USER_ACTION=ignore"
    ));
    step.run(format!("if [ -s {LENT}/{FOR_ALL} ]; then export PIP_CERT={LENT}/{FOR_ALL}; fi"));
    let files = "--requirement=/tmp/requirements.txt --constraint=/tmp/constraints.txt";
    step.run(format!("{PIP} {files}"));
    step.run("rm /tmp/requirements.txt /tmp/constraints.txt");
    step.end(text);
    Ok(())
}

/// Packages of npm, in a stage of its own: not every image has npm.
fn npm(step: &mut Step, projects: &[Project], has_npm: bool) {
    if !has_npm {
        install(step, &["npm"]);
    }
    step.run(format!("export NPM_CONFIG_USERCONFIG={LENT}/npmrc npm_config_cache=/tmp/npm"));
    let trusted = format!("{LENT}/{FOR_ALL}");
    step.run(format!("if [ -s {trusted} ]; then export NODE_EXTRA_CA_CERTS={trusted}; fi"));
    step.run("mkdir -p /cofferdam/bin");
    for project in projects {
        let name = project.name;
        step.run(format!("mkdir -p /cofferdam/lib/cofferdam/{name}"));
        step.run(format!("cd /cofferdam/lib/cofferdam/{name}"));
        for (file, text) in project.files() {
            step.write(text.lines(), file);
        }
        step.run(format!("npm {}", project.arguments().join(" ")));
        let modules = format!("../lib/cofferdam/{name}/node_modules");
        if let Some((package, program)) = project.program() {
            let target = quoted(&format!("{modules}/{package}/{program}"));
            step.run(format!("ln -s {target} /cofferdam/bin/{program}"));
        }
        step.run(format!(
            "for link in node_modules/.bin/*; do target=$(readlink \"$link\") || continue; \
             bin=/cofferdam/bin/${{link##*/}}; \
             case $target in ../*) [ -L \"$bin\" ] || ln -s \"{modules}/${{target#../}}\" \"$bin\";; \
             esac; done"
        ));
    }
}

#[cfg(test)]
#[path = "dockerfile_tests.rs"]
mod tests;
