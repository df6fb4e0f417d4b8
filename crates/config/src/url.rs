//! Addresses of providers, strictly.
//!
//! Only what every parser of URLs reads the same way is accepted, so that the host
//! judged here is the host that the HTTP client connects to.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use http::Uri;

/// The address that a provider's paths are put behind. It has no slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    host: String,
    encrypted: bool,
}

/// An address that will not do. It does not hold the address, which may hold a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No URL at all.
    #[error("is not an address such as https://example.com/v1")]
    Malformed,
    /// A user or a password.
    #[error("holds a user name or password; keys are given apart from addresses")]
    Credentials,
    /// A query or a fragment.
    #[error("holds a `?` or `#`; an address ends with its path")]
    Query,
}

impl BaseUrl {
    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, a literal IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether a key may go there: encrypted, or to this machine or a private
    /// address. Names other than `localhost` are not looked up, so they do not
    /// count as private.
    #[must_use]
    pub fn is_confidential(&self) -> bool {
        let private = || self.address().is_some_and(is_private);
        self.encrypted || self.is_on_this_machine() || private()
    }

    /// Whether it is an address of this machine alone.
    #[must_use]
    pub fn is_on_this_machine(&self) -> bool {
        self.host == "localhost" || self.address().is_some_and(|address| address.is_loopback())
    }

    /// The literal address that is the host, if it is one.
    fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok().map(|address: IpAddr| address.to_canonical())
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

impl FromStr for BaseUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let text = text.trim().trim_end_matches('/');
        if text.contains('@') {
            return Err(UrlError::Credentials);
        }
        if text.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%+=,;!*'()&$".contains(c);
        if !text.chars().all(plain) {
            return Err(UrlError::Malformed);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        let encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(UrlError::Malformed),
        };
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        let after = authority.as_str().strip_prefix(authority.host());
        let port_is_sound = match after.and_then(|after| after.strip_prefix(':')) {
            None => after == Some(""),
            Some(port) => port.parse::<u16>().is_ok_and(|port| port > 0),
        };
        if !port_is_sound {
            return Err(UrlError::Malformed);
        }
        let host = host(authority.host()).ok_or(UrlError::Malformed)?;
        Ok(Self { text: text.to_owned(), host, encrypted })
    }
}

/// The host in lower case, if it is a name or an address.
fn host(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(address.to_string());
    }
    let name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (!text.is_empty() && text.chars().all(name)).then(|| text.to_ascii_lowercase())
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_without_their_last_slash() {
        for (text, host) in [
            ("https://api.example.com/v1/", "api.example.com"),
            ("http://LOCALHOST:8080", "localhost"),
            ("http://[::1]:8080/v1", "::1"),
            (" https://127.0.0.1 ", "127.0.0.1"),
        ] {
            let url: BaseUrl = text.parse().unwrap();
            assert_eq!(url.host(), host);
            assert_eq!(url.as_str(), text.trim().trim_end_matches('/'));
        }
    }

    #[test]
    fn what_two_parsers_may_read_differently_is_refused() {
        for (text, error) in [
            ("", UrlError::Malformed),
            ("example.com", UrlError::Malformed),
            ("ftp://example.com", UrlError::Malformed),
            ("file:///etc/passwd", UrlError::Malformed),
            ("http://", UrlError::Malformed),
            ("http://:80", UrlError::Malformed),
            ("http://a:0", UrlError::Malformed),
            ("http://a:99999", UrlError::Malformed),
            ("http://127.0.0.1\\.evil.example", UrlError::Malformed),
            ("http://127.0.0.1\n.evil.example", UrlError::Malformed),
            ("http://127.0.0.1%2eevil.example", UrlError::Malformed),
            ("http://[::1]evil.example", UrlError::Malformed),
            ("http://éxample.com", UrlError::Malformed),
            ("http://127.0.0.1@evil.example", UrlError::Credentials),
            ("https://user:password@example.com", UrlError::Credentials),
            ("https://example.com/v1?key=1", UrlError::Query),
            ("https://example.com/v1#a", UrlError::Query),
        ] {
            assert_eq!(text.parse::<BaseUrl>(), Err(error), "{text}");
        }
    }

    #[test]
    fn keys_travel_encrypted_or_not_far() {
        for (text, confidential) in [
            ("https://example.com", true),
            ("http://localhost:1234", true),
            ("http://127.0.0.53", true),
            ("http://[::1]", true),
            ("http://10.1.2.3", true),
            ("http://192.168.0.9:8000/v1", true),
            ("http://[fd00::1]", true),
            ("http://[::ffff:10.0.0.1]", true),
            ("http://example.com", false),
            ("http://localhost.evil.example", false),
            ("http://evil.localhost", false),
            ("http://[::ffff:8.8.8.8]", false),
            ("http://8.8.8.8", false),
            ("http://169.254.169.254", false),
            ("http://2130706433", false),
            ("http://0x7f.1", false),
            ("http://ollama:11434", false),
        ] {
            let url: BaseUrl = text.parse().unwrap();
            assert_eq!(url.is_confidential(), confidential, "{text}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_own_names_only() {
        for (text, here) in [
            ("http://localhost:1", true),
            ("https://127.0.0.1", true),
            ("http://[::1]:2", true),
            ("http://192.168.0.1", false),
            ("http://0.0.0.0", false),
            ("https://localhost.example", false),
        ] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().is_on_this_machine(), here, "{text}");
        }
    }
}
