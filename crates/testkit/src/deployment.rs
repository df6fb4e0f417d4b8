//! What is needed to try the files for `docker compose` where no image can be pulled: an image
//! of Debian to put in place of those that they name, and a client, both from Debian's packages.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use cofferdam_images::{Bootstrap, BuildLimits, Definition, Image, ImageError, Progress, Store};
use cofferdam_setup::Host;

/// The release whose client knows what the files ask for, with the programs of a server and of
/// a database.
const DEFINITION: &str = r#"
name = "deployment"
suite = "trixie"
apt = ["ca-certificates", "curl", "docker-compose", "passwd", "postgresql", "python3"]
"#;

/// Where the client is in it.
const CLIENT: &str = "usr/libexec/docker/cli-plugins/docker-compose";

/// A root directory with Debian, PostgreSQL, and a client.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// The root directory.
    pub root: PathBuf,
}

impl Deployment {
    /// The directory, made when it is first asked for and when its definition is another: that
    /// takes a minute and half a gigabyte below `target`.
    ///
    /// # Errors
    /// When there is no mmdebstrap, or no mirror of Debian can be reached.
    pub fn for_tests() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
        let store = Store::in_home(&target.join("deployment-image"));
        let image = build(&store).map_err(|error| {
            let help = error.help().unwrap_or_default();
            io::Error::other(format!("{error}\nhelp: {help}"))
        })?;
        Ok(Self { root: image.root })
    }

    /// Adds the client to what Docker's command line can do, for a user with this home.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn install_client(&self, home: &Path) -> io::Result<()> {
        let plugins = home.join(".docker/cli-plugins");
        fs::create_dir_all(&plugins)?;
        let client = plugins.join("docker-compose");
        fs::copy(self.root.join(CLIENT), &client)?;
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755))
    }

    /// Has Docker keep the directory as an image of this name.
    ///
    /// # Errors
    /// When it does not.
    #[expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
    pub fn import(&self, name: &str, environment: &[(String, String)]) -> io::Result<()> {
        let mut archive = Command::new("tar")
            .arg("--directory")
            .arg(&self.root)
            .args(["--create", "--numeric-owner", "."])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = archive.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let imported = Command::new("docker")
            .args(["import", "-", name])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(input)
            .output()?;
        if archive.wait()?.success() && imported.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&imported.stderr).into_owned()))
    }

    /// Where its PostgreSQL has its programs, seen from inside.
    ///
    /// # Errors
    /// When it has none.
    pub fn postgres_programs(&self) -> io::Result<String> {
        let version = self.root.join("usr/lib/postgresql").read_dir()?.next();
        let version = version.ok_or(io::ErrorKind::NotFound)??.file_name();
        Ok(format!("/usr/lib/postgresql/{}/bin", version.display()))
    }
}

/// Two tests at once build it once: the store's lock sees to that.
fn build(store: &Store) -> Result<Image, ImageError> {
    let definition = Definition::parse(DEFINITION)?;
    let host = Host::here(std::env::var_os("PATH").as_ref());
    let (limits, stop) = (BuildLimits::default(), AtomicBool::new(false));
    let bootstrap =
        Bootstrap { definition: &definition, store, host: &host, now: now(), limits, stop: &stop };
    let mut making = false;
    let image = bootstrap.build(&mut |told| making |= matches!(told, Progress::Step(_)))?;
    if making {
        // Nobody needs one of another definition.
        store.change(Duration::from_secs(60), &stop, &mut || {})?.prune(false)?;
    }
    Ok(image)
}

#[expect(clippy::disallowed_methods, reason = "tests are where time comes from")]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
