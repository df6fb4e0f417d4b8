//! What is counted, when, and how often.

use cofferdam_types::{Tokens, ToolResult};

use super::*;
use crate::room::{Need, Room};

const GPT: Counting = Counting::Exact(Encoding::O200k);

/// About six tokens in 35 bytes, so that an estimate is off.
const LINE: &str = "internationalization responsibilities\n";

fn answered(conversation: &mut Conversation, seq: u64, text: &str) {
    conversation.ask();
    conversation.answer(seq, vec![Block::Text { text: text.to_owned() }]);
}

#[test]
fn a_model_s_table_is_used_where_there_is_one() {
    let model = |name: &str| Counting::of(&ModelName(name.to_owned()));
    assert_eq!(model("openai/gpt-4o"), GPT);
    assert_eq!(model("openai/gpt-4"), Counting::Exact(Encoding::Cl100k));
    assert_eq!(model("anthropic/claude"), Counting::Estimated);
    assert_eq!(GPT.to_string(), "exact, by o200k_base");
    assert_eq!(Counting::Estimated.to_string(), "estimated");
}

#[test]
fn text_is_counted_and_the_rest_is_estimated() {
    let text = LINE.repeat(100);
    let mut conversation = Conversation::new(1, &text);
    let exact = Encoding::O200k.count(&text);
    assert_eq!(conversation.tokens(1_000, GPT), 1_000 + exact + 4);
    assert!(conversation.tokens(1_000, Counting::Estimated) > 1_000 + exact * 3 / 2);
    // What waits to be said is the same before it is said and after, but for its frame.
    conversation.tell(2, &text);
    assert_eq!(conversation.tokens(0, GPT), 2 * exact + 4);
    conversation.speak();
    assert_eq!(conversation.tokens(0, GPT), 2 * exact + 8);
    let picture = Content::Image { media_type: "image/png".to_owned(), data: text };
    let result = ToolResult { id: "1".to_owned(), content: vec![picture], failed: false };
    let message = Message::Tools { results: vec![result] };
    assert_eq!(tokens_of(Encoding::O200k, &message), weight(&message).div_ceil(4));
}

#[test]
fn what_the_provider_has_counted_is_not_counted_again() {
    let mut conversation = Conversation::new(1, &LINE.repeat(100));
    conversation.ask();
    conversation.count(Tokens { input: 7_777, ..Tokens::default() });
    conversation.answer(2, vec![Block::Text { text: "well".to_owned() }]);
    assert_eq!(conversation.tokens(1_000, GPT), 7_777 + 1 + 4);
    assert_eq!(conversation.entries.first().unwrap().counted.0.load(Ordering::Relaxed), 0);
}

#[test]
fn a_message_is_counted_once_for_each_table() {
    let memo = Memo::default();
    let mut counted = 0;
    for encoding in [Encoding::O200k, Encoding::O200k, Encoding::Cl100k, Encoding::Cl100k] {
        memo.get(encoding, || {
            counted += 1;
            5
        });
    }
    assert_eq!(counted, 2);
    // What was counted while it waited is known when it is said.
    let mut conversation = Conversation::new(1, "task");
    conversation.tell(2, LINE);
    conversation.tell(3, LINE);
    assert!(conversation.tokens(0, GPT) > 0);
    conversation.speak();
    let counted = &conversation.entries.last().unwrap().counted;
    assert_eq!(
        counted.get(Encoding::O200k, || panic!("it is counted again")),
        tokens_of(Encoding::O200k, conversation.messages.last().unwrap()),
    );
}

#[test]
fn what_was_counted_follows_every_cut() {
    use cofferdam_types::{Cut, Span, Summariser};
    let room = Room { window: 8_000, output: 1_000, preface: 0, summariser: 8_000, counting: GPT };
    let mut conversation = Conversation::new(1, &LINE.repeat(300));
    for seq in 1..9 {
        conversation.tell(seq * 2, LINE.repeat(100));
        answered(&mut conversation, seq * 2 + 1, &LINE.repeat(3));
    }
    let (summary, by) = ("It went well.".to_owned(), Summariser::Rule);
    for cut in [
        Cut::Pruned { through: 9, keep: 200 },
        Cut::Summarised { span: Span::Messages { through: 5 }, summary: summary.clone(), by },
        Cut::Summarised { span: Span::Messages { through: 9 }, summary, by },
        Cut::Pruned { through: 17, keep: 0 },
    ] {
        let before = conversation.tokens(0, GPT);
        let pinned = conversation.pinned(room);
        conversation.cut(&cut, &[], pinned);
        let messages = conversation.messages.iter();
        let fresh: u64 = messages.map(|message| tokens_of(Encoding::O200k, message)).sum();
        assert_eq!(conversation.tokens(0, GPT), fresh, "{cut:?}");
        assert!(fresh < before, "{cut:?} made {fresh} of {before} tokens");
        assert_eq!(conversation.tokens_of_each(GPT).iter().sum::<u64>(), fresh);
    }
}

#[test]
fn of_a_very_long_conversation_the_latest_is_counted() {
    let long = LINE.repeat(4_000);
    let mut conversation = Conversation::new(1, "task");
    for seq in 1..9 {
        conversation.tell(seq * 2, long.as_str());
        answered(&mut conversation, seq * 2 + 1, "so");
    }
    let fresh = conversation.messages.iter().map(|message| tokens_of(Encoding::O200k, message));
    let fresh: u64 = fresh.sum();
    let told = conversation.tokens(0, GPT);
    assert!(told.abs_diff(fresh) < fresh / 100, "{told} is not about {fresh}");
    let counted = |entry: &crate::conversation::Entry| entry.counted.0.load(Ordering::Relaxed) != 0;
    let bytes = conversation.entries.iter().filter(|entry| counted(entry)).map(|one| one.weight);
    assert!(bytes.sum::<u64>() < MOST_COUNTED + long.len() as u64 + 99);
    // And one text that is longer than that alone.
    let text = LINE.repeat(20_000);
    let told = tokens_of_text(Encoding::O200k, &text);
    assert!(told.abs_diff(Encoding::O200k.count(&text)) < told / 100);
}

#[test]
fn text_of_few_bytes_a_token_is_cut_in_time() {
    // By its bytes there is room for it; by its tokens there is not.
    let mut text = String::new();
    for number in 0..9_000_u64 {
        text.push(char::from(b'!' + u8::try_from(number * number * 7 % 90).unwrap()));
    }
    let mut conversation = Conversation::new(1, "task");
    for seq in 1..3 {
        conversation.tell(seq * 2, text.as_str());
        answered(&mut conversation, seq * 2 + 1, "so");
    }
    let room =
        |counting| Room { window: 9_000, output: 1_000, preface: 0, summariser: 9_000, counting };
    assert_eq!(conversation.need(room(Counting::Estimated)), Need::Nothing);
    assert_ne!(conversation.need(room(GPT)), Need::Nothing);
}
