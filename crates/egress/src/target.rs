//! What a request names: a host, spelled in the one way that is accepted, and a
//! port.
//!
//! A spelling is a name, an address, or refused. Nothing is decoded, trimmed or
//! folded but ASCII case, so no two parts can read one spelling differently.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cofferdam_types::HostPattern;

/// A host as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, in lower case, that cannot be mistaken for a number.
    Name(String),
    /// An address, spelled in its usual form.
    Address(IpAddr),
}

impl Host {
    /// Reads a name, an IPv4 address in four decimal parts, or an IPv6 address
    /// in brackets. All else is no host: other spellings of numbers, trailing
    /// dots, escapes, user parts, spaces, controls, anything beyond ASCII.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        match text.parse() {
            Ok(HostPattern::Name(name)) => Some(Self::Name(name)),
            Ok(HostPattern::Below(_) | HostPattern::Address(_)) | Err(_) => None,
        }
    }
}

impl Host {
    /// Whether tools take it for the machine they run on, and leave the proxy out.
    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
            Self::Address(address) => address.fmt(formatter),
        }
    }
}

/// An authority, cut in two and not yet judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: Option<&'a str>,
}

impl<'a> Authority<'a> {
    /// Cuts at the first colon that is not within brackets. What is odd stays
    /// in the part it was found in, and is refused there.
    pub(crate) fn split(text: &'a str) -> Self {
        let cut =
            if text.starts_with('[') { text.find("]:").map(|end| end + 1) } else { text.find(':') };
        match cut.and_then(|at| text.split_at_checked(at)) {
            Some((host, rest)) => Self { host, port: rest.strip_prefix(':') },
            None => Self { host: text, port: None },
        }
    }
}

/// A port between 1 and 65535, in decimal without sign or leading zero.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    if text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Bytes from inside, made fit for a log or an answer: escaped, and cut.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 256;
    let escaped = bytes.iter().take(LONGEST).copied().flat_map(std::ascii::escape_default);
    let mut text: String = escaped.map(char::from).collect();
    if bytes.len() > LONGEST {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart() {
        assert_eq!(Host::parse("Example.COM"), Some(Host::Name("example.com".into())));
        assert_eq!(
            Host::parse("xn--bcher-kva.example").unwrap().to_string(),
            "xn--bcher-kva.example"
        );
        assert_eq!(Host::parse("127.0.0.1"), Some(Host::Address([127, 0, 0, 1].into())));
        assert_eq!(Host::parse("[::1]").unwrap().to_string(), "[::1]");
    }

    #[test]
    fn other_spellings_are_no_host() {
        for text in [
            "",
            ".",
            "..",
            "*",
            "*.a",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a\0b",
            "a\tb",
            "a\r\nb",
            "a%2eb",
            "a%00",
            "a@b",
            "a/b",
            "a\\b",
            "a?b",
            "a#b",
            "a:1",
            "a。b",
            "ａ",
            "é.example",
            "2130706433",
            "0x7f000001",
            "0X7F000001",
            "0177.0.0.1",
            "127.1",
            "127.0.0.1.",
            "127.0.0.01",
            "1.2.3.4.5",
            "256.0.0.1",
            "0x7f.0.0.0x1",
            "::1",
            "[::1",
            "::1]",
            "[]",
            "[127.0.0.1]",
            "[fe80::1%lo]",
            "[::1].",
            "[a]",
            "-a",
            "a-",
        ] {
            assert_eq!(Host::parse(text), None, "{text:?}");
        }
        assert_eq!(Host::parse(&format!("{}.example", "x".repeat(300))), None);
    }

    #[test]
    fn an_authority_is_cut_once() {
        let parts = |text| {
            let authority = Authority::split(text);
            (authority.host, authority.port)
        };
        assert_eq!(parts("a:1"), ("a", Some("1")));
        assert_eq!(parts("a"), ("a", None));
        assert_eq!(parts("[::1]:1"), ("[::1]", Some("1")));
        assert_eq!(parts("[::1]"), ("[::1]", None));
        assert_eq!(parts("[::1"), ("[::1", None));
        assert_eq!(parts("[::1]x:1"), ("[::1]x:1", None));
        assert_eq!(parts("a:443@b"), ("a", Some("443@b")));
        assert_eq!(parts("::1"), ("", Some(":1")));
        assert_eq!(parts(""), ("", None));
    }

    #[test]
    fn a_port_is_written_in_one_way() {
        assert_eq!(parse_port("443"), Some(443));
        assert_eq!(parse_port("65535"), Some(65535));
        for text in ["", "0", "00", "0443", "65536", "-1", "+1", " 1", "1 ", "443@a", "1e1", "١"] {
            assert_eq!(parse_port(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_shown_has_no_controls_and_an_end() {
        assert_eq!(shown(b"a\r\n\0\xff"), "a\\r\\n\\x00\\xff");
        assert_eq!(shown(&[b'a'; 300]).chars().count(), 257);
    }
}
