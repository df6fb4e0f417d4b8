//! An ordinary project comes through as it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use cofferdam_bundle::{zip_file, zip_to};

use crate::lab::{Lab, about, block_on, read};

#[test]
fn a_project_comes_through_as_it_is_without_what_is_ignored() {
    let lab = Lab::new();
    lab.put("src/main.rs", "fn main() {}\n");
    lab.put("empty", "");
    lab.put("naïve ☃.md", "text");
    lab.put("big", vec![7; 3_000_000]);
    lab.put(".gitignore", "target/\n*.log\n");
    lab.put("target/junk", "x");
    lab.put("a.log", "x");
    lab.put(".git/config", "x");
    fs::create_dir(lab.path("project/directory")).unwrap();
    let program = lab.put("run.sh", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(&program).unwrap().set_modified(time).unwrap();
    symlink("../run.sh", lab.path("project/src/link")).unwrap();

    let out = lab.path("out.zip");
    let summary = block_on(async {
        let sandbox = lab.open().await;
        let command = sandbox.shell("echo made inside > src/inside");
        sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        let summary = zip_file(&sandbox.files(), about(), &out).await.unwrap();
        // The same again, as a stream.
        let mut streamed = Vec::new();
        let again = zip_to(&sandbox.files(), about(), &mut streamed).await.unwrap();
        assert_eq!(again.archive_bytes, streamed.len() as u64);
        fs::write(lab.path("streamed.zip"), streamed).unwrap();
        sandbox.close().await.unwrap();
        summary
    });

    let zip = read(&out);
    assert_eq!(zip.entries, {
        let mut entries = read(&lab.path("streamed.zip")).entries;
        // Another job, so another manifest.
        entries.insert("MANIFEST.json".to_owned(), zip.entries["MANIFEST.json"].clone());
        entries
    });
    assert_eq!(
        zip.names(),
        [
            ".gitignore",
            "MANIFEST.json",
            "big",
            "directory/",
            "empty",
            "naïve ☃.md",
            "run.sh",
            "src/",
            "src/inside",
            "src/link",
            "src/main.rs"
        ]
    );
    zip.assert_files_match();
    assert_eq!(zip.entries["src/inside"].text, "made inside\n");
    assert_eq!(zip.entries["empty"].bytes, 0);
    assert_eq!(zip.entries["run.sh"].mode, 0o100_755, "and no set-id bit");
    assert_eq!(zip.entries["run.sh"].date, [2001, 9, 9, 1, 46, 40]);
    assert_eq!(
        (zip.entries["src/link"].mode, zip.entries["src/link"].text.as_str()),
        (0o120_777, "../run.sh")
    );
    assert!(zip.left_out().is_empty());
    assert_eq!(zip.manifest["version"], 1);
    assert_eq!(zip.manifest["verified"], true);
    assert!(!zip.entries["MANIFEST.json"].text.contains('\u{9b}'), "nothing for a terminal");
    assert_eq!((summary.files, summary.entries, summary.renamed), (7, 10, 0));
    assert_eq!(summary.content_bytes, 3_000_000 + 13 + 4 + 14 + 10 + 12);
    assert_eq!(summary.archive_bytes, fs::metadata(&out).unwrap().len());

    let Ok(unzip) = Command::new("unzip").arg("-tqq").arg(&out).output() else {
        return eprintln!("skipped: there is no unzip");
    };
    assert!(unzip.status.success(), "{}", String::from_utf8_lossy(&unzip.stdout));
}

#[test]
fn many_small_files_come_through() {
    let lab = Lab::new();
    block_on(async {
        let sandbox = lab.open().await;
        let script = "for d in $(seq 20); do mkdir $d; for f in $(seq 250); do \
                      echo $d.$f > $d/$f; done; done";
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert!(result.outcome.success());
        let out = lab.path("out.zip");
        let summary = zip_file(&sandbox.files(), about(), &out).await.unwrap();
        assert_eq!((summary.files, summary.entries), (5_000, 5_020));
        let zip = read(&out);
        zip.assert_files_match();
        assert_eq!(zip.entries["20/250"].text, "20.250\n");
        sandbox.close().await.unwrap();
    });
}
