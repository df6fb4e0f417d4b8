//! Answers as they should be, and what of them is sent back.

use cofferdam_model::{Delta, Model, Request};
use cofferdam_testkit::{Dialect, ScriptedAnswer, ScriptedServer, Turn};
use cofferdam_types::{Block, Content, Message, StopReason, Tokens, ToolResult};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::harness::{ask, deltas, endpoint, model, request};

fn rich() -> ScriptedAnswer {
    ScriptedAnswer {
        text: "Ich prüfe zwei Dinge. 😀".to_owned(),
        thinking: "Erst lesen, dann denken.".to_owned(),
        calls: vec![
            ("bash".to_owned(), json!({"command": "echo 'größer' \"x\"\n"})),
            ("read_file".to_owned(), json!({"path": "ä.txt"})),
        ],
        stop: None,
        usage: Tokens { input: 1000, cache_read: 300, cache_write: 0, output: 77 },
    }
}

#[tokio::test]
async fn text_thinking_calls_and_usage_arrive_whole() {
    for dialect in Dialect::ALL {
        let server = ScriptedServer::start([Turn::Answer(rich())]).await.unwrap();
        let answer = ask(&model(&endpoint(&server, dialect)), request("go")).await.unwrap();
        assert_eq!(answer.text(), rich().text, "{dialect:?}");
        assert_eq!(answer.stop, StopReason::Tools);
        assert_eq!(answer.tokens, rich().usage, "{dialect:?}");
        let Some(Block::Thinking { text, seal }) = answer.blocks.first() else { panic!() };
        assert_eq!(*text, rich().thinking);
        assert_eq!(seal.is_some(), dialect != Dialect::Chat);
        let calls: Vec<_> = answer
            .calls()
            .map(|call| (call.name.clone(), serde_json::from_str(&call.arguments.0).unwrap()))
            .collect();
        assert_eq!(calls, rich().calls, "{dialect:?}");
    }
}

#[tokio::test]
async fn pieces_come_one_by_one_and_the_stop_comes_last() {
    for dialect in Dialect::ALL {
        let server = ScriptedServer::start([Turn::Answer(rich())]).await.unwrap();
        let deltas = deltas(&model(&endpoint(&server, dialect)), request("go")).await;
        let texts = deltas.iter().filter(|delta| matches!(delta, Ok(Delta::Text(_)))).count();
        assert!(texts >= 2, "{dialect:?} {deltas:?}");
        assert_eq!(deltas.last(), Some(&Ok(Delta::Stop(StopReason::Tools))), "{dialect:?}");
    }
}

/// The request after an answer, with results for its calls.
async fn next_request(dialect: Dialect) -> (Vec<Block>, Value) {
    let server = ScriptedServer::start([Turn::Answer(rich())]).await.unwrap();
    let model = model(&endpoint(&server, dialect));
    let first = request("go");
    let answer = ask(&model, first.clone()).await.unwrap();
    let result = |id: &String| ToolResult {
        id: id.clone(),
        content: vec![Content::text("ok")],
        failed: false,
    };
    let results = answer.calls().map(|call| result(&call.id)).collect();
    let blocks = answer.blocks.clone();
    let said = [Message::Model { blocks: answer.blocks }, Message::Tools { results }];
    let messages = first.messages.iter().cloned().chain(said).collect();
    ask(&model, Request { messages, ..first }).await.unwrap();
    (blocks, server.requests().remove(1).body)
}

#[tokio::test]
async fn what_messages_brought_is_sent_back_exactly() {
    let (_, body) = next_request(Dialect::Messages).await;
    let expected = json!([
        {"type": "thinking", "thinking": rich().thinking, "signature": "signature-0"},
        {"type": "text", "text": rich().text},
        {"type": "tool_use", "id": "call_0_0", "name": "bash", "input": rich().calls[0].1},
        {"type": "tool_use", "id": "call_0_1", "name": "read_file", "input": rich().calls[1].1},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
    assert_eq!(body["messages"][2]["content"][1]["tool_use_id"], "call_0_1");
    assert_eq!(body["messages"].as_array().unwrap().len(), 3, "all results are in one message");
}

#[tokio::test]
async fn what_responses_brought_is_sent_back_exactly() {
    let (_, body) = next_request(Dialect::Responses).await;
    let items = body["input"].as_array().unwrap();
    let thought = json!({"id": "rs_0", "type": "reasoning", "encrypted_content": "sealed-0",
        "summary": [{"type": "summary_text", "text": rich().thinking}]});
    assert_eq!(items[1], thought);
    assert_eq!(items[2]["content"], json!([{"type": "output_text", "text": rich().text}]));
    let arguments = rich().calls[0].1.to_string();
    let call = json!({"type": "function_call", "call_id": "call_0_0", "name": "bash",
        "arguments": arguments});
    assert_eq!(items[3], call);
    let result = json!({"type": "function_call_output", "call_id": "call_0_1", "output": "ok"});
    assert_eq!(items[6], result);
}

#[tokio::test]
async fn what_chat_brought_is_sent_back_exactly() {
    let (_, body) = next_request(Dialect::Chat).await;
    let said = &body["messages"][2];
    assert_eq!(said["content"], rich().text);
    let arguments = rich().calls[1].1.to_string();
    let call = json!({"id": "call_0_1", "type": "function",
        "function": {"name": "read_file", "arguments": arguments}});
    assert_eq!(said["tool_calls"][1], call);
    let result = json!({"role": "tool", "tool_call_id": "call_0_1", "content": "ok"});
    assert_eq!(body["messages"][4], result);
}

#[tokio::test]
async fn a_seal_of_another_wire_stays_here() {
    for from in [Dialect::Messages, Dialect::Responses] {
        let (blocks, _) = next_request(from).await;
        for to in Dialect::ALL.into_iter().filter(|to| *to != from) {
            let server = ScriptedServer::start([]).await.unwrap();
            let mut again = request("go");
            again.messages.push(Message::Model { blocks: blocks.clone() });
            ask(&model(&endpoint(&server, to)), again).await.unwrap();
            let body = server.requests().remove(0).body.to_string();
            assert!(!body.contains("Erst lesen"), "{from:?} to {to:?}: {body}");
            assert!(!body.contains("sealed-0") && !body.contains("signature-0"), "{body}");
            assert!(body.contains("größer"), "{body}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_ends_its_request() {
    let turn = Turn::text("never mind").but(cofferdam_testkit::Fault::StallStream);
    let server = ScriptedServer::start([turn]).await.unwrap();
    let model = model(&endpoint(&server, Dialect::Chat));
    let mut stream = model.ask(request("go"));
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    // The server's connection ends only when its client leaves.
    server.wait_until_idle().await.unwrap();
}
