//! Blobs in an object store.

use std::net::TcpListener;

use bytes::Bytes;
use cofferdam_store::{Blob, BlobError, BlobKey, Blobs, blob_conformance};
use cofferdam_store_blobs::{ObjectBlobs, ObjectBlobsError};
use futures_util::stream::StreamExt;

use crate::child::{Helper, block_on, key, object, peak_kib, until};
use crate::s3::Server;

async fn write(blobs: &ObjectBlobs, words: &[&str], content: &[u8]) -> Blob {
    let mut writer = blobs.create(key(words)).await.unwrap();
    writer.write(Bytes::copy_from_slice(content)).await.unwrap();
    writer.finish().await.unwrap()
}

async fn read(blobs: &ObjectBlobs, blob: &Blob) -> Result<Vec<u8>, (usize, BlobError)> {
    let mut stream = blobs.read(blob).await.map_err(|error| (0, error))?;
    let mut content = Vec::new();
    while let Some(piece) = stream.next().await {
        content.extend_from_slice(&piece.map_err(|error| (content.len(), error))?);
    }
    Ok(content)
}

#[test]
fn an_object_store_behaves_like_a_place_for_blobs() {
    let server = Server::start();
    let blobs = object(&server.endpoint(), "node");
    block_on(async {
        assert_eq!(blob_conformance::run_all(&blobs).await, Vec::<String>::new());
        // What was given up on the way is tidied up in the background.
        let late = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
        while server.uploads() > 0 {
            assert!(tokio::time::Instant::now() < late, "an upload is left");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(blobs.sweep().await.unwrap(), 0);
    });
    let objects = server.objects();
    assert!(objects.iter().all(|key| key.starts_with("some/prefix/blobs/case-")), "{objects:?}");
}

#[test]
fn a_crash_in_mid_upload_leaves_nothing_but_what_a_sweep_of_its_owner_removes() {
    let server = Server::start();
    let blobs = object(&server.endpoint(), "node");
    let old = block_on(write(&blobs, &["job", "big"], b"old"));
    let helper = Helper::start("write for ever", &server.endpoint(), "");
    let note = |server: &Server| server.objects().iter().any(|key| key.contains("/begun/"));
    until("the upload", || server.uploads() == 1 && note(&server));
    helper.kill();
    block_on(async {
        assert_eq!(read(&blobs, &old).await.unwrap(), b"old");
        // Not another one's, and not our own.
        assert_eq!(object(&server.endpoint(), "node-2").sweep().await.unwrap(), 0);
        let mut writer = blobs.create(key(&["other"])).await.unwrap();
        writer.write(Bytes::from(vec![1; 9 << 20])).await.unwrap();
        assert_eq!(server.uploads(), 2);
        assert_eq!(blobs.sweep().await.unwrap(), 1);
        assert_eq!(blobs.sweep().await.unwrap(), 0);
        assert_eq!(server.uploads(), 1);
        let own = writer.finish().await.unwrap();
        assert_eq!(read(&blobs, &own).await.unwrap().len(), 9 << 20);
        assert_eq!(read(&blobs, &old).await.unwrap(), b"old");
    });
    assert_eq!(server.uploads(), 0);
    assert!(!note(&server), "{:?}", server.objects());
}

#[test]
fn bytes_that_somebody_changed_are_never_part_of_a_whole() {
    let server = Server::start();
    let blobs = object(&server.endpoint(), "node");
    let content = vec![5; 700_000];
    block_on(async {
        let blob = write(&blobs, &["job", "out.zip"], &content).await;
        let mut spoilt = content.clone();
        spoilt[699_999] = 6;
        write(&blobs, &["job", "out.zip"], &spoilt).await;
        let (came, error) = read(&blobs, &blob).await.unwrap_err();
        assert!(matches!(error, BlobError::Damaged(_)) && came < content.len(), "{came} {error}");
    });
}

#[test]
fn a_large_blob_takes_the_memory_of_a_few_parts() {
    let server = Server::start();
    let helper = Helper::start(&(200_u64 << 20).to_string(), &server.endpoint(), "");
    let peak = peak_kib(&helper.said());
    eprintln!("at most {peak} KiB for 200 MiB sent and read");
    assert!(peak < 96 << 10, "{peak} KiB");
}

#[test]
fn a_store_that_is_not_there_is_an_error_in_words_and_not_a_wait_for_ever() {
    // Nobody listens here.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let blobs = object(&format!("http://{free}"), "node");
    block_on(async {
        let blob = Blob { key: key(&["a"]), bytes: 1, sha256: "0".repeat(64) };
        let Err(error) = blobs.read(&blob).await.map(drop) else { panic!("it was read") };
        let text = error.to_string();
        assert!(matches!(error, BlobError::Place { .. }) && text.contains("refused"), "{text}");
    });
}

#[test]
fn a_bucket_that_is_not_there_is_told_of() {
    let server = Server::start();
    let settings = [
        ("AWS_ENDPOINT_URL", server.endpoint()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value));
    let blobs = ObjectBlobs::from_url("s3://no-such-bucket", "node", settings).unwrap();
    block_on(async {
        let mut writer = blobs.create(key(&["a"])).await.unwrap();
        writer.write(Bytes::from_static(b"x")).await.unwrap();
        let error = writer.finish().await.unwrap_err().to_string();
        assert!(error.starts_with("blob a: ") && error.contains("NoSuchBucket"), "{error}");
        // Nor are its blobs said to be missing.
        let blob = Blob { key: key(&["a"]), bytes: 1, sha256: "0".repeat(64) };
        let (_, error) = read(&blobs, &blob).await.unwrap_err();
        assert!(matches!(error, BlobError::Place { .. }), "{error:?}");
        assert!(blobs.remove(&blob.key).await.is_err());
    });
}

#[test]
fn what_cannot_be_used_is_refused_at_the_start() {
    let of = |url: &str, owner: &str| ObjectBlobs::from_url(url, owner, []).map(drop).unwrap_err();
    for url in ["", "bucket", "https://bucket", "s3://", "s3:///prefix", "s3://bucket/a//b"] {
        assert!(matches!(of(url, "node"), ObjectBlobsError::Url(_)), "{url}");
    }
    assert!(matches!(of("s3://bucket", "a/b"), ObjectBlobsError::Owner(_)));
    let server = object("http://127.0.0.1:1", "node");
    for text in ["../x", "/x", "", "a//b"] {
        let key: BlobKey = serde_json::from_value(text.into()).unwrap();
        assert!(block_on(server.create(key.clone())).is_err(), "{text}");
        assert!(block_on(server.remove(&key)).is_err(), "{text}");
    }
}
