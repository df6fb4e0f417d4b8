//! `docker compose up`: the server with PostgreSQL, as compose.yaml says, by the real engine.
//! Where nothing can be pulled or compiled, images by the same names stand in for those that it
//! is made from.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_testkit::{Deployment, DockerDaemon};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::eventually;
use crate::invocation::kill;
use crate::served::{Ask, bearer};

/// What is different from what users have: nothing is fetched while images are built, and
/// nobody waits long to hear that all is well.
const OVERRIDE: &str = "
services:
  server:
    build:
      network: none
      args:
        PACKAGES: ca-certificates curl python3
    healthcheck:
      interval: 500ms
  database:
    healthcheck:
      interval: 500ms
";

/// In place of the compiler: puts the program of this build where it would.
const CARGO: &str = "#!/bin/sh
exec install -D /cofferdam target/release/cofferdam
";

const RUST: &str = "FROM debian:trixie-slim
COPY cofferdam /cofferdam
COPY cargo /usr/local/bin/cargo
";

/// As PostgreSQL's own image does it, as far as it is asked to.
const ENTRY: &str = r#"#!/bin/sh
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --auth-host="$POSTGRES_HOST_AUTH_METHOD" \
        --auth-local=trust --no-sync $POSTGRES_INITDB_ARGS
    pg_ctl --wait start --options="-c listen_addresses="
    createdb --username="$POSTGRES_USER" "$POSTGRES_USER"
    pg_ctl --wait stop
fi
exec "$@"
"#;

const POSTGRES: &str = r#"FROM debian:trixie-slim
RUN install --directory --owner=postgres --group=postgres --mode=1777 /var/lib/postgresql/data \
    && install --directory --owner=postgres --group=postgres --mode=3777 /var/run/postgresql
COPY docker-entrypoint.sh /usr/local/bin/
ENV PATH=PROGRAMS:/usr/local/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
"#;

/// The services, on a daemon of the test's own. They go with it.
struct World {
    environment: Vec<(String, String)>,
    place: TempDir,
    port: u16,
    _daemon: DockerDaemon,
}

impl World {
    fn new() -> Self {
        let place = tempfile::Builder::new().prefix("cofferdam-compose-").tempdir().unwrap();
        let daemon = DockerDaemon::start(place.path(), &["--userland-proxy=true"]).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut environment = daemon.environment();
        environment.push(("COFFERDAM_PORT".to_owned(), port.to_string()));
        Self { environment, place, port, _daemon: daemon }
    }

    /// Makes the images that the files are about.
    fn make_images(&self) {
        let deployment = Deployment::for_tests().unwrap();
        deployment.install_client(self.place.path()).unwrap();
        deployment.import("debian:trixie-slim", &self.environment).unwrap();
        let rust = self.context("rust", &[("Dockerfile", RUST), ("cargo", CARGO)]);
        strip(Path::new(env!("CARGO_BIN_EXE_cofferdam")), &rust.join("cofferdam"));
        self.build("rust:1.95.0-trixie", &rust);
        let postgres = POSTGRES.replace("PROGRAMS", &deployment.postgres_programs().unwrap());
        let files = [("Dockerfile", postgres.as_str()), ("docker-entrypoint.sh", ENTRY)];
        self.build("postgres:17", &self.context("postgres", &files));
    }

    /// A directory to build an image from.
    fn context(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let directory = self.place.path().join(name);
        fs::create_dir(&directory).unwrap();
        for (name, text) in files {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        directory
    }

    fn build(&self, name: &str, context: &Path) {
        let context = context.to_str().unwrap();
        self.docker(&["build", "--network=none", "--quiet", "--tag", name, context]);
    }

    /// What `docker` prints, or what it complains of.
    fn attempt(&self, words: &[&str]) -> Result<String, String> {
        let ran = Command::new("docker")
            .args(words)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // That of `docker build` alone needs another part of it.
            .envs((words.first() == Some(&"build")).then_some(("DOCKER_BUILDKIT", "0")))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) }
    }

    fn docker(&self, words: &[&str]) -> String {
        self.attempt(words).unwrap_or_else(|said| panic!("docker {words:?}: {said}"))
    }

    fn compose(&self, words: &[&str]) -> String {
        let line = self.compose_line(words);
        self.docker(&line.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn compose_line(&self, words: &[&str]) -> Vec<String> {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let project = project.canonicalize().unwrap();
        let changes = self.place.path().join("override.yaml");
        fs::write(&changes, OVERRIDE).unwrap();
        let file = project.join("compose.yaml");
        let mut line = vec!["compose", "--ansi=never", "--project-name=cofferdam-test"];
        for path in [&file, &changes] {
            line.extend(["--file", path.to_str().unwrap()]);
        }
        line.extend(["--project-directory", project.to_str().unwrap()]);
        line.extend(words);
        line.into_iter().map(str::to_owned).collect()
    }

    /// A detail of a service's container.
    fn detail(&self, service: &str, what: &str) -> String {
        let container = self.compose(&["ps", "--all", "--quiet", service]);
        self.docker(&["inspect", &format!("--format={{{{{what}}}}}"), &container])
    }

    fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(SocketAddr::from(([127, 0, 0, 1], self.port)), method, path)
    }

    /// Whether it takes jobs.
    fn is_ready(&self) -> bool {
        // Docker's proxy, which listens in front of it, comes and goes with the container.
        self.ask("GET", "/ready").try_to_send().is_ok_and(|answer| answer.status == 200)
    }

    /// Has a task done.
    fn complete(&self, token: &str, task: &str) -> String {
        let ask =
            |method, path: &str| self.ask(method, path).header("Authorization", &bearer(token));
        let made = ask("POST", "/schedule").json(&json!({ "task": task })).expect(202);
        let job = made["job_id"].as_str().unwrap().to_owned();
        let mut shown = Value::Null;
        eventually("the job is done", || {
            shown = ask("GET", &format!("/status/{job}")).expect(200);
            !["pending", "running"].contains(&shown["status"].as_str().unwrap())
        });
        assert_eq!(shown["status"], "complete", "{shown}");
        let zip = ask("GET", &format!("/jobs/{job}/output.zip")).send();
        assert!(zip.status == 200 && zip.body.starts_with(b"PK"), "{}", zip.head);
        job
    }
}

/// A program without what only debuggers read, which is most of it.
fn strip(program: &Path, to: &Path) {
    let ran = Command::new("strip").arg("-o").arg(to).arg(program).status();
    assert!(ran.unwrap().success());
}

/// The first child of a process.
fn child_of(pid: &str) -> i32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn compose_up_starts_a_server_that_works_and_keeps_what_it_has() {
    if !rustix::process::geteuid().is_root() {
        crate::tell("skipped: a Docker daemon needs root");
        return;
    }
    let world = World::new();
    world.make_images();
    world.compose(&["up", "--build", "--detach", "--wait", "--wait-timeout=120"]);
    let token = world.compose(&["exec", "-T", "server", "cat", "/data/token"]);
    let job = world.complete(&token, "Write a CSV filter with sample data and tests");

    // An ordinary user without a single right, who may get none.
    let init = world.detail("server", ".State.Pid");
    let server = child_of(&init);
    let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    for line in ["Uid:\t10001\t10001\t10001\t10001", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"]
    {
        assert!(status.lines().any(|there| there == line), "{line}: {status}");
    }
    assert_eq!(world.detail("database", ".HostConfig.NetworkMode"), "none");

    kill(server, Signal::KILL);
    eventually("the engine has started it anew", || {
        world.detail("server", ".RestartCount") != "0" && world.is_ready()
    });
    let jobs =
        world.ask("GET", "/api/v1/jobs").header("Authorization", &bearer(&token)).expect(200);
    assert_eq!(jobs["jobs"][0]["id"], job.as_str(), "{jobs}");
    world.complete(&token, "Write a hello world script");

    world.compose(&["down", "--volumes", "--timeout=5"]);
    assert_eq!(world.docker(&["ps", "--all", "--quiet"]), "");
    assert_eq!(world.docker(&["volume", "ls", "--quiet"]), "");
    assert_eq!(world.docker(&["network", "ls", "--quiet", "--filter=driver=bridge"]), "");
}

/// What the documentation says of limits is set, and keys do not get into a build.
#[test]
fn the_limits_that_are_documented_are_set_and_keys_stay_out_of_the_image() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(project.join(name)).unwrap();
    let (compose, pages) = (read("compose.yaml"), read("docs/server.md"));
    for setting in ["pids_limit", "mem_limit", "cpus"] {
        assert!(pages.contains(&format!("`{setting}`")), "{setting}");
        let line = format!("    {setting}: ");
        assert!(compose.lines().any(|there| there.starts_with(&line)), "{setting}");
    }
    assert!(read(".dockerignore").lines().any(|line| line == "/.env*"));
}

/// The image is built by the compiler that the project is built by.
#[test]
fn the_image_has_the_projects_toolchain() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(project.join(name)).unwrap();
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = "));
    let wanted = format!("ARG RUST={}", channel.unwrap().trim_matches('"'));
    assert!(read("deploy/Dockerfile").lines().any(|line| line == wanted), "{wanted}");
    serde_json::from_str::<Value>(&read("deploy/seccomp.json")).unwrap();
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for words in [&["logs", "--no-color"][..], &["down", "--volumes", "--timeout=1"][..]] {
            let line = self.compose_line(words);
            let line: Vec<&str> = line.iter().map(String::as_str).collect();
            crate::tell(&self.attempt(&line).unwrap_or_else(|said| said));
        }
    }
}
