//! A second opinion on what fits: by meaning, beside by words.
//!
//! Words alone found more than vectors alone wherever it was measured, and a mix of
//! equal weight less than words alone. So the second list weighs little, and there
//! is none unless somebody gives an [`Embed`].

use std::cmp::Ordering;

use futures_util::future::BoxFuture;

use crate::error::RecallError;
use crate::index::{Hit, Index, Question};

/// What the list by meaning weighs beside that by words.
pub const MEANING_WEIGHT: f64 = 0.3;

/// Softens how much the first places count over those that follow.
const SOFTENING: f64 = 60.0;

/// Hits by words that are looked at again for their meaning.
const CANDIDATES: usize = 50;

/// Turns texts into vectors: those that mean the same point the same way.
pub trait Embed: Send + Sync {
    /// One vector for each text, in their order, all of the same length.
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, RecallError>>;
}

/// Finds what fits best by words and, with an embedder, by meaning. One that fails
/// costs its opinion only.
///
/// # Errors
/// When the index cannot answer.
pub async fn find(
    index: &dyn Index,
    embed: Option<&dyn Embed>,
    question: Question,
) -> Result<Vec<Hit>, RecallError> {
    let embed = embed.filter(|_| !question.words.trim().is_empty());
    let Some(embed) = embed else {
        return index.find(question).await;
    };
    let limit = question.limit;
    let words = question.words.clone();
    let hits = index.find(Question { limit: limit.max(CANDIDATES), ..question }).await?;
    let order = by_meaning(embed, words, &hits).await.unwrap_or_default();
    Ok(fuse(hits, &order, limit))
}

/// Mixes a list with another order of the same hits, by their places in it. Hits that
/// the other order leaves out keep what their own place gives them.
#[must_use]
pub fn fuse(hits: Vec<Hit>, meaning: &[usize], limit: usize) -> Vec<Hit> {
    #[expect(clippy::cast_precision_loss, reason = "a place in a short list")]
    let worth = |place: usize| 1.0 / (SOFTENING + place as f64);
    let mut scores: Vec<f64> = (0..hits.len()).map(|place| worth(place + 1)).collect();
    for (place, hit) in meaning.iter().enumerate() {
        if let Some(score) = scores.get_mut(*hit) {
            *score += MEANING_WEIGHT * worth(place + 1);
        }
    }
    let mut mixed: Vec<Hit> = hits;
    for (hit, score) in mixed.iter_mut().zip(scores) {
        hit.score = score;
    }
    mixed.sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal));
    mixed.truncate(limit);
    mixed
}

/// The hits in the order of their likeness to the question, by their numbers.
async fn by_meaning(embed: &dyn Embed, question: String, hits: &[Hit]) -> Option<Vec<usize>> {
    let mut texts = vec![question];
    texts.extend(hits.iter().take(CANDIDATES).map(|hit| hit.excerpt.clone()));
    let wanted = texts.len();
    let vectors = embed.embed(texts).await.ok().filter(|vectors| vectors.len() == wanted)?;
    let (question, others) = vectors.split_first()?;
    let mut likeness = Vec::with_capacity(others.len());
    for (number, other) in others.iter().enumerate() {
        likeness.push((cosine(question, other)?, number));
    }
    likeness.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal));
    Some(likeness.into_iter().map(|(_, number)| number).collect())
}

/// `None` for vectors that cannot be compared.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    if a.len() != b.len() || a.is_empty() {
        return None;
    }
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let lengths = (product(a, a) * product(b, b)).sqrt();
    let cosine = product(a, b) / lengths;
    cosine.is_finite().then_some(cosine)
}

#[cfg(test)]
#[path = "fuse_tests.rs"]
mod tests;
