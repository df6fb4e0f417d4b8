//! Images without any container engine: mmdebstrap installs Debian's packages into a directory, pip
//! and npm the rest.
//!
//! It runs in namespaces of its own, so that its mounts and processes end with it. Root gets the
//! directory as it is; an ordinary user gets it as an archive out of a user namespace, unpacked as
//! that user's own files. Packages of Debian run scripts as they are installed, in that chroot and
//! those namespaces; those of Python and npm run nothing.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cofferdam_setup::Host;

use crate::definition::{Definition, Key, Kit};
use crate::error::ImageError;
use crate::machine::{self, Machine};
use crate::node;
use crate::once::once;
use crate::progress::{Progress, Step, Unit};
use crate::python::PipFiles;
use crate::run::Task;
use crate::sources;
use crate::store::{About, Changing, Image, Staging, Store};

/// How an image is made of a definition here. Another number makes all of them anew, and so does a
/// change of what is left out or of the last steps.
const RENDERER: &str = "mmdebstrap 2";

/// What is left out of packages: nobody reads it in a sandbox. Licences stay.
const LEFT_OUT: [&str; 8] = [
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/help/*",
    "path-exclude=/usr/share/gtk-doc/*",
    "path-exclude=/usr/share/lintian/*",
    // The whole image is written to the disk at once in the end.
    "force-unsafe-io",
];

/// What is run when Debian's packages are installed.
const FINISH: &str = include_str!("finish.sh");

/// The Python of each release of Debian.
pub(crate) const PYTHONS: [(&str, &str); 3] =
    [("bullseye", "3.9"), ("bookworm", "3.11"), ("trixie", "3.13")];

/// Whose number pip has while it installs: nobody's.
const PIPS_USER: &str = "62541";

/// How it goes without what is missing: jobs have no option for it, but can name what it makes.
const BY_AN_ENGINE: &str =
    "have an engine build the image: cofferdam image build NAME --with docker or podman";

/// How to get what ordinary users need.
pub(crate) const RANGES: &str = "an ordinary user needs the package uidmap and ranges of ids: \
    apt-get install uidmap, then usermod --add-subuids 100000-165535 --add-subgids 100000-165535 \
    USER; else build the image as root, or with an engine: cofferdam image build --with podman";

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildLimits {
    /// Until another process has ended that makes or removes an image.
    pub lock: Duration,
    /// Installing Debian's packages and Python's.
    pub system: Duration,
    /// Every other step.
    pub step: Duration,
}

impl Default for BuildLimits {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self { lock: minutes(90), system: minutes(60), step: minutes(15) }
    }
}

/// An image to be made with mmdebstrap. Its functions wait for programs and belong on a thread that
/// may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bootstrap<'a> {
    /// What it is to consist of.
    pub definition: &'a Definition,
    /// Where it goes.
    pub store: &'a Store,
    /// Where this machine's programs are.
    pub host: &'a Host,
    /// Now, in seconds since 1970.
    pub now: u64,
    /// How long things may take.
    pub limits: BuildLimits,
    /// Set when somebody wants it to stop; soon after, it has.
    pub stop: &'a AtomicBool,
}

impl Bootstrap<'_> {
    /// The key that the image has, made or not.
    ///
    /// # Errors
    /// When the definition makes no sense, or there is no such image for this machine.
    pub fn key(&self) -> Result<Key, ImageError> {
        self.definition.check()?;
        with_python(self.definition)?.key(&renderer())
    }

    /// Makes the image, unless it is there.
    ///
    /// # Errors
    /// When it cannot be made; then nothing of it is left.
    pub fn build(&self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Image, ImageError> {
        self.definition.check()?;
        let definition = with_python(self.definition)?;
        let key = definition.key(&renderer())?;
        let make = |changing: &Changing, tell: &mut dyn FnMut(Progress<'_>)| {
            self.make(changing, &definition, key.clone(), tell)
        };
        let named = (definition.name.as_str(), &key);
        once(self.store, named, self.limits.lock, self.stop, tell, make)
    }

    fn make(
        &self,
        changing: &Changing,
        definition: &Definition,
        key: Key,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Image, ImageError> {
        tell(Progress::Step(Step::Look));
        let tools = self.look(definition)?;
        let sources = sources::for_suite(Path::new("/etc"), &definition.suite)?;
        let staging = changing.stage()?;
        let build = build_directory(&staging)?;
        let work = build.join("cofferdam");
        fs::create_dir(&work).map_err(ImageError::system("make", &work))?;
        write(&build.join("debian.sources"), &sources)?;
        write(&work.join("finish.sh"), FINISH)?;
        let machine = Machine::here();
        Self::prepare_python(definition, &machine, &work)?;
        self.install_node(definition, &tools, &staging, &work, tell)?;
        tell(Progress::Step(Step::System));
        self.install_system(definition, &tools, &machine, (&staging, &build), tell)?;
        tell(Progress::Step(Step::Clean));
        clean(&staging.root())?;
        tell(Progress::Step(Step::Keep));
        let about = About {
            key,
            made_with: "mmdebstrap".to_owned(),
            made_at: self.now,
            env: definition.env.clone(),
            definition: Some(definition.clone()),
        };
        staging.keep(&definition.name, about)
    }

    /// The programs that it takes.
    fn look(&self, definition: &Definition) -> Result<Tools, ImageError> {
        let path = path(self.host);
        let program = |name: &str, package: &str| {
            let there =
                path.iter().map(|directory| directory.join(name)).find(|path| path.is_file());
            there.ok_or_else(|| ImageError::Missing {
                what: format!("there is no {name} on this machine"),
                help: format!("install it: apt-get install {package}"),
            })
        };
        let mmdebstrap = program("mmdebstrap", "mmdebstrap").map_err(|error| match error {
            ImageError::Missing { what, help } => {
                ImageError::Missing { what, help: format!("{help}; or {BY_AN_ENGINE}") }
            }
            other => other,
        })?;
        let npm = match node::projects(definition)?.is_empty() {
            true => None,
            false => Some(program("npm", "npm")?),
        };
        let apt_config = program("apt-config", "apt")?;
        let root = rustix::process::geteuid().is_root();
        if !root && (program("newuidmap", "uidmap").is_err() || !has_ranges(Path::new("/etc"))) {
            let what = "this user cannot make files of other users".to_owned();
            return Err(ImageError::Missing { what, help: RANGES.to_owned() });
        }
        Ok(Tools { mmdebstrap, npm, apt_config, path, root })
    }

    /// What pip is to install, and what it needs for that.
    fn prepare_python(
        definition: &Definition,
        machine: &Machine<'_>,
        work: &Path,
    ) -> Result<(), ImageError> {
        let Some(files) = PipFiles::of(definition)? else { return Ok(()) };
        write(&work.join("requirements.txt"), &lines(&files.requirements))?;
        write(&work.join("constraints.txt"), &lines(&files.constraints))?;
        machine.lend(work)
    }

    fn install_node(
        &self,
        definition: &Definition,
        tools: &Tools,
        staging: &Staging<'_>,
        work: &Path,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), ImageError> {
        let projects = node::projects(definition)?;
        let Some(npm) = tools.npm.as_ref().filter(|_| !projects.is_empty()) else { return Ok(()) };
        tell(Progress::Step(Step::Packages));
        let cache = staging.place().join("npm-cache");
        for project in &projects {
            let directory = project.prepare(&work.join("node"))?;
            let set = [("npm_config_cache".into(), Some(cache.clone().into()))];
            // npm's own place is where it finds settings for everybody.
            let unset = ["NODE_OPTIONS", "NODE_PATH", "npm_config_global", "npm_config_prefix"];
            let task = Task {
                step: Step::Packages,
                program: npm,
                arguments: project.arguments(),
                called: "npm",
                directory: &directory,
                variables: unset.map(|name| (name.into(), None)).into_iter().chain(set).collect(),
                limit: self.limits.step,
                lock: staging.lock(),
                output: None,
            };
            task.run(self.stop, &mut |line| tell(Progress::Line(line)))?;
            project.link(&work.join("node"), &work.join("bin"))?;
        }
        crate::store::remove(&cache)
    }

    fn install_system(
        &self,
        definition: &Definition,
        tools: &Tools,
        machine: &Machine<'_>,
        (staging, build): (&Staging<'_>, &Path),
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), ImageError> {
        let variables = || {
            let variables = machine.variables(&tools.path);
            variables.map_err(ImageError::system("run", &tools.mmdebstrap))
        };
        let task = Task {
            step: Step::Look,
            program: &tools.apt_config,
            arguments: vec!["dump", "Acquire"],
            called: "apt-config dump",
            directory: staging.place(),
            variables: variables()?,
            limit: self.limits.step,
            lock: staging.lock(),
            output: None,
        };
        let mut dump = Vec::new();
        task.run(self.stop, &mut |line| dump.push(line.to_owned()))?;
        let options = build.join("apt.conf");
        write(
            &options,
            &format!("Acquire::Languages \"none\";\n{}", machine::about_fetching(&dump)),
        )?;

        let root = staging.root();
        let include = format!("--include={}", packages(definition).join(","));
        let target = if tools.root { root.display().to_string() } else { "-".to_owned() };
        let left_out: Vec<String> =
            LEFT_OUT.iter().map(|option| format!("--dpkgopt={option}")).collect();
        let mut arguments = vec![
            "--mode=unshare",
            "--variant=apt",
            "--verbose",
            if tools.root { "--format=directory" } else { "--format=tar" },
            "--aptopt=apt.conf",
            &include,
        ];
        arguments.extend(left_out.iter().map(String::as_str));
        arguments.extend([
            "--customize-hook=copy-in cofferdam /tmp",
            "--customize-hook=sh \"$1/tmp/cofferdam/finish.sh\" \"$1\"",
            &definition.suite,
            &target,
            "debian.sources",
        ]);
        let mut variables = variables()?;
        variables.push(("COFFERDAM_USER".into(), Some(PIPS_USER.into())));
        // Root's programs get at what is staged; the users of a namespace get into no home.
        let elsewhere = if tools.root { None } else { Some(staging.elsewhere()?) };
        let temporary = match &elsewhere {
            Some(elsewhere) => elsewhere.path().to_owned(),
            None => {
                let place = staging.place().join("tmp");
                fs::create_dir(&place).map_err(ImageError::system("make", &place))?;
                place
            }
        };
        variables.push(("TMPDIR".into(), Some(temporary.into())));
        let task = Task {
            step: Step::System,
            program: &tools.mmdebstrap,
            arguments,
            called: "mmdebstrap",
            directory: build,
            variables,
            limit: self.limits.system,
            lock: staging.lock(),
            output: None,
        };
        let mut count = Count::default();
        let mut hear = |line: &str| {
            tell(Progress::Line(line));
            if let Some((done, of)) = count.hear(line) {
                tell(Progress::Part { done, of, unit: Unit::Packages });
            }
        };
        match tools.root {
            true => task.run(self.stop, &mut hear).map(drop),
            false => unpacked(&root, |output| {
                Task { output: Some(output), ..task }.run(self.stop, &mut hear)
            }),
        }
    }
}

/// All that makes a difference to what becomes of a definition.
fn renderer() -> String {
    [RENDERER, &LEFT_OUT.join("\n"), FINISH].join("\n")
}

/// Programs of this machine.
struct Tools {
    mmdebstrap: PathBuf,
    npm: Option<PathBuf>,
    apt_config: PathBuf,
    path: Vec<PathBuf>,
    root: bool,
}

/// Where programs are: for ordinary users too, those of the system's administration.
fn path(host: &Host) -> Vec<PathBuf> {
    let mut path = host.path.clone();
    for more in ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"] {
        if !path.iter().any(|there| there == Path::new(more)) {
            path.push(more.into());
        }
    }
    path
}

/// A definition whose release has the Python that it wants.
fn with_python(definition: &Definition) -> Result<Definition, ImageError> {
    let mut definition = definition.clone();
    let Some(wanted) = &definition.python else { return Ok(definition) };
    let own = PYTHONS.iter().find(|(suite, _)| *suite == definition.suite);
    if own.is_some_and(|(_, version)| version == wanted) {
        return Ok(definition);
    }
    match PYTHONS.iter().find(|(_, version)| version == wanted) {
        Some((suite, _)) => {
            definition.suite = (*suite).to_owned();
            Ok(definition)
        }
        None => Err(ImageError::Missing {
            what: format!("no release of Debian has Python {wanted}"),
            help: format!(
                "one of: {}; or {BY_AN_ENGINE}",
                PYTHONS.map(|(_, version)| version).join(", ")
            ),
        }),
    }
}

/// Debian's packages, with those that what else is installed needs.
pub(crate) fn packages(definition: &Definition) -> Vec<&str> {
    let mut packages: Vec<&str> = definition.apt.iter().map(String::as_str).collect();
    let mut also = |package: &'static str| {
        if !packages.contains(&package) {
            packages.push(package);
        }
    };
    if definition.parts.contains(&Kit::Python) || !definition.pip.is_empty() {
        also("python3-pip");
        // Kernelspecs name `python`.
        also("python-is-python3");
    }
    if definition.python.is_some() {
        also("python3");
    }
    if !definition.npm.is_empty() {
        also("nodejs");
    }
    packages
}

/// Whether this user has ranges of ids to give to others.
fn has_ranges(etc: &Path) -> bool {
    let number = rustix::process::getuid().as_raw().to_string();
    let users = fs::read_to_string(etc.join("passwd")).unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then_some(name)
    });
    ["subuid", "subgid"].iter().all(|file| {
        let ranges = fs::read_to_string(etc.join(file)).unwrap_or_default();
        let mut owners = ranges.lines().filter_map(|line| line.split(':').next());
        owners.any(|owner| owner == number || Some(owner) == name)
    })
}

/// How many packages are installed, by what dpkg says.
#[derive(Default)]
pub(crate) struct Count {
    of: u64,
    unpacked: u64,
    done: u64,
}

impl Count {
    /// How many of how many are done, when a line changes that.
    pub(crate) fn hear(&mut self, line: &str) -> Option<(u64, u64)> {
        if let Some((_, rest)) = line.split_once(" upgraded, ") {
            let number = rest.split(' ').next().and_then(|number| number.parse::<u64>().ok());
            self.of += number.filter(|_| rest.contains("newly installed"))?;
        } else if line.starts_with("Unpacking ") {
            self.unpacked += 1;
        } else if line.starts_with("Setting up ") {
            self.done += 1;
        } else {
            return None;
        }
        // The first packages are unpacked without a word.
        let unpacked = self.unpacked.max(self.done);
        Some((((unpacked + self.done) / 2).min(self.of), self.of))
    }
}

/// Takes out what mmdebstrap leaves for a machine that boots, once nothing is mounted there any
/// more: devices, and what belongs into directories that every sandbox has of its own.
fn clean(root: &Path) -> Result<(), ImageError> {
    for name in ["dev", "proc", "sys", "run", "tmp", "var/tmp", "var/lib/apt/lists"] {
        let place = root.join(name);
        let about = place.symlink_metadata();
        if about.is_ok_and(|about| about.is_dir()) {
            crate::store::remove(&place)?;
        }
        match fs::create_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ImageError::system("make", &place)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where mmdebstrap runs: the users of its namespace are others to the system, and have to read
/// what is there; who is not there already does not get to it.
fn build_directory(staging: &Staging<'_>) -> Result<PathBuf, ImageError> {
    let place = staging.place().join("build");
    let open = fs::Permissions::from_mode(0o755);
    let made = fs::create_dir(&place).and_then(|()| fs::set_permissions(&place, open));
    made.map_err(ImageError::system("make", &place))?;
    Ok(place)
}

fn lines(list: &[String]) -> String {
    list.iter().map(|line| format!("{line}\n")).collect()
}

fn write(path: &Path, text: &str) -> Result<(), ImageError> {
    fs::write(path, text).map_err(ImageError::system("write", path))
}

/// Unpacks the archive that a program writes while it writes it.
fn unpacked(
    root: &Path,
    run: impl FnOnce(&File) -> Result<Vec<String>, ImageError>,
) -> Result<(), ImageError> {
    fs::create_dir(root).map_err(ImageError::system("make", root))?;
    let (reader, writer) = io::pipe().map_err(ImageError::system("make a pipe for", root))?;
    let output = File::from(std::os::fd::OwnedFd::from(writer));
    std::thread::scope(|scope| {
        let unpacking = scope.spawn(|| crate::plain::unpack(reader, root));
        let ran = run(&output);
        // The end of the archive.
        drop(output);
        let unpacked = unpacking.join().unwrap_or(Err(ImageError::Stopped));
        // A full disk breaks the pipe, and is what is to be told.
        match (ran, unpacked) {
            (_, Err(error @ ImageError::Full { .. })) | (Err(error), _) | (Ok(_), Err(error)) => {
                Err(error)
            }
            (Ok(_), Ok(())) => Ok(()),
        }
    })
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;
