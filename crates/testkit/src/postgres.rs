//! A real PostgreSQL for tests: a cluster of its own in a temporary directory.
//!
//! It listens on 127.0.0.1 and on a socket in its directory. Its processes and its
//! directory go when it is dropped; if the test is killed, its processes go with it,
//! and the directory when the next server is started.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The user of the database, which may do everything and has no password.
const USER: &str = "cofferdam";

/// How our directories are called; the number of the process follows.
const DIRECTORY: &str = "cofferdam-postgres-";

/// Longer than starting or stopping takes on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// A PostgreSQL server.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    place: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    databases: AtomicU32,
    running: Mutex<Option<Running>>,
}

/// Its first process, and the thread whose end would be that of the process.
#[derive(Debug)]
struct Running {
    child: Child,
    keeper: mpsc::Sender<()>,
}

impl Postgres {
    /// The server that all tests of this process share, each with a database of its
    /// own. Not for tests that stop it.
    ///
    /// # Panics
    /// When PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Starts a server that does not wait for the disk.
    ///
    /// # Panics
    /// When PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with these settings.
    ///
    /// # Panics
    /// When PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        sweep();
        let programs = programs();
        let place = place(&programs);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut server = Self {
            programs,
            place,
            port: 0,
            settings: settings.iter().map(owned).collect(),
            databases: AtomicU32::new(0),
            running: Mutex::new(None),
        };
        // Somebody else may take the port before the server does.
        let mut said = String::new();
        for _ in 0..5 {
            server.port = free_port();
            match server.launch() {
                Ok(()) => return server,
                Err(reason) => said = reason,
            }
        }
        panic!("PostgreSQL does not start: {said}");
    }

    /// Makes a database and returns its URL.
    ///
    /// # Panics
    /// When the server does not do it.
    #[must_use]
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut create = program(&self.programs.join("createdb"));
        create.arg("--host").arg(&self.place).arg("--port").arg(self.port.to_string());
        create.args(["--username", USER, "--maintenance-db", "postgres", &name]);
        done(&mut create);
        self.url(&name)
    }

    /// The URL of a database of this name.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs SQL in the database of this URL, as `psql` would, and returns what it
    /// says: values alone, one row a line.
    ///
    /// # Panics
    /// When the SQL fails.
    #[must_use]
    pub fn sql(&self, url: &str, sql: &str) -> String {
        let mut psql = program(&self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.args(["--set", "ON_ERROR_STOP=1", "--command", sql, url]);
        String::from_utf8_lossy(&done(&mut psql).stdout).trim().to_owned()
    }

    /// Stops it in an orderly way; whoever is connected is thrown out.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    /// Kills all its processes at once, as the loss of power would.
    ///
    /// # Panics
    /// When they do not go.
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Starts it again after it was stopped or killed, on the same port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn resume(&self) {
        if let Err(reason) = self.launch() {
            panic!("PostgreSQL does not start again: {reason}");
        }
    }

    /// Stops it and starts it again.
    ///
    /// # Panics
    /// When it does not stop or start.
    pub fn restart(&self) {
        self.stop();
        self.resume();
    }

    /// Halts all its processes: connections stay, and nobody answers.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets its processes go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Puts a file into its directory, readable for its processes alone, and
    /// returns the path.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn keep_file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.place.join(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        done(program(Path::new("chmod")).arg("600").arg(&path));
        own(&path);
        path
    }

    /// Changes a setting and lets the server read it.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn set(&self, name: &str, value: &str) {
        let url = self.url("postgres");
        let set = format!("ALTER SYSTEM SET {name} = '{value}'");
        assert_eq!(self.sql(&url, &set), "");
        assert_eq!(self.sql(&url, "SELECT pg_reload_conf()"), "t");
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the server and waits until it answers.
    fn launch(&self) -> Result<(), String> {
        let log = self.place.join("log");
        let mut server = as_nobody_special(&self.programs.join("postgres"), Some("INT"));
        server.arg("-D").arg(self.place.join("data")).arg("-k").arg(&self.place);
        server.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        for (name, value) in QUICK {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in &self.settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let file = fs::OpenOptions::new().create(true).append(true).open(&log);
        server.stderr(file.map_err(|error| error.to_string())?);
        server.stdin(Stdio::null()).stdout(Stdio::null()).current_dir(&self.place);

        // The server dies with the thread that has started it, so that is one that
        // lives as long as the server is wanted.
        let (started, start) = mpsc::channel();
        let (keeper, kept) = mpsc::channel::<()>();
        thread::spawn(move || {
            if started.send(server.spawn()).is_ok() {
                // Ends when the sender is dropped.
                kept.recv().ok();
            }
        });
        let child = start.recv().map_err(|error| error.to_string())?;
        let mut child = child.map_err(|error| error.to_string())?;
        let begun = Instant::now();
        while !self.answers(child.id()) {
            let ended = child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                child.kill().ok();
                child.wait().ok();
                return Err(fs::read_to_string(&log).unwrap_or_default());
            }
            thread::sleep(GLANCE);
        }
        *self.running() = Some(Running { child, keeper });
        Ok(())
    }

    /// Whether the file that the server keeps says that it takes connections. A
    /// server that was killed has left one too.
    fn answers(&self, server: u32) -> bool {
        let state = fs::read_to_string(self.place.join("data/postmaster.pid")).unwrap_or_default();
        let mut lines = state.lines();
        lines.next() == Some(server.to_string().as_str())
            && lines.nth(6).map(str::trim) == Some("ready")
    }

    fn end(&self, signal: Signal) {
        let Some(Running { mut child, keeper }) = self.running().take() else { return };
        let all = family(child.id());
        let addressed = if signal == Signal::KILL { all.as_slice() } else { &all[..1] };
        addressed.iter().for_each(|process| send(*process, signal));
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) || all[1..].iter().any(|pid| alive(*pid)) {
            if begun.elapsed() > PATIENCE {
                all.iter().for_each(|process| send(*process, Signal::KILL));
                panic!("PostgreSQL does not stop");
            }
            thread::sleep(GLANCE);
        }
        drop(keeper);
    }

    fn signal(&self, signal: Signal) {
        if let Some(running) = self.running().as_ref() {
            family(running.child.id()).into_iter().for_each(|process| send(process, signal));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(Running { mut child, keeper }) = self.running().take() {
            // It may be frozen. Nothing of it is needed again.
            let all = family(child.id());
            all.iter().for_each(|process| send(*process, Signal::KILL));
            child.wait().ok();
            drop(keeper);
        }
        fs::remove_dir_all(&self.place).ok();
    }
}

/// What makes it quick: its data need not survive the machine, and it is small.
const QUICK: [(&str, &str); 7] = [
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("shared_buffers", "16MB"),
    ("max_connections", "100"),
    ("autovacuum_naptime", "10"),
    ("timezone", "UTC"),
    ("log_min_messages", "warning"),
];

/// The directory of PostgreSQL's programs.
fn programs() -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).collect::<Vec<_>>();
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut packaged: Vec<_> = packaged.map(|version| version.path().join("bin")).collect();
    let version = |bin: &PathBuf| {
        let name = bin.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        name.and_then(|name| name.parse::<u32>().ok())
    };
    packaged.sort_by_key(|bin| std::cmp::Reverse(version(bin)));
    let complete = |bin: &PathBuf| {
        ["initdb", "postgres", "psql", "createdb"].iter().all(|name| bin.join(name).is_file())
    };
    packaged.into_iter().chain(on_path).find(complete).unwrap_or_else(|| {
        panic!(
            "PostgreSQL is not installed, and this test needs a real one: \
             `apt-get install postgresql` (its programs are looked for in \
             /usr/lib/postgresql/*/bin and on PATH)"
        )
    })
}

/// Makes a directory with a new cluster in it.
fn place(programs: &Path) -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let place = std::env::temp_dir().join(format!("{DIRECTORY}{}-{number}", std::process::id()));
    fs::create_dir(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    done(program(Path::new("chmod")).arg("700").arg(&place));
    own(&place);

    let data = place.join("data");
    let template = template(programs);
    if let Some(template) = template.as_ref().filter(|path| path.is_dir()) {
        copy(template, &data);
        return place;
    }
    let mut initdb = as_nobody_special(&programs.join("initdb"), None);
    initdb.arg("-D").arg(&data).args(["--no-sync", "--username", USER, "--auth", "trust"]);
    initdb.args(["--encoding", "UTF8", "--locale", "C", "--wal-segsize", "1"]);
    done(initdb.current_dir(&place));
    if let Some(template) = template {
        // Kept for the next one. Of two that do this at once, the first wins.
        let mine = template.with_extension(format!("{}-{number}", std::process::id()));
        copy(&data, &mine);
        if fs::rename(&mine, &template).is_err() {
            fs::remove_dir_all(&mine).ok();
        }
    }
    place
}

/// Where a new cluster is kept to be copied: among what cargo builds.
fn template(programs: &Path) -> Option<PathBuf> {
    let mine = std::env::current_exe().ok()?;
    let target = mine.ancestors().find(|path| path.join("CACHEDIR.TAG").is_file())?;
    let version = programs.parent()?.file_name()?.to_string_lossy().into_owned();
    let user = rustix::process::getuid().as_raw();
    Some(target.join(format!("postgres-{version}-for-{user}")))
}

fn copy(from: &Path, to: &Path) {
    done(program(Path::new("cp")).arg("-a").arg(from).arg(to));
}

/// Gives a path to the user whom the server runs as, if that is another.
fn own(path: &Path) {
    if rustix::process::getuid().is_root() {
        done(program(Path::new("chown")).arg(format!("{}:", unprivileged())).arg(path));
    }
}

/// A user of this machine who is not root: the package's own, if it made one.
fn unprivileged() -> &'static str {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let known = |name: &str| users.lines().any(|line| line.split(':').next() == Some(name));
    if known("postgres") { "postgres" } else { "nobody" }
}

/// A program that root may not run: run as somebody else if we are root. It gets
/// the signal when its parent is gone.
fn as_nobody_special(path: &Path, when_orphaned: Option<&str>) -> Command {
    let mut command = program(Path::new("setpriv"));
    if let Some(signal) = when_orphaned {
        command.arg(format!("--pdeathsig={signal}"));
    }
    if rustix::process::getuid().is_root() {
        let user = unprivileged();
        let group = done(program(Path::new("id")).args(["-g", user])).stdout;
        let group = String::from_utf8_lossy(&group).trim().to_owned();
        command.arg(format!("--reuid={user}"));
        command.arg(format!("--regid={group}")).arg("--clear-groups");
    }
    command.arg(path);
    command
}

#[expect(clippy::disallowed_methods, reason = "PostgreSQL's own programs, in tests")]
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("LC_ALL", "C").env_remove("PGOPTIONS").env_remove("PGSERVICE");
    command
}

/// Runs a program to its end, which must be a good one.
fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed ({}): {said}", output.status);
    output
}

fn free_port() -> u16 {
    let address = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    address.unwrap_or_else(|error| panic!("no free port: {error}")).port()
}

/// A process and those it has started.
fn family(first: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    std::iter::once(first).chain(children).collect()
}

fn send(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    // One that is gone needs no signal.
    pid.map(|pid| kill_process(pid, signal).ok());
}

fn alive(process: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = state.rsplit_once(')').map(|(_, rest)| rest.trim_start().chars().next());
    state.flatten().is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Removes directories whose process was killed before it could.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.filter_map(io::Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(DIRECTORY).and_then(|rest| rest.split('-').next());
        let owner = owner.and_then(|owner| owner.parse::<u32>().ok());
        if owner.is_some_and(|owner| !alive(owner)) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_answers_until_it_is_dropped_and_leaves_nothing() {
        let server = Postgres::start();
        let url = server.database();
        assert_eq!(server.sql(&url, "SELECT 6 * 7"), "42");
        server.restart();
        assert_eq!(server.sql(&url, "SELECT 6 * 7"), "42");
        server.kill();
        server.resume();
        assert_eq!(server.sql(&url, "SELECT 6 * 7"), "42");
        let all = family(server.running().as_ref().unwrap().child.id());
        assert!(all.len() > 1, "{all:?}");
        let place = server.place.clone();
        drop(server);
        assert!(!place.exists());
        let begun = Instant::now();
        while all.iter().any(|process| alive(*process)) {
            assert!(begun.elapsed() < PATIENCE, "{all:?}");
            thread::sleep(GLANCE);
        }
    }
}
