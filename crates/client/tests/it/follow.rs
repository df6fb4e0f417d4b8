//! Events: each once and in order, whatever happens to the connection.

use cofferdam_client::{ClientError, Stored};
use cofferdam_types::JobId;

use crate::server::{Act, Asked, Server, json, problem, text, typed};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    transfer-encoding: chunked\r\n\r\n";

fn chunk(content: &str) -> Act {
    text(&format!("{:x}\r\n{content}\r\n", content.len()))
}

fn end() -> Act {
    text("0\r\n\r\n")
}

fn event(seq: u64, kind: &str) -> String {
    format!("id: {seq}\nevent: {kind}\ndata: {{\"seq\":{seq}}}\n\n")
}

/// A page that says whether the job is over.
fn page(over: bool) -> Vec<Act> {
    vec![json(200, &format!(r#"{{"events":[],"after":0,"more":false,"over":{over}}}"#))]
}

fn is_page(asked: &Asked) -> bool {
    asked.line.contains("limit=1")
}

async fn follow(server: &Server) -> (Vec<u64>, Result<(), ClientError>) {
    let client = server.client();
    let mut follower = client.follow(JobId::generate(), 0);
    let mut seen = Vec::new();
    loop {
        match follower.next().await {
            Ok(Some(Stored { seq, line })) => {
                assert_eq!(line, format!("{{\"seq\":{seq}}}"));
                seen.push(seq);
            }
            Ok(None) => return (seen, Ok(())),
            Err(error) => return (seen, Err(error)),
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_without_a_gap_or_a_repetition() {
    let server = Server::new(|number, asked| match number {
        _ if is_page(asked) => page(true),
        // In the middle of an event.
        0 => vec![text(HEAD), chunk(&event(1, "created")), chunk("id: 2\ndata: {")],
        1 => vec![problem(503, "retry-after: 0\r\n")],
        2 => vec![Act::Reset],
        // One that was seen comes again, and then silence.
        3 => vec![text(HEAD), chunk(&(event(1, "created") + &event(2, "noted"))), Act::Stall],
        // One is left out.
        4 => vec![text(HEAD), chunk(&event(4, "noted")), Act::Stall],
        // Without an end, as a server does that was killed.
        5 => vec![text(HEAD), chunk(": hello\n\n"), chunk(&event(3, "noted"))],
        6 => vec![typed(502, "text/html", "", "Bad Gateway")],
        _ => vec![text(HEAD), chunk(&event(4, "ended")), end()],
    })
    .await;
    let (seen, followed) = follow(&server).await;
    followed.unwrap();
    assert_eq!(seen, [1, 2, 3, 4]);
    let streams: Vec<_> = server.asked().into_iter().filter(|asked| !is_page(asked)).collect();
    let ids: Vec<_> = streams.iter().map(|asked| asked.header("last-event-id")).collect();
    assert_eq!(
        ids,
        [None, Some("1"), Some("1"), Some("1"), Some("2"), Some("2"), Some("3"), Some("3")]
    );
}

#[tokio::test]
async fn any_place_to_cut_gives_the_same_events() {
    let whole: String =
        (1..=4).map(|seq| event(seq, if seq == 4 { "ended" } else { "x" })).collect();
    for cut in (0..whole.len()).step_by(3) {
        let whole = whole.clone();
        let server = Server::new(move |number, asked| {
            if is_page(asked) {
                return page(true);
            }
            if number == 0 {
                let (start, _) = whole.split_at(cut);
                return vec![text(HEAD), chunk(&format!(":\n{start}")), Act::Reset];
            }
            let last: u64 = asked.header("last-event-id").unwrap_or("0").parse().unwrap();
            let rest = (last + 1..=4).map(|seq| event(seq, if seq == 4 { "ended" } else { "x" }));
            vec![text(HEAD), chunk(&(String::from(":\n") + &rest.collect::<String>())), end()]
        })
        .await;
        let (seen, followed) = follow(&server).await;
        followed.unwrap();
        assert_eq!(seen, [1, 2, 3, 4], "cut at {cut}");
    }
}

#[tokio::test]
async fn an_end_is_the_end_even_if_the_stream_stays_open() {
    let server = Server::new(|_, asked| match is_page(asked) {
        true => page(true),
        false => vec![text(HEAD), chunk(&event(1, "ended")), Act::Stall],
    })
    .await;
    let (seen, followed) = follow(&server).await;
    followed.unwrap();
    assert_eq!(seen, [1]);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_job_that_goes_on_after_its_end_is_followed_further() {
    let mut asked_before = 0;
    let server = Server::new(move |_, asked| {
        if is_page(asked) {
            asked_before += 1;
            return page(asked_before > 1);
        }
        match asked.header("last-event-id") {
            None => vec![text(HEAD), chunk(&event(1, "ended")), end()],
            _ => vec![text(HEAD), chunk(&event(2, "taken_up")), chunk(&event(3, "ended")), end()],
        }
    })
    .await;
    let (seen, followed) = follow(&server).await;
    followed.unwrap();
    assert_eq!(seen, [1, 2, 3]);
}

#[tokio::test]
async fn a_server_that_never_comes_back_is_given_up() {
    let server = Server::new(|number, _| match number {
        0 => vec![text(HEAD), chunk(&event(1, "created"))],
        _ => vec![Act::Reset],
    })
    .await;
    let (seen, followed) = follow(&server).await;
    assert_eq!(seen, [1]);
    assert!(matches!(followed, Err(ClientError::Lost { .. })), "{followed:?}");
    assert_eq!(server.asked().len(), 1 + 10);
}

#[tokio::test]
async fn events_that_stay_missing_are_told_and_not_passed_over() {
    let server = Server::new(|_, _| vec![text(HEAD), chunk(&event(2, "noted")), Act::Stall]).await;
    let (seen, followed) = follow(&server).await;
    assert!(seen.is_empty());
    assert!(followed.unwrap_err().to_string().contains("event 0 was followed by 2"));
}

#[tokio::test]
async fn what_is_no_stream_is_not_read_as_one() {
    for acts in [
        || vec![json(200, "{}")],
        || vec![text(HEAD), Act::Send(b"a\r\ndata: \xff\xff\n\n\r\n".to_vec()), Act::Stall],
        || vec![problem(404, "")],
        || vec![problem(401, "")],
    ] {
        let server = Server::new(move |_, _| acts()).await;
        let (seen, followed) = follow(&server).await;
        assert!(seen.is_empty());
        let error = followed.unwrap_err();
        let refused = matches!(error, ClientError::Refused { .. } | ClientError::Nonsense { .. });
        assert!(refused, "{error:?}");
        assert_eq!(server.asked().len(), 1);
    }
}
