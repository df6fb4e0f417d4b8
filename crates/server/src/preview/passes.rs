//! Who may see a preview: a ticket that works once, and the cookie that it is exchanged
//! for. Either is good for one port of one job and falls with the token that asked for
//! it. They are in memory alone; what is kept of each is its hash.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cofferdam_store::TokenHash;
use http::HeaderMap;
use http::header::COOKIE;

use super::domain::Spot;
use crate::credentials::{hash, random};

/// How long a ticket may be exchanged, and how long its cookie is good.
const TICKET_TIME: Duration = Duration::from_secs(60);
const COOKIE_TIME: Duration = Duration::from_secs(12 * 3600);
/// How many of each are kept, in all and of one token. The oldest goes first.
const MOST: usize = 4096;
const MOST_OF_ONE: usize = 256;

/// The cookie's name, and the one that browsers take from nobody but the host itself.
pub(crate) const COOKIE_NAME: &str = "cofferdam_view";
pub(crate) const SECURE_COOKIE_NAME: &str = "__Host-cofferdam_view";

/// The ticket's name in a query.
pub(crate) const TICKET: &str = "cofferdam_ticket";

/// Cookies of our name that are looked at in one request.
const MOST_SHOWN: usize = 8;

/// What somebody may see, and by which token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) token: TokenHash,
    pub(crate) spot: Spot,
    /// Whether the browser speaks TLS, to us or to a proxy in front of us.
    pub(crate) secure: bool,
}

/// Tickets and cookies.
#[derive(Default)]
pub(crate) struct Passes {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    tickets: Shelf,
    cookies: Shelf,
}

impl Passes {
    /// A new ticket.
    pub(crate) fn ticket(&self, pass: Pass, now: Instant) -> Result<String, rustix::io::Errno> {
        let secret = random()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tickets.put(hash(&secret), pass, now, TICKET_TIME);
        Ok(secret)
    }

    /// The cookie for a ticket, which works no more after this: none if the ticket is not
    /// for this spot or not good any more.
    pub(crate) fn redeem(
        &self,
        ticket: &str,
        spot: Spot,
        now: Instant,
    ) -> Result<Option<(Pass, String)>, rustix::io::Errno> {
        let secret = random()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pass) = kept.tickets.take(&hash(ticket), now, TICKET_TIME) else {
            return Ok(None);
        };
        if pass.spot != spot {
            return Ok(None);
        }
        kept.cookies.put(hash(&secret), pass, now, COOKIE_TIME);
        Ok(Some((pass, secret)))
    }

    /// What one of the request's cookies is good for here.
    pub(crate) fn shown(&self, headers: &HeaderMap, spot: Spot, now: Instant) -> Option<Pass> {
        let hashes: Vec<TokenHash> = values(headers).take(MOST_SHOWN).map(hash).collect();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = hashes.iter().filter_map(|hash| kept.cookies.look(hash, now, COOKIE_TIME));
        found.find(|pass| pass.spot == spot)
    }

    /// Forgets what a token has opened.
    pub(crate) fn forget(&self, token: TokenHash) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tickets.entries.retain(|_, (pass, _)| pass.token != token);
        kept.cookies.entries.retain(|_, (pass, _)| pass.token != token);
    }
}

/// What is kept of one kind.
#[derive(Default)]
struct Shelf {
    entries: HashMap<TokenHash, (Pass, Instant)>,
}

impl Shelf {
    fn put(&mut self, hash: TokenHash, pass: Pass, now: Instant, time: Duration) {
        self.entries.retain(|_, (_, made)| now.saturating_duration_since(*made) < time);
        let own = |(other, _): &(Pass, Instant)| other.token == pass.token;
        if self.entries.values().filter(|entry| own(entry)).count() >= MOST_OF_ONE {
            self.drop_oldest(own);
        }
        if self.entries.len() >= MOST {
            self.drop_oldest(|_| true);
        }
        self.entries.insert(hash, (pass, now));
    }

    fn drop_oldest(&mut self, among: impl Fn(&(Pass, Instant)) -> bool) {
        let candidates = self.entries.iter().filter(|(_, entry)| among(entry));
        let oldest = candidates.min_by_key(|(_, (_, made))| *made).map(|(hash, _)| *hash);
        if let Some(hash) = oldest {
            self.entries.remove(&hash);
        }
    }

    fn look(&self, hash: &TokenHash, now: Instant, time: Duration) -> Option<Pass> {
        let (pass, made) = self.entries.get(hash)?;
        (now.saturating_duration_since(*made) < time).then_some(*pass)
    }

    fn take(&mut self, hash: &TokenHash, now: Instant, time: Duration) -> Option<Pass> {
        let found = self.look(hash, now, time);
        self.entries.remove(hash);
        found
    }
}

/// Whether a cookie of this name is ours.
pub(crate) fn is_ours(name: &str) -> bool {
    name == COOKIE_NAME || name == SECURE_COOKIE_NAME
}

/// The values of our cookies.
fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| is_ours(name.trim())).map(|(_, value)| value.trim())
}

/// What sets the cookie: for this host alone, out of reach of scripts, and not sent along
/// with what other sites ask for but when people follow a link.
pub(crate) fn set_cookie(pass: &Pass, secret: &str) -> String {
    let (name, secure) =
        if pass.secure { (SECURE_COOKIE_NAME, "; Secure") } else { (COOKIE_NAME, "") };
    let seconds = COOKIE_TIME.as_secs();
    format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

/// The ticket in a query, and the query without it.
pub(crate) fn split_ticket(query: &str) -> Option<(&str, String)> {
    let of = |pair: &'_ str| pair.split_once('=').is_some_and(|(name, _)| name == TICKET);
    let found = query.split('&').find(|pair| of(pair))?;
    let (_, ticket) = found.split_once('=')?;
    let rest: Vec<&str> = query.split('&').filter(|pair| !of(pair)).collect();
    Some((ticket, rest.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(port: u16) -> Spot {
        Spot { job: "019a0000-0000-7000-8000-000000000000".parse().unwrap(), port }
    }

    fn pass(token: u8) -> Pass {
        Pass { token: TokenHash([token; 32]), spot: spot(80), secure: false }
    }

    fn cookie(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, format!("a=b; {COOKIE_NAME}={value}; c=d").parse().unwrap());
        headers
    }

    #[test]
    fn a_ticket_works_once_and_its_cookie_from_then_on() {
        let (passes, now) = (Passes::default(), Instant::now());
        let ticket = passes.ticket(pass(1), now).unwrap();
        assert!(ticket.len() >= 43, "{ticket}");
        let (found, secret) = passes.redeem(&ticket, spot(80), now).unwrap().unwrap();
        assert_eq!(found, pass(1));
        assert_eq!(passes.redeem(&ticket, spot(80), now), Ok(None));
        assert_eq!(passes.shown(&cookie(&secret), spot(80), now), Some(pass(1)));
        // The ticket is no cookie, and the cookie no ticket.
        assert_eq!(passes.shown(&cookie(&ticket), spot(80), now), None);
        assert_eq!(passes.redeem(&secret, spot(80), now), Ok(None));
    }

    #[test]
    fn neither_is_good_for_another_port() {
        let (passes, now) = (Passes::default(), Instant::now());
        let ticket = passes.ticket(pass(1), now).unwrap();
        assert_eq!(passes.redeem(&ticket, spot(81), now), Ok(None));
        assert_eq!(passes.redeem(&ticket, spot(80), now), Ok(None), "it was used");
        let ticket = passes.ticket(pass(1), now).unwrap();
        let (_, secret) = passes.redeem(&ticket, spot(80), now).unwrap().unwrap();
        assert_eq!(passes.shown(&cookie(&secret), spot(81), now), None);
    }

    #[test]
    fn both_have_their_time() {
        let (passes, now) = (Passes::default(), Instant::now());
        let ticket = passes.ticket(pass(1), now).unwrap();
        assert_eq!(passes.redeem(&ticket, spot(80), now + TICKET_TIME), Ok(None));
        let ticket = passes.ticket(pass(1), now).unwrap();
        let (_, secret) = passes.redeem(&ticket, spot(80), now).unwrap().unwrap();
        assert!(passes.shown(&cookie(&secret), spot(80), now + COOKIE_TIME / 2).is_some());
        assert_eq!(passes.shown(&cookie(&secret), spot(80), now + COOKIE_TIME), None);
    }

    #[test]
    fn a_cookie_that_somebody_else_set_does_not_hide_ours() {
        let (passes, now) = (Passes::default(), Instant::now());
        let ticket = passes.ticket(pass(1), now).unwrap();
        let (_, secret) = passes.redeem(&ticket, spot(80), now).unwrap().unwrap();
        let mut headers = HeaderMap::new();
        let both = format!("{COOKIE_NAME}=x; {COOKIE_NAME}={secret}");
        headers.append(COOKIE, both.parse().unwrap());
        assert!(passes.shown(&headers, spot(80), now).is_some());
    }

    #[test]
    fn they_are_bounded_and_one_token_drives_out_its_own() {
        let (passes, now) = (Passes::default(), Instant::now());
        let other = passes.ticket(pass(2), now).unwrap();
        let first = passes.ticket(pass(1), now).unwrap();
        for n in 0..MOST_OF_ONE {
            passes.ticket(pass(1), now + Duration::from_millis(1 + n as u64)).unwrap();
        }
        assert_eq!(passes.redeem(&first, spot(80), now), Ok(None));
        assert!(passes.redeem(&other, spot(80), now).unwrap().is_some());
        let mut shelf = Shelf::default();
        for n in 0..MOST {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&(n as u64).to_le_bytes());
            let pass = Pass { token: TokenHash(bytes), ..pass(0) };
            shelf.entries.insert(TokenHash(bytes), (pass, now + Duration::from_nanos(n as u64)));
        }
        shelf.put(TokenHash([9; 32]), pass(9), now + Duration::from_secs(1), TICKET_TIME);
        assert_eq!(shelf.entries.len(), MOST);
        assert!(!shelf.entries.contains_key(&TokenHash([0; 32])), "the oldest went");
    }

    #[test]
    fn what_a_token_opened_is_forgotten_with_it() {
        let (passes, now) = (Passes::default(), Instant::now());
        let ticket = passes.ticket(pass(1), now).unwrap();
        let (_, secret) = passes.redeem(&ticket, spot(80), now).unwrap().unwrap();
        passes.forget(TokenHash([1; 32]));
        assert_eq!(passes.shown(&cookie(&secret), spot(80), now), None);
    }

    #[test]
    fn a_cookie_is_for_its_host_alone() {
        let set = set_cookie(&pass(1), "s");
        assert_eq!(
            set, "cofferdam_view=s; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax",
            "no Domain"
        );
        let set = set_cookie(&Pass { secure: true, ..pass(1) }, "s");
        assert!(set.starts_with("__Host-cofferdam_view=s; ") && set.ends_with("; Secure"), "{set}");
    }

    #[test]
    fn a_ticket_is_taken_out_of_a_query() {
        let split = |query| split_ticket(query).map(|(ticket, rest)| (ticket.to_owned(), rest));
        let found = |ticket: &str, rest: &str| Some((ticket.to_owned(), rest.to_owned()));
        assert_eq!(split("a=b&c"), None);
        assert_eq!(split(""), None);
        assert_eq!(split("cofferdam_ticket=t"), found("t", ""));
        assert_eq!(split("a=b&cofferdam_ticket=t&c"), found("t", "a=b&c"));
        assert_eq!(split("cofferdam_ticket=t&cofferdam_ticket=u"), found("t", ""));
    }
}
