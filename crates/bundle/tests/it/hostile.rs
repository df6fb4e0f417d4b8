//! A workspace with every trick in it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use cofferdam_bundle::zip_file;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::lab::{Lab, Zip, about, block_on, read};

/// Names that some system takes for more than a name, or for another one.
const NAMES: &[&[u8]] = &[
    b"..\\..\\evil",
    b"C:evil",
    b"-rf",
    b"a\nb",
    b"a\rb",
    b"\x1b]0;x\x07",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"e\xcc\x81",
    b"CON",
    b"nul.txt",
    b"dot.",
    b"space ",
    b"Case",
    b"case",
    b"turned\xe2\x80\xaegpj.exe",
    b"<img src=x onerror=alert(1)>.html",
    b"MANIFEST.json",
    b"Manifest.JSON",
    b".GIT/config",
    b"Dir/x",
    b"dir/x",
    b"dir /x",
];

pub(crate) fn fill(lab: &Lab) -> UnixListener {
    for (number, name) in NAMES.iter().enumerate() {
        lab.put(name, number.to_string());
    }
    lab.put([b'n'; 255], "long");
    lab.put(vec![b"d".as_slice(); 500].join(&b'/'), "deep");
    lab.put("hard", "hard");
    fs::hard_link(lab.path("project/hard"), lab.path("project/hard-2")).unwrap();
    for (link, target) in [
        ("passwd", "/etc/passwd"),
        ("environ", "/proc/self/environ"),
        ("up", "../../.."),
        ("root", "/"),
        ("loop", "loop"),
        ("Dir/up", ".."),
        ("tricky", "Dir/up/../etc"),
        ("backslash", "..\\x"),
        ("good", "Dir/x"),
    ] {
        symlink(target, lab.path("project").join(link)).unwrap();
    }
    mknodat(CWD, lab.path("project/pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    fs::File::create(lab.path("project/sparse")).unwrap().set_len(1 << 40).unwrap();
    let locked = lab.put("locked", "secret");
    fs::set_permissions(locked, fs::Permissions::from_mode(0o000)).unwrap();
    lab.put("closed/x", "x");
    fs::set_permissions(lab.path("project/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    UnixListener::bind(lab.path("project/socket")).unwrap()
}

/// Makes what is closed to everybody open to whoever tidies up.
pub(crate) fn unlock(lab: &Lab) {
    fs::set_permissions(lab.path("project/closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// What no name in an archive may have.
pub(crate) fn assert_harmless(zip: &Zip) {
    let mut forms = std::collections::BTreeSet::new();
    for name in zip.names() {
        assert!(!name.starts_with('/') && !name.contains(['\\', ':']), "{name:?}");
        assert!(!name.chars().any(char::is_control), "{name:?}");
        let plain = name.trim_end_matches('/');
        for part in plain.split('/') {
            assert!(part != ".." && part != "." && !part.ends_with(['.', ' ']), "{name:?}");
            assert!(!part.eq_ignore_ascii_case(".git"), "{name:?}");
        }
        assert!(forms.insert(plain.to_lowercase()), "{name:?} is there twice");
    }
}

#[test]
fn a_workspace_full_of_tricks_does_no_harm_and_loses_nothing() {
    let lab = Lab::new();
    let _socket = fill(&lab);
    let out = lab.path("out.zip");
    let summary = block_on(async {
        let sandbox = lab.open().await;
        let summary = zip_file(&sandbox.files(), about(), &out).await.unwrap();
        sandbox.close().await.unwrap();
        summary
    });
    let zip = read(&out);
    assert_harmless(&zip);
    zip.assert_files_match();

    // Every file is there with its content, and under its own name or with it.
    let rows = zip.manifest["files"].as_array().unwrap();
    for (number, name) in NAMES.iter().enumerate() {
        let shown = String::from_utf8_lossy(name);
        let row = rows.iter().find(|row| {
            let original = row.get("original").unwrap_or(&row["path"]);
            original.as_str() == Some(&shown)
        });
        let row = row.unwrap_or_else(|| panic!("{shown:?} is not there"));
        assert_eq!(zip.entries[row["path"].as_str().unwrap()].text, number.to_string());
    }
    assert_eq!(zip.entries["hard"].text, zip.entries["hard-2"].text);
    assert_eq!(zip.entries[&"n".repeat(255)].text, "long");
    assert_eq!(zip.entries[&vec!["d"; 500].join("/")].text, "deep");
    assert_eq!(zip.entries["_CON"].text, "9");
    assert_eq!(summary.manifest, "MANIFEST.cofferdam.json");

    // What is not there is named, with the reason.
    let left_out = zip.left_out();
    for (name, why) in [
        ("passwd", "absolute"),
        ("environ", "absolute"),
        ("root", "absolute"),
        ("up", "leads out"),
        ("tricky", "goes up again"),
        ("backslash", "not the same"),
        ("pipe", "a pipe"),
        ("socket", "a socket"),
        ("sparse", "sparse"),
    ] {
        assert!(left_out[name].contains(why), "{name}: {}", left_out[name]);
    }
    for name in ["locked", "closed"] {
        let in_archive = zip.names().iter().any(|found| found.starts_with(name));
        assert!(in_archive || left_out.contains_key(name), "{name}");
    }
    let links: Vec<(&str, &str)> = zip
        .entries
        .iter()
        .filter(|(_, seen)| seen.mode & 0o170_000 == 0o120_000)
        .map(|(name, seen)| (name.as_str(), seen.text.as_str()))
        .collect();
    assert_eq!(links, [("Dir/up", ".."), ("good", "Dir/x")]);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    assert!(zip.entries.values().all(|seen| !seen.text.contains(passwd.trim())));
    unlock(&lab);
}

#[test]
fn unpacking_writes_nothing_beside_the_place_it_is_told() {
    let lab = Lab::new();
    let _socket = fill(&lab);
    let out = lab.path("out.zip");
    block_on(async {
        let sandbox = lab.open().await;
        zip_file(&sandbox.files(), about(), &out).await.unwrap();
        sandbox.close().await.unwrap();
    });
    unlock(&lab);
    let place = lab.path("place");
    fs::create_dir_all(place.join("within")).unwrap();
    let mut unzip = Command::new("unzip");
    let unzip = unzip.arg("-qq").arg(&out).current_dir(place.join("within")).output();
    let Ok(unzip) = unzip else { return eprintln!("skipped: there is no unzip") };
    assert!(unzip.status.success(), "{}", String::from_utf8_lossy(&unzip.stderr));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(place.join("within/good")).unwrap(), "20");
    let inside = place.join("within").canonicalize().unwrap();
    let up = place.join("within/Dir/up").canonicalize().unwrap();
    assert_eq!(up, inside);
}
