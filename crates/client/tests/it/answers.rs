//! Answers that are none.

use std::time::{Duration, Instant};

use cofferdam_client::{Client, ClientError, JobQuery, Patience};

use crate::server::{Act, Server, impatient, json, problem, text, typed};

/// How long anything here may take, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

async fn ask(acts: impl Fn() -> Vec<Act> + Send + 'static) -> ClientError {
    let server = Server::new(move |_, _| acts()).await;
    let begun = Instant::now();
    let error = server.client().me().await.unwrap_err();
    assert!(begun.elapsed() < SOON);
    error
}

#[tokio::test]
async fn nobody_listening_is_told_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::insecure(url.parse().unwrap(), None, impatient()).unwrap();
    let error = client.me().await.unwrap_err();
    assert!(matches!(&error, ClientError::NoServer { url: told, .. } if *told == url), "{error:?}");
}

#[tokio::test]
async fn what_is_no_json_of_this_api_is_nonsense() {
    for body in ["", "null", "{}", "<html>", r#"{"user":{"id":1}}"#] {
        let error = ask(move || vec![json(200, body)]).await;
        assert!(matches!(error, ClientError::Nonsense { .. }), "{body}: {error:?}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_nonsense() {
    let error = ask(|| vec![text("SSH-2.0-OpenSSH_9.9\r\n")]).await;
    assert!(matches!(error, ClientError::Nonsense { .. }), "{error:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_not_collected() {
    let error = ask(|| {
        let mut acts = vec![text(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        )];
        for _ in 0..80 {
            acts.push(text("100000\r\n"));
            acts.push(Act::Send(vec![b'x'; 1 << 20]));
            acts.push(text("\r\n"));
        }
        acts
    })
    .await;
    assert!(matches!(&error, ClientError::Nonsense { cause, .. } if cause.contains("more than")));
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let error = ask(|| {
        vec![text("HTTP/1.1 200 OK\r\n"), Act::Send(b"x: y\r\n".repeat(200_000)), Act::Stall]
    })
    .await;
    assert!(matches!(error, ClientError::Nonsense { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    for acts in [
        || vec![Act::Stall],
        || vec![text("HTTP/1.1 200 OK\r\ncontent-"), Act::Stall],
        || vec![text("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"), Act::Stall],
    ] {
        let server = Server::new(move |_, _| acts()).await;
        let short = Duration::from_millis(100);
        let hasty = Patience { head: short, silence: short, ..impatient() };
        let error = server.client_with(hasty).me().await.unwrap_err();
        assert!(matches!(error, ClientError::Stalled { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_as_the_server_tells_it() {
    let error = ask(|| vec![problem(404, "")]).await;
    let ClientError::Refused { problem, .. } = &error else { panic!("{error:?}") };
    assert_eq!((problem.code.as_str(), problem.remedy.as_str()), ("API-099", "help"));
    // A page of somebody else's is not a refusal of our server, whatever it says.
    let words = r#"{"type":"x","title":"","status":404,"code":"API-099","detail":"","remedy":""}"#;
    for (media_type, body) in [("text/html", "<h1>Not Found</h1>"), ("text/html", words)] {
        let error = ask(move || vec![typed(404, media_type, "", body)]).await;
        assert!(matches!(&error, ClientError::Nonsense { status: 404, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_request_that_reads_is_sent_again_and_not_for_ever() {
    let server = Server::new(|number, _| match number {
        0 => vec![problem(503, "retry-after: 0\r\n")],
        1 => vec![Act::Reset],
        2 => vec![text("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"jo"), Act::Reset],
        _ => vec![json(200, r#"{"jobs":[]}"#)],
    })
    .await;
    let page = server.client().jobs(&JobQuery::default()).await.unwrap();
    assert!(page.jobs.is_empty());
    assert_eq!(server.asked().len(), 4);
    let server = Server::new(|_, _| vec![problem(503, "retry-after: 100000\r\n")]).await;
    let error = server.client().jobs(&JobQuery::default()).await.unwrap_err();
    assert_eq!(error.status(), Some(503));
    assert_eq!(server.asked().len(), 5);
}
