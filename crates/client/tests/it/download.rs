//! Downloads: whole, or not at all.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cofferdam_client::{ClientError, OutputFormat};
use cofferdam_types::JobId;
use sha2::{Digest, Sha256};

use crate::server::{Act, Server, problem, text, typed};

async fn download(acts: impl Fn() -> Vec<Act> + Send + 'static) -> Result<Vec<u8>, ClientError> {
    let server = Server::new(move |_, _| acts()).await;
    let client = server.client();
    let mut download = client.output(JobId::generate(), OutputFormat::TarZst).await?;
    assert!(server.asked()[0].line.ends_with("/output.tar.zst"));
    let mut all = Vec::new();
    while let Some(bytes) = download.next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

fn digest(content: &str) -> String {
    format!("repr-digest: sha-256=:{}:\r\n", STANDARD.encode(Sha256::digest(content)))
}

#[tokio::test]
async fn a_download_is_what_was_sent() {
    let whole = download(|| vec![typed(200, "application/zstd", &digest("abc"), "abc")]).await;
    assert_eq!(whole.unwrap(), b"abc");
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = move || vec![text(head), text("3\r\nabc\r\n"), text("0\r\n\r\n")];
    assert_eq!(download(chunked).await.unwrap(), b"abc");
}

#[tokio::test]
async fn a_download_that_breaks_off_is_not_whole() {
    for acts in [
        || vec![text("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")],
        || vec![text("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")],
        || vec![text("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"), Act::Reset],
    ] {
        let error = download(acts).await.unwrap_err();
        assert!(matches!(error, ClientError::Lost { .. }), "{error:?}");
    }
    let silent = || vec![text("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"), Act::Stall];
    let error = download(silent).await.unwrap_err();
    assert!(matches!(error, ClientError::Stalled { .. }), "{error:?}");
}

#[tokio::test]
async fn another_hash_is_noticed() {
    let spoilt = || vec![typed(200, "application/zstd", &digest("abc"), "abd")];
    let error = download(spoilt).await.unwrap_err();
    assert!(matches!(error, ClientError::Spoilt { .. }), "{error:?}");
}

#[tokio::test]
async fn nothing_to_download_is_told() {
    let error = download(|| vec![problem(409, "")]).await.unwrap_err();
    assert_eq!(error.status(), Some(409));
}
