//! The way to the database, secured or not.

use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_store::{Store, UserId};
use cofferdam_store_postgres::PostgresStore;
use cofferdam_testkit::Postgres;

use super::fixture::submit;

/// A certificate for 127.0.0.1 that nobody vouches for, and its key.
#[expect(clippy::disallowed_methods, reason = "a certificate for the test")]
fn certificate(place: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (place.join("server.crt"), place.join("server.key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

#[tokio::test]
async fn sslmode_decides_whether_the_way_is_secured() {
    let place = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(place.path());
    let server = Postgres::start();
    let url = server.database();
    let with = |parameters: &str| url.replace("sslmode=disable", parameters);

    let refused = PostgresStore::open(&with("sslmode=require")).await.map(drop);
    assert!(refused.is_err(), "the server has no TLS");
    PostgresStore::open(&with("sslmode=prefer")).await.unwrap();

    let there = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        server.keep_file(name, &std::fs::read(path).unwrap()).to_str().unwrap().to_owned()
    };
    server.set("ssl_cert_file", &there(&certificate));
    server.set("ssl_key_file", &there(&key));
    server.set("ssl", "on");
    server.restart();

    let secured = "SELECT bool_or(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE application_name = 'cofferdam'";
    for (mode, wanted) in [("disable", "f"), ("prefer", "t")] {
        let store = PostgresStore::open(&with(&format!("sslmode={mode}"))).await.unwrap();
        submit(&store, UserId::generate()).await;
        assert_eq!(server.sql(&url, secured), wanted, "{mode}");
    }
    let stranger = PostgresStore::open(&with("sslmode=require")).await.map(drop);
    assert!(stranger.is_err(), "nobody vouches for the server");
    let roots = format!("sslmode=verify-full&sslrootcert={}", certificate.display());
    let store = PostgresStore::open(&with(&roots)).await.unwrap();
    submit(&store, UserId::generate()).await;
    assert_eq!(server.sql(&url, secured), "t");
    assert_eq!(store.about().await.unwrap().engine, "postgres");
}
