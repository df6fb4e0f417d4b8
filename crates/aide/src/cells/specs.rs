//! Which kernels there are: Jupyter's kernelspecs, and Deno, which needs none.
//!
//! Looked for in this order: `JUPYTER_PATH`, the user's own, the virtual environment,
//! the product's prefix, beside each directory of `PATH` (`X/bin` has its kernels in
//! `X/share/jupyter`), then the system's.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cofferdam_aide_protocol::KernelFacts;
use jupyter_protocol::JupyterKernelspec;

use super::state::Interrupt;

/// What names the parts of the product's own prefix, as `PATH` names directories.
const PREFIX: &str = "COFFERDAM_PREFIX";

/// No kernelspec is longer.
const MAX_SPEC: u64 = 256 << 10;

/// In a kernelspec, stands for the connection file.
pub(super) const CONNECTION_FILE: &str = "{connection_file}";

/// A kernel that can be started.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) facts: KernelFacts,
    /// The command; one argument is or holds [`CONNECTION_FILE`].
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) interrupt: Interrupt,
}

/// Where to look, from the environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Directories with a `kernels` directory in them.
    data: Vec<PathBuf>,
    /// Directories with programs.
    programs: Vec<PathBuf>,
}

impl Places {
    /// The places that this process's environment names.
    pub(super) fn from_env() -> Self {
        Self::from(|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn from(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let directory = |name: &str| variable(name).map(PathBuf::from);
        let list = |name: &str| -> Vec<PathBuf> {
            variable(name).map(|value| env::split_paths(&value).collect()).unwrap_or_default()
        };
        let mut roots = Vec::new();
        roots.extend(directory("VIRTUAL_ENV"));
        let mut programs: Vec<PathBuf> = roots.iter().map(|root| root.join("bin")).collect();
        for part in list(PREFIX) {
            programs.push(part.join("bin"));
            roots.push(part);
        }
        for path in list("PATH") {
            if path.file_name() == Some(OsStr::new("bin")) {
                roots.extend(path.parent().map(Path::to_path_buf));
            }
            programs.push(path);
        }
        let mut data = list("JUPYTER_PATH");
        let own = directory("JUPYTER_DATA_DIR")
            .or_else(|| directory("XDG_DATA_HOME").map(|home| home.join("jupyter")))
            .or_else(|| directory("HOME").map(|home| home.join(".local/share/jupyter")));
        data.extend(own);
        roots.extend([PathBuf::from("/usr/local"), PathBuf::from("/usr")]);
        data.extend(roots.iter().map(|root| root.join("share/jupyter")));
        Self { data: each_once(data), programs: each_once(programs) }
    }

    /// Every kernel that there is; of several with one name the first found.
    pub(super) fn all(&self) -> Vec<Spec> {
        let mut found: Vec<Spec> = Vec::new();
        for directory in &self.data {
            for spec in specs_in(directory, &self.programs) {
                if !found.iter().any(|other| other.facts.spec == spec.facts.spec) {
                    found.push(spec);
                }
            }
        }
        if !found.iter().any(|spec| spec.facts.spec == "deno") {
            found.extend(program("deno", &self.programs).map(|path| deno(&path)));
        }
        found
    }

    /// The kernel of this name, or else the first of this language.
    ///
    /// # Errors
    /// When there is none: says which there are, and how to get it.
    pub(super) fn find(&self, name: &str) -> Result<Spec, String> {
        let all = self.all();
        let named = all.iter().find(|spec| spec.facts.spec == name);
        let spoken = || all.iter().find(|spec| spec.facts.language.eq_ignore_ascii_case(name));
        if let Some(spec) = named.or_else(spoken) {
            return Ok(spec.clone());
        }
        let there: Vec<&str> = all.iter().map(|spec| spec.facts.spec.as_str()).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        Err(format!("there is no kernel {name:?}; there is: {there}\nhelp: {}", how_to_get(name)))
    }
}

fn how_to_get(name: &str) -> String {
    let own = match name.to_ascii_lowercase().as_str() {
        "python" | "python3" => "`pip install ipykernel` in a virtual environment on the PATH",
        "deno" | "typescript" | "javascript" => "`npm install -g deno`",
        _ => "install its kernel so that `jupyter kernelspec list` shows it",
    };
    format!("run `cofferdam setup` on the host, or use an image that has it, or {own}")
}

fn specs_in(directory: &Path, programs: &[PathBuf]) -> Vec<Spec> {
    let Ok(entries) = directory.join("kernels").read_dir() else { return Vec::new() };
    let mut found: Vec<Spec> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            read_spec(&entry.file_name().into_string().ok()?, &entry.path(), programs)
        })
        .collect();
    found.sort_by(|a, b| a.facts.spec.cmp(&b.facts.spec));
    found
}

/// Reads a kernelspec; one that is broken or whose program is missing is none.
fn read_spec(name: &str, directory: &Path, programs: &[PathBuf]) -> Option<Spec> {
    let path = directory.join("kernel.json");
    if fs::metadata(&path).ok()?.len() > MAX_SPEC {
        return None;
    }
    let read: JupyterKernelspec = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let (first, rest) = read.argv.split_first()?;
    // X/share/jupyter/kernels/NAME: a program without a path is X's own, if X has it.
    let beside = directory.ancestors().nth(4).map(|root| root.join("bin"));
    let first = if first.contains('/') {
        let path = PathBuf::from(first);
        is_program(&path).then_some(path)
    } else {
        beside
            .map(|bin| bin.join(first))
            .filter(|path| is_program(path))
            .or_else(|| program(first, programs))
    }?;
    let resources = directory.to_string_lossy().into_owned();
    let mut argv = vec![first.to_string_lossy().into_owned()];
    argv.extend(rest.iter().map(|argument| argument.replace("{resource_dir}", &resources)));
    let by_message = read.interrupt_mode.as_deref() == Some("message");
    Some(Spec {
        facts: KernelFacts {
            spec: name.to_owned(),
            display_name: read.display_name,
            language: read.language,
            found_at: path.to_string_lossy().into_owned(),
        },
        argv,
        env: read.env.unwrap_or_default().into_iter().collect(),
        interrupt: if by_message { Interrupt::Message } else { Interrupt::Signal },
    })
}

/// Deno's own kernel.
fn deno(path: &Path) -> Spec {
    let path = path.to_string_lossy().into_owned();
    let quiet = [("DENO_NO_UPDATE_CHECK", "1"), ("DENO_NO_PROMPT", "1")];
    let argv = [&path, "jupyter", "--kernel", "--conn", CONNECTION_FILE];
    Spec {
        argv: argv.map(str::to_owned).to_vec(),
        env: quiet.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        interrupt: Interrupt::Message,
        facts: KernelFacts {
            spec: "deno".to_owned(),
            display_name: "Deno".to_owned(),
            language: "typescript".to_owned(),
            found_at: path,
        },
    }
}

fn program(name: &str, programs: &[PathBuf]) -> Option<PathBuf> {
    programs.iter().map(|directory| directory.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_absolute()
        && fs::metadata(path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn each_once(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    paths.into_iter().filter(|path| seen.insert(path.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// Makes a program that is never run.
    fn place(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn write_spec(root: &Path, name: &str, json: &str) {
        let directory = root.join("share/jupyter/kernels").join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("kernel.json"), json).unwrap();
    }

    fn places(variables: &[(&str, &Path)]) -> Places {
        let variables: BTreeMap<String, OsString> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_os_str().to_owned()))
            .collect();
        Places::from(|name| variables.get(name).cloned())
    }

    const PYTHON: &str = r#"{"argv": ["python", "-m", "ipykernel_launcher", "-f",
        "{connection_file}"], "display_name": "Python 3", "language": "python"}"#;

    #[test]
    fn a_virtual_environment_on_the_path_brings_its_own_python() {
        let home = tempfile::tempdir().unwrap();
        let (python, bin) = (home.path().join("bin/python"), home.path().join("bin"));
        place(&python);
        write_spec(home.path(), "python3", PYTHON);

        for name in ["python3", "python"] {
            let spec = places(&[("PATH", &bin)]).find(name).unwrap();
            assert_eq!(spec.argv.first().unwrap(), &python.to_string_lossy());
            assert_eq!(spec.facts.language, "python");
        }
    }

    #[test]
    fn the_parts_of_the_prefix_have_python_and_deno() {
        let home = tempfile::tempdir().unwrap();
        let (python, node) = (home.path().join("python-1"), home.path().join("node-1"));
        place(&python.join("bin/python"));
        write_spec(&python, "python3", PYTHON);
        let deno = node.join("bin/deno");
        place(&deno);

        let parts = env::join_paths([python, node]).unwrap();
        let places = places(&[(PREFIX, Path::new(&parts))]);
        assert_eq!(places.find("typescript").unwrap().facts.found_at, deno.to_string_lossy());
        assert_eq!(places.find("python").unwrap().facts.spec, "python3");
    }

    #[test]
    fn what_is_not_there_says_what_is_and_how_to_get_it() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        place(&bin.join("deno"));
        write_spec(home.path(), "broken", "{");
        write_spec(home.path(), "gone", &PYTHON.replace("python\"", "no-such-python\""));

        let why = places(&[("PATH", &bin)]).find("python3").unwrap_err();
        assert!(why.contains("there is: deno\n"), "{why}");
        assert!(why.contains("pip install ipykernel"), "{why}");
    }
}
