//! Images that real engines build and save.
//!
//! No registry is asked for a base: one is made with mmdebstrap, once, and kept below `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cofferdam_images::{
    Bootstrap, BuildLimits, Builder, Definition, EngineBuild, Image, ImageError, Import, Naming,
    Needs, Progress, Store, UnpackLimits, usual_base,
};
use cofferdam_sandbox::{Root, Sandbox, Spec};
use cofferdam_sandbox_native::Native;
use cofferdam_setup::Host;
use cofferdam_testkit::{DockerDaemon, engine, podman_environment};
use tempfile::TempDir;

use crate::archives::Tar;

/// The root directory of a small Debian with most of what these tests install.
fn base() -> PathBuf {
    let store = Store::in_home(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let text = "name = \"base\"\nsuite = \"bookworm\"\napt = [\"git\", \"python3-pip\"]";
    let definition = Definition::parse(text).unwrap();
    let host = Host::here(std::env::var_os("PATH").as_ref());
    let (limits, stop) = (BuildLimits::default(), AtomicBool::new(false));
    let (definition, store, host, stop) = (&definition, &store, &host, &stop);
    Bootstrap { definition, store, host, now: 0, limits, stop }.build(&mut |_| {}).unwrap().root
}

/// An engine for one test, which leaves nothing behind.
struct Lab {
    builder: Builder,
    environment: Vec<(String, String)>,
    store: Store,
    /// Ends before its directory goes.
    _daemon: Option<DockerDaemon>,
    directory: TempDir,
}

impl Lab {
    fn new(builder: Builder) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: a daemon, or files of other users, need root");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("cofferdam-images-").tempdir().unwrap();
        let place = directory.path();
        let daemon = (builder == Builder::Docker).then(|| DockerDaemon::start(place, &[]).unwrap());
        let environment = match &daemon {
            Some(daemon) => daemon.environment(),
            None => podman_environment(place).unwrap(),
        };
        let store = Store::in_home(&place.join("home"));
        Some(Self { builder, environment, store, _daemon: daemon, directory })
    }

    fn says(&self, words: &[&str]) -> String {
        let said = engine(self.builder.name(), words, &self.environment).unwrap();
        said.unwrap_or_else(|| panic!("{words:?} failed"))
    }

    /// Has the engine import an archive from a program's output.
    fn import(&self, archive: Stdio, name: &str) {
        let status = Command::new(self.builder.name())
            .args(["import", "-", name])
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(archive)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// The engine gets the base under the name that builds ask for.
    fn import_base(&self, definition: &Definition) {
        let mut tar = Command::new("tar")
            .args(["--create", "--directory"])
            .arg(base())
            .arg(".")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        self.import(Stdio::from(tar.stdout.take().unwrap()), &usual_base(definition));
        assert!(tar.wait().unwrap().success());
    }

    fn build(
        &self,
        definition: &Definition,
        environment: &[(String, String)],
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Image, ImageError> {
        let build = EngineBuild {
            definition,
            store: &self.store,
            builder: self.builder,
            base: None,
            environment,
            now: 7,
            limits: BuildLimits::default(),
            unpack: UnpackLimits::default(),
            stop,
        };
        build.build(tell)
    }

    /// What is left of images in the engine under our names.
    fn tags(&self) -> Vec<String> {
        let said = self.says(&["images", "--format={{.Repository}}"]);
        said.lines().filter(|line| line.contains("cofferdam")).map(str::to_owned).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.builder == Builder::Podman {
            engine("podman", &["system", "reset", "--force"], &self.environment).ok();
        }
    }
}

/// What a command in a sandbox with this image prints.
fn run_in(image: &Image, place: &Path, script: &str) -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let native = Native::new(place.join("sandboxes"));
        let root = Root::Image { directory: image.root.clone(), readable: Vec::new() };
        let sandbox = Sandbox::open(&native, Spec { root, ..Spec::scratch() }).await.unwrap();
        let mut command = sandbox.shell(script);
        for (name, value) in &image.about.env {
            let (name, value) = (name.as_bytes().to_vec(), value.as_bytes().to_vec());
            command.exec.env.retain(|(known, _)| *known != name);
            command.exec.env.push((name, value));
        }
        let result = sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        sandbox.close().await.unwrap();
        let texts =
            [result.stdout, result.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        texts.concat()
    })
}

/// What a task needs becomes an image, once; a failed and a stopped build leave nothing.
fn builds_what_a_task_needs(builder: Builder) {
    let Some(lab) = Lab::new(builder) else { return };
    let workspace = tempfile::tempdir().unwrap();
    fs::write(workspace.path().join("requirements.txt"), "Six == 1.16.0\n").unwrap();
    fs::write(workspace.path().join("apt.txt"), "jq\n").unwrap();
    let definition = Needs::of_workspace(workspace.path()).unwrap().definition().unwrap();
    lab.import_base(&definition);
    let go = AtomicBool::new(false);
    let mut lines = Vec::new();
    let image = lab
        .build(&definition, &lab.environment, &go, &mut |progress| {
            if let Progress::Line(line) = progress {
                lines.push(line.to_owned());
            }
        })
        .unwrap_or_else(|error| panic!("{error}\n{:?}\n{}", error.help(), lines.join("\n")));
    assert_eq!(image.about.made_with, builder.name());
    assert_eq!(image.about.env.get("PYTHONPATH").map(String::as_str), Some("/workspace"));
    let script = "jq --version; python3 -c 'import six, sys; print(six.__version__, sys.path[1])'; \
                  id -un; cat /etc/hostname";
    let said = run_in(&image, lab.directory.path(), script);
    assert_eq!(said, "jq-1.6\n1.16.0 /workspace\nagent\ncofferdam\n");
    // What the machine lent is not in it, nor where packages came from.
    for path in ["run/cofferdam", "etc/apt/sources.list", "tmp/requirements.txt", "dev/null"] {
        assert!(image.root.join(path).symlink_metadata().is_err(), "{path}");
    }
    assert_eq!(fs::read(image.root.join("etc/resolv.conf")).unwrap(), b"");
    let sources = image.root.join("etc/apt/sources.list.d").read_dir().unwrap().count();
    assert_eq!(sources, 0);
    assert_eq!(lab.tags(), [""; 0]);
    // The same needs: no engine is asked, so none has to be there.
    fs::write(workspace.path().join("requirements.txt"), "six==1.16.0 # the same\n").unwrap();
    let same = Needs::of_workspace(workspace.path()).unwrap().definition().unwrap();
    let nowhere = [("PATH".to_owned(), "/nonexistent".to_owned())];
    let begun = Instant::now();
    let again = lab.build(&same, &nowhere, &go, &mut |progress| {
        assert!(matches!(progress, Progress::AlreadyThere { .. }), "{progress:?}");
    });
    assert_eq!(again.unwrap().root, image.root);
    assert!(begun.elapsed() < Duration::from_secs(1));
    fails_well(&lab, &definition, &image);
}

fn fails_well(lab: &Lab, definition: &Definition, image: &Image) {
    let go = AtomicBool::new(false);
    let with = |change: &dyn Fn(&mut Definition)| {
        let mut changed = definition.clone();
        change(&mut changed);
        changed
    };
    // A package that is not there.
    let unknown = with(&|changed| changed.apt.push("no-such-package".to_owned()));
    let failed = lab.build(&unknown, &lab.environment, &go, &mut |_| {}).unwrap_err();
    assert!(failed.to_string().contains("no-such-package"), "{failed}");
    assert!(failed.help().is_some_and(|help| help.contains("has no package")), "{failed:?}");
    // A base that is not there, and cannot be fetched.
    let other = with(&|changed| changed.python = Some("3.12".to_owned()));
    let failed = lab.build(&other, &lab.environment, &go, &mut |_| {}).unwrap_err();
    let help = failed.help().unwrap_or_default();
    assert!(help.contains("pull python:3.12-slim-bookworm"), "{failed}\n{help}");
    // Somebody has enough of it, as packages are installed.
    let more = with(&|changed| changed.apt.push("tree".to_owned()));
    let stop = AtomicBool::new(false);
    let stopped = lab.build(&more, &lab.environment, &stop, &mut |progress| {
        if let Progress::Line(line) = progress
            && line.contains("Setting up ")
        {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(stopped, Err(ImageError::Stopped)), "{stopped:?}");
    assert_eq!(lab.tags(), [""; 0]);
    let images = lab.store.list().unwrap();
    assert_eq!(images.iter().map(|image| &image.root).collect::<Vec<_>>(), [&image.root]);
    assert!(!lab.store.place().join(".staging").exists());
}

#[test]
fn docker_builds_what_a_task_needs() {
    builds_what_a_task_needs(Builder::Docker);
}

#[test]
fn podman_builds_what_a_task_needs() {
    builds_what_a_task_needs(Builder::Podman);
}

/// A small image with two layers goes through an engine and comes back.
fn saves_and_comes_back(builder: Builder, formats: &[&[&str]]) {
    let Some(lab) = Lab::new(builder) else { return };
    let first = Tar::new()
        .directory("usr/bin")
        .symlink("bin", "usr/bin")
        .file("usr/bin/old", "1")
        .file("kept", "1")
        .link("linked", "kept");
    let archive = lab.directory.path().join("first.tar");
    fs::write(&archive, first.bytes()).unwrap();
    lab.import(Stdio::from(fs::File::open(&archive).unwrap()), "first:1");
    let context = lab.directory.path().join("context");
    fs::create_dir(&context).unwrap();
    fs::write(context.join("new"), "2").unwrap();
    let text = "FROM first:1\nENV A=\"b c\"\nCOPY new /usr/bin/old\nCOPY new /bin/new\n";
    fs::write(context.join("Dockerfile"), text).unwrap();
    let path = context.display().to_string();
    // Without BuildKit: then it does not matter which client is there.
    let mut environment = lab.environment.clone();
    environment.push(("DOCKER_BUILDKIT".to_owned(), "0".to_owned()));
    let built = engine(builder.name(), &["build", "--tag=second:1", &path], &environment).unwrap();
    assert!(built.is_some());
    let stop = AtomicBool::new(false);
    for (number, format) in formats.iter().enumerate() {
        let file = lab.directory.path().join(format!("saved-{number}.tar"));
        let output = format!("--output={}", file.display());
        lab.says(&[&["save"], *format, &[&output, "second:1"]].concat());
        let import = |name: &str, tell: &mut dyn FnMut(Progress<'_>)| {
            let import = Import {
                archive: &file,
                name,
                naming: Naming::Chosen,
                store: &lab.store,
                now: 7,
                patience: Duration::from_secs(60),
                limits: UnpackLimits::default(),
                stop: &stop,
            };
            import.import(tell).unwrap()
        };
        let image = import("back", &mut |_| {});
        assert_eq!(image.about.made_with, "import");
        assert_eq!(image.about.env.get("A").map(String::as_str), Some("b c"));
        for (path, text) in [("usr/bin/old", "2"), ("bin/new", "2"), ("kept", "1"), ("linked", "1")]
        {
            assert_eq!(fs::read_to_string(image.root.join(path)).unwrap(), text, "{path}");
        }
        let mut told = Vec::new();
        let again = import("again", &mut |progress| told.push(format!("{progress:?}")));
        assert_eq!(
            (again.root, again.names),
            (image.root, vec!["again".to_owned(), "back".to_owned()])
        );
        assert!(told.last().is_some_and(|last| last.starts_with("AlreadyThere")), "{told:?}");
        let changing = lab.store.change(Duration::from_secs(60), &stop, &mut || {}).unwrap();
        assert_eq!(changing.prune(true).unwrap().images.len(), 1);
    }
}

#[test]
fn what_docker_saved_comes_back() {
    saves_and_comes_back(Builder::Docker, &[&[]]);
}

#[test]
fn what_podman_saved_comes_back_in_both_formats() {
    saves_and_comes_back(
        Builder::Podman,
        &[&["--format=oci-archive"], &["--format=docker-archive"]],
    );
}

#[test]
fn without_an_engine_it_is_said_what_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let (store, stop) = (Store::in_home(place.path()), AtomicBool::new(false));
    let definition = Needs::new(None, &["jq".to_owned()], &[]).unwrap().definition().unwrap();
    let build = |builder, environment: &[(String, String)]| {
        let build = EngineBuild {
            definition: &definition,
            store: &store,
            builder,
            base: None,
            environment,
            now: 7,
            limits: BuildLimits::default(),
            unpack: UnpackLimits::default(),
            stop: &stop,
        };
        let error = build.build(&mut |_| {}).unwrap_err();
        assert!(matches!(error, ImageError::Missing { .. }), "{error:?}");
        (error.to_string(), error.help().unwrap_or_default())
    };
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for builder in Builder::ALL {
        let (what, help) = build(builder, &[variable("PATH", "/nonexistent")]);
        assert_eq!(what, format!("there is no {} on this machine", builder.name()));
        assert!(help.contains("apt-get install") && help.contains("--with mmdebstrap"), "{help}");
    }
    let host = format!("unix://{}/no.sock", place.path().display());
    let (what, help) = build(Builder::Docker, &[variable("DOCKER_HOST", &host)]);
    assert!(what.starts_with("docker does not answer: ") && what.contains("no.sock"), "{what}");
    assert!(help.contains("systemctl start docker"), "{help}");
    assert_eq!(store.list().unwrap(), []);
    assert!(!store.place().join(".staging").exists());
}
