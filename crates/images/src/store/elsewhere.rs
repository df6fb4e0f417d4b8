//! Where mmdebstrap works for an ordinary user: outside of the store, because the users of its
//! namespace are others to the system and get into no home.
//!
//! A note in the store is there before the directory and goes after it, so that what a killed build
//! left is removed with the next change of the store. The note is a name and no path, and leads to
//! nothing but a directory that is called as ours are and belongs to this user.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Changing, remove};
use crate::error::ImageError;
use crate::progress::Step;
use crate::run::Task;

/// Where everybody may make a directory, and on a disk: it takes gigabytes.
const ABOVE: &str = "/var/tmp";

/// What the names of ours begin with.
const PREFIX: &str = "cofferdam-image-";

/// The note.
const NOTE: &str = ".elsewhere";

/// How long it may take to remove what belongs to users of the namespace.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// A directory outside of the store. Dropped, nothing of it stays.
#[derive(Debug)]
pub(crate) struct Elsewhere<'a> {
    changing: &'a Changing,
    path: PathBuf,
}

impl<'a> Elsewhere<'a> {
    pub(super) fn make(changing: &'a Changing) -> Result<Self, ImageError> {
        changing.clear_elsewhere()?;
        let name = name().map_err(ImageError::system("make a directory in", Path::new(ABOVE)))?;
        let note = changing.store.place.join(NOTE);
        let write = || -> io::Result<()> {
            let mut file = File::create(&note)?;
            file.write_all(name.as_bytes())?;
            file.sync_all()
        };
        write().map_err(ImageError::system("write", &note))?;
        let path = Path::new(ABOVE).join(&name);
        // The users of the namespace get through it; nobody else sees what there is to get to.
        let passable = fs::Permissions::from_mode(0o711);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.and_then(|()| fs::set_permissions(&path, passable))
            .map_err(ImageError::system("make", &path))?;
        Ok(Self { changing, path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        // What stays now goes with the next change of the store.
        drop(self.changing.clear_elsewhere());
    }
}

impl Changing {
    /// Removes the directory that the store has a note of, and then the note.
    pub(super) fn clear_elsewhere(&self) -> Result<(), ImageError> {
        let note = self.store.place.join(NOTE);
        let name = match fs::read(&note) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(ImageError::system("read", &note))?,
        };
        if let Some(path) = own(&String::from_utf8_lossy(&name)) {
            remove_with_others(&path, &self.lock)?;
        }
        fs::remove_file(&note).map_err(ImageError::system("remove", &note))
    }
}

/// A name that nobody can have taken before us.
fn name() -> io::Result<String> {
    let mut random = [0_u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{digits}"))
}

/// The directory that a note names, if it is one of ours. Then nobody can put another in its place:
/// where everybody makes directories, only their owners rename them.
fn own(name: &str) -> Option<PathBuf> {
    let rest = name.strip_prefix(PREFIX)?;
    let path = Path::new(ABOVE).join(name);
    let about = path.symlink_metadata().ok()?;
    let own = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
    (own && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(path)
}

/// Removes a directory of ours, in which users of a namespace may have files. Those have to be
/// removed by who is root in such a namespace; what they were in is ours again.
fn remove_with_others(path: &Path, lock: &File) -> Result<(), ImageError> {
    if remove(path).is_ok() {
        return Ok(());
    }
    // That root is somebody else to the system, and has to read it.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(ImageError::system("set the permissions of", path))?;
    let place = path.display().to_string();
    let find = ["find", &place, "-xdev", "-mindepth", "2", "-delete"];
    let task = Task {
        step: Step::Clean,
        program: Path::new("mmdebstrap"),
        arguments: std::iter::once("--unshare-helper").chain(find).collect(),
        called: "mmdebstrap --unshare-helper find",
        directory: Path::new(ABOVE),
        variables: Vec::new(),
        limit: LIMIT,
        lock,
        output: None,
    };
    // Also after a stop: it is what somebody who wants that waits for.
    let emptied = task.run(&AtomicBool::new(false), &mut |_| {});
    match (remove(path), emptied) {
        (Err(_), Err(error)) => Err(explained(error, &place)),
        (removed, _) => removed,
    }
}

/// A failure with what to do about it.
fn explained(error: ImageError, place: &str) -> ImageError {
    let ImageError::Failed { step, command, how, said, .. } = error else { return error };
    let help = Some(format!("remove what an earlier build left, as root: rm -r {place}"));
    ImageError::Failed { step, command, how, said, help }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;
    use crate::store::Store;

    fn store() -> (tempfile::TempDir, Store) {
        let home = tempfile::tempdir().unwrap();
        let store = Store::in_home(home.path());
        (home, store)
    }

    fn changing(store: &Store) -> Changing {
        store.change(Duration::from_secs(10), &AtomicBool::new(false), &mut || {}).unwrap()
    }

    #[test]
    fn a_place_elsewhere_goes_with_its_end_or_with_the_next_change() {
        let (_home, store) = store();
        let note = store.place.join(NOTE);
        let path = {
            let changing = changing(&store);
            let staging = changing.stage().unwrap();
            let elsewhere = staging.elsewhere().unwrap();
            let mode = elsewhere.path().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o711);
            fs::create_dir(elsewhere.path().join("mmdebstrap.x")).unwrap();
            elsewhere.path().to_owned()
        };
        assert!(!path.exists() && !note.exists());

        let path = {
            let changing = changing(&store);
            let elsewhere = Elsewhere::make(&changing).unwrap();
            let path = elsewhere.path().to_owned();
            fs::create_dir_all(path.join("mmdebstrap.x/etc")).unwrap();
            // As if killed: nothing is dropped.
            std::mem::forget(elsewhere);
            path
        };
        assert!(path.exists() && note.exists());
        drop(changing(&store));
        assert!(!path.exists() && !note.exists());
    }

    #[test]
    fn a_note_leads_to_nothing_but_a_directory_of_ours() {
        let (home, store) = store();
        drop(changing(&store));
        let note = store.place.join(NOTE);
        let beside = tempfile::Builder::new().prefix("beside-").tempdir_in(ABOVE).unwrap();
        let ours = tempfile::Builder::new().prefix(PREFIX).tempdir_in(ABOVE).unwrap();
        fs::create_dir(ours.path().join("inside")).unwrap();
        let called = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let (ours_is, beside_is) = (called(ours.path()), called(beside.path()));
        // A link that is called as ours are.
        let target = home.path().join("target");
        fs::create_dir(&target).unwrap();
        let link = Path::new(ABOVE).join(format!("{ours_is}link"));
        symlink(&target, &link).unwrap();
        for name in [
            String::new(),
            beside_is.clone(),
            called(&link),
            beside.path().display().to_string(),
            format!("{ours_is}/../{beside_is}"),
            format!("{ours_is}/inside"),
            format!("{PREFIX}nothing"),
        ] {
            fs::write(&note, &name).unwrap();
            drop(changing(&store));
            assert!(!note.exists(), "{name}");
            let stay = [ours.path().join("inside"), beside.path().to_owned(), target.clone()];
            let linked = link.symlink_metadata().is_ok();
            assert!(linked && stay.iter().all(|path| path.exists()), "{name}");
        }
        fs::remove_file(&link).unwrap();
        if rustix::process::geteuid().is_root() {
            // Somebody else was faster: it is theirs.
            chown(ours.path(), Some(64_017), None).unwrap();
            fs::write(&note, &ours_is).unwrap();
            drop(changing(&store));
            assert!(ours.path().exists());
            chown(ours.path(), Some(0), None).unwrap();
        }
        fs::write(&note, &ours_is).unwrap();
        drop(changing(&store));
        assert!(!ours.path().exists());
    }
}
