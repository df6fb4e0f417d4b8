//! Something longer than the window is read piece by piece.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cofferdam_model::Request;
use cofferdam_runtime::Driven;
use cofferdam_types::{Content, Ending, Event, Message, ToolStatus};
use serde_json::json;

use crate::lab::{Lab, Say};

/// The words of the last message.
fn last_words(question: &Request) -> String {
    let content = match question.messages.last().unwrap() {
        Message::User { content } => content.clone(),
        Message::Tools { results } => results.iter().flat_map(|one| one.content.clone()).collect(),
        Message::Model { .. } => Vec::new(),
    };
    let texts = content.into_iter().filter_map(|part| match part {
        Content::Text { text } => Some(text),
        Content::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_larger_than_the_window_is_read_whole_and_in_its_order() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (told, turn) = (Arc::clone(&seen), AtomicUsize::new(0));
    // 10,000 tokens; the file has about 25,000.
    let lab = Lab::recalling(10_000, "find it", move |question| {
        let words = last_words(question);
        if question.system.contains("piece by piece") {
            let said = words.lines().find(|line| line.contains("NEEDLE 42")).unwrap_or("nothing");
            told.lock().unwrap().push(words.clone());
            return Say::Text(said.to_owned());
        }
        match turn.fetch_add(1, Ordering::SeqCst) {
            0 => Say::Calls(vec![(
                "bash",
                json!({"command": "for i in $(seq 10000); do echo line $i; done > big.log; \
                       sed -i '9000s/$/ NEEDLE 42/' big.log"}),
            )]),
            1 => Say::Calls(vec![(
                "digest",
                json!({"path": "/workspace/big.log", "question": "What is the NEEDLE?"}),
            )]),
            _ => Say::Text(format!("found: {words}")),
        }
    });
    let driven = lab.drive().end().await;
    let Driven::Ended(Ending::Complete { summary, .. }) = driven else { panic!("{driven:?}") };
    assert!(summary.contains("line 9000 NEEDLE 42"), "{summary}");
    let seen = seen.lock().unwrap();
    let (notes, pieces) = seen.split_last().unwrap();
    assert!(notes.contains("Piece 1 of") && pieces.len() > 3, "{}", pieces.len());
    let lines: Vec<&str> = pieces
        .iter()
        .flat_map(|piece| piece.lines())
        .filter(|at| at.starts_with("line "))
        .collect();
    assert_eq!(lines.len(), 10_000);
    assert!((1..).zip(&lines).all(|(number, line)| {
        line.split(' ').nth(1).unwrap().parse::<u32>().unwrap() == number
    }));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_told() {
    let turn = AtomicUsize::new(0);
    let lab =
        Lab::recalling(10_000, "find it", move |_| match turn.fetch_add(1, Ordering::SeqCst) {
            0 => Say::Calls(vec![
                ("digest", json!({"path": "missing"})),
                ("digest", json!({"id": 999})),
                ("digest", json!({"path": "../../etc/passwd"})),
            ]),
            _ => Say::Text("done".to_owned()),
        });
    lab.drive().end().await;
    let outputs: Vec<_> = lab
        .records()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::ToolEnded { output, .. } => Some((output.status, output.plain_text())),
            _ => None,
        })
        .collect();
    assert_eq!(outputs.len(), 3);
    assert!(
        outputs.iter().all(|(status, text)| {
            *status == ToolStatus::Failed && text.starts_with("digest: ")
        }),
        "{outputs:?}"
    );
}
