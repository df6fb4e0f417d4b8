//! Where a model is, and how it is spoken to.

use std::time::Duration;

use cofferdam_model::Wire;
use cofferdam_types::Redacted;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Scheme, Uri};

/// The last part of the path where a protocol is spoken.
pub(crate) fn resource(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "messages",
        Wire::Responses => "responses",
        Wire::Chat => "chat/completions",
    }
}

/// A provider's server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What it speaks.
    pub wire: Wire,
    /// Its URL as people write it, with or without `/v1` at the end.
    pub base_url: String,
    /// The key, if it wants one.
    pub key: Option<Redacted<String>>,
    /// Headers to be sent besides.
    pub headers: Vec<(String, Redacted<String>)>,
    /// How long nothing may come: neither the head of an answer nor more of it.
    pub idle_timeout: Duration,
    /// How long a connection may take, name resolution and TLS included.
    pub connect_timeout: Duration,
    /// How many tokens the model may think before it speaks; without it, as the
    /// provider likes. Messages takes the number, Responses an effort made of
    /// it; Chat has no field that all servers know.
    pub thinking: Option<u32>,
}

impl Endpoint {
    /// An endpoint without a key, with the usual time-outs.
    pub fn new(wire: Wire, base_url: impl Into<String>) -> Self {
        Self {
            wire,
            base_url: base_url.into(),
            key: None,
            headers: Vec::new(),
            idle_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            thinking: None,
        }
    }
}

/// Why an endpoint cannot be used. No variant holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The URL means nothing.
    #[error("{url:?} is not a URL such as https://api.example.com/v1")]
    Url {
        /// As it was given.
        url: String,
    },
    /// The URL holds a user's name or password.
    #[error("the URL of {host} holds a user name: set a key instead")]
    UserInfo {
        /// Its host.
        host: String,
    },
    /// The key cannot be a header.
    #[error("the key holds characters that no key has, such as a line break")]
    Key,
    /// A header cannot be one.
    #[error("the header {name:?} cannot be sent")]
    Header {
        /// Its name.
        name: String,
    },
    /// It is asked for embeddings, and speaks Anthropic Messages, which has none.
    #[error("a provider that speaks Anthropic Messages makes no embeddings: name another one")]
    NoEmbeddings,
}

/// A server's address, read from its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) tls: bool,
    /// A name or an address, the latter without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as a `Host` header has them.
    pub(crate) authority: String,
    /// What stands before the resource in a path, without a slash at the end.
    prefix: String,
    /// What stands after it, from the question mark on.
    query: String,
}

impl Site {
    pub(crate) fn parse(url: &str) -> Result<Self, EndpointError> {
        let bad = || EndpointError::Url { url: url.to_owned() };
        let uri: Uri = match url.trim().parse() {
            Ok(uri) => uri,
            // What cannot be read may still hold a password.
            Err(_) if url.contains('@') => {
                return Err(EndpointError::Url { url: "(not shown)".to_owned() });
            }
            Err(_) => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        let host = authority.host();
        if authority.as_str().contains('@') {
            return Err(EndpointError::UserInfo { host: host.to_owned() });
        }
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(bad()),
        };
        if host.is_empty() {
            return Err(bad());
        }
        Ok(Self {
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.to_string(),
            prefix: prefix(uri.path()),
            query: uri.query().map(|query| format!("?{query}")).unwrap_or_default(),
        })
    }

    /// The path and query of a resource.
    pub(crate) fn path(&self, resource: &str) -> String {
        format!("{}/{resource}{}", self.prefix, self.query)
    }
}

/// The path before a resource. `/v1` is added unless a version stands there
/// already, wherever the provider puts it (`/v1beta/openai`, `/api/paas/v4`).
fn prefix(path: &str) -> String {
    let mut path = path.trim_end_matches('/');
    for wire in [Wire::Messages, Wire::Responses, Wire::Chat] {
        // Some people give the whole URL of the resource.
        let whole = path.strip_suffix(resource(wire)).and_then(|rest| rest.strip_suffix('/'));
        path = whole.unwrap_or(path);
    }
    let version = |segment: &str| {
        let number = segment.strip_prefix('v').and_then(|rest| rest.chars().next());
        number.is_some_and(|first| first.is_ascii_digit())
    };
    let added = if path.split('/').any(version) { "" } else { "/v1" };
    format!("{path}{added}")
}

/// The headers of every request to an endpoint.
pub(crate) fn headers(endpoint: &Endpoint) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    if endpoint.wire == Wire::Messages {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    if let Some(key) = &endpoint.key {
        let key = key.reveal().trim();
        let (name, value) = match endpoint.wire {
            Wire::Messages => (HeaderName::from_static("x-api-key"), key.to_owned()),
            Wire::Responses | Wire::Chat => (AUTHORIZATION, format!("Bearer {key}")),
        };
        headers.insert(name, secret(&value).ok_or(EndpointError::Key)?);
    }
    for (name, value) in &endpoint.headers {
        let bad = || EndpointError::Header { name: name.clone() };
        let header = HeaderName::try_from(name).map_err(|_| bad())?;
        headers.insert(header, secret(value.reveal()).ok_or_else(bad)?);
    }
    Ok(headers)
}

fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_as_people_write_them() {
        for (url, path) in [
            ("https://api.anthropic.com", "/v1/messages"),
            ("https://api.anthropic.com/", "/v1/messages"),
            ("https://api.anthropic.com/v1/", "/v1/messages"),
            ("https://api.anthropic.com/v1/messages", "/v1/messages"),
            ("http://127.0.0.1:11434", "/v1/messages"),
            ("https://openrouter.ai/api/v1", "/api/v1/messages"),
            ("https://example.com/v1beta/openai/", "/v1beta/openai/messages"),
            ("https://example.com/api/paas/v4", "/api/paas/v4/messages"),
            ("https://gateway.example.com/vault", "/vault/v1/messages"),
            ("https://example.com/v1?version=7", "/v1/messages?version=7"),
        ] {
            assert_eq!(Site::parse(url).unwrap().path("messages"), path, "{url}");
        }
    }

    #[test]
    fn hosts_and_ports_are_found() {
        for (url, tls, host, port) in [
            ("https://api.openai.com/v1", true, "api.openai.com", 443),
            ("http://[::1]:8080", false, "::1", 8080),
            ("http://localhost", false, "localhost", 80),
        ] {
            let site = Site::parse(url).unwrap();
            assert_eq!((site.tls, site.host.as_str(), site.port), (tls, host, port));
        }
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused_without_showing_a_password() {
        for url in ["", "localhost:80", "/v1", "ftp://host", "https://", "unix:///run/x"] {
            assert!(matches!(Site::parse(url), Err(EndpointError::Url { .. })), "{url}");
        }
        for url in ["https://me:geheim@host/v1", "https://me:geheim@ho st"] {
            let error = Site::parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let mut endpoint = Endpoint::new(Wire::Chat, "https://example.com");
        endpoint.key = Some(Redacted::new("geheim".to_owned()));
        endpoint.headers.push(("x-extra".to_owned(), Redacted::new("geheim".to_owned())));
        let printed = format!("{endpoint:?} {:?}", headers(&endpoint).unwrap());
        assert!(!printed.contains("geheim"), "{printed}");
        endpoint.key = Some(Redacted::new("ge\nheim".to_owned()));
        assert_eq!(headers(&endpoint), Err(EndpointError::Key));
    }
}
