//! The tools that people use, through the proxy, with nothing but the variables
//! that a sandbox sets. A tool that is not installed is skipped, and named.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use cofferdam_egress::environment;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::harness::{Harness, Server, read_until};

/// A place to work, a registry that serves its `www`, and a proxy that lets
/// `registry.test` through to it.
struct Bench {
    directory: TempDir,
    harness: Harness,
    server: Server,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("www");
        fs::create_dir(&root).unwrap();
        let server = Server::start(move |stream| serve_file(stream, &root));
        let port = server.port;
        let harness = Harness::start(&format!("registry.test:{port},127.0.0.1:{port}"));
        Self { directory, harness, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn url(&self, path: &str) -> String {
        format!("http://registry.test:{}/{path}", self.server.port)
    }

    /// Puts a file where the registry serves it.
    fn publish(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path("www").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A tool that knows of the proxy what a sandbox would tell it.
    fn tool(&self, program: &str) -> Command {
        let mut command = command(program);
        command.current_dir(self.directory.path());
        command.envs(environment(self.harness.port));
        command
    }

    /// The registry's connections, each of which must have been allowed; there
    /// is at least one.
    fn assert_went_through(&mut self) {
        let record = self.harness.record();
        assert_eq!((record.0.as_str(), record.1), ("registry.test", self.server.port));
        assert_eq!(record.2, "allowed");
        assert!(record.3 > 0 && record.4 > 0, "{record:?}");
    }
}

/// A program without the settings of who runs the tests.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        let folded = name.to_ascii_lowercase();
        let steers = ["pip_", "npm_config_", "git_", "cargo_", "curl_", "ssl_", "node_"];
        if folded.ends_with("_proxy") || steers.iter().any(|prefix| folded.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

fn is_installed(program: &str) -> bool {
    let found = command(program).arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{shown}\n{errors}");
    output
}

/// Serves one file of a directory, or 404.
fn serve_file(mut stream: TcpStream, root: &Path) {
    let head = String::from_utf8_lossy(&read_until(&mut stream, b"\r\n\r\n")).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let path = Path::new(target.split('?').next().unwrap_or_default().trim_start_matches('/'));
    assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{target}");
    let mut file = root.join(path);
    if file.is_dir() {
        file.push("index.html");
    }
    let (status, kind, body) = match fs::read(&file) {
        Ok(body) if file.ends_with("index.html") => ("200 OK", "text/html", body),
        Ok(body) => ("200 OK", "application/octet-stream", body),
        Err(_) => ("404 Not Found", "text/plain", b"not here\n".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // A tool that has seen enough may be gone already.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
}

#[test]
fn curl_fetches_over_http_and_is_told_what_is_denied() {
    if !is_installed("curl") {
        return;
    }
    let mut bench = Bench::new();
    bench.publish("hello.txt", "hello");
    let fetched = run(bench.tool("curl").args(["-sS", "--fail", &bench.url("hello.txt")]));
    assert_eq!(fetched.stdout, b"hello");
    bench.assert_went_through();

    let denied = run(bench.tool("curl").args(["-sS", "http://denied.test/"]));
    let text = String::from_utf8(denied.stdout).unwrap();
    assert!(text.contains("--network allow:denied.test"), "{text}");
    assert!(bench.harness.verdict().starts_with("denied: "));
}

#[test]
fn curl_is_told_that_a_download_was_cut() {
    if !is_installed("curl") {
        return;
    }
    let server = Server::start(|mut stream| {
        read_until(&mut stream, b"\r\n\r\n");
        let answer = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b'x'; 1000]].concat();
        stream.write_all(&answer).unwrap();
        let at_once = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&stream, at_once).unwrap();
    });
    let port = server.port;
    let harness = Harness::start(&format!("cut.test:{port},127.0.0.1:{port}"));
    let socks = format!("127.0.0.1:{}", harness.port);
    for more in [&[][..], &["--proxytunnel"], &["--socks5-hostname", &socks]] {
        let mut curl = command("curl");
        curl.envs(environment(harness.port)).args(["-sS"]).args(more);
        let output = curl.arg(format!("http://cut.test:{port}/")).output().unwrap();
        assert_eq!(output.status.code(), Some(56), "{more:?}: {output:?}");
    }
}

/// Tools mean their own loopback, which a sandbox has too. How to mean the host's is told to
/// whoever asks the proxy for it in vain.
#[test]
fn curl_reaches_a_listed_loopback_address_as_the_remedy_says() {
    if !is_installed("curl") {
        return;
    }
    let bench = Bench::new();
    bench.publish("hello.txt", "hello");
    let denied = bench.harness.ask("GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n");
    let words = denied.split('`').nth(1).unwrap_or_else(|| panic!("{denied}"));
    let mut words = words.split(' ').chain(["curl", "-sS", "--fail"]);
    let mut bench =
        Bench { harness: Harness::start(&format!("127.0.0.1:{}", bench.server.port)), ..bench };
    let url = format!("http://127.0.0.1:{}/hello.txt", bench.server.port);
    let fetched = run(bench.tool(words.next().unwrap()).args(words).arg(url));
    assert_eq!(fetched.stdout, b"hello");
    let (host, _, verdict, ..) = bench.harness.record();
    assert_eq!((host.as_str(), verdict.as_str()), ("127.0.0.1", "allowed"));
}

#[test]
fn curl_uploads_with_a_length_and_in_chunks() {
    if !is_installed("curl") {
        return;
    }
    const SIZE: usize = 2_000_000;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("upload");
    fs::write(&file, vec![b'x'; SIZE]).unwrap();
    let server = Server::start(|mut stream| {
        let head = String::from_utf8(read_until(&mut stream, b"\r\n\r\n")).unwrap();
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let count = if head.contains("chunked") {
            let body = read_until(&mut stream, b"\r\n0\r\n\r\n");
            body.iter().filter(|&&b| b == b'x').count()
        } else {
            std::io::copy(&mut std::io::Read::take(&mut stream, SIZE as u64), &mut std::io::sink())
                .unwrap() as usize
        };
        let body = count.to_string();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    let port = server.port;
    let harness = Harness::start(&format!("upload.test:{port},127.0.0.1:{port}"));
    for more in [&[][..], &["-H", "Transfer-Encoding: chunked"]] {
        let mut curl = command("curl");
        curl.envs(environment(harness.port)).args(["-sS", "--fail", "-T"]).arg(&file).args(more);
        let output = run(curl.arg(format!("http://upload.test:{port}/")));
        assert_eq!(output.stdout, SIZE.to_string().as_bytes());
    }
}

/// A Python program that runs until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

const TLS_SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"secret")
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// A TLS server for `tls.test`, with its certificate in `cert.pem`.
fn tls_server(directory: &Path) -> (Running, u16) {
    run(command("openssl").current_dir(directory).args([
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=tls.test",
        "-addext",
        "subjectAltName=DNS:tls.test",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]));
    let mut child = command("python3")
        .current_dir(directory)
        .args(["-c", TLS_SERVER])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let running = Running(child);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    (running, line.trim().parse().unwrap())
}

#[test]
fn curl_fetches_over_https_and_over_socks() {
    if !["curl", "python3"].into_iter().all(is_installed) {
        return;
    }
    if command("openssl").arg("version").output().is_err() {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_running, port) = tls_server(directory.path());
    let mut harness = Harness::start(&format!("tls.test:{port},127.0.0.1:{port}"));
    let url = format!("https://tls.test:{port}/");
    let socks = format!("127.0.0.1:{}", harness.port);
    for more in [&[][..], &["--socks5-hostname", &socks]] {
        let mut curl = command("curl");
        curl.current_dir(directory.path()).envs(environment(harness.port));
        curl.args(["-sS", "--fail", "--cacert", "cert.pem"]).args(more);
        assert_eq!(run(curl.arg(&url)).stdout, b"secret");
        let record = harness.record();
        assert_eq!((record.0.as_str(), record.1, record.2.as_str()), ("tls.test", port, "allowed"));
    }
    // An address that is resolved inside is an address, and judged as one.
    let mut curl = command("curl");
    curl.args(["-sS", "--socks5", &socks, "https://127.0.0.2/"]);
    assert!(!curl.output().unwrap().status.success());
    assert_eq!(harness.verdict(), "denied: the address is not in the allow-list");
}

const MAKE_WHEEL: &str = r#"
import zipfile
with zipfile.ZipFile("www/files/tiny-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("tiny.py", "ANSWER = 42\n")
    info = "tiny-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "tiny.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n")
"#;

#[test]
fn pip_installs_a_package() {
    if !is_installed("python3") {
        return;
    }
    if !command("python3").args(["-m", "pip", "--version"]).output().unwrap().status.success() {
        eprintln!("skipped: pip is not installed");
        return;
    }
    let mut bench = Bench::new();
    bench.publish(
        "simple/tiny/index.html",
        "<!DOCTYPE html><a href=\"/files/tiny-1.0-py3-none-any.whl\">tiny-1.0-py3-none-any.whl</a>",
    );
    bench.publish("files/index.html", "");
    run(bench.tool("python3").args(["-c", MAKE_WHEEL]));
    let mut pip = bench.tool("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--isolated", "--no-cache-dir", "--no-deps"]);
    pip.args(["--disable-pip-version-check", "--target", "site", "--trusted-host"]);
    run(pip.args(["registry.test", "--index-url", &bench.url("simple/"), "tiny"]));
    assert_eq!(fs::read_to_string(bench.path("site/tiny.py")).unwrap(), "ANSWER = 42\n");
    bench.assert_went_through();
}

#[test]
fn npm_installs_a_package() {
    if !["npm", "tar"].into_iter().all(is_installed) {
        return;
    }
    let mut bench = Bench::new();
    fs::create_dir_all(bench.path("package")).unwrap();
    let manifest = r#"{"name":"tiny","version":"1.0.0","main":"index.js"}"#;
    fs::write(bench.path("package/package.json"), manifest).unwrap();
    fs::write(bench.path("package/index.js"), "module.exports = 42;\n").unwrap();
    bench.publish("files/index.html", "");
    run(bench.tool("tar").args(["czf", "www/files/tiny-1.0.0.tgz", "package"]));
    let tarball = bench.url("files/tiny-1.0.0.tgz");
    bench.publish(
        "tiny",
        format!(
            r#"{{"name":"tiny","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":
            {{"name":"tiny","version":"1.0.0","dist":{{"tarball":"{tarball}"}}}}}}}}"#
        ),
    );
    fs::create_dir(bench.path("project")).unwrap();
    fs::write(bench.path("project/package.json"), r#"{"name":"p","version":"1.0.0"}"#).unwrap();
    let mut npm = bench.tool("npm");
    npm.current_dir(bench.path("project"));
    npm.args(["install", "tiny", "--no-audit", "--no-fund", "--no-update-notifier"]);
    npm.args(["--cache", "../cache", "--userconfig", "../user", "--globalconfig", "../global"]);
    run(npm.args(["--registry", &bench.url("")]));
    let installed = bench.path("project/node_modules/tiny/index.js");
    assert_eq!(fs::read_to_string(installed).unwrap(), "module.exports = 42;\n");
    bench.assert_went_through();
}

#[test]
fn git_clones_a_repository() {
    if !is_installed("git") {
        return;
    }
    let mut bench = Bench::new();
    let git = |bench: &Bench, arguments: &[&str]| {
        let mut git = bench.tool("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.test"]);
        run(git.args(arguments));
    };
    fs::create_dir(bench.path("source")).unwrap();
    fs::write(bench.path("source/file"), "content\n").unwrap();
    git(&bench, &["init", "--quiet", "source"]);
    git(&bench, &["-C", "source", "add", "file"]);
    git(&bench, &["-C", "source", "commit", "--quiet", "--message", "first"]);
    git(&bench, &["clone", "--quiet", "--bare", "source", "www/repository.git"]);
    git(&bench, &["-C", "www/repository.git", "update-server-info"]);
    git(&bench, &["clone", "--quiet", &bench.url("repository.git"), "clone"]);
    assert_eq!(fs::read_to_string(bench.path("clone/file")).unwrap(), "content\n");
    bench.assert_went_through();
}

#[test]
fn cargo_fetches_a_crate() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    if ![cargo.as_str(), "tar"].into_iter().all(is_installed) {
        return;
    }
    let mut bench = Bench::new();
    fs::create_dir_all(bench.path("tiny-1.0.0/src")).unwrap();
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    fs::write(bench.path("tiny-1.0.0/Cargo.toml"), manifest).unwrap();
    fs::write(bench.path("tiny-1.0.0/src/lib.rs"), "").unwrap();
    bench.publish("dl/index.html", "");
    run(bench.tool("tar").args(["czf", "www/dl/tiny-1.0.0.crate", "tiny-1.0.0"]));
    let digest = Sha256::digest(fs::read(bench.path("www/dl/tiny-1.0.0.crate")).unwrap());
    let checksum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let download = bench.url("dl/{crate}-{version}.crate");
    bench.publish("index/config.json", format!(r#"{{"dl":"{download}"}}"#));
    bench.publish(
        "index/ti/ny/tiny",
        format!(
            r#"{{"name":"tiny","vers":"1.0.0","deps":[],"cksum":"{checksum}","features":{{}},"yanked":false}}"#
        ) + "\n",
    );

    fs::create_dir_all(bench.path("project/src")).unwrap();
    fs::write(bench.path("project/src/lib.rs"), "").unwrap();
    let manifest = "[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
        [workspace]\n[dependencies]\ntiny = { version = \"1\", registry = \"local\" }\n";
    fs::write(bench.path("project/Cargo.toml"), manifest).unwrap();
    let index = format!("sparse+{}", bench.url("index/"));
    let mut fetch = bench.tool(&cargo);
    fetch.current_dir(bench.path("project"));
    fetch.env("CARGO_HOME", bench.path("cargo-home"));
    fetch.env("CARGO_REGISTRIES_LOCAL_INDEX", index);
    run(fetch.args(["fetch", "--quiet"]));
    let lock = fs::read_to_string(bench.path("project/Cargo.lock")).unwrap();
    assert!(lock.contains(&checksum), "{lock}");
    bench.assert_went_through();
}
