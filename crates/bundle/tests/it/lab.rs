//! A project in a sandbox, and archives of it as another program sees them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_bundle::{About, Status};
use cofferdam_sandbox::{Sandbox, Spec, Workspace};
use cofferdam_sandbox_native::Native;
use cofferdam_types::{JobId, Spent, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

/// A project directory, and room for sandboxes and archives.
pub(crate) struct Lab {
    home: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new().prefix("cofferdam-test-").tempdir().unwrap();
        fs::create_dir(home.path().join("project")).unwrap();
        Self { home }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A path in the project, of any bytes, whose directories are made.
    pub(crate) fn place(&self, name: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path("project").join(OsStr::from_bytes(name.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// Puts a file into the project.
    pub(crate) fn put(&self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.place(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A sandbox that works on the project.
    pub(crate) async fn open(&self) -> Sandbox {
        self.open_with(Workspace::Directory(self.path("project"))).await
    }

    /// A sandbox that looks at the project.
    pub(crate) async fn view(&self) -> Sandbox {
        self.open_with(Workspace::View(self.path("project"))).await
    }

    pub(crate) async fn open_with(&self, workspace: Workspace) -> Sandbox {
        let native = Native::new(self.path("sandboxes"));
        Sandbox::open(&native, Spec { workspace, ..Spec::scratch() }).await.unwrap()
    }
}

/// Runs something asynchronous.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(crate) fn about() -> About {
    About {
        job: JobId::generate(),
        task: Some("make it \u{9b}2J".to_owned()),
        status: Status::Complete,
        verified: true,
        ending: None,
        at: Some(Timestamp(1_700_000_000_000)),
        isolation: None,
        models: vec![],
        spent: Spent::default(),
        checks: vec![],
        commands: vec![],
    }
}

/// An entry, as another program sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) bytes: u64,
    pub(crate) mode: u32,
    pub(crate) sha256: String,
    /// Its content, where that is short.
    pub(crate) text: String,
    pub(crate) date: Vec<u64>,
}

/// An archive, as another program sees it.
pub(crate) struct Zip {
    pub(crate) entries: BTreeMap<String, Seen>,
    pub(crate) manifest: Value,
}

const READ: &str = r"
import hashlib, json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
found = []
for entry in archive.infolist():
    content, whole = hashlib.sha256(), 0
    start = b''
    with archive.open(entry) as file:
        while piece := file.read(1 << 20):
            content.update(piece)
            whole += len(piece)
            start = start or piece
    assert whole == entry.file_size
    assert entry.filename.isascii() or entry.flag_bits & 0x800
    assert entry.orig_filename == entry.filename, 'it was changed on the way'
    found.append([entry.filename, whole, entry.external_attr >> 16, content.hexdigest(),
                  start[:2000].decode('utf-8', 'replace'), list(entry.date_time)])
print(json.dumps([found, json.load(archive.open(found[-1][0])), archive.comment.decode()]))
";

const READ_TAR: &str = r"
import hashlib, json, sys, tarfile
archive = tarfile.open(sys.argv[1], 'r:')
found, manifest = [], None
for entry in archive:
    kind = {tarfile.REGTYPE: 0o100000, tarfile.DIRTYPE: 0o040000, tarfile.SYMTYPE: 0o120000}
    name = entry.name + ('/' if entry.isdir() else '')
    content = archive.extractfile(entry).read() if entry.isreg() else entry.linkname.encode()
    assert entry.uid == entry.gid == 0
    found.append([name, len(content), kind[entry.type] | entry.mode,
                  hashlib.sha256(content).hexdigest(),
                  content[:2000].decode('utf-8', 'replace'), [entry.mtime]])
    manifest = content
print(json.dumps([found, json.loads(manifest), 'the manifest is ' + found[-1][0]]))
";

/// Reads a compressed tar archive with a program that is not ours.
pub(crate) fn read_tar_zst(path: &Path) -> Zip {
    let plain = path.with_extension("plain");
    let mut out = fs::File::create(&plain).unwrap();
    zstd::stream::copy_decode(fs::File::open(path).unwrap(), &mut out).unwrap();
    read_with(READ_TAR, &plain)
}

/// Reads an archive with a program that is not ours, checksums included.
pub(crate) fn read(path: &Path) -> Zip {
    read_with(READ, path)
}

fn read_with(program: &str, path: &Path) -> Zip {
    let output = Command::new("python3").args(["-I", "-c", program]).arg(path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "no warnings");
    type Row = (String, u64, u32, String, String, Vec<u64>);
    let (rows, manifest, comment): (Vec<Row>, Value, String) =
        serde_json::from_slice(&output.stdout).unwrap();
    let last = rows.last().unwrap().0.clone();
    assert!(comment.ends_with(&format!("the manifest is {last}")), "{comment}");
    let count = rows.len();
    let entries: BTreeMap<String, Seen> = rows
        .into_iter()
        .map(|(name, bytes, mode, sha256, text, date)| {
            (name, Seen { bytes, mode, sha256, text, date })
        })
        .collect();
    assert_eq!(entries.len(), count, "each name once");
    Zip { entries, manifest }
}

impl Zip {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.entries.keys().map(String::as_str).collect()
    }

    /// What was left out, with the reason.
    pub(crate) fn left_out(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = self.manifest["left_out"].as_array().unwrap();
        rows.iter().map(|row| (text(&row["path"]), text(&row["why"]))).collect()
    }

    /// Asserts that the manifest says of each file what is there.
    pub(crate) fn assert_files_match(&self) {
        let rows = self.manifest["files"].as_array().unwrap();
        for row in rows {
            let seen = &self.entries[row["path"].as_str().unwrap()];
            assert_eq!(row["bytes"], seen.bytes, "{row}");
            assert_eq!(row["sha256"], seen.sha256, "{row}");
        }
        let files = self.entries.values().filter(|seen| seen.mode & 0o170_000 == 0o100_000);
        assert_eq!(rows.len(), files.count() - 1, "all but the manifest");
    }
}
