//! The compressed tar archive holds what the ZIP holds.

use std::fs;

use cofferdam_bundle::{BundleError, tar_zst_to, zip_file};

use crate::hostile;
use crate::lab::{Lab, about, block_on, read, read_tar_zst};

#[test]
fn it_has_the_same_entries_as_the_zip() {
    let lab = Lab::new();
    let _socket = hostile::fill(&lab);
    lab.put("run/it.sh", "#!/bin/sh\n");
    lab.put("big", vec![7; 3_000_001]);
    lab.put(["long"; 40].join("/"), "a long path");
    let (zip, tar) = (lab.path("out.zip"), lab.path("out.tar.zst"));
    let (of_zip, of_tar) = block_on(async {
        let sandbox = lab.open().await;
        let of_zip = zip_file(&sandbox.files(), about(), &zip).await.unwrap();
        let mut out = Vec::new();
        let of_tar = tar_zst_to(&sandbox.files(), about(), &mut out).await.unwrap();
        assert_eq!(of_tar.archive_bytes, out.len() as u64);
        fs::write(&tar, out).unwrap();
        sandbox.close().await.unwrap();
        (of_zip, of_tar)
    });
    hostile::unlock(&lab);
    let (zip, tar) = (read(&zip), read_tar_zst(&tar));
    tar.assert_files_match();
    hostile::assert_harmless(&tar);
    assert_eq!(zip.names(), tar.names());
    assert_eq!(zip.left_out(), tar.left_out());
    for (name, seen) in zip.entries.iter().filter(|(name, _)| !name.starts_with("MANIFEST.coff")) {
        let other = &tar.entries[name];
        assert_eq!((seen.mode, &seen.sha256, &seen.text), (other.mode, &other.sha256, &other.text));
    }
    assert_eq!(
        (of_zip.entries, of_zip.files, of_zip.content_bytes, of_zip.renamed, of_zip.left_out),
        (of_tar.entries, of_tar.files, of_tar.content_bytes, of_tar.renamed, of_tar.left_out),
    );
}

#[test]
fn one_that_was_not_completed_is_none() {
    let lab = Lab::new();
    lab.put("file", vec![1; 300_000]);
    block_on(async {
        let sandbox = lab.open().await;
        let files = sandbox.files();
        sandbox.close().await.unwrap();
        let mut out = Vec::new();
        let error = tar_zst_to(&files, about(), &mut out).await.unwrap_err();
        assert!(matches!(error, BundleError::Workspace(_)), "{error:?}");
        assert!(zstd::decode_all(out.as_slice()).map_or(true, |plain| plain.is_empty()));
    });
}
