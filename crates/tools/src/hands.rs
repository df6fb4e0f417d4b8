//! Whose hands are on a job's desktop: the model's, or a person's who took over.
//!
//! Never both: a person waits for the action under way, and the model's actions wait
//! for the person. What was done meanwhile is kept for the model to be told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// How long a person waits for the action under way.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stays of people that are kept until the model is told.
const MOST_EPISODES: usize = 3;

/// A larger picture is not kept.
const LARGEST_PICTURE: usize = 1 << 20;

/// Whose hands are on a desktop.
#[derive(Default)]
pub struct Hands {
    /// The model's actions read, a person writes: actions put themselves in order, and
    /// none begins while a person waits.
    turns: Arc<RwLock<()>>,
    /// Whether a person has them or waits for them.
    person: AtomicBool,
    episodes: Mutex<VecDeque<Episode>>,
}

/// What a person did with a desktop, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Episode {
    pub(crate) took: Duration,
    /// The screen before and after it, in PNG.
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) after: Option<Vec<u8>>,
}

/// A model may act while it has this.
pub(crate) type Turn = OwnedRwLockReadGuard<()>;

impl Hands {
    /// Gives them to a person until the answer is dropped. Waits for an action of the model
    /// that is under way; `None` if a person has them, or it does not end in time.
    pub async fn take_over(self: &Arc<Self>) -> Option<Held> {
        let claim = Claim::of(self)?;
        let turn = Arc::clone(&self.turns).write_owned();
        let turn = tokio::time::timeout(PATIENCE, turn).await.ok()?;
        Some(Held { began: Instant::now(), before: None, after: None, _turn: turn, claim })
    }

    /// Whether a person has them, or is about to.
    #[must_use]
    pub fn taken(&self) -> bool {
        self.person.load(Ordering::Relaxed)
    }

    /// The model's turn; `None` if a person has them for as long as this.
    pub(crate) async fn turn(&self, patience: Duration) -> Option<Turn> {
        let turn = Arc::clone(&self.turns).read_owned();
        tokio::time::timeout(patience, turn).await.ok()
    }

    /// Whether people did something that the model has not been told.
    pub(crate) fn has_untold(&self) -> bool {
        !self.episodes().is_empty()
    }

    /// What people did that the model has not been told, the earliest first.
    pub(crate) fn untold(&self) -> Vec<Episode> {
        self.episodes().drain(..).collect()
    }

    fn episodes(&self) -> std::sync::MutexGuard<'_, VecDeque<Episode>> {
        self.episodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One person at a time.
struct Claim(Arc<Hands>);

impl Claim {
    fn of(hands: &Arc<Hands>) -> Option<Self> {
        let taken = hands.person.swap(true, Ordering::Relaxed);
        (!taken).then(|| Self(Arc::clone(hands)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.person.store(false, Ordering::Relaxed);
    }
}

/// A desktop in the hands of a person, until it is dropped.
pub struct Held {
    began: Instant,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    // Given back before the claim, so that no other person waits in vain.
    _turn: OwnedRwLockWriteGuard<()>,
    claim: Claim,
}

impl Held {
    /// The screen as the person found it, in PNG.
    pub fn before(&mut self, png: Vec<u8>) {
        self.before = kept(png);
    }

    /// The screen as the person left it, in PNG.
    pub fn after(&mut self, png: Vec<u8>) {
        self.after = kept(png);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let episode = Episode {
            took: self.began.elapsed(),
            before: self.before.take(),
            after: self.after.take(),
        };
        let mut episodes = self.claim.0.episodes();
        while episodes.len() >= MOST_EPISODES {
            episodes.pop_front();
        }
        episodes.push_back(episode);
    }
}

fn kept(png: Vec<u8>) -> Option<Vec<u8>> {
    (png.len() <= LARGEST_PICTURE).then_some(png)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn a_person_and_the_model_never_have_them_together() {
        let hands = Arc::new(Hands::default());
        let turn = hands.turn(LONG).await.unwrap();
        let beside = hands.turn(LONG).await.unwrap();
        assert!(hands.take_over().await.is_none(), "an action that does not end");
        assert!(!hands.taken());
        let taking = {
            let hands = Arc::clone(&hands);
            async move { hands.take_over().await }
        };
        let giving = async {
            assert!(hands.turn(SHORT).await.is_none(), "the person who waits comes first");
            drop((turn, beside));
        };
        let (held, ()) = tokio::join!(taking, giving);
        assert!(hands.taken());
        assert!(hands.turn(SHORT).await.is_none());
        assert!(hands.take_over().await.is_none(), "somebody else");
        drop(held);
        assert!(!hands.taken());
        assert!(hands.turn(SHORT).await.is_some());
        assert!(hands.take_over().await.is_some());
    }

    #[tokio::test]
    async fn what_people_did_is_told_once() {
        let hands = Arc::new(Hands::default());
        for number in 0..4 {
            let mut held = hands.take_over().await.unwrap();
            held.before(vec![number]);
            held.after(if number == 3 { vec![0; LARGEST_PICTURE + 1] } else { vec![9] });
        }
        let untold = hands.untold();
        let before: Vec<_> = untold.iter().map(|episode| episode.before.clone()).collect();
        assert_eq!(before, [Some(vec![1]), Some(vec![2]), Some(vec![3])]);
        assert_eq!(untold[0].after, Some(vec![9]));
        assert_eq!(untold[2].after, None);
        assert_eq!(hands.untold(), []);
    }
}
