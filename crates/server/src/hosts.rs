//! The names that this server is reached by. A page of another site that has its
//! own name pointed at this machine still sends its own name.

use std::net::{IpAddr, SocketAddr};

/// The names that this server is reached by.
#[derive(Debug)]
pub(crate) struct Hosts {
    names: Vec<(String, Option<u16>)>,
    /// The port that is meant where none is named.
    usual_port: u16,
}

impl Hosts {
    /// Loopback and `listen` with its port, and what was configured. Fails with
    /// a name that is none.
    pub(crate) fn new(listen: SocketAddr, tls: bool, more: &[String]) -> Result<Self, String> {
        let port = Some(listen.port());
        let mut names = vec![
            ("localhost".to_owned(), port),
            ("127.0.0.1".to_owned(), port),
            ("[::1]".to_owned(), port),
        ];
        if !listen.ip().is_unspecified() {
            let own = match listen.ip() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            };
            names.push((own, port));
        }
        for text in more {
            let Some((name, port)) = split(text) else { return Err(text.clone()) };
            names.push((name.to_ascii_lowercase(), port));
        }
        Ok(Self { names, usual_port: if tls { 443 } else { 80 } })
    }

    /// Whether a request for this authority is for us.
    pub(crate) fn know(&self, authority: &str) -> bool {
        let Some((name, port)) = split(authority) else { return false };
        let port = port.unwrap_or(self.usual_port);
        self.names.iter().any(|(known, only)| {
            known.eq_ignore_ascii_case(name) && only.is_none_or(|only| only == port)
        })
    }
}

/// The name and the port of `name[:port]`.
pub(crate) fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match authority.rsplit_once(':') {
        // The colons of an IPv6 address are inside its brackets.
        Some((_, rest)) if rest.ends_with(']') => (authority, None),
        Some((name, port)) => (name, Some(port)),
        None => (authority, None),
    };
    let port = match port {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(digits.parse().ok()?)
        }
        Some(_) => return None,
        None => None,
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let good = match inside {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.len() <= 253 && name.bytes().all(plain),
    };
    good.then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(more: &[&str]) -> Hosts {
        let more: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
        Hosts::new("127.0.0.1:8000".parse().unwrap(), false, &more).unwrap()
    }

    #[test]
    fn loopback_is_known_by_its_names_and_its_port() {
        let hosts = hosts(&[]);
        for host in ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"] {
            assert!(hosts.know(host), "{host}");
        }
    }

    #[test]
    fn other_names_and_ports_are_not_known() {
        let hosts = hosts(&[]);
        for host in [
            "",
            "evil.example",
            "evil.example:8000",
            "127.0.0.1.evil.example:8000",
            "localhost.evil.example",
            "localhost@evil.example",
            "user@127.0.0.1:8000",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:8000:8000",
            "127.0.0.1:08000x",
            "127.0.0.1:+8000",
            "[::1]",
            "[::1]x:8000",
            "127.0.0.1:8000/",
            "localhost:8000 ",
        ] {
            assert!(!hosts.know(host), "{host:?}");
        }
    }

    #[test]
    fn a_configured_name_is_known_with_any_port_unless_it_names_one() {
        let hosts = hosts(&["cofferdam.example", "10.0.0.5:9000"]);
        assert!(hosts.know("cofferdam.example"));
        assert!(hosts.know("Cofferdam.Example:8443"));
        assert!(hosts.know("10.0.0.5:9000"));
        assert!(!hosts.know("10.0.0.5:9001"));
        assert!(!hosts.know("sub.cofferdam.example"));
    }

    #[test]
    fn the_usual_port_need_not_be_named() {
        let hosts = Hosts::new("192.0.2.7:443".parse().unwrap(), true, &[]).unwrap();
        assert!(hosts.know("192.0.2.7"));
        assert!(hosts.know("192.0.2.7:443"));
        assert!(!hosts.know("192.0.2.7:80"));
    }

    #[test]
    fn what_is_no_name_cannot_be_configured() {
        for text in ["", "a b", "http://x", "x/y", "x:port"] {
            let made = Hosts::new("127.0.0.1:1".parse().unwrap(), false, &[text.to_owned()]);
            assert_eq!(made.err().as_deref(), Some(text));
        }
    }
}
