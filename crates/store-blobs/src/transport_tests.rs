//! Servers that do not answer, or not to the end.

use std::sync::atomic::{AtomicUsize, Ordering};

use object_store::client::HttpRequestBody;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

const SHORT: Patience =
    Patience { answer: Duration::from_millis(300), silence: Duration::from_millis(300) };

const LONG: Patience =
    Patience { answer: Duration::from_secs(60), silence: Duration::from_secs(60) };

/// A server that answers every request with these bytes and then says no more; it
/// counts its connections.
async fn server(answer: &'static [u8]) -> (String, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/bucket/key?list=1", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::Relaxed);
            open.spawn(async move {
                let mut asked = Vec::new();
                while stream.read_buf(&mut asked).await.unwrap() > 0 {
                    if asked.ends_with(b"\r\n\r\n") {
                        assert!(asked.starts_with(b"GET /bucket/key?list=1 HTTP/1.1\r\n"));
                        asked.clear();
                        stream.write_all(answer).await.unwrap();
                    }
                }
            });
        }
    });
    (url, count, tasks)
}

fn service(patience: Patience) -> Service {
    Service { pool: Arc::new(Pool::default()), patience }
}

async fn get(service: &Service, url: &str) -> Result<HttpResponse, HttpError> {
    service.call(http::Request::get(url).body(HttpRequestBody::empty()).unwrap()).await
}

#[tokio::test]
async fn a_server_that_never_answers_is_left() {
    let (url, _, _tasks) = server(b"").await;
    let error = get(&service(SHORT), &url).await.unwrap_err();
    assert_eq!(error.kind(), HttpErrorKind::Timeout);
    assert!(error.to_string().contains("no answer within 300ms"), "{error}");
}

#[tokio::test]
async fn a_body_that_stops_in_the_middle_is_an_error_and_its_connection_is_not_used_again() {
    let (url, count, _tasks) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    let service = service(SHORT);
    for expected in [1, 2] {
        let answer = get(&service, &url).await.unwrap();
        let error = answer.into_body().bytes().await.unwrap_err();
        assert!(error.to_string().contains("nothing more of an answer"), "{error}");
        assert_eq!(count.load(Ordering::Relaxed), expected);
    }
}

#[tokio::test]
async fn a_connection_is_used_again_after_an_answer_was_read_to_its_end() {
    let (url, count, _tasks) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole").await;
    let service = service(LONG);
    for _ in 0..5 {
        let answer = get(&service, &url).await.unwrap();
        assert_eq!(answer.into_body().bytes().await.unwrap(), "whole");
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // One that was not read to its end.
    drop(get(&service, &url).await.unwrap());
    get(&service, &url).await.unwrap();
    assert!(count.load(Ordering::Relaxed) >= 2);
}

#[tokio::test]
async fn nobody_there_is_told_as_that() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = get(&service(LONG), &url).await.unwrap_err();
    assert_eq!(error.kind(), HttpErrorKind::Connect);
    assert!(get(&service(LONG), "ftp://127.0.0.1/").await.is_err());
}
