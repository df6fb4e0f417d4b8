//! What was said, as text.

use cofferdam_model::Request;
use cofferdam_types::{Content, Message};

/// What a conversation began with: a task, or a brief.
pub(crate) fn opening(request: &Request) -> String {
    match request.messages.first() {
        Some(Message::User { content }) => text(content),
        _ => String::new(),
    }
}

/// The text in it; pictures are left out.
pub(crate) fn text(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|content| match content {
        Content::Text { text } => Some(text.as_str()),
        Content::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
