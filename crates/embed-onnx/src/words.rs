//! From a text to the numbers that a model knows: word pieces, as BERT's family has
//! them.
//!
//! What is read is a `tokenizer.json` of that kind. Another kind is refused by its
//! name: a tokenizer that is only nearly right gives vectors that are quite wrong.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use crate::characters::{Kinds, is_ideograph};

/// Characters of a text that are looked at.
const LONGEST_TEXT: usize = 4_000;
/// Tokens of a text, whatever the file says: what a text costs grows with them, and
/// nobody waits long for an opinion.
const MOST_TOKENS: usize = 128;

/// The file, as far as it is read.
#[derive(Deserialize)]
struct File {
    truncation: Option<Truncation>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    model: Value,
}

#[derive(Deserialize)]
struct Truncation {
    max_length: usize,
}

#[derive(Deserialize)]
struct Normalizer {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

#[derive(Deserialize)]
struct Pieces {
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, u32>,
}

/// A tokenizer.
pub(crate) struct Words {
    normalizer: Normalizer,
    pieces: Pieces,
    unknown: u32,
    /// What stands before every text, and after it.
    around: (Vec<u32>, Vec<u32>),
    /// How many tokens there may be, with those around.
    most: usize,
    kinds: Kinds,
}

impl Words {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// When it is none, or of a kind that is not known here.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        of_kind(Some(&file.model), "model", "WordPiece")?;
        of_kind(file.normalizer.as_ref(), "normalizer", "BertNormalizer")?;
        of_kind(file.pre_tokenizer.as_ref(), "pre-tokenizer", "BertPreTokenizer")?;
        let normalizer = serde_json::from_value(file.normalizer.unwrap_or_default());
        let normalizer = normalizer.map_err(|error| format!("its normalizer: {error}"))?;
        let around = around(&file.post_processor.unwrap_or_default())
            .ok_or("it does not say which tokens stand around a text")?;
        let pieces: Pieces =
            serde_json::from_value(file.model).map_err(|error| format!("its model: {error}"))?;
        let unknown = *pieces
            .vocab
            .get(&pieces.unk_token)
            .ok_or_else(|| format!("{:?} is not in its vocabulary", pieces.unk_token))?;
        let most = file.truncation.map_or(MOST_TOKENS, |truncation| truncation.max_length);
        let most = most.min(MOST_TOKENS);
        if most <= around.0.len() + around.1.len() {
            return Err(format!("it cuts texts after {most} tokens, so nothing is left of them"));
        }
        Ok(Self { normalizer, pieces, unknown, around, most, kinds: Kinds::new() })
    }

    /// The tokens of a text, with those around it. Of a long text only the beginning
    /// counts.
    pub(crate) fn tokens(&self, text: &str) -> Vec<u32> {
        let (before, after) = &self.around;
        let room = self.most - after.len();
        let mut tokens = before.clone();
        for word in self.split(text) {
            if tokens.len() >= room {
                break;
            }
            self.pieces_of(&word, &mut tokens);
        }
        tokens.truncate(room);
        tokens.extend(after);
        tokens
    }

    /// The words of a text, without what does not count.
    fn split(&self, text: &str) -> Vec<Vec<char>> {
        let Normalizer { clean_text, handle_chinese_chars, lowercase, .. } = self.normalizer;
        let strip_accents = self.normalizer.strip_accents.unwrap_or(lowercase);
        let kept = text.chars().take(LONGEST_TEXT);
        let kept = kept.filter(|character| !(clean_text && self.kinds.is_unseen(*character)));
        let mut plain: Vec<char> = match strip_accents {
            true => kept.nfd().filter(|character| !self.kinds.is_accent(*character)).collect(),
            false => kept.collect(),
        };
        if lowercase {
            plain = plain.into_iter().flat_map(char::to_lowercase).collect();
        }
        let mut words: Vec<Vec<char>> = Vec::new();
        let mut word: Vec<char> = Vec::new();
        for character in plain {
            let alone = self.kinds.is_punctuation(character)
                || handle_chinese_chars && is_ideograph(character);
            if !alone && !character.is_whitespace() {
                word.push(character);
                continue;
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if alone {
                words.push(vec![character]);
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
        words
    }

    /// A word in the longest pieces there are; one that cannot be made of them is
    /// unknown as a whole.
    fn pieces_of(&self, word: &[char], tokens: &mut Vec<u32>) {
        let known = tokens.len();
        let mut rest = word;
        while !rest.is_empty() {
            let found = match word.len() > self.pieces.max_input_chars_per_word {
                true => None,
                false => self.longest_piece(rest, rest.len() < word.len()),
            };
            let Some((token, length)) = found else {
                tokens.truncate(known);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(token);
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    /// The longest piece that the characters begin with, and its length.
    fn longest_piece(&self, characters: &[char], goes_on: bool) -> Option<(u32, usize)> {
        let mut piece = match goes_on {
            true => self.pieces.continuing_subword_prefix.clone(),
            false => String::new(),
        };
        piece.extend(characters);
        for length in (1..=characters.len()).rev() {
            if let Some(token) = self.pieces.vocab.get(&piece) {
                return Some((*token, length));
            }
            piece.pop();
        }
        None
    }
}

/// Checks that a part of the file is of the one kind that is known.
fn of_kind(part: Option<&Value>, what: &str, wanted: &str) -> Result<(), String> {
    let kind = part.and_then(|part| part.get("type")).and_then(Value::as_str);
    match kind {
        Some(kind) if kind == wanted => Ok(()),
        Some(kind) => Err(format!("its {what} is a {kind}; only {wanted} is known here")),
        None => Err(format!("it has no {what}; a {wanted} is needed")),
    }
}

/// The tokens before and after a text.
fn around(processor: &Value) -> Option<(Vec<u32>, Vec<u32>)> {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    // BERT's own form, and that of RoBERTa: each a pair of text and number.
    let of_pair = |name: &str| processor.get(name)?.get(1).and_then(number);
    if let (Some(first), Some(last)) = (of_pair("cls"), of_pair("sep")) {
        return Some((vec![first], vec![last]));
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut seen = false;
    for part in processor.get("single")?.as_array()? {
        let Some(special) = part.get("SpecialToken") else {
            seen |= part.get("Sequence").is_some();
            continue;
        };
        let name = special.get("id")?.as_str()?;
        let ids = processor.get("special_tokens")?.get(name)?.get("ids")?.as_array()?;
        let side = if seen { &mut after } else { &mut before };
        for id in ids {
            side.push(number(id)?);
        }
    }
    seen.then_some((before, after))
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
