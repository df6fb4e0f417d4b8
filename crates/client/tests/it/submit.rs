//! Submitting: once, however often it is tried. And what must not be repeated.

use std::io::Write;
use std::time::Duration;

use cofferdam_api::{CreateJob, Message};
use cofferdam_client::{Client, ClientError, Patience, UploadFile};
use cofferdam_types::JobId;

use crate::server::{Act, Server, impatient, json, problem};

/// A job as the server answers it.
pub(crate) fn job(id: JobId, status: &str) -> String {
    serde_json::json!({
        "id": id, "user": "u", "title": "t", "status": status, "paused": false,
        "created": "2026-11-16T00:00:00Z", "priority": 0, "turns": 0, "tokens": 0,
        "cost": "0", "time_ms": 0, "last_event": 1,
        "links": {"self": "/", "events": "/", "output": "/", "files": "/"},
        "something_new": {"a": 1},
    })
    .to_string()
}

#[tokio::test]
async fn a_submission_is_repeated_with_the_same_key_and_body() {
    let id = JobId::generate();
    let server = Server::new(move |number, _| match number {
        0 => vec![Act::Reset],
        1 => vec![problem(503, "retry-after: 0\r\n")],
        2 => vec![problem(429, "retry-after: 0\r\n")],
        3 => vec![Act::Stall],
        _ => vec![json(202, &job(id, "pending"))],
    })
    .await;
    let client = server.client();
    let made = client.create_job(&CreateJob::task("do it")).await.unwrap();
    assert_eq!(made.id, id);
    let asked = server.asked();
    assert_eq!(asked.len(), 5);
    let key = asked[0].header("idempotency-key").unwrap().to_owned();
    for asked in &asked {
        assert_eq!(asked.line, "POST /api/v1/jobs");
        assert_eq!(asked.header("idempotency-key"), Some(key.as_str()));
        assert_eq!(asked.body, br#"{"task":"do it"}"#);
    }
    // Another submission is another one.
    client.create_job(&CreateJob::task("do it")).await.unwrap();
    assert_ne!(server.asked()[5].header("idempotency-key"), Some(key.as_str()));
}

#[tokio::test]
async fn a_submission_waits_for_a_server_that_is_about_to_come_back() {
    let id = JobId::generate();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}").parse().unwrap();
    let patience = Patience { longest_wait: Duration::from_secs(1), tries: 60, ..impatient() };
    let client = Client::insecure(url, None, patience).unwrap();
    let task = CreateJob::task("do it");
    let submitting = client.create_job(&task);
    tokio::pin!(submitting);
    // The first try finds nobody.
    tokio::select! {
        biased;
        done = &mut submitting => panic!("{done:?}"),
        () = std::future::ready(()) => {}
    }
    let server = Server::at(address, move |_, _| vec![json(202, &job(id, "pending"))]).await;
    assert_eq!(submitting.await.unwrap().id, id);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_final_and_tries_have_an_end() {
    let server = Server::new(|_, _| vec![problem(422, "")]).await;
    let error = server.client().create_job(&CreateJob::task("x")).await.unwrap_err();
    assert_eq!(error.status(), Some(422));
    assert_eq!(server.asked().len(), 1);
    let server = Server::new(|_, _| vec![Act::Reset]).await;
    let error = server.client().create_job(&CreateJob::task("x")).await.unwrap_err();
    assert!(matches!(error, ClientError::Lost { .. }), "{error:?}");
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn what_may_have_been_said_is_not_said_again() {
    let id = JobId::generate();
    let message = Message { text: "hello".to_owned() };
    for acts in [|| vec![Act::Reset], || vec![problem(503, "retry-after: 0\r\n")]] {
        let server = Server::new(move |_, _| acts()).await;
        server.client().say(id, &message).await.unwrap_err();
        assert_eq!(server.asked().len(), 1);
    }
    // What came too early was not heard.
    let server = Server::new(move |number, _| match number {
        0 => vec![problem(429, "retry-after: 0\r\n")],
        _ => vec![json(202, &job(id, "running"))],
    })
    .await;
    server.client().say(id, &message).await.unwrap();
    assert_eq!(server.asked().len(), 2);
    // Stopping twice is stopping once.
    let server = Server::new(move |number, _| match number {
        0 => vec![Act::Reset],
        _ => vec![json(202, &job(id, "running"))],
    })
    .await;
    server.client().cancel(id).await.unwrap();
}

fn upload(content: &[u8]) -> UploadFile {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    UploadFile::new(file, "application/zstd").unwrap()
}

const TAKEN: &str = r#"{"id":"i","bytes":1,"sha256":"x","created":"2026-11-16T00:00:00Z"}"#;

#[tokio::test]
async fn a_file_is_sent_whole_and_again_from_its_beginning() {
    let content: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let server = Server::new(|number, _| match number {
        0 => vec![Act::Reset],
        _ => vec![json(201, TAKEN)],
    })
    .await;
    server.client().upload(upload(&content)).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    for asked in &asked {
        assert_eq!(asked.header("content-type"), Some("application/zstd"));
        assert!(asked.body == content);
    }
}

#[tokio::test]
async fn a_file_that_shrinks_is_not_taken_for_whole() {
    let named = tempfile::NamedTempFile::new().unwrap();
    named.as_file().set_len(3 << 20).unwrap();
    let upload = UploadFile::new(named.reopen().unwrap(), "application/zstd").unwrap();
    named.as_file().set_len(1 << 20).unwrap();
    let server = Server::new(|_, _| vec![json(201, TAKEN)]).await;
    let error = server.client().upload(upload).await.unwrap_err();
    assert!(matches!(error, ClientError::Content(_)), "{error:?}");
}
