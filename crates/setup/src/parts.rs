//! How each part is made in its place.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::child::{self, End, Order, Ran};
use crate::error::SetupError;
use crate::host::Host;
use crate::install::TimeLimits;
use crate::place::{TEMPORARY, is_there, program};
use crate::progress::{Progress, Step};
use crate::recipe::{Part, Recipe};

/// The oldest Python that the packages take.
const LEAST: (u32, u32) = (3, 11);

/// Variables that would make Python, pip, Node or npm install something else or elsewhere.
/// Proxies, mirrors and certificates stay.
const REMOVED: &[&str] = &[
    "NODE_OPTIONS",
    "NODE_PATH",
    "PIP_CONSTRAINT",
    "PIP_DRY_RUN",
    "PIP_NO_BINARY",
    "PIP_NO_DEPS",
    "PIP_PREFIX",
    "PIP_REPORT",
    "PIP_REQUIREMENT",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "npm_config_global",
    "npm_config_prefix",
    "NPM_CONFIG_GLOBAL",
    "NPM_CONFIG_PREFIX",
];

/// Lines of a program that an error repeats.
const REPEATED: usize = 12;

/// What pip and npm say when nothing can be reached.
const UNREACHABLE: &[&str] = &[
    "CERTIFICATE_VERIFY_FAILED",
    "Connection refused",
    "Connection timed out",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "ETIMEDOUT",
    "Failed to establish a new connection",
    "Network is unreachable",
    "NewConnectionError",
    "ProxyError",
    "Read timed out",
    "SSLError",
    "Temporary failure in name resolution",
    "(from versions: none)",
];

/// Whether what a program said sounds as if no registry could be reached.
#[must_use]
pub fn sounds_unreachable(said: &[String]) -> bool {
    said.iter().any(|line| UNREACHABLE.iter().any(|word| line.contains(word)))
}

/// Everything that the making of one part needs.
pub(crate) struct Work<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) place: &'a Path,
    pub(crate) host: &'a Host,
    pub(crate) limits: &'a TimeLimits,
    pub(crate) lock: &'a File,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) tell: &'a mut dyn FnMut(Progress<'_>),
}

impl Work<'_> {
    /// Makes the part.
    pub(crate) fn make(&mut self) -> Result<(), SetupError> {
        let temporary = self.place.join(TEMPORARY);
        fs::create_dir_all(&temporary).map_err(SetupError::system("make", &temporary))?;
        for (name, text) in &self.recipe.files {
            let path = self.place.join(name);
            fs::write(&path, text).map_err(SetupError::system("write", &path))?;
        }
        match self.recipe.part {
            Part::Python => self.python()?,
            Part::TypeScript => self.typescript()?,
            Part::Viewer => self.viewer()?,
        }
        fs::remove_dir_all(&temporary).map_err(SetupError::system("remove", &temporary))
    }

    fn python(&mut self) -> Result<(), SetupError> {
        self.step(Step::Look);
        let Some(python) = self.host.python() else {
            return Err(SetupError::NoPython { looked: self.host.shown.clone() });
        };
        self.check_python(&python)?;
        self.step(Step::Environment);
        let place = self.place.display().to_string();
        let make = vec!["-m", "venv", "--symlinks", &place];
        self.run(Step::Environment, &python, make, self.limits.step)?;
        self.step(Step::Packages);
        let own = program(Part::Python, self.place);
        // Wheels only: what has to be built would run its own code here, and need compilers.
        let install = vec![
            "-m",
            "pip",
            "install",
            "--no-user",
            "--only-binary=:all:",
            "--progress-bar=off",
            "--requirement=requirements.txt",
            "--constraint=constraints.txt",
        ];
        self.run(Step::Packages, &own, install, self.limits.packages)?;
        self.step(Step::Trial);
        let script =
            "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)";
        let recipe = self.recipe;
        let mut trial = vec!["-I", "-c", script];
        trial.extend(recipe.needs.iter().map(String::as_str));
        self.run(Step::Trial, &own, trial, self.limits.step)
    }

    /// Whether a Python is new enough and can make environments. Debian has that in a package of
    /// its own.
    fn check_python(&mut self, python: &Path) -> Result<(), SetupError> {
        let script =
            "import sys\nprint('%d.%d' % sys.version_info[:2], flush=True)\nimport venv, ensurepip";
        let (command, ran) = self.hear(python, vec!["-I", "-c", script], self.limits.step)?;
        let version = ran.said.first().cloned().unwrap_or_default();
        let number = |text: &str| -> Option<(u32, u32)> {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let python = python.to_owned();
        match (number(&version), &ran.end) {
            (Some(number), _) if number < LEAST => {
                let least = format!("{}.{}", LEAST.0, LEAST.1);
                Err(SetupError::OldPython { python, version, least })
            }
            (Some(_), End::Exited(status)) if !status.success() => {
                let reason = ran.said.last().cloned().unwrap_or_default();
                Err(SetupError::NoVenv { python, version, reason })
            }
            _ => self.judge(Step::Look, command, self.limits.step, ran),
        }
    }

    /// Installs the packages of the lock file.
    fn npm(&mut self) -> Result<(), SetupError> {
        self.step(Step::Look);
        let Some(npm) = self.host.program("npm") else {
            return Err(SetupError::NoNpm { looked: self.host.path.clone() });
        };
        self.step(Step::Packages);
        let install = vec![
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--no-progress",
            // With its own habits npm needs more than a minute to say that there is no network.
            "--fetch-retries=2",
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
        ];
        self.run(Step::Packages, &npm, install, self.limits.packages)
    }

    fn typescript(&mut self) -> Result<(), SetupError> {
        self.npm()?;
        self.step(Step::Trial);
        let deno = program(Part::TypeScript, self.place);
        let recipe = self.recipe;
        for package in &recipe.needs {
            let bin = self.place.join("bin");
            fs::create_dir_all(&bin).map_err(SetupError::system("make", &bin))?;
            symlink(Path::new("../node_modules").join(package).join("deno"), &deno)
                .map_err(SetupError::system("make", &deno))?;
        }
        self.has(Part::TypeScript)?;
        self.run(Step::Trial, &deno, vec!["--version"], self.limits.step)
    }

    /// What browsers run is not tried here.
    fn viewer(&mut self) -> Result<(), SetupError> {
        self.npm()?;
        self.has(Part::Viewer)
    }

    fn has(&self, part: Part) -> Result<(), SetupError> {
        let program = program(part, self.place);
        if is_there(part, &program) {
            return Ok(());
        }
        let missing = std::io::ErrorKind::NotFound.into();
        Err(SetupError::system("find", &program)(missing))
    }

    fn step(&mut self, step: Step) {
        (self.tell)(Progress::Step { part: self.recipe.part, step });
    }

    fn run(
        &mut self,
        step: Step,
        program: &Path,
        arguments: Vec<&str>,
        limit: Duration,
    ) -> Result<(), SetupError> {
        let (command, ran) = self.hear(program, arguments, limit)?;
        self.judge(step, command, limit, ran)
    }

    /// Runs a program and passes on what it says. Also gives the command as one would type it.
    fn hear(
        &mut self,
        program: &Path,
        arguments: Vec<&str>,
        limit: Duration,
    ) -> Result<(String, Ran), SetupError> {
        let variables = self.variables().map_err(SetupError::system("run", program))?;
        let (directory, lock) = (self.place, self.lock);
        let order = Order { program, arguments, directory, variables, limit, lock, output: None };
        let tell = &mut *self.tell;
        let ran = child::run(&order, self.stop, &mut |text| tell(Progress::Line { text }))
            .map_err(SetupError::system("run", program))?;
        Ok((order.text(), ran))
    }

    /// What pip and npm get to see of our surroundings, and what of it is other for them.
    fn variables(&self) -> std::io::Result<Vec<(OsString, Option<OsString>)>> {
        let temporary = self.place.join(TEMPORARY);
        let path = std::env::join_paths(&self.host.path).map_err(std::io::Error::other)?;
        let set = [
            // Where matplotlib keeps what it learned about fonts; a user's home stays as it is.
            ("MPLCONFIGDIR", temporary.clone().into()),
            // A service's user may have no home that npm could keep this in.
            ("npm_config_cache", temporary.join("npm").into()),
            ("npm_config_logs_max", "0".into()),
            ("PATH", path),
            ("TMPDIR", temporary.into()),
            ("PYTHONNOUSERSITE", "1".into()),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1".into()),
            ("PIP_NO_INPUT", "1".into()),
        ];
        let removed = REMOVED.iter().map(|name| (OsString::from(name), None));
        Ok(removed.chain(set.map(|(name, value)| (name.into(), Some(value)))).collect())
    }

    fn judge(
        &self,
        step: Step,
        command: String,
        limit: Duration,
        ran: Ran,
    ) -> Result<(), SetupError> {
        let part = self.recipe.part;
        let network = sounds_unreachable(&ran.said);
        let said = ran.said.get(ran.said.len().saturating_sub(REPEATED)..).unwrap_or_default();
        let said = said.to_vec();
        match ran.end {
            End::Exited(status) if status.success() => Ok(()),
            End::Exited(status) => {
                let how = child::how(status);
                Err(SetupError::Failed { part, step, command, how, said, network })
            }
            End::TooLong => Err(SetupError::TimedOut { part, step, command, limit, said }),
            End::Stopped => Err(SetupError::Stopped),
        }
    }
}
