//! Tokens: how they look, how they come, and what is kept of them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cofferdam_api::{BEARER_PROTOCOL, PLAIN_SCREEN_PROTOCOL, SCREEN_PROTOCOL, TERMINAL_PROTOCOL};
use cofferdam_store::TokenHash;
use cofferdam_types::Redacted;
use http::header::{AUTHORIZATION, HeaderName, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

/// What every token begins with.
pub(crate) const PREFIX: &str = "cof_";
const BYTES: usize = 32;
const ENCODED: usize = 43;
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// What a request shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing.
    Nothing,
    /// Something that is no token of ours.
    Garbage,
    /// What looks like a token, hashed.
    Token(TokenHash),
}

/// A new token.
pub(crate) fn generate() -> Result<Redacted<String>, rustix::io::Errno> {
    Ok(Redacted::new(format!("{PREFIX}{}", random()?)))
}

/// 256 random bits, in letters that pass everywhere.
pub(crate) fn random() -> Result<String, rustix::io::Errno> {
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// What is kept of a token.
pub(crate) fn hash(token: &str) -> TokenHash {
    TokenHash(Sha256::digest(token.as_bytes()).into())
}

/// What a request shows, in its headers.
pub(crate) fn shown(headers: &HeaderMap) -> Shown {
    let mut authorizations = headers.get_all(AUTHORIZATION).iter();
    if let Some(value) = authorizations.next() {
        return match (bearer(value), authorizations.next()) {
            (Some(token), None) => token_of(token),
            _ => Shown::Garbage,
        };
    }
    let mut keys = headers.get_all(API_KEY).iter();
    match (keys.next().map(HeaderValue::to_str), keys.next()) {
        (None, _) => Shown::Nothing,
        (Some(Ok(key)), None) => token_of(key.trim()),
        _ => Shown::Garbage,
    }
}

/// What a handshake shows in its subprotocols, for browsers, which can set no
/// header: only beside a subprotocol that will be answered, so that the token never
/// is.
pub(crate) fn shown_in_handshake(headers: &HeaderMap) -> Shown {
    let mut ours = false;
    let mut shown = Shown::Nothing;
    for protocol in protocols(headers) {
        ours |= [TERMINAL_PROTOCOL, SCREEN_PROTOCOL, PLAIN_SCREEN_PROTOCOL].contains(&protocol);
        if let Some(token) = protocol.strip_prefix(BEARER_PROTOCOL) {
            match shown {
                Shown::Nothing => shown = token_of(token),
                _ => return Shown::Garbage,
            }
        }
    }
    if ours || shown == Shown::Nothing { shown } else { Shown::Garbage }
}

/// The subprotocols that a client offers.
pub(crate) fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn token_of(text: &str) -> Shown {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match text.strip_prefix(PREFIX) {
        Some(rest) if rest.len() == ENCODED && rest.bytes().all(plain) => Shown::Token(hash(text)),
        _ => Shown::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "cof_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn a_new_token_looks_like_one_and_like_no_other() {
        let (first, second) = (generate().unwrap(), generate().unwrap());
        assert_ne!(first.reveal(), second.reveal());
        assert_eq!(first.reveal().len(), 47);
        assert_eq!(token_of(first.reveal()), Shown::Token(hash(first.reveal())));
        assert_eq!(format!("{first:?}"), "Redacted(47 bytes)");
    }

    #[test]
    fn a_token_comes_as_bearer_or_as_key() {
        let expected = Shown::Token(hash(TOKEN));
        for (name, value) in [
            ("authorization", format!("Bearer {TOKEN}")),
            ("authorization", format!("bearer {TOKEN}")),
            ("x-api-key", TOKEN.to_owned()),
        ] {
            assert_eq!(shown(&headers(&[(name, &value)])), expected, "{value}");
        }
        assert_eq!(shown(&headers(&[])), Shown::Nothing);
    }

    #[test]
    fn what_is_no_token_is_garbage() {
        let bearer = format!("Bearer {TOKEN}");
        for list in [
            vec![("authorization", "Bearer x")],
            vec![("authorization", "Basic dXNlcjpwdw==")],
            vec![("authorization", TOKEN)],
            vec![("authorization", "Bearer")],
            vec![("x-api-key", "cof_short")],
            vec![("authorization", bearer.as_str()), ("authorization", bearer.as_str())],
            vec![("authorization", "Basic x"), ("x-api-key", TOKEN)],
        ] {
            assert_eq!(shown(&headers(&list)), Shown::Garbage, "{list:?}");
        }
    }

    #[test]
    fn a_handshake_shows_its_token_beside_the_protocol() {
        for protocol in ["cofferdam.terminal.v1", "cofferdam.screen.v1", "binary"] {
            let offered = format!("{protocol}, bearer.{TOKEN}");
            let map = headers(&[("sec-websocket-protocol", &offered)]);
            assert_eq!(shown_in_handshake(&map), Shown::Token(hash(TOKEN)));
        }

        let alone = format!("bearer.{TOKEN}");
        let map = headers(&[("sec-websocket-protocol", &alone)]);
        assert_eq!(shown_in_handshake(&map), Shown::Garbage);

        let map = headers(&[("sec-websocket-protocol", "cofferdam.terminal.v1")]);
        assert_eq!(shown_in_handshake(&map), Shown::Nothing);
    }
}
