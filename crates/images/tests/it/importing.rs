//! Archives that are sound, and what becomes of them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use cofferdam_images::{ImageError, Import, Naming, Progress, Step, Store, Unpack, UnpackLimits};
use cofferdam_testkit::OrdinaryUser;
use proptest::prelude::*;
use serde_json::{Value, json};
use tar::EntryType;
use tempfile::TempDir;

use crate::archives::{Layer, Tar, docker_files, gzip, oci, oci_files, sum, tar_of, unpack, zstd};

/// An image of these layers, unpacked.
fn image(layers: Vec<Tar>) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    unpack(place.path(), &oci(layers.into_iter().map(Layer::from).collect())).unwrap();
    place
}

fn read(place: &TempDir, path: &str) -> Option<String> {
    fs::read_to_string(place.path().join("root").join(path)).ok()
}

/// Every path in a directory.
fn list(root: &Path) -> Vec<String> {
    let mut left = vec![root.to_owned()];
    let mut paths = Vec::new();
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            paths.push(entry.path().strip_prefix(root).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
        }
    }
    paths.sort();
    paths
}

#[test]
fn every_kind_of_archive_gives_the_same_image() {
    let tar = || Tar::new().directory("bin").file("bin/sh", "#!").symlink("sbin", "bin");
    let plain = || Layer::from(tar());
    let gzipped = || Layer { packed: gzip(&tar().bytes()), content: tar().bytes() };
    // As estargz and zstd:chunked have it: members after each other, and one to be skipped.
    let (half, whole) = (700, tar().bytes().len());
    let members = || {
        let bytes = tar().bytes();
        let packed = [gzip(&bytes[..half]), gzip(&bytes[half..whole])].concat();
        Layer { packed, content: bytes }
    };
    let zstandard = || {
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let packed = [&skipped[..], &zstd(&tar().bytes())].concat();
        Layer { packed, content: tar().bytes() }
    };
    let second = || Layer::from(Tar::new().file("etc/x", "1"));
    let mut archives = Vec::new();
    for first in [plain(), gzipped(), members(), zstandard()] {
        let layers = [first, second()];
        archives.push(tar_of(&oci_files(&layers)));
        archives.push(tar_of(&docker_files(&layers)));
    }
    // `docker save` since it writes both.
    let mut both = oci_files(&[plain(), second()]);
    both.push(("manifest.json".to_owned(), b"[]".to_vec()));
    archives.push(tar_of(&both));
    archives.push(gzip(&archives[0]));
    archives.push(zstd(&archives[0]));
    let mut keys = Vec::new();
    for archive in archives {
        let place = tempfile::tempdir().unwrap();
        let unpacked = unpack(place.path(), &archive).unwrap();
        let env: Vec<_> =
            unpacked.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(env, ["A=b=c", "PATH=/usr/bin:/bin"]);
        assert_eq!(list(&place.path().join("root")), ["bin", "bin/sh", "etc", "etc/x", "sbin"]);
        assert_eq!(read(&place, "sbin/sh").unwrap(), "#!");
        assert_eq!((unpacked.files, unpacked.left_out), (3, 0));
        keys.push(unpacked.key);
    }
    keys.dedup();
    assert_eq!(keys.len(), 1, "the content is the same");
}

#[test]
fn a_layer_that_docker_saved_twice_is_a_link_to_the_first() {
    let layers = [Layer::from(Tar::new().file("a", "1")), Layer::from(Tar::new().file("a", "1"))];
    let mut archive = Tar::new();
    for (name, bytes) in docker_files(&layers) {
        archive = if name == "1/layer.tar" {
            archive.symlink(&name, "../0/layer.tar")
        } else {
            archive.entry(EntryType::Regular, &name, "", &bytes)
        };
    }
    let place = tempfile::tempdir().unwrap();
    unpack(place.path(), &archive.bytes()).unwrap();
    assert_eq!(read(&place, "a").unwrap(), "1");
}

#[test]
fn the_image_for_this_machine_is_chosen() {
    let mut files = oci_files(&[Layer::from(Tar::new().file("a", "1"))]);
    let text = |files: &[(String, Vec<u8>)]| -> Value {
        let (_, text) = files.iter().find(|(name, _)| name == "index.json").unwrap();
        serde_json::from_slice(text).unwrap()
    };
    let mut here = text(&files)["manifests"][0].clone();
    let processor = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    here["platform"] = json!({ "architecture": processor, "os": "linux" });
    let other = |architecture: &str, os: &str| {
        let digest = format!("sha256:{}", sum(architecture.as_bytes()));
        let platform = json!({ "architecture": architecture, "os": os });
        json!({ "digest": digest, "size": 3, "platform": platform })
    };
    let all = json!({ "manifests": [other("s390x", "linux"), here, other("unknown", "unknown")] });
    let all = all.to_string().into_bytes();
    let media = "application/vnd.oci.image.index.v1+json";
    let list =
        json!({ "digest": format!("sha256:{}", sum(&all)), "size": all.len(), "mediaType": media });
    files.retain(|(name, _)| name != "index.json");
    files.push((format!("blobs/sha256/{}", sum(&all)), all));
    let index = json!({ "manifests": [list] }).to_string().into_bytes();
    files.push(("index.json".to_owned(), index));
    let place = tempfile::tempdir().unwrap();
    unpack(place.path(), &tar_of(&files)).unwrap();
    assert_eq!(read(&place, "a").unwrap(), "1");
}

#[test]
fn what_a_layer_removes_is_gone_and_what_it_brings_stays() {
    let first = Tar::new()
        .directory("a")
        .file("a/one", "1")
        .file("a/two", "1")
        .directory("b")
        .file("b/old", "1")
        .directory("b/deep")
        .file("b/deep/old", "1")
        .file("c", "1");
    // Removals come after what the same layer brings, as well as before.
    let second = Tar::new()
        .file("a/.wh.one", "")
        .file("a/two", "2")
        .file("a/.wh.two", "")
        .file("b/new", "2")
        .file("b/deep/new", "2")
        .file("b/.wh..wh..opq", "")
        .file(".wh.c", "")
        .file(".wh.nothing", "")
        .file("nowhere/.wh.nothing", "")
        .file("nowhere/.wh..wh..opq", "")
        .file(".wh..wh.plnk/x", "");
    let place = image(vec![first, second]);
    let root = place.path().join("root");
    assert_eq!(
        list(&root),
        [".wh..wh.plnk", ".wh..wh.plnk/x", "a", "a/two", "b", "b/deep", "b/deep/new", "b/new"]
    );
    assert_eq!(read(&place, "a/two").unwrap(), "2");
}

/// More than the system lists at once.
#[test]
fn a_directory_with_a_lot_in_it_is_removed_as_a_whole() {
    let names = |directory: &str| -> Vec<String> {
        (0..400).map(|number| format!("{directory}/{number}{}", "x".repeat(200))).collect()
    };
    let first = ["emptied", "removed/deep"].into_iter().flat_map(names);
    let first = first.fold(Tar::new(), |tar, name| tar.file(&name, ""));
    let second = Tar::new().file("emptied/.wh..wh..opq", "").file(".wh.removed", "");
    let place = image(vec![first, second]);
    assert_eq!(list(&place.path().join("root")), ["emptied"]);
}

#[test]
fn files_directories_and_links_take_each_others_place() {
    let first = Tar::new()
        .directory("was-directory")
        .file("was-directory/x", "1")
        .file("was-file", "1")
        .file("kept", "1")
        .symlink("was-link", "kept")
        .symlink("was-link-to-directory", "was-directory")
        .directory("same")
        .file("same/x", "1");
    let second = Tar::new()
        .file("was-directory", "2")
        .directory("was-file")
        .file("was-file/x", "2")
        .file("was-link", "2")
        .directory("was-link-to-directory")
        .file("was-link-to-directory/y", "2")
        .directory("same")
        .file("same/y", "2");
    let place = image(vec![first, second]);
    for (path, text) in [
        ("was-directory", "2"),
        ("was-file/x", "2"),
        ("was-link", "2"),
        ("kept", "1"),
        ("was-link-to-directory/y", "2"),
        ("same/x", "1"),
        ("same/y", "2"),
    ] {
        assert_eq!(read(&place, path).as_deref(), Some(text), "{path}");
    }
}

#[test]
fn a_later_layer_goes_through_the_links_of_an_earlier_one_and_stays_inside() {
    let first = Tar::new()
        .directory("usr/bin")
        .symlink("bin", "usr/bin")
        .symlink("absolute", "/usr/bin")
        .symlink("far", "../../../../usr");
    let second = Tar::new()
        .file("bin/a", "2")
        .file("absolute/b", "2")
        .file("far/bin/c", "2")
        .file("far/d/e", "2");
    let third = Tar::new().file("bin/.wh.b", "").link("absolute/f", "bin/a");
    let place = image(vec![first, second, third]);
    let root = place.path().join("root");
    assert_eq!(
        list(&root),
        [
            "absolute",
            "bin",
            "far",
            "usr",
            "usr/bin",
            "usr/bin/a",
            "usr/bin/c",
            "usr/bin/f",
            "usr/d",
            "usr/d/e"
        ]
    );
}

#[test]
fn hard_links_are_the_same_file_and_writing_one_leaves_the_other() {
    let first = Tar::new().file("a", "1").link("b", "/a").link("a", "a").link("./c", "./b");
    let second = Tar::new().file("a", "2");
    let place = image(vec![first, second]);
    let inode = |path: &str| fs::metadata(place.path().join("root").join(path)).unwrap().ino();
    assert_eq!(read(&place, "a").unwrap(), "2");
    assert_eq!(read(&place, "b").unwrap(), "1");
    assert_eq!(inode("b"), inode("c"));
}

#[test]
fn nothing_has_privileges_or_is_a_device_and_times_are_kept() {
    let kinds = [EntryType::Char, EntryType::Block, EntryType::Fifo];
    let mut tar = Tar::new().directory("d").file("d/f", "x");
    for (number, kind) in kinds.into_iter().enumerate() {
        tar = tar.entry(kind, &format!("dev/{number}"), "", b"");
    }
    tar.add(EntryType::Directory, "closed", "", b"", 0, 0o000);
    tar.add(EntryType::Regular, "closed/f", "", b"x", 1, 0o000);
    tar.add(EntryType::Directory, "tmp", "", b"", 0, 0o1777);
    let place = tempfile::tempdir().unwrap();
    let unpacked = unpack(place.path(), &oci(vec![tar.into()])).unwrap();
    assert_eq!(unpacked.left_out, 3);
    let about = |path: &str| fs::symlink_metadata(place.path().join("root").join(path)).unwrap();
    for (path, mode) in
        [("d", 0o755), ("d/f", 0o755), ("closed", 0o700), ("closed/f", 0o400), ("tmp", 0o1777)]
    {
        let about = about(path);
        assert_eq!(about.permissions().mode() & 0o7777, mode, "{path}");
        assert_eq!(about.uid(), rustix::process::geteuid().as_raw());
    }
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    assert_eq!([about("d"), about("d/f")].map(|about| about.modified().unwrap()), [then, then]);
}

#[test]
fn long_names_are_whole_in_both_dialects() {
    let directory = "d".repeat(90);
    let gnu = format!("{directory}/{}", "g".repeat(200));
    let pax = format!("{directory}/{}", "p".repeat(200));
    let tar = Tar::new()
        .file(&gnu, "1")
        .pax(&[("SCHILY.xattr.security.capability", b"\x01\n\x00="), ("path", pax.as_bytes())])
        .file("short", "2")
        .pax(&[("linkpath", gnu.as_bytes())])
        .link("link", "short-link")
        .symlink("symlink", &gnu);
    let place = image(vec![tar]);
    assert_eq!(read(&place, &gnu).unwrap(), "1");
    assert_eq!(read(&place, &pax).unwrap(), "2");
    assert_eq!(read(&place, "link").unwrap(), "1");
    assert_eq!(read(&place, "symlink").unwrap(), "1");
    assert_eq!(read(&place, "short"), None);
}

#[test]
fn progress_ends_with_everything_and_a_stop_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let tar = Tar::new().file("large", &"x".repeat(20 << 20)).file("next", "1");
    let archive = place.path().join("archive");
    fs::write(&archive, oci(vec![tar.into()])).unwrap();
    let stop = AtomicBool::new(false);
    let unpacking = Unpack { archive: &archive, limits: UnpackLimits::default(), stop: &stop };
    let (mut steps, mut parts) = (Vec::new(), Vec::new());
    let root = place.path().join("root");
    let mut tell = |progress: Progress<'_>| match progress {
        Progress::Step(step) => steps.push(step),
        Progress::Part { done, of, .. } => parts.push((done, of)),
        _ => panic!("{progress:?}"),
    };
    unpacking.into_directory(&root, &mut tell).unwrap();
    assert_eq!(steps, [Step::Unpack]);
    assert!(parts.len() > 3, "{parts:?}");
    assert!(parts.last().is_some_and(|(done, of)| done == of && *of > 40 << 20), "{parts:?}");
    fs::remove_dir_all(&root).unwrap();
    // In the middle of the second reading, when files are written.
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Part { done, of, .. } = progress
            && done * 4 > of * 3
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let stopped = unpacking.into_directory(&root, &mut tell);
    assert!(matches!(stopped, Err(ImageError::Stopped)), "{stopped:?}");
    assert!(!root.exists());
}

#[test]
fn an_imported_image_has_places_for_what_sandboxes_have_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    let outside = place.path().join("outside");
    fs::write(&outside, "untouched").unwrap();
    let target = outside.display().to_string();
    let tar = Tar::new()
        .file("etc/passwd", "root:x:0:0::/root:/bin/sh\n")
        .symlink("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")
        .symlink("etc/hosts", &target)
        .symlink("etc/group", &target)
        .file("run/secret", "x")
        .symlink("tmp", "/var/tmp")
        .symlink("proc", &target)
        .symlink("var", "real")
        .file("real/tmp/left", "x");
    let other = Tar::new().symlink("etc", &target).file("usr/x", "x");
    for (name, tar) in [("one", tar), ("other", other)] {
        let archive = place.path().join(name);
        fs::write(&archive, oci(vec![tar.into()])).unwrap();
        let (store, stop) = (Store::in_home(&place.path().join("home")), AtomicBool::new(false));
        let patience = Duration::from_secs(60);
        let limits = UnpackLimits::default();
        let import = Import {
            archive: &archive,
            name,
            naming: Naming::OfTheFile,
            store: &store,
            now: 7,
            patience,
            limits,
            stop: &stop,
        };
        let root = import.import(&mut |_| {}).unwrap().root;
        for name in ["etc/resolv.conf", "etc/hosts", "etc/group", "etc/passwd", "etc/hostname"] {
            let about = fs::symlink_metadata(root.join(name)).unwrap();
            let filled = name == "etc/passwd" && root.join("real").exists();
            assert!(about.is_file() && (about.len() > 0) == filled, "{name}");
        }
        for name in ["dev", "proc", "run", "sys", "tmp", "var/tmp"] {
            assert!(fs::symlink_metadata(root.join(name)).unwrap().is_dir(), "{name}");
            assert_eq!(root.join(name).read_dir().unwrap().count(), 0, "{name}");
        }
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
}

#[test]
fn a_files_name_takes_no_other_images_name() {
    let place = tempfile::tempdir().unwrap();
    let (store, stop) = (Store::in_home(&place.path().join("home")), AtomicBool::new(false));
    let import = |content: &str, naming| {
        let archive = place.path().join("agent.tar");
        fs::write(&archive, oci(vec![Tar::new().file("a", content).into()])).unwrap();
        let import = Import {
            archive: &archive,
            name: "agent",
            naming,
            store: &store,
            now: 7,
            patience: Duration::from_secs(60),
            limits: UnpackLimits::default(),
            stop: &stop,
        };
        import.import(&mut |_| {})
    };
    let first = import("1", Naming::OfTheFile).unwrap();
    // The same again is the same.
    assert_eq!(import("1", Naming::OfTheFile).unwrap(), first);
    let error = import("2", Naming::OfTheFile).unwrap_err();
    assert!(matches!(error, ImageError::Taken { .. }), "{error:?}");
    assert!(error.help().unwrap().contains("--name agent"), "{error:?}");
    assert_eq!(store.find("agent").unwrap(), first);
    assert_eq!(store.list().unwrap().len(), 1);
    let second = import("2", Naming::Chosen).unwrap();
    assert_eq!(store.find("agent").unwrap().root, second.root);
}

#[test]
fn what_is_no_name_is_refused_before_anything_is_read_or_made() {
    let place = tempfile::tempdir().unwrap();
    let (store, stop) = (Store::in_home(&place.path().join("home")), AtomicBool::new(false));
    for name in ["MyImage", "", "../x"] {
        let import = Import {
            archive: Path::new("/no/such.tar"),
            name,
            naming: Naming::Chosen,
            store: &store,
            now: 7,
            patience: Duration::from_secs(60),
            limits: UnpackLimits::default(),
            stop: &stop,
        };
        let error = import.import(&mut |_| {}).unwrap_err();
        assert!(matches!(error, ImageError::Definition { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
    assert!(!store.place().exists());
}

#[test]
fn an_ordinary_user_gets_the_same() {
    let tests = [
        "hostile::links_in_a_circle_end",
        "hostile::links_lead_nowhere_but_inside",
        "hostile::whatever_an_archive_says_nothing_outside_changes",
        "importing::an_imported_image_has_places_for_what_sandboxes_have_of_their_own",
        "importing::every_kind_of_archive_gives_the_same_image",
        "importing::files_directories_and_links_take_each_others_place",
        "importing::nothing_has_privileges_or_is_a_device_and_times_are_kept",
        "importing::what_a_layer_removes_is_gone_and_what_it_brings_stays",
    ];
    eprintln!("{}", OrdinaryUser::Unknown.runs(&tests).unwrap());
}

/// What a layer may do to a small tree, for the property below.
#[derive(Clone, Debug)]
enum Act {
    File(String, u8),
    Directory(String),
    Remove(String),
    Empty(String),
}

fn acts() -> impl Strategy<Value = Vec<Vec<Act>>> {
    let path = prop::collection::vec("[ab]", 1..4).prop_map(|parts: Vec<String>| parts.join("/"));
    let act = (path, 0..4_u8, any::<u8>()).prop_map(|(path, kind, byte)| match kind {
        0 => Act::File(path, byte),
        1 => Act::Directory(path),
        2 => Act::Remove(path),
        _ => Act::Empty(path),
    });
    prop::collection::vec(prop::collection::vec(act, 0..6), 1..4)
}

/// The same by the book: a map from paths to content, `None` for directories.
#[derive(Default)]
struct Model(std::collections::BTreeMap<String, Option<u8>>);

impl Model {
    fn drop_below(&mut self, path: &str) {
        let below = format!("{path}/");
        self.0.retain(|other, _| !other.starts_with(&below));
    }

    /// Whether a path can be: nothing above it is a file.
    fn has_room(&self, path: &str) -> bool {
        let above =
            |(at, _): (usize, &str)| matches!(self.0.get(path.get(..at).unwrap()), Some(Some(_)));
        !path.match_indices('/').any(above)
    }

    fn put(&mut self, path: &str, content: Option<u8>) {
        for (at, _) in path.match_indices('/') {
            self.0.entry(path.get(..at).unwrap().to_owned()).or_insert(None);
        }
        if content.is_some() {
            self.drop_below(path);
        }
        self.0.insert(path.to_owned(), content);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn layers_over_each_other_are_what_the_book_says(layers in acts()) {
        let mut model = Model::default();
        let mut tars = Vec::new();
        for acts in &layers {
            let mut tar = Tar::new();
            for act in acts {
                match act {
                    Act::Remove(path) => {
                        model.drop_below(path);
                        model.0.remove(path);
                        let (above, name) = path.rsplit_once('/').unwrap_or((".", path));
                        tar = tar.file(&format!("{above}/.wh.{name}"), "");
                    }
                    Act::Empty(path) => {
                        model.drop_below(path);
                        tar = tar.file(&format!("{path}/.wh..wh..opq"), "");
                    }
                    _ => {}
                }
            }
            for act in acts {
                match act {
                    Act::File(path, byte) if model.has_room(path) => {
                        model.put(path, Some(*byte));
                        tar = tar.file(path, &byte.to_string());
                    }
                    Act::Directory(path) if model.has_room(path) => {
                        model.put(path, None);
                        tar = tar.directory(path);
                    }
                    _ => {}
                }
            }
            tars.push(tar);
        }
        let place = image(tars);
        let paths: Vec<String> = model.0.keys().cloned().collect();
        prop_assert_eq!(list(&place.path().join("root")), paths);
        for (path, content) in &model.0 {
            prop_assert_eq!(read(&place, path), content.map(|byte| byte.to_string()), "{}", path);
        }
    }
}
