//! Whether a request comes from a page of another site.

use http::HeaderMap;
use http::header::{HeaderName, ORIGIN};

use crate::hosts::split;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a page of another site sends this. `host` is the authority that the
/// request was sent to. Programs send no `Origin`, and that is theirs to decide: the
/// token says who they are.
pub(crate) fn is_foreign(headers: &HeaderMap, host: &str) -> bool {
    let mut sites = headers.get_all(FETCH_SITE).iter();
    if sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none")) {
        return true;
    }
    headers
        .get_all(ORIGIN)
        .iter()
        .any(|origin| !origin.to_str().is_ok_and(|origin| is_same(origin, host)))
}

fn is_same(origin: &str, host: &str) -> bool {
    let (authority, usual) = match origin.split_once("://") {
        Some(("http", authority)) => (authority, 80),
        // A proxy in front of us may speak TLS where we do not.
        Some(("https", authority)) => (authority, 443),
        _ => return false,
    };
    let (Some((name, port)), Some((own, own_port))) = (split(authority), split(host)) else {
        return false;
    };
    name.eq_ignore_ascii_case(own) && port.unwrap_or(usual) == own_port.unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        is_foreign(&map, "127.0.0.1:8000")
    }

    #[test]
    fn programs_and_our_own_pages_are_not_foreign() {
        assert!(!foreign(&[]));
        assert!(!foreign(&[("origin", "http://127.0.0.1:8000")]));
        assert!(!foreign(&[
            ("origin", "http://127.0.0.1:8000"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!foreign(&[("sec-fetch-site", "none")]));
        assert!(is_same("https://cofferdam.example", "cofferdam.example"));
        assert!(is_same("https://cofferdam.example", "cofferdam.example:443"));
    }

    #[test]
    fn other_sites_are_foreign() {
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://localhost.evil.example",
            "http://127.0.0.1:1",
            "http://127.0.0.1",
            "http://localhost:8000",
            "ftp://127.0.0.1:8000",
            "http://127.0.0.1:8000@evil.example",
            "http://127.0.0.1:8000/",
        ] {
            assert!(foreign(&[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "x"] {
            assert!(foreign(&[("sec-fetch-site", site)]), "{site}");
        }
    }

    #[test]
    fn a_second_origin_does_not_hide_the_first() {
        assert!(foreign(&[
            ("origin", "http://127.0.0.1:8000"),
            ("origin", "https://evil.example")
        ]));
    }
}
