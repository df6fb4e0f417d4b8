//! What a job made, as it comes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::ETAG;
use sha2::{Digest, Sha256};

use crate::error::ClientError;
use crate::transport::Reply;

/// Headers that hold the hash of what is sent (RFC 9530).
const DIGESTS: [&str; 2] = ["repr-digest", "content-digest"];

/// A download. It is whole when [`Download::next`] has returned nothing.
#[derive(Debug)]
pub struct Download {
    reply: Reply,
    expected: Option<[u8; 32]>,
    hash: Sha256,
}

impl Download {
    pub(crate) fn new(reply: Reply) -> Self {
        let expected = expected(&reply.headers);
        Self { reply, expected, hash: Sha256::new() }
    }

    /// The next bytes; nothing at the end, which is only told when all of it has
    /// come as it was sent.
    ///
    /// # Errors
    /// When the connection breaks, falls silent, or the hash is another one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        match self.reply.next().await? {
            Some(bytes) => {
                self.hash.update(&bytes);
                Ok(Some(bytes))
            }
            None => {
                let found: [u8; 32] = self.hash.clone().finalize().into();
                if self.expected.is_some_and(|expected| expected != found) {
                    let cause = "its SHA-256 is another one".to_owned();
                    return Err(ClientError::Spoilt { cause });
                }
                Ok(None)
            }
        }
    }
}

/// The hash that the server has told: `sha-256=:BASE64:`, among others perhaps, or
/// in hexadecimal as the entity tag.
fn expected(headers: &HeaderMap) -> Option<[u8; 32]> {
    told(headers).or_else(|| tagged(headers.get(ETAG)?.to_str().ok()?))
}

fn tagged(tag: &str) -> Option<[u8; 32]> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let byte = |pair: &[u8]| pair.iter().fold(0, |byte, next| byte << 4 | digit(*next));
    digits.chunks(2).map(byte).collect::<Vec<u8>>().try_into().ok()
}

fn told(headers: &HeaderMap) -> Option<[u8; 32]> {
    let values = DIGESTS.iter().flat_map(|name| headers.get_all(*name));
    let members = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    members
        .filter_map(|member| member.trim().strip_prefix("sha-256=:")?.strip_suffix(':'))
        .find_map(|hash| STANDARD.decode(hash).ok()?.try_into().ok())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_hash_is_found_among_others_and_nonsense_is_none() {
        let hash = [7; 32];
        let member = format!("sha-256=:{}:", STANDARD.encode(hash));
        for (value, found) in [
            (member.clone(), Some(hash)),
            (format!("sha-512=:AAAA:, {member}"), Some(hash)),
            ("sha-256=:AAAA:".to_owned(), None),
            ("sha-256=:!:".to_owned(), None),
            ("nonsense".to_owned(), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("repr-digest", HeaderValue::from_str(&value).unwrap());
            assert_eq!(expected(&headers), found, "{value}");
        }
        assert_eq!(expected(&HeaderMap::new()), None);
    }

    #[test]
    fn a_tag_is_a_hash_if_it_looks_like_one() {
        let mut hash = [0; 32];
        hash[0] = 0xa1;
        hash[31] = 0x0f;
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        for (tag, found) in [
            (format!("\"{hex}\""), Some(hash)),
            (format!("\"{}\"", hex.to_uppercase()), Some(hash)),
            (format!("W/\"{hex}\""), None),
            (hex.clone(), None),
            (format!("\"{hex}00\""), None),
            (format!("\"{}\"", "g".repeat(64)), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_str(&tag).unwrap());
            assert_eq!(expected(&headers), found, "{tag}");
        }
    }
}
