//! Variables and the ways they mean.

use super::*;

fn way_to(url: &str, variables: &[(&str, &str)]) -> Way {
    let find = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    way(&Site::parse(url).unwrap(), find)
}

fn through(host: &str, port: u16) -> Way {
    Way::Through(Proxy { tls: false, host: host.to_owned(), port, credentials: None })
}

#[test]
fn each_scheme_has_its_variable() {
    let both = [("HTTPS_PROXY", "http://a:1"), ("http_proxy", "b:2"), ("HTTP_PROXY", "c:3")];
    assert_eq!(way_to("https://x.com", &both), through("a", 1));
    assert_eq!(way_to("http://x.com", &both), through("b", 2));
    assert_eq!(way_to("http://x.com", &[("HTTP_PROXY", "c:3")]), Way::Direct);
    assert_eq!(way_to("http://x.com", &[("ALL_PROXY", "http://d")]), through("d", 80));
    assert_eq!(way_to("https://x.com", &[]), Way::Direct);
    assert_eq!(way_to("https://x.com", &[("https_proxy", "")]), Way::Direct);
}

#[test]
fn this_machine_is_never_behind_a_proxy() {
    for url in ["http://localhost:11434", "http://127.0.0.1", "https://[::1]:8000"] {
        assert_eq!(way_to(url, &[("all_proxy", "http://a:1")]), Way::Direct, "{url}");
    }
}

#[test]
fn exceptions_are_names_domains_addresses_and_ranges() {
    for (url, list, direct) in [
        ("https://x.com", "x.com", true),
        ("https://api.x.com", "x.com", true),
        ("https://api.x.com", ".x.com", true),
        ("https://api.x.com", "*.x.com", true),
        ("https://notx.com", "x.com", false),
        ("https://x.com", "other.com, X.COM", true),
        ("https://x.com", "x.com:8443", false),
        ("https://x.com:8443", "x.com:8443", true),
        ("https://x.com", "*", true),
        ("https://10.1.2.3", "10.0.0.0/8", true),
        ("https://11.1.2.3", "10.0.0.0/8", false),
        ("https://10.1.2.3", "10.1.2.3", true),
        ("https://10.1.2.3", "0.0.0.0/0", true),
        ("https://[fd00::1]", "fd00::/8", true),
        ("https://[fd00::1]", "10.0.0.0/8", false),
        ("https://x.com", "", false),
        ("https://x.com", ".", false),
    ] {
        let variables = [("https_proxy", "http://a:1"), ("no_proxy", list)];
        assert_eq!(way_to(url, &variables) == Way::Direct, direct, "{url} {list:?}");
    }
}

#[test]
fn credentials_are_sent_and_never_printed() {
    let way = way_to("https://x.com", &[("https_proxy", "https://me:p%40ss%2@proxy:3128/")]);
    let Way::Through(proxy) = &way else { panic!("{way:?}") };
    let expected = format!("Basic {}", STANDARD.encode("me:p@ss%2"));
    assert_eq!(proxy.credentials.as_ref().unwrap().reveal(), &expected);
    assert_eq!((proxy.tls, proxy.port), (true, 3128));
    assert!(!format!("{way:?}").contains("ss"), "{way:?}");
}

#[test]
fn a_proxy_that_cannot_be_used_is_not_passed_by() {
    for url in ["socks5://a:1", "http://"] {
        let way = way_to("https://x.com", &[("https_proxy", url)]);
        assert!(matches!(way, Way::Unusable(_)), "{way:?}");
    }
}
