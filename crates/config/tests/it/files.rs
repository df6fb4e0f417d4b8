//! What is read from disk, and how.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cofferdam_config::{ConfigError, Flags, Settings, Sources, load};
use tempfile::TempDir;

/// A home and a project.
struct Disk {
    directory: TempDir,
}

impl Disk {
    fn new() -> Self {
        let disk = Self { directory: TempDir::new().unwrap() };
        fs::create_dir_all(disk.project().join(".cofferdam")).unwrap();
        fs::create_dir_all(disk.user_file().parent().unwrap()).unwrap();
        disk
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn user_file(&self) -> PathBuf {
        self.home().join(".config/cofferdam/config.toml")
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        fs::write(self.directory.path().join(name), text).unwrap();
        self
    }

    fn sources(&self) -> Sources {
        let environment = BTreeMap::from([("HOME".to_owned(), self.home().into())]);
        Sources { environment, project: self.project(), flags: Flags::default() }
    }

    fn load(&self) -> Settings {
        load(&self.sources()).unwrap()
    }
}

#[test]
fn all_three_files_are_read() {
    let disk = Disk::new();
    fs::write(disk.user_file(), "[model]\nretries = 1").unwrap();
    disk.write("project/.env", "MODEL=ollama/m")
        .write("project/.cofferdam/config.toml", "[model]\nmax_output = 999");
    let settings = disk.load();
    assert_eq!(settings.retries, 1);
    assert_eq!(settings.model.unwrap().0, "ollama/m");
    assert_eq!(settings.max_output, 999);
}

#[test]
fn files_that_are_not_there_are_no_error() {
    let settings = Disk::new().load();
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    let nowhere = PathBuf::from("/nonexistent");
    let sources =
        Sources { environment: BTreeMap::new(), project: nowhere, flags: Flags::default() };
    assert!(load(&sources).unwrap().warnings.is_empty());
}

#[test]
fn the_users_file_is_where_xdg_has_it() {
    let mut sources = Disk::new().sources();
    for (value, expected) in [("/xdg", Some("/xdg/cofferdam/config.toml")), ("relative", None)] {
        sources.environment.insert("XDG_CONFIG_HOME".to_owned(), value.into());
        let in_home = sources.environment.get("HOME").map(PathBuf::from).unwrap();
        let in_home = in_home.join(".config/cofferdam/config.toml");
        let expected = expected.map_or(in_home, PathBuf::from);
        assert_eq!(sources.user_file(), Some(expected));
    }
    sources.environment.clear();
    assert_eq!(sources.user_file(), None);
}

#[test]
fn the_users_file_that_cannot_be_read_is_an_error() {
    let disk = Disk::new();
    fs::create_dir(disk.user_file()).unwrap();
    assert!(matches!(load(&disk.sources()), Err(ConfigError::Read { .. })));
}

/// A link, a pipe, a directory, a huge file, bytes: none of it hangs, stops or is
/// believed.
#[test]
fn odd_files_of_the_workspace_are_told_and_ignored() {
    let secret = "MODEL=ollama/secret\n";
    type Make = fn(&Path, &Path);
    let cases: [(&str, Make); 5] = [
        ("link", |at, outside| symlink(outside, at).unwrap()),
        ("not a file", |at, _| {
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mkfifoat(rustix::fs::CWD, at, mode).unwrap();
        }),
        ("not a file", |at, _| fs::create_dir(at).unwrap()),
        ("larger", |at, _| fs::write(at, "#".repeat(2 << 20)).unwrap()),
        ("UTF-8", |at, _| fs::write(at, [b'A', b'=', 0xff]).unwrap()),
    ];
    for (why, make) in cases {
        let disk = Disk::new();
        disk.write("outside", secret);
        make(&disk.project().join(".env"), &disk.directory.path().join("outside"));
        let settings = disk.load();
        assert_eq!(settings.model, None);
        assert_eq!(settings.warnings.len(), 1, "{why}");
        assert!(settings.warnings[0].contains(why), "{:?}", settings.warnings);
    }
}

#[test]
fn a_linked_directory_of_the_workspace_is_not_followed() {
    let disk = Disk::new();
    fs::create_dir(disk.directory.path().join("elsewhere")).unwrap();
    disk.write("elsewhere/config.toml", "[model]\nmax_output = 999");
    fs::remove_dir(disk.project().join(".cofferdam")).unwrap();
    symlink("../elsewhere", disk.project().join(".cofferdam")).unwrap();
    let settings = disk.load();
    assert_eq!(settings.max_output, 16_384);
    assert!(settings.warnings[0].contains("link"), "{:?}", settings.warnings);
}

#[test]
fn a_directory_named_by_dotenv_is_not_reached_through_a_link() {
    let disk = Disk::new();
    fs::create_dir(disk.project().join("real")).unwrap();
    symlink("/", disk.project().join("out")).unwrap();
    symlink("/nonexistent/place", disk.project().join("dangling")).unwrap();
    for (value, taken) in [
        ("real", true),
        ("real/new/deep", true),
        ("new", true),
        ("out", false),
        ("out/etc", false),
        ("dangling/x", false),
    ] {
        disk.write("project/.env", &format!("SAFEDIR={value}"));
        let expected = taken.then(|| disk.project().join(value));
        assert_eq!(disk.load().workspace, expected, "{value}");
    }
}

#[test]
fn a_users_file_that_lies_in_the_workspace_is_told() {
    let disk = Disk::new();
    fs::write(disk.user_file(), "").unwrap();
    let sources = Sources { project: disk.home(), ..disk.sources() };
    let warnings = load(&sources).unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("lies in the workspace")));
}
