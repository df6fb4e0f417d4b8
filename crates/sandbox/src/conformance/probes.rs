//! The catalogue's probes: scripts that attack from inside a sandbox and say how they fared.
//! They live beside the project; whoever has them runs them against each back end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_types::{Limits, SandboxId};

use super::lab::Failure;
use crate::backend::{Backend, Root, Spec};
use crate::sandbox::Sandbox;

/// How long one may take. None comes near it; the longest makes 100,000 files, which takes two
/// minutes in a kernel that is a program.
const PROBE_TIMEOUT: Duration = Duration::from_secs(400);

/// What a probe says last.
const KINDS: [&str; 4] = ["PASS", "FAIL", "SKIP", "PLANT"];

/// What probes said, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Verdicts(BTreeMap<String, (&'static str, String)>);

impl Verdicts {
    /// The numbers of those that said `PASS`, `FAIL`, `SKIP` or `PLANT`, or nothing
    /// (`NOVERDICT`).
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> Vec<&str> {
        let of_kind = self.0.iter().filter(|(_, (found, _))| *found == kind);
        of_kind.map(|(number, _)| number.as_str()).collect()
    }

    /// Every last line, by number.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|(_, line)| line.as_str())
    }
}

/// The probe that fills the whole workspace, and what takes that away again: where files are
/// in memory, none is left for the probes after it.
const VOLUMINOUS: &str = "076";
const EMPTY: &str = "rm -f /workspace/artifacts/vol-076/zeros";

/// A sandbox with the room that probes ask for.
#[must_use]
pub fn roomy() -> Spec {
    let limits =
        Limits { memory: 2 << 30, disk: 1 << 30, output: Some(1 << 20), ..Limits::default() };
    Spec { limits, ..Spec::scratch() }
}

/// Where the probes are, if they are beside the project that this crate's directory is in.
#[must_use]
pub fn beside(crate_directory: &Path) -> Option<PathBuf> {
    let place = crate_directory.join("../../../shared/security/probes");
    fs::canonicalize(place).ok().filter(|path| path.join("run-all.sh").exists())
}

/// Things of the host's that must not be seen from inside, for as long as this is held.
pub struct Canaries {
    file: PathBuf,
    server: TcpListener,
    abstract_name: String,
    _abstract_socket: UnixListener,
}

impl Canaries {
    /// Lays them.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn lay() -> io::Result<Self> {
        let unique = SandboxId::generate();
        let file = Path::new("/tmp").join(format!("canary-{unique}"));
        fs::write(&file, "")?;
        let abstract_name = format!("cofferdam-canary-{unique}");
        let address = SocketAddr::from_abstract_name(&abstract_name)?;
        Ok(Self {
            file,
            server: TcpListener::bind("127.0.0.1:0")?,
            _abstract_socket: UnixListener::bind_addr(&address)?,
            abstract_name,
        })
    }

    /// What probes are told of them, and of a [`roomy`] sandbox.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let text = |path: &str| {
            fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        let file = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let port = self.server.local_addr().map(|address| address.port()).unwrap_or_default();
        let mut variables = vec![
            ("PROBE_HOST_TMP_CANARY", file),
            ("PROBE_HOST_ABSTRACT", self.abstract_name.clone()),
            ("PROBE_SERVER_PORT", port.to_string()),
            ("PROBE_HOST_HOSTNAME", text("/proc/sys/kernel/hostname")),
            ("PROBE_HOST_MACHINE_ID", text("/etc/machine-id")),
        ];
        let limits = [
            ("PROBE_PIDS_LIMIT", "512"),
            ("PROBE_MEM_LIMIT_MB", "2048"),
            ("PROBE_DISK_LIMIT_MB", "1024"),
            ("PROBE_FLOOD", "1"),
            ("PROBE_TTY_BAIT", "1"),
            ("PROBE_STRICT_DNS", "0"),
        ];
        variables.extend(limits.map(|(name, value)| (name, value.to_owned())));
        variables
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        // One that stays is an empty file.
        fs::remove_file(&self.file).ok();
    }
}

/// Runs the probes of a directory one by one in one sandbox: those with these numbers, or
/// all that run inside.
///
/// # Errors
/// When the sandbox cannot be made or used.
pub async fn probe(
    backend: &dyn Backend,
    spec: Spec,
    directory: &Path,
    numbers: &[&str],
    variables: &[(&str, String)],
) -> Result<Verdicts, Failure> {
    let root = Root::Host { readable: vec![directory.to_path_buf()] };
    let sandbox = Sandbox::open(backend, Spec { root, ..spec }).await?;
    let mut verdicts = Verdicts::default();
    for (number, path) in inside(directory)? {
        if !numbers.is_empty() && !numbers.contains(&number.as_str()) {
            continue;
        }
        let script = path.into_os_string().into_encoded_bytes();
        let mut command = sandbox.argv([b"sh".to_vec(), script]).timeout(Some(PROBE_TIMEOUT));
        let common = [("PROBE_WORKSPACE", "/workspace"), ("PROBE_BACKEND", "ns")];
        for (name, value) in common {
            command = command.env(name, value);
        }
        for (name, value) in variables {
            command = command.env(*name, value.as_str());
        }
        let result = sandbox.run(sandbox.next_call_id(), command).await?;
        let text = String::from_utf8_lossy(&result.stdout);
        let last = text.lines().rev().find_map(|line| {
            let kind = KINDS
                .into_iter()
                .find(|kind| line.strip_prefix(kind).is_some_and(|rest| rest.starts_with(' ')))?;
            Some((kind, line.to_owned()))
        });
        let verdict = last.unwrap_or_else(|| ("NOVERDICT", format!("{:?}", result.outcome)));
        if number == VOLUMINOUS {
            let emptied = sandbox.shell(EMPTY);
            sandbox.run(sandbox.next_call_id(), emptied).await?;
        }
        verdicts.0.insert(number, verdict);
    }
    sandbox.close().await?;
    Ok(verdicts)
}

/// The probes that run inside a sandbox, by number.
fn inside(directory: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut probes = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let is_script = path.extension().is_some_and(|extension| extension == "sh");
        if is_script && fs::read_to_string(&path)?.contains("# where: inside") {
            let number = name.split('-').next().unwrap_or_default();
            probes.insert(number.to_owned(), path);
        }
    }
    Ok(probes)
}
