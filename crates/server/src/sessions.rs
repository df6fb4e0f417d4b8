//! Who sent a request. What the store said of a token is believed for a few
//! seconds, so that most requests ask it nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cofferdam_store::{Principal, Store, StoreError, TokenHash};

use crate::credentials::Shown;
use crate::problem::{NO_TOKEN, Refusal, TOO_MANY};
use crate::throttle::{FLOOD, GUESSES, NUISANCES, Throttle};

/// How long the store's word is believed: how soon a token that another server
/// has removed, or that has expired, works no more.
const FRESH: Duration = Duration::from_secs(5);
/// How long a token that was right is let through a flood.
const KNOWN: Duration = Duration::from_secs(3600);
/// Tokens that are remembered.
const MOST: usize = 8192;

/// Tokens that were right a short while ago.
pub(crate) struct Sessions {
    known: Mutex<HashMap<TokenHash, Session>>,
    guesses: Throttle,
    nuisances: Throttle,
    flood: Throttle,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            guesses: Throttle::new(GUESSES),
            nuisances: Throttle::new(NUISANCES),
            flood: Throttle::new(FLOOD),
        }
    }
}

struct Session {
    principal: Arc<Principal>,
    asked: Instant,
}

impl Sessions {
    /// Who shows this, and the hash of the token.
    pub(crate) async fn authenticate(
        &self,
        store: &dyn Store,
        shown: Shown,
        address: IpAddr,
    ) -> Result<(Arc<Principal>, TokenHash), Refusal> {
        let now = Instant::now();
        let hash = match shown {
            Shown::Token(hash) => hash,
            Shown::Nothing => return Err(no_token()),
            Shown::Garbage => return Err(wrong(&self.nuisances, address, now)),
        };
        let was_right = match self.remembered(&hash, now) {
            Some((principal, true)) => return Ok((principal, hash)),
            Some((_, false)) => true,
            None => false,
        };
        if !was_right && let Some(seconds) = self.flood.wait(address, now) {
            return Err(too_many(seconds));
        }
        match store.principal(hash).await? {
            Some(principal) => Ok((self.remember(hash, principal, now), hash)),
            None => {
                self.forget(&hash);
                self.flood.failed(address, now);
                Err(wrong(&self.guesses, address, now))
            }
        }
    }

    /// Whose a token is that was right, if it still is.
    pub(crate) async fn principal(
        &self,
        store: &dyn Store,
        hash: TokenHash,
    ) -> Result<Option<Arc<Principal>>, StoreError> {
        let now = Instant::now();
        if let Some((principal, true)) = self.remembered(&hash, now) {
            return Ok(Some(principal));
        }
        match store.principal(hash).await? {
            Some(principal) => Ok(Some(self.remember(hash, principal, now))),
            None => {
                self.forget(&hash);
                Ok(None)
            }
        }
    }

    /// Whether a token that was right still is. A store that cannot say ends
    /// nothing.
    pub(crate) async fn is_valid(&self, store: &dyn Store, hash: TokenHash) -> bool {
        match self.principal(store, hash).await {
            Ok(found) => found.is_some(),
            Err(error) => {
                tracing::warn!(error = %error, "a token could not be checked again");
                true
            }
        }
    }

    /// A token or a user was removed: nobody is believed without asking.
    pub(crate) fn forget_all(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn remembered(&self, hash: &TokenHash, now: Instant) -> Option<(Arc<Principal>, bool)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let session = known.get(hash)?;
        let age = now.saturating_duration_since(session.asked);
        (age < KNOWN).then(|| (Arc::clone(&session.principal), age < FRESH))
    }

    fn remember(&self, hash: TokenHash, principal: Principal, now: Instant) -> Arc<Principal> {
        let principal = Arc::new(principal);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, session| now.saturating_duration_since(session.asked) < FRESH);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(hash, Session { principal: Arc::clone(&principal), asked: now });
        principal
    }

    fn forget(&self, hash: &TokenHash) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }
}

fn wrong(throttle: &Throttle, address: IpAddr, now: Instant) -> Refusal {
    let wait = throttle.wait(address, now);
    throttle.failed(address, now);
    wait.map_or_else(no_token, too_many)
}

/// The same whether there is no token, a wrong one, or one that has expired.
fn no_token() -> Refusal {
    let remedy = "send `Authorization: Bearer TOKEN`; an admin makes tokens";
    Refusal::new(NO_TOKEN, "the request has no valid token", remedy)
}

fn too_many(seconds: u32) -> Refusal {
    let remedy = "wait, then send a valid token";
    Refusal::new(TOO_MANY, "too many wrong tokens came from your address", remedy)
        .retry_after(seconds)
}
