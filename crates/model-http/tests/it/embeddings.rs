//! Embeddings of a provider: good ones, and every way to get none.

use cofferdam_model::{ModelError, Wire};
use cofferdam_model_http::{Endpoint, EndpointError, HttpEmbedder};
use cofferdam_testkit::{Embedded, EmbeddingServer, Embeddings};
use cofferdam_types::{FailureKind, Redacted};
use serde_json::json;

use crate::harness::{IDLE, KEY};

/// The length of a text and a one.
fn lengths(question: &Embedded) -> Embeddings {
    let vector = |text: &String| vec![f32::from(u16::try_from(text.len()).unwrap()), 1.0];
    Embeddings::Vectors(question.texts().iter().map(vector).collect())
}

fn endpoint(server: &EmbeddingServer) -> Endpoint {
    let mut endpoint = Endpoint::new(Wire::Chat, server.base_url());
    endpoint.key = Some(Redacted::new(KEY.to_owned()));
    endpoint
}

fn embedder(endpoint: &Endpoint) -> HttpEmbedder {
    HttpEmbedder::new("vectors".to_owned(), endpoint).unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// What becomes of an answer for two texts. It is asked for once.
async fn failure(answer: Embeddings) -> ModelError {
    let server = EmbeddingServer::start(move |_| answer.clone()).await.unwrap();
    let failure = embedder(&endpoint(&server)).embed(&texts(&["a", "b"])).await.unwrap_err();
    assert_eq!(server.asked().len(), 1, "{failure}");
    assert!(failure.message.starts_with("127.0.0.1:"), "{failure}");
    assert!(!format!("{failure:?}").contains(KEY), "{failure}");
    failure
}

#[tokio::test]
async fn each_text_has_its_vector_and_the_question_has_the_usual_form() {
    let server = EmbeddingServer::start(lengths).await.unwrap();
    let embedder = embedder(&endpoint(&server));
    let vectors = embedder.embed(&texts(&["one", "fifteen"])).await.unwrap();
    assert_eq!(vectors, [[3.0, 1.0], [7.0, 1.0]]);
    let asked = server.asked().remove(0);
    assert_eq!(asked.path, "/v1/embeddings");
    assert_eq!(asked.body, json!({"model": "vectors", "input": ["one", "fifteen"]}));
    assert_eq!(asked.authorization.unwrap(), format!("Bearer {KEY}"));
    assert_eq!(asked.accept.unwrap(), "application/json");
    assert!(!format!("{embedder:?}").contains(KEY));
    assert_eq!(embedder.embed(&[]).await.unwrap(), Vec::<Vec<f32>>::new());
    assert_eq!(server.asked().len(), 1, "nothing is asked about nothing");
}

#[tokio::test]
async fn vectors_are_put_where_they_belong() {
    let shuffled = json!({"data": [
        {"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1]},
    ]});
    let bare = json!({"data": [{"embedding": [1.0]}, {"embedding": [2.0]}]});
    for body in [shuffled, bare] {
        let answer = Embeddings::Whole(200, body.to_string());
        let server = EmbeddingServer::start(move |_| answer.clone()).await.unwrap();
        let vectors = embedder(&endpoint(&server)).embed(&texts(&["a", "b"])).await.unwrap();
        assert_eq!(vectors, [[1.0], [2.0]], "{body}");
    }
}

#[tokio::test]
async fn what_is_sent_is_bounded_and_never_empty() {
    let server = EmbeddingServer::start(lengths).await.unwrap();
    let mut many = vec!["ä".repeat(100_000), String::new(), " \n".to_owned()];
    many.extend((0..147).map(|number| "x".repeat(number + 1)));
    let vectors = embedder(&endpoint(&server)).embed(&many).await.unwrap();
    let asked = server.asked();
    let sizes: Vec<usize> = asked.iter().map(|asked| asked.texts().len()).collect();
    assert_eq!(sizes, [64, 64, 22]);
    let first = asked[0].texts();
    assert_eq!(first[0], "ä".repeat(4_000));
    assert_eq!(first[1..3], ["…", "…"]);
    assert_eq!((vectors.len(), vectors[149][0]), (150, 147.0));
}

#[tokio::test]
async fn a_server_that_refuses_is_told_with_its_words() {
    for (status, kind) in [
        (500, FailureKind::Unavailable),
        (429, FailureKind::RateLimited),
        (401, FailureKind::Unauthorised),
        (404, FailureKind::NoSuchModel),
    ] {
        let body = json!({"error": {"message": format!("not with {KEY}")}}).to_string();
        let failure = failure(Embeddings::Whole(status, body)).await;
        assert_eq!(failure.kind, kind, "{failure}");
        let words = format!("answered {status}: not with [key]");
        assert!(failure.message.ends_with(&words), "{failure}");
    }
    let body = json!({"error": {"message": "no such input"}}).to_string();
    let failure = failure(Embeddings::Whole(200, body)).await;
    assert!(failure.message.contains("no such input"), "{failure}");
}

#[tokio::test]
async fn a_server_that_is_silent_is_left_in_time() {
    let server = EmbeddingServer::start(|_| Embeddings::Silence).await.unwrap();
    let hasty = Endpoint { idle_timeout: IDLE, ..endpoint(&server) };
    let failure = embedder(&hasty).embed(&texts(&["a"])).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Stalled, "{failure}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_makes_no_sense_is_not_believed() {
    let entry = |index: usize, vector: &str| format!(r#"{{"index":{index},"embedding":{vector}}}"#);
    let data = |entries: &[String]| format!(r#"{{"data":[{}]}}"#, entries.join(","));
    for (body, words) in [
        ("<html>so what</html>".to_owned(), "sent no embeddings: expected value"),
        (String::new(), "sent no embeddings: EOF"),
        ("[1, 2]".to_owned(), "sent no embeddings: invalid type"),
        (r#"{"data":[{"embedding":"AAAA"}]}"#.to_owned(), "sent no embeddings: invalid type"),
        (data(&[]), "sent 0 embeddings for 2 texts"),
        (data(&[entry(0, "[1]")]), "sent 1 embeddings for 2 texts"),
        (data(&[entry(0, "[1]"), entry(1, "[1]"), entry(2, "[1]")]), "3 embeddings for 2 texts"),
        (data(&[entry(0, "[1]"), entry(0, "[1]")]), "embeddings that are of no text"),
        (data(&[entry(0, "[1]"), entry(7, "[1]")]), "embeddings that are of no text"),
        (data(&[entry(0, "[1]"), entry(1, "[1,2]")]), "of different lengths, or of none"),
        (data(&[entry(0, "[]"), entry(1, "[]")]), "of different lengths, or of none"),
        (data(&[entry(0, "[1e99]"), entry(1, "[1]")]), "numbers that are none"),
    ] {
        let failure = failure(Embeddings::Whole(200, body.clone())).await;
        assert_eq!(failure.kind, FailureKind::Garbled, "{body}: {failure}");
        assert!(failure.message.contains(words), "{body}: {failure}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let body = format!(r#"{{"data":[],"padding":"{}"}}"#, "x".repeat(33 << 20));
    let failure = failure(Embeddings::Whole(200, body)).await;
    assert_eq!(failure.kind, FailureKind::Garbled);
    assert!(failure.message.ends_with("sent more than 32 MiB for 2 texts"), "{failure}");
}

#[tokio::test]
async fn an_endpoint_without_embeddings_is_refused_at_once() {
    let endpoint = Endpoint::new(Wire::Messages, "https://api.example.com");
    let refused = HttpEmbedder::new("vectors".to_owned(), &endpoint).unwrap_err();
    assert_eq!(refused, EndpointError::NoEmbeddings);
    // Nobody is there.
    let server = EmbeddingServer::start(lengths).await.unwrap();
    let nobody = embedder(&self::endpoint(&server));
    drop(server);
    let failure = nobody.embed(&texts(&["a"])).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
}
