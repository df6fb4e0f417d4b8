//! What a sandbox may reach: nothing, the hosts of a list, or everything.
//!
//! An allow-list is exact: a name is allowed only as written, its subdomains
//! only by `*.name`, an address only as an address. An empty list is `none`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a sandbox may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No route, no name resolution.
    #[default]
    None,
    /// Only these, only through the host's egress proxy. Never empty.
    Allow(Vec<HostRule>),
    /// Whatever the host can reach.
    Open,
}

/// One entry of an allow-list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostRule {
    /// Whom it allows.
    pub host: HostPattern,
    /// The one port it allows; without it, 80 and 443.
    pub port: Option<u16>,
}

/// Whom a rule allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostPattern {
    /// Exactly this name, in lower case.
    Name(String),
    /// Any name below this one, but not the name itself; in lower case.
    Below(String),
    /// Exactly this address, also when it is a private one.
    Address(IpAddr),
}

/// Why a network setting was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Neither `none`, `open` nor a list.
    #[error("{0:?} is not a network setting; use none, open or allow:HOST[:PORT],…")]
    Unknown(String),
    /// An entry that is no host name or address.
    #[error("{0:?} is not a host name, *.name or address, with or without :PORT")]
    Host(String),
    /// A port that is none.
    #[error("{0:?} is not a port between 1 and 65535")]
    Port(String),
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "open" => Ok(Self::Open),
            _ => {
                let list = text
                    .strip_prefix("allow:")
                    .ok_or_else(|| NetworkError::Unknown(text.to_owned()))?;
                let rules = list
                    .split(',')
                    .filter(|entry| !entry.is_empty())
                    .map(str::parse)
                    .collect::<Result<Vec<HostRule>, _>>()?;
                Ok(if rules.is_empty() { Self::None } else { Self::Allow(rules) })
            }
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Open => formatter.write_str("open"),
            Self::Allow(rules) => {
                let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
                write!(formatter, "allow:{}", rules.join(","))
            }
        }
    }
}

impl FromStr for HostRule {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = split_port(text)?;
        let host = host.parse()?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (HostPattern::Address(IpAddr::V6(address)), Some(port)) => {
                write!(formatter, "[{address}]:{port}")
            }
            (host, Some(port)) => write!(formatter, "{host}:{port}"),
            (host, None) => host.fmt(formatter),
        }
    }
}

impl FromStr for HostPattern {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (name, below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let name = name.to_ascii_lowercase();
        if !is_host_name(&name) {
            return Err(NetworkError::Host(text.to_owned()));
        }
        Ok(if below { Self::Below(name) } else { Self::Name(name) })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Below(name) => write!(formatter, "*.{name}"),
            Self::Address(address) => address.fmt(formatter),
        }
    }
}

impl HostPattern {
    /// Whether this pattern allows a name. The name is compared as it will be
    /// dialled: no trailing dot, no other spelling is folded into it.
    #[must_use]
    pub fn allows_name(&self, name: &str) -> bool {
        match self {
            Self::Name(allowed) => name.eq_ignore_ascii_case(allowed),
            Self::Below(parent) => {
                is_host_name(name)
                    && name
                        .to_ascii_lowercase()
                        .strip_suffix(parent.as_str())
                        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Self::Address(_) => false,
        }
    }
}

/// Letters, digits, hyphens and underscores in labels of 1 to 63, at most 253
/// in all; and not a number in disguise: the last label has a letter.
pub(crate) fn is_host_name(name: &str) -> bool {
    let label_ok = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253
        && name.split('.').all(label_ok)
        && name.rsplit('.').next().is_some_and(|last| {
            last.bytes().any(|b| b.is_ascii_alphabetic()) && !last.starts_with("0x")
        })
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), NetworkError> {
    let port_of = |port: &str| match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|b| b.is_ascii_digit()) => Ok(Some(number)),
        _ => Err(NetworkError::Port(port.to_owned())),
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) =
            rest.split_once(']').ok_or_else(|| NetworkError::Host(text.to_owned()))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((address, port_of(port)?)),
            None if rest.is_empty() => Ok((address, None)),
            None => Err(NetworkError::Host(text.to_owned())),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Ok((text, None)), // a bare IPv6 address
        Some((host, port)) => Ok((host, port_of(port)?)),
        None => Ok((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_text_form() {
        for text in [
            "none",
            "open",
            "allow:example.com",
            "allow:example.com:8443,*.example.org,127.0.0.1:9000,[::1]:80",
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_empty_list_is_none() {
        assert_eq!("allow:".parse::<Network>(), Ok(Network::None));
        assert_eq!("allow:,".parse::<Network>(), Ok(Network::None));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "allow",
            "all",
            "allow:*",
            "allow:*.",
            "allow:a b",
            "allow:a/b",
            "allow:a:0",
            "allow:a:65536",
            "allow:a:+1",
            "allow:2130706433",
            "allow:0x7f000001",
            "allow:127.1",
            "allow:a..b",
            "allow:.a",
            "allow:a.",
            "allow:x\0y",
            "allow:user@host",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_allows_itself_and_nothing_near_it() {
        let rule: HostPattern = "example.com".parse().unwrap();
        assert!(rule.allows_name("example.com"));
        assert!(rule.allows_name("EXAMPLE.com"));
        for other in ["example.com.", "a.example.com", "evilexample.com", "example.com.evil", ""] {
            assert!(!rule.allows_name(other), "{other}");
        }
    }

    #[test]
    fn a_star_allows_what_is_below_and_not_the_name_itself() {
        let rule: HostPattern = "*.example.com".parse().unwrap();
        assert!(rule.allows_name("a.example.com"));
        assert!(rule.allows_name("a.B.example.com"));
        for other in
            ["example.com", ".example.com", "evilexample.com", "a..example.com", "a\0.example.com"]
        {
            assert!(!rule.allows_name(other), "{other}");
        }
    }
}
