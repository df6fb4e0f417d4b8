//! Connections, headers and redirects: what is sent where, and how often.

use std::time::Duration;

use cofferdam_model::Wire;
use cofferdam_model_http::{Endpoint, list_models};
use cofferdam_testkit::{Dialect, Fault, ScriptedServer, Turn};
use cofferdam_types::FailureKind;

use crate::harness::{KEY, ask, endpoint, model, request};

#[tokio::test]
async fn one_connection_serves_a_conversation() {
    for dialect in Dialect::ALL {
        let server = ScriptedServer::start([Turn::status(500, &[], "no")]).await.unwrap();
        let model = model(&endpoint(&server, dialect));
        assert!(ask(&model, request("0")).await.is_err());
        for number in 1..5 {
            ask(&model, request(&number.to_string())).await.unwrap();
        }
        let connections: Vec<_> = server.requests().iter().map(|it| it.connection).collect();
        assert_eq!(connections, [0; 5], "{dialect:?}");
    }
}

#[tokio::test]
async fn two_questions_at_once_have_a_connection_each() {
    let server = ScriptedServer::start([]).await.unwrap();
    let model = model(&endpoint(&server, Dialect::Messages));
    let (one, two) = tokio::join!(ask(&model, request("1")), ask(&model, request("2")));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_connection_whose_answer_was_cut_is_not_used_again() {
    let turn = Turn::text("half").but(Fault::ResetAfterText);
    let server = ScriptedServer::start([turn]).await.unwrap();
    let model = model(&endpoint(&server, Dialect::Messages));
    assert!(ask(&model, request("1")).await.is_err());
    assert!(ask(&model, request("2")).await.is_ok());
    let connections: Vec<_> = server.requests().iter().map(|it| it.connection).collect();
    assert_eq!(connections, [0, 1]);
}

#[tokio::test]
async fn the_key_is_in_its_header_and_nowhere_else() {
    for (dialect, header, value) in [
        (Dialect::Messages, "x-api-key", KEY.to_owned()),
        (Dialect::Responses, "authorization", format!("Bearer {KEY}")),
        (Dialect::Chat, "authorization", format!("Bearer {KEY}")),
    ] {
        let server = ScriptedServer::start([]).await.unwrap();
        let model = model(&endpoint(&server, dialect));
        ask(&model, request("go")).await.unwrap();
        let sent = server.requests().remove(0);
        assert_eq!(sent.header(header), Some(value.as_str()), "{dialect:?}");
        let with_key = sent.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
        assert_eq!(with_key, 1, "{dialect:?}");
        assert!(!String::from_utf8(sent.bytes).unwrap().contains(KEY));
        assert!(!format!("{model:?}").contains(KEY));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = ScriptedServer::start([]).await.unwrap();
    let place = format!("{}/v1/messages", elsewhere.base_url());
    let turn = Turn::status(307, &[("location", &place)], "");
    let server = ScriptedServer::start([turn]).await.unwrap();
    let failure =
        ask(&model(&endpoint(&server, Dialect::Messages)), request("go")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains(&place), "{failure}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn the_models_of_a_server_are_listed() {
    let server = ScriptedServer::start([]).await.unwrap();
    for url in [server.base_url(), format!("{}/v1", server.base_url())] {
        let endpoint = Endpoint::new(Wire::Chat, url);
        let names = list_models(&endpoint, Duration::from_secs(30)).await.unwrap();
        assert_eq!(names, ["scripted"]);
    }
    let endpoint = Endpoint::new(Wire::Chat, server.base_url());
    drop(server);
    let failure = list_models(&endpoint, Duration::from_secs(30)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable);
}
