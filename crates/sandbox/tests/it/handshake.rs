//! The first bytes, and what is said when they are the wrong ones.

use cofferdam_guest_protocol::Hello;
use cofferdam_sandbox::{ConnectError, GuestClient};
use tokio::io::AsyncWriteExt;

async fn connect_to(said: &[u8]) -> ConnectError {
    let (host, mut guest) = tokio::io::duplex(1024);
    guest.write_all(said).await.unwrap();
    guest.shutdown().await.unwrap();
    GuestClient::connect(Box::new(host)).await.err().expect("nothing was wrong")
}

#[tokio::test]
async fn a_guest_that_closes_the_stream_is_told_apart_from_a_silent_one() {
    assert!(matches!(connect_to(b"").await, ConnectError::Closed));
    assert!(matches!(connect_to(b"coffer").await, ConnectError::Closed));
}

#[tokio::test]
async fn a_stranger_is_named_as_one() {
    let error = connect_to(b"HTTP/1.1 400 Bad Request\r\n").await;
    assert!(error.to_string().contains("not a Cofferdam guest"), "{error}");
}

#[tokio::test]
async fn a_guest_of_another_release_is_told_which_versions_each_speaks() {
    let error = connect_to(&Hello::spanning(700, 701).to_bytes()).await;
    assert!(error.to_string().contains("700 to 701"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_guest_is_given_up() {
    let (host, guest) = tokio::io::duplex(1024);
    let error = GuestClient::connect(Box::new(host)).await.err().unwrap();
    assert_eq!(error.to_string(), "the guest did not answer within 10 s");
    drop(guest);
}
