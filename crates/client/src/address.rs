//! Where the server is.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::uri::{Scheme, Uri};

/// A server's address, read from its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) tls: bool,
    /// A name or an address, the latter without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as a `Host` header has them.
    pub(crate) authority: String,
    /// What stands before each path, without a slash at the end.
    pub(crate) prefix: String,
}

/// Why a URL cannot be a server's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no URL.
    #[error("{url:?} is not a URL such as http://127.0.0.1:8000")]
    Url {
        /// As it was given.
        url: String,
    },
    /// It holds a user's name or password.
    #[error("the URL of {host} holds a user name: give a token instead")]
    UserInfo {
        /// Its host.
        host: String,
    },
    /// It says more than where the server is.
    #[error("the URL of {host} holds a query: name only the server")]
    Query {
        /// Its host.
        host: String,
    },
}

impl Address {
    /// Whether the server is on this machine, so that nobody else can listen.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }

    /// Whether what is sent there cannot be read on the way.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.tls || self.is_loopback()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, AddressError> {
        let url = url.trim();
        // What cannot be read may still hold a password.
        let shown = if url.contains('@') { "(not shown)" } else { url };
        let bad = || AddressError::Url { url: shown.to_owned() };
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let authority = uri.authority().ok_or_else(bad)?;
        let host = authority.host();
        if authority.as_str().contains('@') {
            return Err(AddressError::UserInfo { host: host.to_owned() });
        }
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(bad()),
        };
        if host.is_empty() {
            return Err(bad());
        }
        if uri.query().is_some() {
            return Err(AddressError::Query { host: host.to_owned() });
        }
        Ok(Self {
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.to_string(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        for (url, tls, host, port, shown) in [
            ("http://127.0.0.1:8000", false, "127.0.0.1", 8000, "http://127.0.0.1:8000"),
            (
                "https://build.example.com/",
                true,
                "build.example.com",
                443,
                "https://build.example.com",
            ),
            ("http://[::1]:8000/", false, "::1", 8000, "http://[::1]:8000"),
            (" https://a.example/coffer/ ", true, "a.example", 443, "https://a.example/coffer"),
        ] {
            let address: Address = url.parse().unwrap();
            assert_eq!((address.tls, address.host.as_str(), address.port), (tls, host, port));
            assert_eq!(address.to_string(), shown);
        }
    }

    #[test]
    fn what_names_no_server_is_refused_without_showing_a_password() {
        for url in ["", "localhost:8000", "/x", "ftp://host", "https://", "unix:///run/x"] {
            assert!(matches!(url.parse::<Address>(), Err(AddressError::Url { .. })), "{url}");
        }
        let query = "https://host/?token=x".parse::<Address>();
        assert!(matches!(query, Err(AddressError::Query { .. })));
        for url in ["https://me:geheim@host/v1", "https://me:geheim@ho st"] {
            let error = url.parse::<Address>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error}");
        }
    }

    #[test]
    fn only_tls_and_this_machine_are_private() {
        for (url, private) in [
            ("http://127.0.0.1:8000", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:80", true),
            ("http://[::ffff:127.0.0.1]:80", true),
            ("http://LOCALHOST", true),
            ("https://10.0.0.1", true),
            ("http://10.0.0.1", false),
            ("http://0.0.0.0", false),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com", false),
        ] {
            assert_eq!(url.parse::<Address>().unwrap().is_private(), private, "{url}");
        }
    }
}
