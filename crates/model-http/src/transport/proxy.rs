//! Which proxy leads to a server, by the variables that people set.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cofferdam_types::Redacted;

use crate::endpoint::Site;

/// A proxy that is spoken to in HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of its `Proxy-Authorization` header.
    pub(super) credentials: Option<Redacted<String>>,
}

/// What the environment says about the way to a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    Through(Proxy),
    /// A proxy that we cannot use; going past it would be a surprise.
    Unusable(String),
}

/// Looks up the way. A machine's own addresses are never behind a proxy.
pub(super) fn way(site: &Site, variable: impl Fn(&str) -> Option<String>) -> Way {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_uppercase()));
    let own = if site.tls {
        either("https_proxy")
    } else {
        // In capitals it could be a header that a web server has passed on.
        set("http_proxy")
    };
    let Some(url) = own.or_else(|| either("all_proxy")) else { return Way::Direct };
    if is_loopback(&site.host)
        || either("no_proxy").is_some_and(|list| is_excepted(&site.host, site.port, &list))
    {
        return Way::Direct;
    }
    parse(url.trim()).map_or_else(Way::Unusable, Way::Through)
}

fn parse(url: &str) -> Result<Proxy, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        other => {
            return Err(format!("the proxy speaks {other}; only http and https are supported"));
        }
    };
    // A password may hold what a URL's parser refuses, so it is cut off first.
    let authority = rest.split('/').next().unwrap_or(rest);
    let (credentials, address) = match authority.rsplit_once('@') {
        Some((credentials, address)) => (Some(credentials), address),
        None => (None, authority),
    };
    let site = Site::parse(&format!("{scheme}://{address}"))
        .map_err(|_| "the variable for the proxy holds no URL".to_owned())?;
    let basic = |pair: &str| {
        let plain: Vec<u8> = percent_decoded(pair);
        Redacted::new(format!("Basic {}", STANDARD.encode(plain)))
    };
    let (host, port) = (site.host, site.port);
    Ok(Proxy { tls, host, port, credentials: credentials.map(basic) })
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digits = (*first == b'%').then(|| more.get(..2)).flatten();
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { more.get(2..).unwrap_or_default() } else { more };
    }
    bytes
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Whether a list of names, addresses and ranges names a host.
fn is_excepted(host: &str, port: u16, list: &str) -> bool {
    let host = host.to_ascii_lowercase();
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if let Ok(address) = host.parse::<IpAddr>() {
            return entry == "*" || in_range(address, &entry);
        }
        let (name, only) = match entry.rsplit_once(':') {
            Some((name, only)) => (name, Some(only)),
            None => (entry.as_str(), None),
        };
        let domain = name.trim_start_matches('*').trim_start_matches('.');
        let below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        only.is_none_or(|only| only == port.to_string())
            && (name == "*" || (!domain.is_empty() && (host == domain || below)))
    })
}

fn in_range(address: IpAddr, entry: &str) -> bool {
    let (base, length) = match entry.split_once('/') {
        Some((base, length)) => (base, length.parse::<u32>().ok()),
        None => (entry, Some(128)),
    };
    let Ok(base) = base.trim_matches(['[', ']']).parse::<IpAddr>() else { return false };
    let Some(length) = length else { return false };
    match (address, base) {
        (IpAddr::V4(address), IpAddr::V4(base)) => {
            let shift = 32 - length.min(32);
            let network = |address: u32| address.checked_shr(shift).unwrap_or(0);
            network(address.into()) == network(base.into())
        }
        (IpAddr::V6(address), IpAddr::V6(base)) => {
            let shift = 128 - length.min(128);
            let network = |address: u128| address.checked_shr(shift).unwrap_or(0);
            network(address.into()) == network(base.into())
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
