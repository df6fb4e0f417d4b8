//! The same tests as an ordinary user, when root runs them.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

/// Who runs the tests again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrdinaryUser {
    /// One that exists nowhere.
    Unknown,
    /// One that every machine has and that owns nothing, with a range of ids beside its own.
    WithRange,
}

impl OrdinaryUser {
    fn number(self) -> u32 {
        match self {
            Self::Unknown => 64_017,
            Self::WithRange => 65_534,
        }
    }

    /// Runs tests of this program again as this user; what they said, if all of them ran and
    /// passed. Does nothing where the tests already run as an ordinary user.
    ///
    /// # Errors
    /// When they fail, with what they said.
    pub fn runs(self, tests: &[&str]) -> io::Result<String> {
        if !geteuid().is_root() {
            return Ok("these tests already run as an ordinary user".to_owned());
        }
        let place = tempfile::tempdir()?;
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        let program = place.path().join("tests");
        fs::copy(std::env::current_exe()?, &program)?;
        let home = place.path().join("home");
        fs::create_dir(&home)?;
        chown(&home, Some(self.number()), Some(self.number()))?;
        let output = self
            .command(&program, place.path())?
            .args(tests)
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .env("HOME", &home)
            .env("TMPDIR", &home)
            .current_dir(&home)
            .stdin(Stdio::null())
            .output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        // One that is not there passes as well.
        if output.status.success() && text.contains(&format!("{} passed", tests.len())) {
            return Ok(text);
        }
        Err(io::Error::other(format!("as an ordinary user: {}\n{text}", output.status)))
    }

    #[expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
    fn command(self, program: &Path, place: &Path) -> io::Result<Command> {
        let user = self.number();
        if self == Self::Unknown {
            let mut command = Command::new(program);
            // Which also drops root's groups.
            command.uid(user).gid(user);
            return Ok(command);
        }
        let ranges = place.join("ranges");
        fs::write(&ranges, "nobody:1800000000:65536\n")?;
        let ranges = ranges.display();
        // The machine's own ranges stay as they are.
        let script = format!(
            "mount --bind {ranges} /etc/subuid && mount --bind {ranges} /etc/subgid && \
             exec setpriv --reuid={user} --regid={user} --clear-groups \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation=private", "sh", "-c", &script, "sh"]);
        command.arg(program);
        Ok(command)
    }
}
