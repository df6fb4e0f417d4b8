//! Servers that run: the product's, and those it is compared with.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::host;
use super::process_table;
use super::program::{self, Companion};
use super::server_http::Requests;

/// How long a server may take to begin.
const START: Duration = Duration::from_secs(30);

/// How long the sandboxes of a server that has ended wait for another one.
const LINGER: &str = "3s";

/// How long those sandboxes may take to be gone.
const GONE: Duration = Duration::from_secs(30);

/// A server that runs as long as this is held.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    pub(super) token: Option<String>,
    /// Where the product keeps its files.
    data: Option<PathBuf>,
    companion: Companion,
    /// Kept, so that the server can write to it.
    _said: Option<BufReader<ChildStdout>>,
}

impl Running {
    /// The product, with its files in a new directory and these options besides.
    pub(super) fn product(
        binary: &Path,
        directory: &Path,
        name: &str,
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let data = directory.join(name);
        let log = File::create(directory.join(format!("{name}.log")))?;
        let mut command = program::command(binary);
        command.args(["serve", "--model", "demo", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(&data).args(["--linger", LINGER, "--grace", "1s"]).args(options);
        command.current_dir(directory).env("COFFERDAM_HOME", directory.join("home"));
        let child = command.stdout(Stdio::piped()).stderr(log).spawn();
        let mut companion = Companion(child.context("start the server")?);
        let said = companion.stdout.take().context("the server has no stdout")?;
        let mut said = BufReader::new(said);
        let address = loop {
            let mut line = String::new();
            if said.read_line(&mut line)? == 0 {
                bail!("the server did not start; see {name}.log");
            }
            if let Some((_, address)) = line.trim().split_once("listening on http://") {
                break address.parse().context("the server's address")?;
            }
        };
        let token = fs::read_to_string(data.join("token")).context("the server's token")?;
        let token = Some(token.trim().to_owned());
        Ok(Self { address, token, data: Some(data), companion, _said: Some(said) })
    }

    /// Another one, which is told its port by the last argument.
    pub(super) fn peer(command: &mut Command) -> anyhow::Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = free.local_addr()?;
        drop(free);
        let mut companion = Companion(command.arg(address.port().to_string()).spawn()?);
        let deadline = Instant::now() + START;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = companion.try_wait()? {
                bail!("it ended with {status}");
            }
            if Instant::now() >= deadline {
                bail!("it did not begin in time");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { address, token: None, data: None, companion, _said: None })
    }

    pub(super) fn requests(&self) -> Requests {
        Requests { host: self.address, token: self.token.clone() }
    }

    fn process(&self) -> i32 {
        self.companion.pid().as_raw_nonzero().get()
    }

    /// What the kernel says of its process now; nothing of the sandboxes.
    pub(super) fn usage(&self) -> Usage {
        let process = self.process();
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        Usage {
            resident: host::kibibytes(&status, "VmRSS") * 1024.0,
            most: process_table::most_memory(process).unwrap_or(0.0),
            proportional: process_table::memory(process).unwrap_or(0.0),
            cpu: cpu_of_process(&stat).unwrap_or_default(),
        }
    }

    /// Ends it, and waits until its sandboxes are gone too.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.companion.stop();
        let Some(data) = self.data.take() else { return Ok(()) };
        let deadline = Instant::now() + GONE;
        loop {
            let all = process_table::all();
            let programs = all.iter().filter_map(|entry| process_table::program(entry.process));
            match programs.filter(|program| program.starts_with(&data)).count() {
                0 => break,
                left if Instant::now() >= deadline => bail!("{left} sandboxes are left"),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        fs::remove_dir_all(&data).with_context(|| data.display().to_string())
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Bytes in memory.
    pub(super) resident: f64,
    /// The most bytes that were ever in memory.
    pub(super) most: f64,
    /// Bytes in memory, with its share of what it shares.
    pub(super) proportional: f64,
    pub(super) cpu: Duration,
}

/// The kernel counts in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

fn cpu_of_process(stat: &str) -> Option<Duration> {
    let rest = stat.get(stat.rfind(')')? + 1..)?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (user + system))
}

/// The time that all CPUs together have worked.
pub(super) fn cpu_of_machine() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_ticks(&stat).map_or(Duration::ZERO, |ticks| TICK * ticks)
}

fn busy_ticks(stat: &str) -> Option<u32> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields = fields.split_ascii_whitespace().filter_map(|field| field.parse::<u32>().ok());
    // All but idle and waiting for disks; guests are counted as users already.
    Some(fields.take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, n)| n).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_of_time_are_read() {
        let stat = "7 (a b) S 1 7 7 0 -1 4194560 1 2 3 4 25 17 0 0 20 0 1 0";
        assert_eq!(cpu_of_process(stat), Some(Duration::from_millis(420)));
        assert_eq!(busy_ticks("cpu  10 1 5 900 30 1 1 2 0 0\ncpu0 1"), Some(20));
        assert!(cpu_of_machine() > Duration::ZERO);
    }
}
