//! Which headers pass between a browser and a program in a sandbox.
//!
//! The program sees a plain client at `http://localhost:PORT`, which is what servers for
//! development expect, and nothing that opens anything here. What it answers may concern
//! its own origin alone.

use http::header::{
    ACCEPT_RANGES, AGE, ALLOW, AUTHORIZATION, CONNECTION, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE,
    DATE, ETAG, EXPECT, HOST, HeaderName, LAST_MODIFIED, LOCATION, ORIGIN, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, REFERER, REFERRER_POLICY, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL, SET_COOKIE, STRICT_TRANSPORT_SECURITY, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE, VARY,
};
use http::{HeaderMap, HeaderValue};

use super::location;
use super::passes::is_ours;
use crate::credentials::PREFIX;

/// What a page of a sandbox may do that was asked for on our own origin: run, as nobody.
const AS_NOBODY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads; \
     frame-ancestors 'none'",
);

/// Has a browser forget what it keeps for a whole site.
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// Headers that concern one connection (RFC 9110, 7.6.1), beside those that `Connection`
/// names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// What a client says of those before it. We are the first, and say it ourselves.
const FORWARDED: [HeaderName; 7] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-real-ip"),
];

/// What an answer on our own origin may say. Everything else could change something
/// there: cookies, storage, permissions, reports, what else is loaded, who may read.
const HARMLESS: [HeaderName; 15] = [
    ACCEPT_RANGES,
    AGE,
    ALLOW,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    DATE,
    ETAG,
    LAST_MODIFIED,
    LOCATION,
    RETRY_AFTER,
    VARY,
];

/// Where a request came in.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    /// The authority that the client named.
    pub(crate) authority: String,
    /// Whether the client speaks TLS.
    pub(crate) secure: bool,
    /// The port inside.
    pub(crate) port: u16,
    /// What stands before the program's own paths, on our own origin; none on its own.
    pub(crate) prefix: Option<String>,
}

impl Outside {
    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// The origin as the client sees it.
    fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority)
    }

    /// The same as the program sees it.
    fn inside(&self) -> String {
        format!("http://localhost:{}", self.port)
    }
}

/// The headers of a request, as the program gets them.
pub(crate) fn request(sent: &HeaderMap, outside: &Outside) -> HeaderMap {
    let mut headers = sent.clone();
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    remove_hop_by_hop(&mut headers);
    if chunked {
        headers.remove(CONTENT_LENGTH);
    }
    // The server has promised to go on reading already.
    headers.remove(EXPECT);
    for name in FORWARDED {
        headers.remove(name);
    }
    remove_credentials(&mut headers);
    let inside = outside.inside();
    rewrite(&mut headers, ORIGIN, |origin| {
        // Of an origin that is not its own the program hears as it is.
        (origin == outside.origin()).then(|| inside.clone())
    });
    let referer = headers.remove(REFERER);
    let referer = referer.as_ref().and_then(|value| value.to_str().ok());
    let own = outside.origin() + outside.prefix.as_deref().unwrap_or_default();
    if let Some(path) = referer.and_then(|value| value.strip_prefix(&own))
        && path.starts_with('/')
    {
        insert(&mut headers, REFERER, &format!("{inside}{path}"));
    }
    insert(&mut headers, HOST, &format!("localhost:{}", outside.port));
    insert(&mut headers, HeaderName::from_static("x-forwarded-host"), &outside.authority);
    insert(&mut headers, HeaderName::from_static("x-forwarded-proto"), outside.scheme());
    if let Some(prefix) = &outside.prefix {
        insert(&mut headers, HeaderName::from_static("x-forwarded-prefix"), prefix);
    }
    headers
}

/// The headers of an answer on the program's own origin.
pub(crate) fn answer_on_own_origin(headers: &mut HeaderMap, outside: &Outside) {
    remove_hop_by_hop(headers);
    // Whether TLS is spoken here is not the program's to say, nor what becomes of the
    // cookies of other previews.
    headers.remove(STRICT_TRANSPORT_SECURITY);
    headers.remove(CLEAR_SITE_DATA);
    let cookies: Vec<HeaderValue> =
        headers.get_all(SET_COOKIE).iter().filter_map(cookie_for_host).collect();
    headers.remove(SET_COOKIE);
    for cookie in cookies {
        headers.append(SET_COOKIE, cookie);
    }
    rewrite(headers, LOCATION, |value| location::within(value, outside.port, &outside.authority));
    // Other previews may be of the same site.
    let isolated = HeaderName::from_static("origin-agent-cluster");
    headers.insert(isolated, HeaderValue::from_static("?1"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.entry(policy).or_insert(HeaderValue::from_static("same-origin"));
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
}

/// The headers of an answer that changes to WebSocket: those that say so.
pub(crate) fn handshake(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        if ![SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL].contains(&name)
        {
            headers.remove(name);
        }
    }
}

/// The headers of an answer on our own origin, for the request of this path.
pub(crate) fn answer_on_main_origin(headers: &mut HeaderMap, outside: &Outside, path: &str) {
    remove_hop_by_hop(headers);
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        if !HARMLESS.contains(&name) && !is_custom(&name) {
            headers.remove(name);
        }
    }
    let prefix = outside.prefix.as_deref().unwrap_or_default();
    let led = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let led = led.and_then(|value| location::below(value, path, outside.port));
    headers.remove(LOCATION);
    if let Some(led) = led {
        insert(headers, LOCATION, &format!("{prefix}{led}"));
    }
    headers.insert(CONTENT_SECURITY_POLICY, AS_NOBODY);
}

/// Whether a header means nothing but to the program and its own clients.
fn is_custom(name: &HeaderName) -> bool {
    let known = [
        "x-content-security-policy",
        "x-dns-prefetch-control",
        "x-permitted-cross-domain-policies",
        "x-webkit-csp",
        "x-robots-tag",
        "x-sourcemap",
        "x-accel-",
        "x-sendfile",
    ];
    let name = name.as_str();
    name.starts_with("x-") && !known.iter().any(|known| name.starts_with(known))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Takes out what opens anything here; what the program itself asked for stays.
fn remove_credentials(headers: &mut HeaderMap) {
    for name in [AUTHORIZATION, HeaderName::from_static("x-api-key")] {
        let ours = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).contains(PREFIX);
        if headers.get_all(&name).iter().any(ours) {
            headers.remove(&name);
        }
    }
    keep_parts(headers, COOKIE, "; ", ';', |pair| {
        !is_ours(pair.split_once('=').map_or(pair, |(name, _)| name).trim())
    });
    keep_parts(headers, SEC_WEBSOCKET_PROTOCOL, ", ", ',', |offer| !offer.contains(PREFIX));
}

/// Keeps some parts of a header that is a list.
fn keep_parts(
    headers: &mut HeaderMap,
    name: HeaderName,
    between: &str,
    separator: char,
    keep: impl Fn(&str) -> bool,
) {
    let lines: Vec<String> = headers
        .get_all(&name)
        .iter()
        // What is no text in it is passed on as far as it is: no part of ours is lost on
        // the way through.
        .map(|line| line.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>())
        .collect();
    let parts: Vec<&str> = lines
        .iter()
        .flat_map(|line| line.split(separator))
        .map(str::trim)
        .filter(|part| !part.is_empty() && keep(part))
        .collect();
    let joined: Vec<u8> =
        parts.join(between).chars().filter_map(|letter| u8::try_from(letter).ok()).collect();
    headers.remove(&name);
    if !joined.is_empty()
        && let Ok(value) = HeaderValue::from_bytes(&joined)
    {
        headers.insert(name, value);
    }
}

/// A cookie of the program's, for its host alone.
fn cookie_for_host(cookie: &HeaderValue) -> Option<HeaderValue> {
    let text: String = cookie.as_bytes().iter().map(|byte| char::from(*byte)).collect();
    let mut parts = text.split(';');
    let pair = parts.next()?;
    let name = pair.split_once('=').map_or("", |(name, _)| name).trim();
    if is_ours(name) {
        return None;
    }
    let is_domain = |part: &str| {
        let name = part.split_once('=').map_or(part, |(name, _)| name);
        name.trim().eq_ignore_ascii_case("domain")
    };
    let rest = parts.filter(|part| !is_domain(part));
    let kept: Vec<&str> = std::iter::once(pair).chain(rest).collect();
    let bytes: Vec<u8> =
        kept.join(";").chars().filter_map(|letter| u8::try_from(letter).ok()).collect();
    HeaderValue::from_bytes(&bytes).ok()
}

fn rewrite(headers: &mut HeaderMap, name: HeaderName, to: impl Fn(&str) -> Option<String>) {
    let new = headers.get(&name).and_then(|value| value.to_str().ok()).and_then(to);
    if let Some(new) = new {
        insert(headers, name, &new);
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    match HeaderValue::from_str(text) {
        Ok(value) => drop(headers.insert(name, value)),
        Err(_) => drop(headers.remove(name)),
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
