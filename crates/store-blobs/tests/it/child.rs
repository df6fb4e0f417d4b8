//! Things that are done in another process, which is killed, limited or measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cofferdam_store::{BlobError, BlobKey, BlobWriter, Blobs};
use cofferdam_store_blobs::{DiskBlobs, ObjectBlobs};
use futures_util::stream::StreamExt;

/// What a child is to do, and where.
const TASK: &str = "COFFERDAM_TEST_BLOBS_TASK";
const PLACE: &str = "COFFERDAM_TEST_BLOBS_PLACE";

pub(crate) fn key(words: &[&str]) -> BlobKey {
    BlobKey::of(words).unwrap()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let late = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < late, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process of this program that does a task. It is killed when it is dropped.
pub(crate) struct Helper(Child);

impl Helper {
    pub(crate) fn start(task: &str, place: &str, shell: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell} exec \"$0\" --exact child::task --nocapture")]);
        command.arg(program).env(TASK, task).env(PLACE, place);
        Self(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// What it says, after it has done its task well.
    pub(crate) fn said(mut self) -> String {
        let mut said = String::new();
        let mut out = self.0.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut out, &mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The task of a helper; nothing in any other process.
#[test]
fn task() {
    let (Ok(task), Ok(place)) = (std::env::var(TASK), std::env::var(PLACE)) else { return };
    let blobs: Box<dyn Blobs> = match place.starts_with("http") {
        true => Box::new(object(&place, "node")),
        false => Box::new(DiskBlobs::open(Path::new(&place)).unwrap()),
    };
    block_on(async {
        match task.as_str() {
            "write for ever" => write(&*blobs, u64::MAX).await.map(drop).unwrap(),
            "fill" => match write(&*blobs, 100 << 20).await {
                Err(BlobError::Full(_)) => println!("it is full"),
                other => panic!("{other:?}"),
            },
            size => println!("{}", round_trip(&*blobs, size.parse().unwrap()).await),
        }
    });
}

/// Blobs in a server of the tests.
pub(crate) fn object(endpoint: &str, owner: &str) -> ObjectBlobs {
    let settings = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_ALLOW_HTTP", "true"),
        ("PATH", "/bin"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ObjectBlobs::from_url("s3://bucket/some/prefix", owner, settings).unwrap()
}

async fn write(blobs: &dyn Blobs, bytes: u64) -> Result<(), BlobError> {
    let mut writer: Box<dyn BlobWriter> = blobs.create(key(&["job", "big"])).await?;
    let piece = Bytes::from(vec![7; 64 << 10]);
    let mut left = bytes;
    while left > 0 {
        let length = left.min(piece.len() as u64);
        writer.write(piece.slice(..usize::try_from(length).unwrap())).await?;
        left -= length;
    }
    writer.finish().await.map(drop)
}

/// Writes and reads a blob; returns what the system says of the most memory used.
async fn round_trip(blobs: &dyn Blobs, bytes: u64) -> String {
    let mut writer = blobs.create(key(&["job", "big"])).await.unwrap();
    let piece = Bytes::from(vec![7; 64 << 10]);
    for _ in 0..bytes / piece.len() as u64 {
        writer.write(piece.clone()).await.unwrap();
    }
    let blob = writer.finish().await.unwrap();
    assert_eq!(blob.bytes, bytes);
    let mut stream = blobs.read(&blob).await.unwrap();
    let (mut read, mut largest) = (0, 0);
    while let Some(piece) = stream.next().await {
        let length = piece.unwrap().len();
        largest = largest.max(length);
        read += length as u64;
    }
    assert_eq!(read, bytes);
    assert!(largest <= 256 << 10, "{largest}");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("VmHWM:")).unwrap().to_owned()
}

/// The peak of a helper's memory in KiB, from what it says.
pub(crate) fn peak_kib(said: &str) -> u64 {
    let line = said.lines().find_map(|line| line.split_once("VmHWM:")).unwrap().1;
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// All files beneath a directory.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}
