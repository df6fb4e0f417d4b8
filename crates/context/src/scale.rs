//! How much a text is worth in tokens.

use cofferdam_types::{Block, Content, Message};

/// Bytes of text in a token, until a provider has said more.
pub(crate) const BYTES_A_TOKEN: u64 = 4;

/// The first guess counts as much as this much text that was measured.
const GUESSED: u64 = 8_000;

/// No text has fewer bytes a token than this, or more: what says so is another thing.
const EXTREMES: (u64, u64) = (1, 8);

/// A picture costs about as much as this much text, whatever its size.
const PICTURE: u64 = 6_000;

/// What a message costs besides its text.
pub(crate) const FRAME: u64 = 16;

/// Tokens of a model's text, as its provider has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scale {
    bytes: u64,
    tokens: u64,
}

impl Scale {
    /// One by a text that was counted.
    pub(crate) fn measured(bytes: u64, tokens: u64) -> Self {
        Self { bytes, tokens }
    }

    /// So many more bytes were so many more tokens.
    pub(crate) fn learn(&mut self, bytes: u64, tokens: u64) {
        let (least, most) = (bytes / EXTREMES.1, bytes / EXTREMES.0);
        if bytes == 0 || tokens < least || tokens > most {
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// About how many tokens a text of this many bytes has.
    pub(crate) fn tokens(self, bytes: u64) -> u64 {
        let (measured, counted) = (u128::from(self.bytes), u128::from(self.tokens));
        let guessed = u128::from(GUESSED);
        let tokens = counted + guessed / u128::from(BYTES_A_TOKEN);
        let all = u128::from(bytes) * tokens;
        u64::try_from(all.div_ceil(measured + guessed)).unwrap_or(u64::MAX)
    }

    /// About how many bytes of text are so many tokens.
    pub(crate) fn bytes(self, tokens: u64) -> u64 {
        let (measured, counted) = (u128::from(self.bytes), u128::from(self.tokens));
        let guessed = u128::from(GUESSED);
        let all = u128::from(tokens) * (measured + guessed);
        u64::try_from(all / (counted + guessed / u128::from(BYTES_A_TOKEN))).unwrap_or(u64::MAX)
    }
}

/// About how many bytes of text a message is worth.
pub(crate) fn weight(message: &Message) -> u64 {
    let text = match message {
        Message::User { content } => content.iter().map(weight_of_content).sum(),
        Message::Tools { results } => results
            .iter()
            .map(|result| FRAME + result.content.iter().map(weight_of_content).sum::<u64>())
            .sum(),
        Message::Model { blocks } => blocks.iter().map(weight_of_block).sum::<u64>(),
    };
    FRAME + text
}

pub(crate) fn weight_of_content(content: &Content) -> u64 {
    match content {
        Content::Text { text } => text.len() as u64,
        Content::Image { .. } => PICTURE,
    }
}

fn weight_of_block(block: &Block) -> u64 {
    match block {
        Block::Text { text } => text.len() as u64,
        Block::Thinking { text, seal } => {
            (text.len() + seal.as_ref().map_or(0, |seal| seal.data.len())) as u64
        }
        Block::ToolCall(call) => FRAME + (call.name.len() + call.arguments.0.len()) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_s_count_moves_the_guess() {
        let mut scale = Scale::default();
        assert_eq!(scale.tokens(4_000), 1_000);
        for _ in 0..100 {
            scale.learn(10_000, 5_000);
        }
        assert!((1_950..=2_050).contains(&scale.tokens(4_000)), "{}", scale.tokens(4_000));
        assert!((7_800..=8_200).contains(&scale.bytes(4_000)), "{}", scale.bytes(4_000));
    }

    #[test]
    fn a_count_that_makes_no_sense_is_not_believed() {
        let mut scale = Scale::default();
        for (bytes, tokens) in [(0, 5), (100, 0), (100, 1_000_000)] {
            scale.learn(bytes, tokens);
        }
        assert_eq!(scale, Scale::default());
    }
}
