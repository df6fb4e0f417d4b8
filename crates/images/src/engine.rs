//! Images that a container engine builds, from a Dockerfile. The result is saved and unpacked as
//! any archive that somebody has: the engine's word is not taken for it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::bootstrap::{BuildLimits, Count};
use crate::definition::{Definition, Key};
use crate::dockerfile::{self, usual_base};
use crate::engine_words::EngineWords;
use crate::error::ImageError;
use crate::layers::UnpackLimits;
use crate::lend::{self, Apt};
use crate::machine::{self, PROXIES};
use crate::once::once;
use crate::progress::{Progress, Step, Unit};
use crate::run::Task;
use crate::settle::settle;
use crate::sources;
use crate::store::{About, Changing, Image, Staging, Store};
use crate::unpack::Unpack;

/// How long an engine may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where programs are, for a process without a PATH.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What engines say of a base that is not there.
const NO_BASE: [&str; 8] = [
    "pull access denied",
    "failed to resolve source metadata",
    "manifest unknown",
    "not found: manifest",
    "did not resolve to an alias",
    "pinging container registry",
    "no such host",
    "initializing source",
];

/// What they say on machines that do not let them raise limits.
const NO_LIMITS: [&str; 3] = ["setrlimit", "error setting rlimit", "RLIMIT_"];

/// A program that builds images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builder {
    /// Docker, with BuildKit.
    Docker,
    /// Podman.
    Podman,
}

impl Builder {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Docker, Self::Podman];

    /// Its name, which is that of its program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    fn install(self) -> String {
        let package = match self {
            Self::Docker => "docker.io",
            Self::Podman => "podman",
        };
        format!(
            "install it: apt-get install {package}; or have the image made without an engine: \
             --with mmdebstrap"
        )
    }
}

/// An image to be built by an engine. Its functions wait for programs and belong on a thread that
/// may wait.
#[derive(Clone, Copy, Debug)]
pub struct EngineBuild<'a> {
    /// What it is to consist of.
    pub definition: &'a Definition,
    /// Where it goes.
    pub store: &'a Store,
    /// Who builds it.
    pub builder: Builder,
    /// What it is built on, if not [what is usual](usual_base).
    pub base: Option<&'a str>,
    /// Variables that the engine gets besides those of this process.
    pub environment: &'a [(String, String)],
    /// Now, in seconds since 1970.
    pub now: u64,
    /// How long things may take.
    pub limits: BuildLimits,
    /// How large it may get.
    pub unpack: UnpackLimits,
    /// Set when somebody wants it to stop; soon after, it has.
    pub stop: &'a AtomicBool,
}

impl EngineBuild<'_> {
    /// The base that it is built on.
    fn base(&self) -> String {
        self.base.map(str::to_owned).unwrap_or_else(|| usual_base(self.definition))
    }

    /// The key of the image: the same, whichever engine builds it.
    ///
    /// # Errors
    /// When a part of the definition is not there for this processor.
    pub fn key(&self) -> Result<Key, ImageError> {
        self.definition.key(&dockerfile::renderer(&self.base()))
    }

    /// Builds the image, unless it is there.
    ///
    /// # Errors
    /// When it cannot be built; then nothing of it is left, here or under a name in the engine.
    pub fn build(&self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Image, ImageError> {
        let text = dockerfile::dockerfile(self.definition, &self.base())?;
        let key = self.key()?;
        let name = self.definition.name.as_str();
        once(self.store, (name, &key), self.limits.lock, self.stop, tell, |changing, tell| {
            self.make(changing, &text, key.clone(), tell)
        })
    }

    fn make(
        &self,
        changing: &Changing,
        text: &str,
        key: Key,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Image, ImageError> {
        tell(Progress::Step(Step::Look));
        let staging = changing.stage()?;
        let engine = self.look(&staging)?;
        let work = staging.place().join("engine");
        let (context, lent) = (work.join("context"), work.join("lent"));
        for place in [&work, &context, &lent] {
            fs::create_dir(place).map_err(ImageError::system("make", place))?;
        }
        // Where engines find it by themselves: Podman takes a comma in its path for an end.
        let path = context.join("Dockerfile");
        fs::write(&path, text).map_err(ImageError::system("write", &path))?;
        let variable = |name: &str| self.variable(name);
        let lent = lend::lend(&lent, &self.apt(&staging)?, &variable)?;
        for without in &lent.without {
            tell(Progress::Without(without));
        }
        tell(Progress::Step(Step::Engine));
        let tag = format!("cofferdam-image:{}", key.short());
        let mut words = engine.words.of_build();
        words.push(format!("--tag={tag}"));
        for (id, path) in &lent.files {
            // From where the engine runs: in the path of a home there may be commas.
            let path = path.strip_prefix(staging.place()).unwrap_or(path);
            words.push(format!("--secret=id={id},src={}", path.display()));
        }
        // Engines take them for a build, and keep them out of the image.
        let proxies = PROXIES.iter().filter(|name| self.variable(name).is_some());
        words.extend(proxies.map(|name| format!("--build-arg={name}")));
        words.push(context.display().to_string());
        let archive = work.join("image.tar");
        let built = self
            .run(&engine, &staging, "build", &words, tell)
            .map_err(|error| self.explained(error));
        let saved = built.and_then(|()| {
            let save = [format!("--output={}", archive.display()), tag.clone()];
            self.run(&engine, &staging, "save", &save, tell)
        });
        self.forget(&engine, &staging, &tag);
        saved?;
        let unpack = Unpack { archive: &archive, limits: self.unpack, stop: self.stop };
        let unpacked = unpack.into_directory(&staging.root(), tell)?;
        fs::remove_file(&archive).map_err(ImageError::system("remove", &archive))?;
        tell(Progress::Step(Step::Clean));
        settle(&staging.root())?;
        tell(Progress::Step(Step::Keep));
        let about = About {
            key,
            made_with: self.builder.name().to_owned(),
            made_at: self.now,
            env: unpacked.env,
            definition: Some(self.definition.clone()),
        };
        staging.keep(&self.definition.name, about)
    }

    /// A variable of the engine's.
    fn variable(&self, name: &str) -> Option<OsString> {
        let own = self.environment.iter().find(|(other, _)| other == name);
        let own = own.map(|(_, value)| OsString::from(value));
        own.or_else(|| std::env::var_os(name)).filter(|value| !value.is_empty())
    }

    fn variables(&self) -> Vec<(OsString, Option<OsString>)> {
        let own = self.environment.iter().map(|(name, value)| (name.into(), Some(value.into())));
        // Steps are asked for as lines, and secrets exist with BuildKit only.
        let set = [("DOCKER_BUILDKIT", "1"), ("BUILDKIT_PROGRESS", "plain")];
        own.chain(set.map(|(name, value)| (name.into(), Some(value.into())))).collect()
    }

    /// Every program of this name.
    fn programs(&self, name: &str) -> Vec<PathBuf> {
        let path = self.variable("PATH").unwrap_or_else(|| USUAL_PATH.into());
        self.programs_in(name, &path)
    }

    fn programs_in(&self, name: &str, path: &OsStr) -> Vec<PathBuf> {
        let everywhere: Vec<PathBuf> = std::env::split_paths(path).collect();
        let mut programs: Vec<PathBuf> = Vec::new();
        for program in everywhere.iter().map(|directory| directory.join(name)) {
            let known = programs.contains(&program);
            if !known && program.is_absolute() && program.is_file() {
                programs.push(program);
            }
        }
        programs
    }

    /// Finds the engine's program and asks whether it can build.
    fn look(&self, staging: &Staging<'_>) -> Result<Engine, ImageError> {
        let name = self.builder.name();
        let programs = self.programs(name);
        let Some(first) = programs.first() else {
            return Err(ImageError::Missing {
                what: format!("there is no {name} on this machine"),
                help: self.builder.install(),
            });
        };
        // Runtimes are root's, and a user's PATH may lack where root's programs are.
        let runc = self.programs_in("runc", OsStr::new(USUAL_PATH));
        let words = EngineWords::here(self.builder, runc.first());
        if self.builder == Builder::Podman {
            let program = first.clone();
            self.ask(&program, staging, &["version"]).map_err(|error| self.unusable(&error))?;
            return Ok(Engine { program, words });
        }
        // Several clients may be installed, and not every one of them has BuildKit.
        for program in &programs {
            let version = self.ask(program, staging, &["version", "--format={{.Client.Version}}"]);
            let old = version.as_ref().ok().and_then(|said| major(said)).is_some_and(|it| it < 23);
            if old || self.ask(program, staging, &["buildx", "version"]).is_ok() {
                let asked = ["version", "--format={{.Server.Version}}"];
                self.ask(program, staging, &asked).map_err(|error| self.unusable(&error))?;
                return Ok(Engine { program: program.clone(), words });
            }
            if matches!(version, Err(ImageError::Stopped)) {
                return Err(ImageError::Stopped);
            }
        }
        // One that cannot even be asked has another ailment.
        let asked = ["version", "--format={{.Server.Version}}"];
        self.ask(first, staging, &asked).map_err(|error| self.unusable(&error))?;
        Err(ImageError::Missing {
            what: format!("{} cannot build with BuildKit: it has no buildx", first.display()),
            help: "install it: apt-get install docker-buildx, or docker-buildx-plugin; or use \
                   --with podman or mmdebstrap"
                .to_owned(),
        })
    }

    fn ask(
        &self,
        program: &Path,
        staging: &Staging<'_>,
        words: &[&str],
    ) -> Result<Vec<String>, ImageError> {
        let task = Task {
            step: Step::Look,
            program,
            arguments: words.to_vec(),
            called: self.builder.name(),
            directory: staging.place(),
            variables: self.variables(),
            limit: PATIENCE.min(self.limits.step),
            lock: staging.lock(),
            output: None,
        };
        task.run(self.stop, &mut |_| {})
    }

    /// What an engine that does not answer lacks.
    fn unusable(&self, error: &ImageError) -> ImageError {
        let said = match error {
            ImageError::Stopped => return ImageError::Stopped,
            ImageError::Failed { said, how, .. } => said.last().unwrap_or(how).clone(),
            other => other.to_string(),
        };
        let name = self.builder.name();
        let help = match self.builder {
            Builder::Docker => {
                "start it: systemctl start docker; an ordinary user has to be in the group docker, \
                 and another daemon is named by DOCKER_HOST; or use --with podman or mmdebstrap"
            }
            Builder::Podman => "try `podman info`; or use --with docker or mmdebstrap",
        };
        ImageError::Missing {
            what: format!("{name} does not answer: {said}"),
            help: help.to_owned(),
        }
    }

    /// How apt fetches on this machine. The base of our choice is of the release that is wanted,
    /// so the machine's sources for that will do.
    fn apt(&self, staging: &Staging<'_>) -> Result<Apt, ImageError> {
        let mut settings = "Acquire::Languages \"none\";\n".to_owned();
        if let Some(program) = self.programs("apt-config").first() {
            let mut dump = Vec::new();
            let task = Task {
                step: Step::Look,
                program,
                arguments: vec!["dump", "Acquire"],
                called: "apt-config",
                directory: staging.place(),
                variables: self.variables(),
                limit: PATIENCE,
                lock: staging.lock(),
                output: None,
            };
            match task.run(self.stop, &mut |line| dump.push(line.to_owned())) {
                Err(ImageError::Stopped) => return Err(ImageError::Stopped),
                // Then fetching is as the base does it.
                _ => settings.push_str(&machine::about_fetching(&dump)),
            }
        }
        let sources = match self.base {
            Some(_) => None,
            None => sources::for_suite(Path::new("/etc"), &self.definition.suite).ok(),
        };
        Ok(Apt { settings, sources: sources.filter(|text| has_keys(text)) })
    }

    /// Takes the name from what was built: the engine remembers its steps, and the name is of no
    /// more use. That is done after a stop as well, and an image that is good without it is kept.
    fn forget(&self, engine: &Engine, staging: &Staging<'_>, tag: &str) {
        let called = format!("{} rmi", self.builder.name());
        let words = ["rmi", "--no-prune", tag];
        let task = self.task(engine, staging, (&called, &words), PATIENCE.min(self.limits.step));
        let never = AtomicBool::new(false);
        drop(task.run(&never, &mut |_| {}));
    }

    /// Something that the engine is to do.
    fn task<'a>(
        &self,
        engine: &'a Engine,
        staging: &'a Staging<'_>,
        (called, words): (&'a str, &[&'a str]),
        limit: Duration,
    ) -> Task<'a> {
        let global = engine.words.of_all().iter().map(String::as_str);
        Task {
            step: Step::Engine,
            program: &engine.program,
            arguments: global.chain(words.iter().copied()).collect(),
            called,
            directory: staging.place(),
            variables: self.variables(),
            limit,
            lock: staging.lock(),
            output: None,
        }
    }

    fn run(
        &self,
        engine: &Engine,
        staging: &Staging<'_>,
        verb: &'static str,
        words: &[String],
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), ImageError> {
        let called = format!("{} {verb}", self.builder.name());
        let limit = if verb == "build" { self.limits.system } else { self.limits.step };
        let words: Vec<&str> =
            std::iter::once(verb).chain(words.iter().map(String::as_str)).collect();
        let task = self.task(engine, staging, (&called, &words), limit);
        let mut count = Count::default();
        let mut hear = |line: &str| {
            tell(Progress::Line(line));
            if let Some((done, of)) = count.hear(plain(line)) {
                tell(Progress::Part { done, of, unit: Unit::Packages });
            }
        };
        task.run(self.stop, &mut hear).map(drop)
    }

    /// A failed build with what to do about it.
    fn explained(&self, error: ImageError) -> ImageError {
        let ImageError::Failed { step, command, how, said, help } = error else { return error };
        let has =
            |words: &[&str]| said.iter().any(|line| words.iter().any(|word| line.contains(word)));
        let (name, base) = (self.builder.name(), self.base());
        let help = if has(&NO_BASE) {
            Some(format!(
                "the image {base} has to be there or to be pulled: {name} pull {base}; or build on \
                 another that you have: --base"
            ))
        } else if has(&NO_LIMITS) {
            Some(format!(
                "this machine does not let {name} set limits of processes: set default_ulimits in \
                 containers.conf to what `ulimit -Hn` and `ulimit -Hu` say; or use --with mmdebstrap"
            ))
        } else {
            help
        };
        ImageError::Failed { step, command, how, said, help }
    }
}

/// An engine that can build.
struct Engine {
    program: PathBuf,
    words: EngineWords,
}

/// The first number of a version.
fn major(said: &[String]) -> Option<u32> {
    said.iter().find_map(|line| line.trim().split('.').next()?.parse().ok())
}

/// A line of a step without what BuildKit puts before it: `#5 12.3 `.
fn plain(line: &str) -> &str {
    let Some(rest) = line.strip_prefix('#') else { return line };
    rest.splitn(3, ' ').nth(2).unwrap_or(line)
}

/// Whether every key that sources are signed with is one that bases have.
fn has_keys(sources: &str) -> bool {
    let keys = sources.lines().filter_map(|line| line.strip_prefix("Signed-By:"));
    let usual = |key: &str| key.starts_with("/usr/share/keyrings/debian-archive-");
    keys.flat_map(str::split_whitespace).filter(|key| key.starts_with('/')).all(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_steps_are_read_whatever_the_engine() {
        assert_eq!(plain("#5 12.3 Setting up git (1:2)"), "Setting up git (1:2)");
        assert_eq!(plain("Setting up git (1:2)"), "Setting up git (1:2)");
        assert_eq!(plain("#5 DONE"), "#5 DONE");
        assert_eq!(major(&["28.2.2".to_owned()]), Some(28));
        assert_eq!(major(&["x".to_owned(), "20.10.24+dfsg1".to_owned()]), Some(20));
    }

    #[test]
    fn sources_are_lent_only_with_keys_that_bases_have() {
        assert!(has_keys("Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"));
        assert!(has_keys("Signed-By: \n -----BEGIN\n .\n =abc\n"));
        assert!(!has_keys("Signed-By: /etc/apt/keyrings/own.gpg\n"));
    }
}
