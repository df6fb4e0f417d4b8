//! Archives that are not sound: refused with a reason, and nothing of them stays.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cofferdam_images::{ImageError, Import, Naming, Progress, Store, Unpack, UnpackLimits};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};
use tar::EntryType;

use crate::archives::{
    LIMITS, Layer, Tar, docker_files, gzip, oci, oci_files, refusal, sum, tar_of, unpack, zstd,
};

fn one(tar: Tar) -> Vec<u8> {
    oci(vec![tar.into()])
}

#[test]
fn names_that_lead_out_are_refused() {
    for name in ["../x", "a/../../x", "/../x", "..", "a/..", "./../x"] {
        let reason = refusal(&one(Tar::new().file(name, "x")));
        assert!(reason.contains("leads out of the image"), "{name}: {reason}");
    }
    let reason = refusal(&one(Tar::new().file("a", "x").link("b", "../../outside")));
    assert!(reason.contains("leads out of the image"), "{reason}");
    for name in ["a/.wh.", "a/.wh..", ".wh..."] {
        let reason = refusal(&one(Tar::new().file(name, "")));
        assert!(reason.contains("cannot be removed"), "{name}: {reason}");
    }
    let reason = refusal(&one(Tar::new().pax(&[("path", b"a\0b")]).file("a", "x")));
    assert!(reason.contains("zero"), "{reason}");
}

#[test]
fn links_lead_nowhere_but_inside() {
    let place = tempfile::tempdir().unwrap();
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "untouched").unwrap();
    let target = outside.display().to_string();
    let first = Tar::new()
        .symlink("absolute", &target)
        .symlink("relative", "../outside")
        .symlink("process", "/proc/self/cwd")
        .symlink("file", &format!("{target}/file"));
    // Inside, that is a directory of the image's own, if anything.
    let second = Tar::new()
        .directory(target.trim_start_matches('/'))
        .directory("outside")
        .directory("proc/self/cwd");
    let third = Tar::new()
        .file("absolute/new", "x")
        .file("relative/new", "x")
        .file("process/new", "x")
        .file("file", "x")
        .file("absolute/.wh.file", "")
        .file("relative/.wh..wh..opq", "");
    unpack(place.path(), &oci(vec![first.into(), second.into(), third.into()])).unwrap();
    let names: Vec<_> =
        fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "untouched");
    let root = place.path().join("root");
    assert!(root.join("outside/new").exists() && root.join("proc/self/cwd/new").exists());
    assert!(root.join(target.trim_start_matches('/')).join("new").exists());
    assert!(root.join("file").symlink_metadata().unwrap().is_file());
    // A hard link goes to what the image has there, which is nothing.
    let reason = refusal(&one(Tar::new().symlink("s", &target).link("b", "s/file")));
    assert!(reason.contains("not there"), "{reason}");
}

#[test]
fn links_in_a_circle_end() {
    let circle = || Tar::new().symlink("a", "b").symlink("b", "a").symlink("self", "self/x");
    let reason = refusal(&one(circle().file("a/x", "")));
    assert!(reason.contains("\"a\""), "{reason}");
    refusal(&one(circle().file("self/x", "")));
    refusal(&one(circle().link("x", "a/y")));
    // Where nothing can be, there is nothing to remove.
    let place = tempfile::tempdir().unwrap();
    unpack(place.path(), &one(circle().file("a/.wh.x", "").file("a/.wh..wh..opq", ""))).unwrap();
    // A link to itself, and one to a directory, are none.
    for (name, to) in [("x", "x"), ("x", "d"), ("x", ""), ("x", "d/missing")] {
        refusal(&one(Tar::new().directory("d").link(name, to)));
    }
    refusal(&one(Tar::new().symlink("x", "")));
    refusal(&one(Tar::new().symlink("nowhere", "missing").file("nowhere/x", "")));
    refusal(&one(Tar::new().file("f", "").file("f/x", "")));
}

#[test]
fn directories_do_not_lie_deeper_than_can_be_removed() {
    let deep = "d/".repeat(199);
    let place = tempfile::tempdir().unwrap();
    unpack(place.path(), &one(Tar::new().file(&format!("{deep}x"), ""))).unwrap();
    let reason = refusal(&one(Tar::new().file(&format!("{}x", "d/".repeat(201)), "")));
    assert!(reason.contains("too deep"), "{reason}");
    // Each path is short; links make them longer.
    let mut tar = Tar::new();
    let mut above = String::new();
    for number in 0..20 {
        let path = format!("{above}{}", "d/".repeat(40));
        tar = tar.directory(&path).symlink(&format!("s{number}"), &path);
        above = format!("s{number}/");
    }
    let reason = refusal(&one(tar));
    assert!(reason.contains("too deep"), "{reason}");
    let reason = refusal(&one(Tar::new().file(&"x".repeat(300), "")));
    assert!(reason.contains("too long"), "{reason}");
    let reason = refusal(&one(Tar::new().file(&"x/".repeat(3000), "")));
    assert!(reason.contains("too long"), "{reason}");
}

#[test]
fn bombs_are_seen_before_anything_is_written() {
    // Ten times what is allowed, in little.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let size = LIMITS.bytes * 10;
    let mut tar = Tar::new();
    tar.add(EntryType::Regular, "zeros", "", b"", size, 0o644);
    encoder.write_all(&tar.cut()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..size >> 20 {
        encoder.write_all(&zeros).unwrap();
    }
    let layer = Layer { packed: encoder.finish().unwrap(), content: Vec::new() };
    assert!(layer.packed.len() < 1 << 20);
    let reason = refusal(&oci(vec![layer]));
    assert!(reason.contains("more in it than an image may have"), "{reason}");
    // The archive as a whole, in a member and behind its end.
    let zeros = vec![0; usize::try_from(LIMITS.bytes).unwrap() + 1];
    let index = || Tar::new().file("index.json", "{}");
    let large = index().entry(EntryType::Regular, "zeros", "", &zeros).bytes();
    for archive in [large, [index().bytes(), zeros].concat()] {
        let reason = refusal(&gzip(&archive));
        assert!(reason.contains("more in it than an image may have"), "{reason}");
    }
    // Many small files, many layers.
    let mut tar = Tar::new();
    for number in 0..=LIMITS.entries {
        tar = tar.file(&number.to_string(), "");
    }
    let reason = refusal(&one(tar));
    assert!(reason.contains("too many files"), "{reason}");
    let layers = (0..=LIMITS.layers).map(|_| Tar::new().file("a", "").into()).collect();
    let reason = refusal(&oci(layers));
    assert!(reason.contains("more than 8 layers"), "{reason}");
    // Headers that say how long they are.
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let mut tar = Tar::new();
        tar.add(kind, "x", "", b"", 1 << 40, 0);
        let reason = refusal(&one(tar));
        assert!(reason.contains("too long"), "{reason}");
    }
    let mut tar = Tar::new();
    for _ in 0..20 {
        tar = tar.pax(&[("path", b"x")]);
    }
    let reason = refusal(&one(tar.file("x", "")));
    assert!(reason.contains("too many headers"), "{reason}");
}

/// Where it would be written there is no directory.
#[test]
fn an_archive_without_an_image_is_not_taken_out_of_its_compression() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive");
    let root = place.path().join("missing/root");
    for bytes in [Tar::new().file("etc/passwd", "x").bytes(), vec![0; 1 << 20]] {
        for packed in [gzip(&bytes), zstd(&bytes)] {
            fs::write(&archive, packed).unwrap();
            let stop = AtomicBool::new(false);
            let unpacking = Unpack { archive: &archive, limits: LIMITS, stop: &stop };
            let refused = unpacking.into_directory(&root, &mut |_| {});
            let Err(ImageError::Archive { reason, .. }) = refused else { panic!("{refused:?}") };
            assert!(reason.contains("docker export"), "{reason}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_to_blame_itself() {
    let place = tempfile::tempdir().unwrap();
    let (archive, stop) = (place.path().join("no such file"), AtomicBool::new(false));
    let unpacking = Unpack { archive: &archive, limits: LIMITS, stop: &stop };
    let refused = unpacking.into_directory(&place.path().join("root"), &mut |_| {});
    assert!(
        matches!(&refused, Err(ImageError::Archive { path, .. }) if *path == archive),
        "{refused:?}"
    );
}

#[test]
fn files_that_readers_disagree_about_are_refused() {
    let reason = refusal(&one(Tar::new().pax(&[("size", b"1000000")]).file("a", "x")));
    assert!(reason.contains("said twice"), "{reason}");
    let reason = refusal(&one(Tar::new().pax(&[("size", b"8589934592")]).file("a", "")));
    assert!(reason.contains("larger than 8 GiB"), "{reason}");
    let reason = refusal(&one(Tar::new().pax(&[("GNU.sparse.major", b"1")]).file("a", "x")));
    assert!(reason.contains("sparse"), "{reason}");
    let reason = refusal(&one(Tar::new().entry(EntryType::GNUSparse, "a", "", b"x")));
    assert!(reason.contains("sparse"), "{reason}");
    let reason = refusal(&one(Tar::new().file("a", "x").pax(&[("path", b"x")])));
    assert!(reason.contains("not there"), "{reason}");
    let reason = refusal(&one(Tar::new().entry(EntryType::new(b'Z'), "a", "", b"x")));
    assert!(reason.contains("not known"), "{reason}");
    // One name twice in the outer archive: which is it?
    let layers = [Layer::from(Tar::new().file("a", "1"))];
    let mut files = oci_files(&layers);
    files.push(files[0].clone());
    let reason = refusal(&tar_of(&files));
    assert!(reason.contains("is in it twice"), "{reason}");
}

#[test]
fn what_does_not_have_its_digest_is_refused() {
    let layers = || [Layer::from(Tar::new().file("a", "1"))];
    // Another byte in any of the files; names and sizes stay.
    for files in [oci_files(&layers()), docker_files(&layers())] {
        for (place, (name, bytes)) in files.iter().enumerate() {
            if ["index.json", "oci-layout", "manifest.json"].contains(&name.as_str()) {
                continue;
            }
            let mut changed = files.clone();
            // Something that leaves an archive and a text what they are.
            let at = bytes.iter().rposition(|byte| *byte == b'1').unwrap_or(bytes.len() / 2);
            changed[place].1[at] = b'2';
            refusal(&tar_of(&changed));
        }
    }
    // A layer whose content is not what its configuration says, though its own digest is right.
    let other = Tar::new().file("a", "2").bytes();
    let layers = [Layer { packed: gzip(&other), content: Tar::new().file("a", "1").bytes() }];
    for files in [oci_files(&layers), docker_files(&layers)] {
        let reason = refusal(&tar_of(&files));
        assert!(reason.contains("not what the image says"), "{reason}");
    }
}

/// What somebody makes of an archive that was checked.
#[test]
fn an_archive_that_is_changed_while_it_is_read_is_refused_and_nothing_is_kept() {
    // Long enough for progress to be told while it is unpacked.
    let large = "x".repeat(20 << 20);
    let tar = |last: Tar| Layer::from(Tar::new().file("large", &large).and(&last));
    let (plain, packed) = (
        |last: Tar| oci(vec![tar(last)]),
        |last: Tar| {
            let content = last.bytes();
            oci(vec![tar(Tar::new()), Layer { packed: gzip(&content), content }])
        },
    );
    let genuine = || Tar::new().file("bin/sh", "genuine");
    let many = || (0..4).fold(Tar::new(), |tar, number| tar.file(&number.to_string(), ""));
    let whole = plain(genuine());
    let cases = [
        ("content", whole.clone(), plain(Tar::new().file("bin/sh", "hostile"))),
        ("a name", whole.clone(), plain(Tar::new().file("../../x", "hostile"))),
        ("a kind", whole.clone(), plain(Tar::new().entry(EntryType::new(b'Z'), "x", "", b"x"))),
        ("more files", whole.clone(), plain(many())),
        ("cut off", whole.clone(), whole[..1 << 20].to_vec()),
        ("nothing", whole, Vec::new()),
        (
            "compressed content",
            packed(genuine()),
            packed(Tar::new().file("bin/sh", &"hostile".repeat(1_000_000))),
        ),
    ];
    for (what, before, after) in cases {
        let place = tempfile::tempdir().unwrap();
        let archive = place.path().join("archive");
        fs::write(&archive, before).unwrap();
        let (store, stop) = (Store::in_home(&place.path().join("home")), AtomicBool::new(false));
        let import = Import {
            archive: &archive,
            name: "changed",
            naming: Naming::OfTheFile,
            store: &store,
            now: 7,
            patience: Duration::from_secs(60),
            limits: UnpackLimits::default(),
            stop: &stop,
        };
        let mut changed = false;
        let imported = import.import(&mut |progress| {
            // More than half of what is read: everything was checked.
            if let Progress::Part { done, of, .. } = progress
                && done > of / 2
                && !changed
            {
                changed = true;
                fs::write(&archive, &after).unwrap();
            }
        });
        assert!(changed, "{what}");
        let Err(ImageError::Archive { reason, .. }) = imported else {
            panic!("{what}: {imported:?}")
        };
        assert!(reason.contains("changed while it was read"), "{what}: {reason}");
        assert_eq!(store.list().unwrap(), [], "{what}");
        let left: Vec<_> =
            fs::read_dir(store.place()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".lock"], "{what}");
    }
}

/// Tells this program that it has a small disk, and where.
const SMALL: &str = "COFFERDAM_IMAGES_SMALL";

/// Runs a test once more, with a small disk of its own.
fn on_a_small_disk(test: &str, options: &str) {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = format!("mount -t tmpfs -o {options} tmpfs \"${SMALL}\"; exec \"$@\"");
    let ran = command
        .args(["--mount", "--", "sh", "-ec", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(SMALL, place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// Whether there is room for an archive on the small disk. If not, nothing of it stays.
fn has_room(disk: &Path, bytes: &[u8]) -> bool {
    let beside = tempfile::tempdir().unwrap();
    let (archive, root) = (beside.path().join("archive"), disk.join("root"));
    fs::write(&archive, bytes).unwrap();
    let stop = AtomicBool::new(false);
    let unpacking = Unpack { archive: &archive, limits: LIMITS, stop: &stop };
    match unpacking.into_directory(&root, &mut |_| {}) {
        Ok(_) => {
            fs::remove_dir_all(&root).unwrap();
            true
        }
        Err(ImageError::Full { .. }) => {
            assert_eq!(fs::read_dir(disk).unwrap().count(), 0);
            false
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// All of these could be written, to the last one: it is known before that too little stays.
#[test]
fn small_files_are_counted_before_they_fill_a_disk() {
    let files = |count: u32, content: &str| {
        one((0..count).fold(Tar::new(), |tar, number| tar.file(&format!("d/{number}"), content)))
    };
    let Some(disk) = std::env::var_os(SMALL).map(PathBuf::from) else {
        let test = "hostile::small_files_are_counted_before_they_fill_a_disk";
        on_a_small_disk(test, "size=64m,nr_inodes=1000");
        return on_a_small_disk(test, "size=4m,nr_inodes=100000");
    };
    let few_files = rustix::fs::statvfs(&disk).unwrap().f_files == 1000;
    let (content, most) = if few_files { ("", 900) } else { ("x", 700) };
    assert!(has_room(&disk, &files(most, content)));
    assert!(!has_room(&disk, &files(most + 80, content)));
    // Directories that the archive does not tell of take as much.
    let deep = |count: u32| {
        let path = |number| format!("{number}/{}x", "d/".repeat(95));
        one((0..count).fold(Tar::new(), |tar, number| tar.file(&path(number), "")))
    };
    assert!(has_room(&disk, &deep(7)));
    assert!(!has_room(&disk, &deep(10)));
}

#[test]
fn what_is_cut_off_or_missing_is_refused() {
    let mut random = vec![0; 60_000];
    let mut seed = 1_u32;
    for byte in &mut random {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = seed.to_be_bytes()[0];
    }
    let tar = Tar::new().entry(EntryType::Regular, "a", "", &random).bytes();
    let layers = || [Layer { packed: gzip(&tar), content: tar.clone() }];
    let whole = tar_of(&oci_files(&layers()));
    for length in (0..whole.len() - 1024).step_by(5_000) {
        refusal(&whole[..length]);
    }
    // A layer that ends too early, digests and all.
    let half = &tar[..30_000];
    for packed in [half.to_vec(), gzip(half), gzip(&tar)[..20_000].to_vec()] {
        refusal(&oci(vec![Layer { packed, content: half.to_vec() }]));
    }
    for files in [oci_files(&layers()), docker_files(&layers())] {
        for missing in 0..files.len() {
            let mut fewer = files.clone();
            let (name, _) = fewer.remove(missing);
            if name != "oci-layout" {
                refusal(&tar_of(&fewer));
            }
        }
    }
    for bytes in [&b""[..], b"x", &[0; 1024], &gzip(b"x"), b"\x28\xb5\x2f\xfd", &[0x1f, 0x8b]] {
        refusal(bytes);
    }
}

#[test]
fn texts_that_make_no_sense_are_refused() {
    let layers = || [Layer::from(Tar::new().file("a", "1"))];
    let with = |name: &str, text: &str| {
        let mut files =
            if name == "index.json" { oci_files(&layers()) } else { docker_files(&layers()) };
        let file = files.iter_mut().find(|(other, _)| other == name).unwrap();
        file.1 = text.as_bytes().to_vec();
        refusal(&tar_of(&files))
    };
    let digest = format!("sha256:{}", "0".repeat(64));
    for index in [
        json!({ "manifests": [] }),
        json!({}),
        json!([]),
        json!({ "manifests": [{ "digest": "sha256:../../x", "size": 1 }] }),
        json!({ "manifests": [{ "digest": "md5:00", "size": 1 }] }),
        json!({ "manifests": [{ "digest": digest, "size": 1 }] }),
        json!({ "manifests": [{ "digest": digest, "size": -1 }] }),
    ] {
        with("index.json", &index.to_string());
    }
    let saved = |config: &str, layers: Value| json!([{ "Config": config, "Layers": layers }]);
    for manifest in [
        json!([]),
        saved("../../../etc/passwd", json!([])),
        saved("/etc/passwd", json!(["/etc/passwd"])),
        saved("manifest.json", json!(["0/layer.tar"])),
        json!([{ "Config": "a", "Layers": [] }, { "Config": "a", "Layers": [] }]),
    ] {
        with("manifest.json", &manifest.to_string());
    }
    let reason = with("manifest.json", &" ".repeat(5 << 20));
    assert!(reason.contains("too large"), "{reason}");
    // A list of images that is in itself cannot be made; one that goes on is not followed.
    let mut files = oci_files(&layers());
    let mut index = files.iter().find(|(name, _)| name == "index.json").unwrap().1.clone();
    for _ in 0..8 {
        files.push((format!("blobs/sha256/{}", sum(&index)), index.clone()));
        let list = json!({ "digest": format!("sha256:{}", sum(&index)), "size": index.len() });
        index = json!({ "manifests": [list] }).to_string().into_bytes();
    }
    files.iter_mut().find(|(name, _)| name == "index.json").unwrap().1 = index;
    let reason = refusal(&tar_of(&files));
    assert!(reason.contains("without end"), "{reason}");
    let reason = refusal(&Tar::new().file("etc/passwd", "x").bytes());
    assert!(reason.contains("docker export"), "{reason}");
    // Links in the outer archive that go round.
    let mut tar = Tar::new();
    for (name, bytes) in docker_files(&layers()) {
        tar = if name.ends_with("layer.tar") {
            tar.symlink(&name, "layer.tar")
        } else {
            tar.entry(EntryType::Regular, &name, "", &bytes)
        };
    }
    let reason = refusal(&tar.bytes());
    assert!(reason.contains("without an end"), "{reason}");
}

#[test]
fn an_image_for_another_machine_says_so() {
    let layers = [Layer::from(Tar::new().file("a", "1"))];
    let mut files = docker_files(&layers);
    let mut config: Value = serde_json::from_slice(&files[0].1).unwrap();
    config["architecture"] = json!("s390x");
    let config = config.to_string().into_bytes();
    files[0] = ("config".to_owned(), config);
    let manifest = json!([{ "Config": "config", "Layers": ["0/layer.tar"] }]);
    files.last_mut().unwrap().1 = manifest.to_string().into_bytes();
    let reason = refusal(&tar_of(&files));
    assert!(reason.contains("linux/s390x") && reason.contains("this machine"), "{reason}");
}

/// Entries that mean no good, in any order.
fn entries() -> impl Strategy<Value = Vec<Vec<(u8, String, String)>>> {
    let part = prop::sample::select(vec!["a", "b", "s", "..", ".", "", ".wh.a", ".wh..wh..opq"]);
    let path = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"));
    let target = prop::sample::select(vec![
        "a",
        "b/a",
        "..",
        "/",
        "../outside",
        "../../..",
        "s",
        "/a",
        "OUTSIDE",
    ]);
    let entry = (0..5_u8, path, target.prop_map(str::to_owned));
    prop::collection::vec(prop::collection::vec(entry, 0..8), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_an_archive_says_nothing_outside_changes(layers in entries()) {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a"), "untouched").unwrap();
        let before = fs::metadata(&outside).unwrap();
        let tar = |entries: &Vec<(u8, String, String)>| {
            let mut tar = Tar::new();
            for (kind, path, target) in entries {
                let target = target.replace("OUTSIDE", &outside.display().to_string());
                tar = match kind {
                    0 | 1 => tar.file(path, "changed"),
                    2 => tar.directory(path),
                    3 => tar.symlink(path, &target),
                    _ => tar.link(path, &target),
                };
            }
            Layer::from(tar)
        };
        // Refused or not.
        let unpacked = unpack(place.path(), &oci(layers.iter().map(tar).collect()));
        let after = fs::metadata(&outside).unwrap();
        prop_assert_eq!(
            (before.mtime_nsec(), before.mode(), before.nlink()),
            (after.mtime_nsec(), after.mode(), after.nlink())
        );
        let file = fs::metadata(outside.join("a")).unwrap();
        prop_assert_eq!(file.nlink(), 1);
        prop_assert_eq!(file.permissions().mode() & 0o7777, 0o644);
        prop_assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "untouched");
        prop_assert_eq!(unpacked.is_ok(), place.path().join("root").exists());
    }
}
