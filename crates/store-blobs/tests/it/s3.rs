//! A real server that speaks S3, on loopback: moto, from PyPI, in an environment
//! of its own beneath the target directory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What is installed, and the file that says that it is.
const PACKAGES: [&str; 3] = ["moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"];
const READY: &str = "ready-5.2.5";

/// Serves until its input ends, which it does with this process.
const SERVE: &str = "
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print('%s:%s' % server.get_host_and_port(), flush=True)
sys.stdin.read()
";

/// A server with an empty bucket.
pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(python());
        command.args(["-I", "-c", SERVE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let server = Self { child, address: address.trim().to_owned() };
        assert!(server.ask("PUT /bucket").starts_with("HTTP/1.1 200"), "{}", server.address);
        server
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks without a signature, which this server does not look at.
    pub(crate) fn ask(&self, what: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        let request = format!(
            "{what} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Uploads that are neither complete nor given up.
    pub(crate) fn uploads(&self) -> usize {
        self.ask("GET /bucket?uploads").matches("<UploadId>").count()
    }

    /// The keys of all objects.
    pub(crate) fn objects(&self) -> Vec<String> {
        let answer = self.ask("GET /bucket?list-type=2");
        let keys = answer.split("<Key>").skip(1);
        keys.map(|rest| rest.split("</Key>").next().unwrap().to_owned()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The interpreter of an environment with the server in it, which is made once.
fn python() -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto");
    fs::create_dir_all(&home).unwrap();
    let lock = File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let place = home.join("environment");
    if !home.join(READY).exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place));
        run(Command::new(place.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(PACKAGES));
        File::create(home.join(READY)).unwrap();
    }
    place.join("bin/python")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot install moto from PyPI: {errors}");
}
