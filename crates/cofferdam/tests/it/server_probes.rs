//! The catalogue's probes of the API, against a server that runs.
//!
//! They live beside the project; without them these tests have nothing to run
//! and say so. What they ask is asked in the project's own words elsewhere too
//! (`serve_access.rs`, `serve_sandbox.rs`).

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cofferdam_sandbox::conformance::probes::beside;
use cofferdam_testkit::Turn;
use serde_json::json;

use crate::agent::bash;
use crate::served::Served;
use crate::{eventually, processes};

/// What no probe may make the server's memory grow by.
const FLAT: u64 = 64 << 20;

/// Where the probes are, if they are there.
#[expect(clippy::print_stderr, reason = "whoever reads the tests' output is to know")]
fn directory() -> Option<PathBuf> {
    let found = beside(Path::new(env!("CARGO_MANIFEST_DIR")));
    if found.is_none() {
        eprintln!("skipped: the probes are not beside the project");
    }
    found
}

/// The probe of a number.
fn script(directory: &Path, number: &str) -> PathBuf {
    let mut all = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(number)).unwrap()
}

/// The numbers of the probes for clients.
fn clients(directory: &Path) -> BTreeSet<String> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "sh"))
        .filter(|path| std::fs::read_to_string(path).unwrap().contains("\n# where: client"))
        .map(|path| path.file_name().unwrap().to_str().unwrap().chars().take(3).collect())
        .collect()
}

/// A server with two users and two jobs, for probes.
struct Scene {
    probes: PathBuf,
    served: Served,
    other: String,
    /// A job that is complete, with baits in its workspace.
    baited: String,
    /// A job that runs, and listens in its sandbox where others look.
    running: String,
}

impl Scene {
    fn new(probes: PathBuf) -> Self {
        let listen = "for port in 5900 8080 8888 9229; do python3 -m http.server $port & done; \
                      sleep 0.5; touch here; sleep 600";
        let lay = "for bait in 07*.sh; do PROBE_WORKSPACE=/workspace sh $bait; done > laid.txt; \
                   echo '<script>alert(1)</script>' > page.html";
        // Each job does what its task says.
        let served = Served::with(move |request, said| match said {
            0 if request.to_string().contains("lay the bait") => bash(lay),
            0 => bash(listen),
            _ => Turn::text("done"),
        });
        let archive = Command::new("tar")
            .args(["--create", "--directory"])
            .arg(&probes)
            .args(
                ["073", "074"]
                    .map(|number| script(&probes, number))
                    .map(|path| path.file_name().unwrap().to_owned()),
            )
            .output()
            .unwrap();
        assert!(archive.status.success(), "{archive:?}");
        let upload =
            served.ask("POST", "/api/v1/uploads").body("application/x-tar", archive.stdout);
        let upload = upload.expect(201);
        let baited = served.submit(&json!({"task": "lay the bait", "upload": upload["id"]}));
        served.until(&baited, &["complete"]);
        let laid = served.ask("GET", &format!("/api/v1/jobs/{baited}/files/content?path=laid.txt"));
        let laid = laid.send().text();
        assert_eq!(laid.matches("PLANT ").count(), 2, "{laid}");
        let running = served.submit(&json!({"task": "listen"}));
        served.until_file(&running, "here");
        let other = served.new_user("other");
        Self { probes, served, other, baited, running }
    }

    /// Runs a probe; its verdict, which is also shown. The server's memory stays as it is.
    #[expect(clippy::print_stderr, reason = "the figures are for whoever reads the output")]
    fn verdict(&self, number: &str, more: &[(&str, String)]) -> String {
        let pid = self.served.pid();
        // The most that it ever had is measured from here on.
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        let before = processes::status_bytes(pid, "VmRSS");
        let (baited, running) = (&self.baited, &self.running);
        let content = format!("/api/v1/jobs/{baited}/files/content?path=page.html");
        let ran = Command::new("timeout")
            .args(["--kill-after=5", "150", "sh"])
            .arg(script(&self.probes, number))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("PROBE_BASE_URL", format!("http://{}", self.served.address))
            .env("PROBE_TOKEN", &self.served.token)
            .env("PROBE_TOKEN2", &self.other)
            .env("PROBE_JOB_JSON", r#"{"task":"Run: true","model":"demo"}"#)
            .env("PROBE_HEALTH_PATH", "/health")
            .env("PROBE_WS_PATH", format!("/api/v1/jobs/{running}/terminal"))
            .env("PROBE_UPLOAD_PATH", "/api/v1/uploads")
            .env("PROBE_ARTIFACT_ZIP", format!("/jobs/{baited}/output.zip"))
            .env("PROBE_ARTIFACT_PATH", content)
            .envs(more.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
        let grown = processes::status_bytes(pid, "VmHWM").saturating_sub(before);
        eprintln!("{said} (memory: {} KiB more at most)", grown >> 10);
        assert!(grown < FLAT, "{number}: {} MiB more", grown >> 20);
        if said.is_empty() { String::from_utf8_lossy(&ran.stderr).into_owned() } else { said }
    }

    #[track_caller]
    fn passes(&self, number: &str, more: &[(&str, String)]) {
        let verdict = self.verdict(number, more);
        assert!(verdict.starts_with(&format!("PASS {number} ")), "{verdict}");
    }

    fn end(self) {
        self.served.ask("POST", &format!("/api/v1/jobs/{}/cancel", self.running)).expect(202);
        self.served.until(&self.running, &["cancelled"]);
        self.served.stop();
    }
}

/// Those that take no time.
const QUICK: [&str; 11] =
    ["080", "081", "082", "083", "084", "085", "086", "088", "089", "093", "095"];

#[test]
fn every_probe_for_clients_is_run_here() {
    let Some(probes) = directory() else { return };
    let ours: BTreeSet<String> =
        QUICK.iter().chain(&["087", "094"]).map(|number| (*number).to_owned()).collect();
    assert_eq!(clients(&probes), ours);
}

#[test]
fn the_probes_of_the_api_pass() {
    let Some(probes) = directory() else { return };
    let scene = Scene::new(probes);
    for number in QUICK {
        scene.passes(number, &[]);
    }
    // The terminal that 084 was kept from is one.
    let terminal = format!("/api/v1/jobs/{}/terminal", scene.running);
    scene.served.ask("GET", &terminal).refused(426, "API-018");
    // The job itself went on meanwhile.
    let job = scene.served.ask("GET", &format!("/api/v1/jobs/{}", scene.running)).expect(200);
    assert_eq!(job["status"], "running");
    scene.end();
}

/// The ports of ours that can be reached on this machine.
fn listening(served: &Served) -> BTreeSet<u16> {
    let mut sockets = BTreeSet::new();
    let ours = |pid: &i32| *pid == served.pid() || processes::touches(*pid, &served.home().path());
    for pid in processes::all().into_iter().filter(ours) {
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let link = std::fs::read_link(entry.path()).unwrap_or_default();
            let inode = link.to_str().and_then(|link| link.strip_prefix("socket:["));
            sockets.extend(inode.and_then(|inode| inode.strip_suffix(']')).map(str::to_owned));
        }
    }
    let mut ports = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if words[3] == "0A" && sockets.contains(words[9]) {
                let port = words[1].rsplit_once(':').unwrap().1;
                ports.insert(u16::from_str_radix(port, 16).unwrap());
            }
        }
    }
    ports
}

#[test]
fn nothing_listens_but_the_api() {
    let Some(probes) = directory() else { return };
    // What other programs of this machine listen at is none of ours.
    let others: Vec<String> = (1..=10_000)
        .chain(30_000..30_050)
        .filter(|port| {
            let address = ([127, 0, 0, 1], *port).into();
            TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
        })
        .map(|port: u16| port.to_string())
        .collect();
    let scene = Scene::new(probes);
    scene.passes("094", &[("PROBE_ALLOWED_PORTS", others.join(","))]);
    assert_eq!(listening(&scene.served), BTreeSet::from([scene.served.address.port()]));
    scene.end();
}

#[test]
fn slow_clients_do_not_keep_others_waiting() {
    let Some(probes) = directory() else { return };
    let scene = Scene::new(probes);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", scene.served.pid())).unwrap().count();
    let before = open();
    scene.passes("087", &[]);
    // Some of the server's own come and go; three hundred would not.
    eventually("connections that are closed", || open() < before + 30);
    scene.end();
}
