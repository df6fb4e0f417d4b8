//! Images of empty file systems. Making one takes a program of the host's some
//! milliseconds, and they are all alike: one of each size is made and kept, and every
//! sandbox gets a copy of the little that is in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Failure, Step, ignore};
use crate::store::INODE_SIZE;
use crate::tree;

/// Where the directories of sandboxes have what they share, beside them.
const SHARED: &str = ".shared";

/// Templates that are kept. Sizes beyond that are made anew each time.
const MOST: usize = 16;

/// Where programs that make file systems are.
const MAKERS: [&str; 3] = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/bin/mkfs.ext4"];

/// The program that makes images, if the host has it.
#[must_use]
pub fn image_maker() -> Option<&'static str> {
    MAKERS.into_iter().find(|maker| Path::new(maker).exists())
}

/// Makes an image of this size with so many inodes, for the sandbox whose
/// directory is `state`.
pub(crate) fn copy(state: &Path, size: u64, inodes: u64, path: &Path) -> Result<(), Failure> {
    let template = match kept(state, size, inodes) {
        Some(template) => template,
        None => return make(size, inodes, path),
    };
    if let Ok(source) = File::open(&template) {
        return copy_data(&source, path);
    }
    make(size, inodes, path)?;
    keep(path, &template);
    Ok(())
}

/// The name of a template that is there or may be.
fn kept(state: &Path, size: u64, inodes: u64) -> Option<PathBuf> {
    let shared = state.parent()?.join(SHARED);
    let template = shared.join(format!("empty-{size}-{inodes}.ext4"));
    if template.exists() {
        return Some(template);
    }
    let others = std::fs::read_dir(&shared).ok()?.filter_map(Result::ok);
    let others = others.filter(|entry| entry.file_name().to_string_lossy().starts_with("empty-"));
    (others.count() < MOST).then_some(template)
}

/// Keeps a fresh image as a template, whole or not at all. Without one the next
/// image is made like this one.
fn keep(image: &Path, template: &Path) {
    let half = template.with_extension(format!("half-{}", std::process::id()));
    let kept = File::open(image)
        .step("open the image")
        .and_then(|source| copy_data(&source, &half))
        .and_then(|()| std::fs::rename(&half, template).step("keep the image"));
    if kept.is_err() {
        ignore(std::fs::remove_file(&half));
    }
}

/// Copies what is in a sparse file, and its size.
fn copy_data(source: &File, path: &Path) -> Result<(), Failure> {
    const STEP: &str = "copy an image for changes";
    let target = File::create_new(path).step(STEP)?;
    let stat = rustix::fs::fstat(source).step(STEP)?;
    tree::copy_content(source, &target, &stat).step(STEP)
}

#[expect(clippy::disallowed_methods, reason = "a program of the host's makes the file system")]
fn make(size: u64, inodes: u64, path: &Path) -> Result<(), Failure> {
    let maker = image_maker().ok_or_else(|| Failure::new("mkfs.ext4 is missing"))?;
    let file = File::create_new(path).step("make an image for changes")?;
    file.set_len(size).step("size the image for changes")?;
    drop(file);
    let status = Command::new(maker)
        .args(["-q", "-F", "-m", "0", "-O", "^has_journal,^resize_inode", "-b", "4096", "-I"])
        .arg(INODE_SIZE.to_string())
        .arg("-N")
        .arg(inodes.to_string())
        .args(["-E", "lazy_itable_init=1,nodiscard"])
        .arg(path)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .step("make a file system for changes")?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("mkfs.ext4 ended with {status}")))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_copy_is_the_same_and_as_sparse() {
        let place = tempfile::tempdir().unwrap();
        let first = place.path().join("first");
        let source = File::create_new(&first).unwrap();
        source.set_len(64 << 20).unwrap();
        for (at, byte) in [(0_u64, 1_u8), (20 << 20, 2), ((64 << 20) - 4096, 3)] {
            std::os::unix::fs::FileExt::write_all_at(&source, &[byte; 4096], at).unwrap();
        }
        let second = place.path().join("second");
        copy_data(&File::open(&first).unwrap(), &second).unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
        assert!(second.metadata().unwrap().blocks() * 512 < 1 << 20);
    }

    #[test]
    fn templates_are_few() {
        let place = tempfile::tempdir().unwrap();
        let state = place.path().join("one");
        let shared = place.path().join(SHARED);
        std::fs::create_dir(&shared).unwrap();
        for number in 0..MOST {
            assert!(kept(&state, 1, number as u64).is_some());
            std::fs::write(shared.join(format!("empty-1-{number}.ext4")), "").unwrap();
        }
        assert!(kept(&state, 1, MOST as u64).is_none());
        assert!(kept(&state, 1, 0).is_some());
    }
}
