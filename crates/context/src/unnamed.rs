//! What was cut, told to a model that has no tool to look for it: `recall` is not named.

use cofferdam_types::{Content, Message};

use crate::head::{BY_NUMBER, BY_WORDS};
use crate::shorten::BY_ID;

/// A text of ours without the name of the tool.
#[must_use]
pub fn unnamed(text: &str) -> String {
    text.replace(BY_NUMBER, "").replace(BY_WORDS, "").replace(BY_ID, "event ")
}

/// The same for a conversation.
#[must_use]
pub fn unnamed_in(messages: &[Message]) -> Vec<Message> {
    let unnamed = |content: &mut Content| {
        if let Content::Text { text } = content
            && text.contains("`recall`")
        {
            *text = self::unnamed(text);
        }
    };
    let mut messages = messages.to_vec();
    for message in &mut messages {
        match message {
            Message::User { content } => content.iter_mut().for_each(unnamed),
            Message::Tools { results } => {
                results.iter_mut().flat_map(|result| &mut result.content).for_each(unnamed);
            }
            Message::Model { .. } => {}
        }
    }
    messages
}
