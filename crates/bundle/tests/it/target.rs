//! The file that an archive becomes: whole, or as it was.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cofferdam_bundle::{BundleError, check_target, zip_file};
use cofferdam_sandbox::Sandbox;
use cofferdam_types::error_chain;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::lab::{Lab, about, block_on, read};

async fn refusal(sandbox: &Sandbox, path: &Path) -> String {
    let error = zip_file(&sandbox.files(), about(), path).await.unwrap_err();
    assert!(matches!(error, BundleError::Target { .. }), "{error:?}");
    let text = error_chain(&error);
    assert!(text.starts_with(&format!("cannot write {}: ", path.display())), "{text}");
    text
}

#[test]
fn a_file_that_is_there_is_replaced() {
    let lab = Lab::new();
    lab.put("file", "text");
    let place = lab.path("place");
    fs::create_dir(&place).unwrap();
    let out = place.join("out.zip");
    fs::write(&out, "old").unwrap();
    let before = fs::metadata(&out).unwrap();
    block_on(async {
        let sandbox = lab.open().await;
        zip_file(&sandbox.files(), about(), &out).await.unwrap();
        sandbox.close().await.unwrap();
    });
    let after = fs::metadata(&out).unwrap();
    assert_ne!(before.ino(), after.ino(), "who reads the old one goes on reading it");
    assert_eq!(after.permissions().mode(), before.permissions().mode(), "as the user's mask says");
    assert_eq!(read(&out).names(), ["MANIFEST.json", "file"]);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn a_place_that_cannot_be_written_is_said_to_be() {
    let lab = Lab::new();
    block_on(async {
        let sandbox = lab.open().await;
        let text = refusal(&sandbox, &lab.path("missing/out.zip")).await;
        assert!(text.ends_with("its directory does not exist"), "{text}");
        fs::write(lab.path("file"), "").unwrap();
        let text = refusal(&sandbox, &lab.path("file/out.zip")).await;
        assert!(text.ends_with("its directory is not one"), "{text}");
        for path in ["/dev/null", lab.path("project").to_str().unwrap()] {
            let text = refusal(&sandbox, Path::new(path)).await;
            let expected = format!("cannot write {path}: something is there that is not a file");
            assert_eq!(text, expected);
        }
        let text = refusal(&sandbox, Path::new("/proc/out.zip")).await;
        assert!(text.contains("directory does not exist") || text.contains("may not"), "{text}");
        sandbox.close().await.unwrap();
    });
}

#[test]
fn a_place_can_be_checked_before_the_work_and_nothing_is_left_there() {
    let lab = Lab::new();
    let place = lab.path("place");
    fs::create_dir(&place).unwrap();
    let refused = |path: &Path| error_chain(&check_target(path).unwrap_err());

    check_target(&place.join("new.zip")).unwrap();
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    fs::write(place.join("old.zip"), "old").unwrap();
    check_target(&place.join("old.zip")).unwrap();
    assert_eq!(fs::read(place.join("old.zip")).unwrap(), b"old");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);

    let missing = lab.path("missing/out.zip");
    let expected = format!("cannot write {}: its directory does not exist", missing.display());
    assert_eq!(refused(&missing), expected);
    assert!(refused(&place.join("old.zip/out.zip")).ends_with("its directory is not one"));
    assert!(refused(&place).ends_with("place: something is there that is not a file"));
    assert!(refused(Path::new("/")).ends_with("/: it has no file name"));
}

/// A file system of a megabyte, until it is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        mount("none", &at, "tmpfs", MountFlags::empty(), c"size=1m").ok()?;
        Some(Self(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn a_full_disk_leaves_what_was_there_and_nothing_else() {
    let lab = Lab::new();
    let Some(small) = Small::mount(lab.path("small")) else {
        return eprintln!("skipped: this user may not mount a small file system");
    };
    let out = small.0.join("out.zip");
    fs::write(&out, "old").unwrap();
    block_on(async {
        let sandbox = lab.open().await;
        let script = "head -c 5000000 /dev/urandom > noise";
        sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        let text = refusal(&sandbox, &out).await;
        assert!(text.ends_with("the disk is full"), "{text}");
        assert_eq!(fs::read(&out).unwrap(), b"old");
        assert_eq!(fs::read_dir(&small.0).unwrap().count(), 1);
        sandbox.close().await.unwrap();
    });
}
