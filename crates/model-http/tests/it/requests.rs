//! The exact bodies of one fixed conversation on each wire.

use cofferdam_model::Request;
use cofferdam_testkit::{Conversation, Dialect, ScriptedServer};
use cofferdam_types::{Arguments, Block, Content, Message, ToolCall, ToolResult};
use serde_json::Value;

use crate::harness::{ask, endpoint, model};
use crate::readable::readable;

/// The bytes that are sent for a request.
async fn bytes_sent(dialect: Dialect, request: Request, thinking: Option<u32>) -> String {
    let server = ScriptedServer::start([]).await.unwrap();
    let mut endpoint = endpoint(&server, dialect);
    endpoint.thinking = thinking;
    ask(&model(&endpoint), request).await.unwrap();
    String::from_utf8(server.requests().remove(0).bytes).unwrap()
}

/// What they mean.
async fn sent(dialect: Dialect, request: Request, thinking: Option<u32>) -> Value {
    serde_json::from_str(&bytes_sent(dialect, request, thinking).await).unwrap()
}

#[tokio::test]
async fn the_conversation_on_messages() {
    let body = bytes_sent(Dialect::Messages, Conversation::whole(), Some(2_000)).await;
    insta::assert_snapshot!(readable(&body));
}

#[tokio::test]
async fn the_conversation_on_responses() {
    let body = bytes_sent(Dialect::Responses, Conversation::whole(), Some(2_000)).await;
    insta::assert_snapshot!(readable(&body));
}

#[tokio::test]
async fn the_conversation_on_chat() {
    let body = bytes_sent(Dialect::Chat, Conversation::whole(), Some(2_000)).await;
    insta::assert_snapshot!(readable(&body));
}

/// A body without the marks that move.
fn unmarked(mut body: Value) -> Value {
    match &mut body {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(|value| *value = unmarked(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = unmarked(value.take())),
        _ => {}
    }
    body
}

#[tokio::test]
async fn a_longer_conversation_begins_as_the_shorter_did() {
    for dialect in Dialect::ALL {
        let mut before: Option<Value> = None;
        for number in 0..Conversation::REQUESTS {
            let body = unmarked(sent(dialect, Conversation::request(number), None).await);
            if let Some(before) = before.replace(body.clone()) {
                let list = if dialect == Dialect::Responses { "input" } else { "messages" };
                let (old, new) = (before[list].as_array().unwrap(), body[list].as_array().unwrap());
                assert!(new.len() > old.len(), "{dialect:?}");
                assert_eq!(&new[..old.len()], old, "{dialect:?}");
                for field in before.as_object().unwrap().keys().filter(|field| *field != list) {
                    assert_eq!(before[field], body[field], "{dialect:?} {field}");
                }
            }
        }
    }
}

/// The names of a body's calls and of its results, each in their order.
fn names(dialect: Dialect, body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let note = |list: &mut Vec<String>, name: &Value| list.extend(name.as_str().map(str::to_owned));
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match dialect {
        Dialect::Messages => {
            for part in items(&body["messages"]).iter().flat_map(|said| items(&said["content"])) {
                note(&mut calls, &part["id"]);
                note(&mut results, &part["tool_use_id"]);
            }
        }
        Dialect::Responses => {
            for item in items(&body["input"]) {
                let call = item["type"] == "function_call";
                note(if call { &mut calls } else { &mut results }, &item["call_id"]);
            }
        }
        Dialect::Chat => {
            for message in items(&body["messages"]) {
                items(&message["tool_calls"]).iter().for_each(|call| note(&mut calls, &call["id"]));
                note(&mut results, &message["tool_call_id"]);
            }
        }
    }
    (calls, results)
}

#[tokio::test]
async fn calls_of_one_name_are_told_apart_and_keep_their_names() {
    let call = |id: &str| {
        let (id, name) = (id.to_owned(), "bash".to_owned());
        Block::ToolCall(ToolCall { id, name, arguments: Arguments("{}".to_owned()) })
    };
    let result = |id: &str| {
        let content = vec![Content::text("done")];
        ToolResult { id: id.to_owned(), content, failed: false }
    };
    let answers: [&[&str]; 3] = [&["a", "a"], &["a"], &["b", "a_2"]];
    let expected = ["a", "a_2", "a_3", "b", "a_2_2"];
    for dialect in Dialect::ALL {
        let mut request = Conversation::request(0);
        let mut so_far = 0;
        for ids in answers {
            let blocks = ids.iter().map(|id| call(id)).collect();
            request.messages.push(Message::Model { blocks });
            let results = ids.iter().map(|id| result(id)).collect();
            request.messages.push(Message::Tools { results });
            so_far += ids.len();
            let (calls, results) = names(dialect, &sent(dialect, request.clone(), None).await);
            assert_eq!(calls, expected[..so_far], "{dialect:?}");
            assert_eq!(results, calls, "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn there_are_never_more_cache_marks_than_the_provider_allows() {
    for number in 0..Conversation::REQUESTS {
        let body = sent(Dialect::Messages, Conversation::request(number), None).await;
        let marks = body.to_string().matches("cache_control").count();
        assert_eq!(marks, if number == 0 { 3 } else { 4 });
    }
}

#[tokio::test]
async fn arguments_are_sent_back_byte_for_byte() {
    // Not what the text means but the text itself, which a parsed body has lost.
    let written = r#"{ "timeout":1e1,"command":"npm test" }"#;
    for dialect in Dialect::ALL {
        let body = bytes_sent(dialect, Conversation::whole(), None).await;
        let expected = match dialect {
            Dialect::Messages => written.to_owned(),
            Dialect::Responses | Dialect::Chat => Value::from(written).to_string(),
        };
        assert!(body.contains(&expected), "{dialect:?}: {body}");
    }
}

#[tokio::test]
async fn thinking_is_not_asked_for_where_the_provider_would_refuse() {
    let thinking = async |number, budget| {
        let body = sent(Dialect::Messages, Conversation::request(number), Some(budget)).await;
        body["thinking"]["budget_tokens"].as_u64()
    };
    // Half of the output at most, and not less than the provider's least.
    assert_eq!(thinking(0, 100_000).await, Some(2048));
    assert_eq!(thinking(0, 1_000).await, None);
    // The answer before the results began with thinking.
    assert_eq!(thinking(1, 1_500).await, Some(1_500));
    let mut request = Conversation::request(1);
    if let Message::Model { blocks } = &mut request.messages[1] {
        blocks.retain(|block| !matches!(block, Block::Thinking { .. }));
    }
    let body = sent(Dialect::Messages, request, Some(1_500)).await;
    assert_eq!(body.get("thinking"), None);
}
