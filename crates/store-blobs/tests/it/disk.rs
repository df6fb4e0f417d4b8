//! Blobs in a directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bytes::Bytes;
use cofferdam_store::{Blob, BlobError, BlobKey, Blobs, blob_conformance};
use cofferdam_store_blobs::DiskBlobs;
use futures_util::stream::StreamExt;
use tempfile::TempDir;

use crate::child::{Helper, block_on, files, key, peak_kib, until};

fn place() -> (TempDir, DiskBlobs) {
    let home = tempfile::Builder::new().prefix("cofferdam-test-").tempdir().unwrap();
    let blobs = DiskBlobs::open(&home.path().join("place")).unwrap();
    (home, blobs)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn write(blobs: &DiskBlobs, words: &[&str], content: &[u8]) -> Blob {
    let mut writer = blobs.create(key(words)).await.unwrap();
    writer.write(Bytes::copy_from_slice(content)).await.unwrap();
    writer.finish().await.unwrap()
}

/// What can be read, and whether that was all.
async fn read(blobs: &DiskBlobs, blob: &Blob) -> (Vec<u8>, Result<(), BlobError>) {
    let mut stream = match blobs.read(blob).await {
        Ok(stream) => stream,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let mut content = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(bytes) => content.extend_from_slice(&bytes),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error is the end");
                return (content, Err(error));
            }
        }
    }
    (content, Ok(()))
}

#[test]
fn a_directory_behaves_like_a_place_for_blobs() {
    let (home, blobs) = place();
    block_on(async {
        assert_eq!(blob_conformance::run_all(&blobs).await, Vec::<String>::new());
        assert_eq!(blobs.sweep().await.unwrap(), 0);
    });
    assert!(files(&home.path().join("place/half")).is_empty());
}

#[test]
fn a_crash_in_mid_write_leaves_nothing_but_what_a_sweep_removes() {
    let (home, blobs) = place();
    let half = home.path().join("place/half");
    let old = block_on(write(&blobs, &["job", "big"], b"old"));
    let helper = Helper::start("write for ever", text(&home.path().join("place")), "");
    let begun = || {
        let lengths = files(&half).into_iter().map(|path| fs::metadata(path).unwrap().len());
        lengths.sum::<u64>() > 1 << 20
    };
    until("the half file", begun);
    block_on(async {
        assert_eq!(blobs.sweep().await.unwrap(), 0, "its writer lives");
        helper.kill();
        assert_eq!(files(&half).len(), 1);
        let (content, result) = read(&blobs, &old).await;
        assert_eq!((content.as_slice(), result.is_ok()), (b"old".as_slice(), true));
        // One of our own is under way.
        let mut writer = blobs.create(key(&["other"])).await.unwrap();
        writer.write(Bytes::from(vec![1; 300_000])).await.unwrap();
        assert_eq!(blobs.sweep().await.unwrap(), 1);
        assert_eq!(blobs.sweep().await.unwrap(), 0);
        let own = writer.finish().await.unwrap();
        assert_eq!(read(&blobs, &own).await.0.len(), 300_000);
        assert_eq!(read(&blobs, &old).await.0, b"old");
    });
    assert!(files(&half).is_empty());
}

#[test]
fn a_byte_that_is_damaged_is_never_part_of_a_whole() {
    let (home, blobs) = place();
    let content: Vec<u8> = (0..500_000_u32).map(|number| number as u8).collect();
    block_on(async {
        let blob = write(&blobs, &["job", "out.zip"], &content).await;
        let [path] = files(&home.path().join("place/blobs")).try_into().unwrap();
        for place in [0, 1, 131_072, 250_000, 499_999] {
            let mut spoilt = content.clone();
            spoilt[place] ^= 1;
            fs::write(&path, &spoilt).unwrap();
            let (found, result) = read(&blobs, &blob).await;
            assert!(
                matches!(&result, Err(BlobError::Damaged(key)) if *key == blob.key),
                "{result:?}"
            );
            assert!(found.len() < content.len(), "{place}: all {} bytes came", found.len());
        }
        for length in [0, 1, 131_072, 499_999, 500_001] {
            let mut other = content.clone();
            other.resize(length, 0);
            fs::write(&path, &other).unwrap();
            let (found, result) = read(&blobs, &blob).await;
            assert!(matches!(result, Err(BlobError::Damaged(_))), "{result:?}");
            assert!(found.len() < content.len());
        }
        fs::write(&path, &content).unwrap();
        assert!(read(&blobs, &blob).await.1.is_ok());
    });
}

#[test]
fn no_room_is_said_to_be_that_and_leaves_nothing() {
    let (home, blobs) = place();
    let old = block_on(write(&blobs, &["job", "big"], b"old"));
    // In blocks of 512 bytes; a write beyond them fails instead of killing.
    let helper =
        Helper::start("fill", text(&home.path().join("place")), "trap '' XFSZ; ulimit -f 4000;");
    assert!(helper.said().contains("it is full"));
    assert!(files(&home.path().join("place/half")).is_empty());
    assert_eq!(block_on(read(&blobs, &old)).0, b"old");
}

#[test]
fn a_gigabyte_takes_no_memory() {
    let (home, _) = place();
    let helper = Helper::start(&(1_u64 << 30).to_string(), text(&home.path().join("place")), "");
    let peak = peak_kib(&helper.said());
    eprintln!("at most {peak} KiB for a gigabyte written and read");
    assert!(peak < 48 << 10, "{peak} KiB");
}

#[test]
fn only_its_owner_can_look_into_what_is_made() {
    let (home, blobs) = place();
    block_on(write(&blobs, &["a", "b", "c"], b"secret"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for directory in ["", "blobs", "half", "blobs/a+", "blobs/a+/b+"] {
        assert_eq!(mode(&home.path().join("place").join(directory)), 0o700, "{directory}");
    }
    assert_eq!(mode(&home.path().join("place/blobs/a+/b+/c")), 0o600);
    // What is empty goes.
    block_on(blobs.remove(&key(&["a", "b", "c"]))).unwrap();
    assert_eq!(fs::read_dir(home.path().join("place/blobs")).unwrap().count(), 0);
}

#[test]
fn keys_lead_nowhere_else() {
    let (home, blobs) = place();
    fs::write(home.path().join("outside"), "outside").unwrap();
    for words in
        [&[".."][..], &["."], &["a/b"], &[""], &["a", ".."], &["a\0"], &["ü"], &["a b"], &[]]
    {
        assert_eq!(BlobKey::of(words), None, "{words:?}");
    }
    // A key that was read and not made here.
    for text in ["../../outside", "/etc/passwd", "a/../../../outside", "", "a//b", "a+"] {
        // A key is made of plain text when it is read.
        let key: BlobKey = serde_json::from_value(text.into()).unwrap();
        block_on(async {
            assert!(blobs.create(key.clone()).await.is_err(), "{text}");
            assert!(blobs.remove(&key).await.is_err(), "{text}");
            let blob = Blob { key, bytes: 7, sha256: "0".repeat(64) };
            let result = read(&blobs, &blob).await.1;
            assert!(matches!(result, Err(BlobError::Place { .. })), "{text}: {result:?}");
        });
    }
    assert_eq!(fs::read(home.path().join("outside")).unwrap(), b"outside");
}

#[test]
fn a_write_that_nobody_waits_for_any_more_leaves_nothing() {
    let (home, blobs) = place();
    let half = home.path().join("place/half");
    block_on(async {
        let mut writer = blobs.create(key(&["dropped"])).await.unwrap();
        {
            let mut writing = writer.write(Bytes::from(vec![1; 8 << 20]));
            // Begun, and given up.
            assert!(futures_util::poll!(&mut writing).is_pending());
        }
        assert!(writer.finish().await.is_err(), "what was lost is not passed over");
    });
    until("the half file to go", || files(&half).is_empty());
    assert!(files(&home.path().join("place/blobs")).is_empty());
}

#[test]
fn writers_and_removers_of_one_directory_do_not_disturb_each_other() {
    let (_home, blobs) = place();
    block_on(async {
        for _ in 0..200 {
            let (one, other) = (key(&["job", "one"]), key(&["job", "other"]));
            let writing = async {
                let mut writer = blobs.create(one.clone()).await.unwrap();
                writer.write(Bytes::from_static(b"one")).await.unwrap();
                writer.finish().await.unwrap()
            };
            let removing = async {
                write(&blobs, &["job", "other"], b"other").await;
                blobs.remove(&other).await.unwrap();
            };
            let (blob, ()) = tokio::join!(writing, removing);
            assert_eq!(read(&blobs, &blob).await.0, b"one");
            blobs.remove(&one).await.unwrap();
        }
    });
}
