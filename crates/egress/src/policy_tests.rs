//! Tests of the allow-list's judgement: a table, then properties.

use std::net::{Ipv4Addr, Ipv6Addr};

use cofferdam_types::Network;
use proptest::prelude::*;

use super::*;

fn policy(list: &str) -> Policy {
    match format!("allow:{list}").parse() {
        Ok(Network::Allow(rules)) => Policy::new(rules),
        other => panic!("{list}: {other:?}"),
    }
}

/// Judges a spelling the way a request's host is judged, up to the DNS.
fn judge(policy: &Policy, text: &str, port: u16) -> Result<String, Denied> {
    match Host::parse(text) {
        Some(Host::Name(name)) => policy.decide_name(&name, port),
        Some(Host::Address(address)) => {
            policy.decide_address(address, port).map(|address| address.to_string())
        }
        None => Err(Denied::Spelling),
    }
}

#[test]
fn a_request_is_judged_by_name_and_port() {
    let policy = policy("example.com,api.example.com:8443,*.pkg.example,1.1.1.1,[::1]:9000");
    for (text, port, verdict) in [
        ("example.com", 443, Ok("example.com")),
        ("example.com", 80, Ok("example.com")),
        ("EXAMPLE.com", 443, Ok("example.com")),
        ("example.com", 22, Err(Denied::Port)),
        ("example.com", 8443, Err(Denied::Port)),
        ("api.example.com", 8443, Ok("api.example.com")),
        ("api.example.com", 443, Err(Denied::Port)),
        ("a.pkg.example", 443, Ok("a.pkg.example")),
        ("a.b.pkg.example", 443, Ok("a.b.pkg.example")),
        ("pkg.example", 443, Err(Denied::Host)),
        ("evilexample.com", 443, Err(Denied::Host)),
        ("www.example.com", 443, Err(Denied::Host)),
        ("example.com.evil", 443, Err(Denied::Host)),
        ("example.com.", 443, Err(Denied::Spelling)),
        ("localhost", 443, Err(Denied::Host)),
        ("1.1.1.1", 443, Ok("1.1.1.1:443")),
        ("1.1.1.1", 53, Err(Denied::Port)),
        ("1.0.0.1", 443, Err(Denied::Address)),
        ("[::ffff:1.1.1.1]", 443, Err(Denied::Address)),
        ("[::1]", 9000, Ok("[::1]:9000")),
        ("[::1]", 80, Err(Denied::Port)),
        ("16843009", 443, Err(Denied::Spelling)),
    ] {
        assert_eq!(judge(&policy, text, port), verdict.map(str::to_owned), "{text}:{port}");
    }
}

#[test]
fn a_rule_that_is_no_host_allows_nothing() {
    let rule = |host| HostRule { host, port: None };
    let policy = Policy::new(vec![
        rule(HostPattern::Name("127.0.0.1".into())),
        rule(HostPattern::Name("2130706433".into())),
        rule(HostPattern::Name(String::new())),
        rule(HostPattern::Below(String::new())),
    ]);
    for text in ["127.0.0.1", "2130706433", "", ".", "a", "a.b"] {
        assert!(policy.decide_name(text, 80).is_err(), "{text:?}");
        assert!(judge(&policy, text, 80).is_err(), "{text:?}");
    }
}

#[test]
fn one_private_address_condemns_the_whole_answer() {
    let policy = policy("example.com");
    let public = SocketAddr::from(([93, 184, 216, 34], 443));
    let private = SocketAddr::from(([10, 0, 0, 1], 443));
    assert_eq!(policy.decide_resolved(&[public], |_| false), Ok(vec![public]));
    assert_eq!(
        policy.decide_resolved(&[public, private], |_| false),
        Err(Denied::Range { address: private, range: "a private address" })
    );
    assert_eq!(policy.decide_resolved(&[], |_| false), Ok(vec![]));
}

#[test]
fn a_name_does_not_lead_to_this_machine_whatever_address_that_has() {
    let own = SocketAddr::from(([93, 184, 216, 34], 5432));
    let is_own = |address| address == own.ip();
    assert_eq!(
        policy("example.com:5432").decide_resolved(&[own], is_own),
        Err(Denied::Range { address: own, range: "an address of this machine" })
    );
    let listed = policy("example.com:5432,93.184.216.34:5432");
    assert_eq!(listed.decide_resolved(&[own], is_own), Ok(vec![own]));
}

#[test]
fn a_private_address_is_reached_only_if_it_is_listed_itself() {
    let policy = policy("example.com:9000,127.0.0.1:9000");
    let at = |port| [SocketAddr::from(([127, 0, 0, 1], port))];
    assert_eq!(policy.decide_resolved(&at(9000), |_| false), Ok(at(9000).to_vec()));
    assert!(policy.decide_resolved(&at(9001), |_| false).is_err());
    let mapped: SocketAddr = "[::ffff:127.0.0.1]:9000".parse().unwrap();
    assert!(policy.decide_resolved(&[mapped], |_| false).is_err());
}

#[test]
fn the_remedy_is_a_setting_that_works() {
    let remedy =
        |denied: Denied, host: &str, port| denied.remedy(&Host::parse(host).unwrap(), port);
    assert_eq!(remedy(Denied::Host, "a.example", 443).unwrap(), "--network allow:a.example");
    assert_eq!(remedy(Denied::Port, "a.example", 22).unwrap(), "--network allow:a.example:22");
    assert_eq!(remedy(Denied::Address, "[::1]", 22).unwrap(), "--network allow:[::1]:22");
    let range = Denied::Range { address: ([10, 0, 0, 1], 443).into(), range: "a private address" };
    assert_eq!(remedy(range, "a.example", 443).unwrap(), "--network allow:a.example,10.0.0.1:443");
}

/// IPv4 addresses that no name may lead to.
fn forbidden_v4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[b, c, d]| Ipv4Addr::new(127, b, c, d)),
        any::<[u8; 3]>().prop_map(|[b, c, d]| Ipv4Addr::new(10, b, c, d)),
        any::<[u8; 3]>().prop_map(|[b, c, d]| Ipv4Addr::new(0, b, c, d)),
        any::<[u8; 2]>().prop_map(|[c, d]| Ipv4Addr::new(192, 168, c, d)),
        any::<[u8; 2]>().prop_map(|[c, d]| Ipv4Addr::new(169, 254, c, d)),
        (16..=31u8, any::<[u8; 2]>()).prop_map(|(b, [c, d])| Ipv4Addr::new(172, b, c, d)),
        (64..=127u8, any::<[u8; 2]>()).prop_map(|(b, [c, d])| Ipv4Addr::new(100, b, c, d)),
        (224..=255u8, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| Ipv4Addr::new(a, b, c, d)),
    ]
}

/// The spellings that some parser or other takes for this address.
fn spellings(address: Ipv4Addr) -> Vec<String> {
    let number = u32::from(address);
    let [a, b, c, d] = address.octets();
    let tail = number & 0xff_ffff;
    let mut all = vec![
        address.to_string(),
        format!("{address}."),
        format!("[{address}]"),
        number.to_string(),
        format!("{number:#x}"),
        format!("{number:#X}"),
        format!("0{number:o}"),
        format!("{a}.{tail}"),
        format!("{a}.{b}.{}", u16::from_be_bytes([c, d])),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("{a}.{b}.{c}.{d:#x}"),
        format!("{a:03}.{b:03}.{c:03}.{d:03}"),
        format!("%{a:x}.{b}.{c}.{d}"),
        format!("user@{address}"),
        format!("{address}\0.example.com"),
        format!("{address}#.example.com"),
        format!("{a}。{b}。{c}。{d}"),
    ];
    for wrapped in wrappings(address) {
        all.push(format!("[{wrapped}]"));
        all.push(wrapped.to_string());
        all.push(format!("[{wrapped}%1]"));
    }
    all
}

/// The IPv6 addresses that carry this one.
fn wrappings(address: Ipv4Addr) -> [Ipv6Addr; 5] {
    let [a, b, c, d] = address.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    [
        address.to_ipv6_mapped(),
        Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
    ]
}

proptest! {
    #[test]
    fn no_spelling_of_a_forbidden_address_passes(address in forbidden_v4()) {
        let policy = policy("example.com,*.example.com,93.184.216.34");
        for text in spellings(address) {
            for port in [80, 443] {
                prop_assert!(judge(&policy, &text, port).is_err(), "{text:?}");
                prop_assert!(policy.decide_name(&text, port).is_err(), "{text:?}");
            }
        }
        for ip in wrappings(address).map(IpAddr::V6).into_iter().chain([address.into()]) {
            let answer = [([93, 184, 216, 34], 443).into(), SocketAddr::new(ip, 443)];
            prop_assert!(policy.decide_resolved(&answer, |_| false).is_err(), "{ip}");
        }
    }

    #[test]
    fn a_name_passes_if_and_only_if_it_equals_a_rule(
        text in prop_oneof![
            "[a-cA-C.]{0,6}",
            "(a|A)\\.(b|B)",
            "[ -~]{0,3}a\\.b[ -~]{0,3}",
            any::<String>(),
        ],
        port in prop_oneof![Just(80u16), Just(443), any::<u16>()],
    ) {
        let policy = policy("a.b,c.b:9");
        let lower = text.to_ascii_lowercase();
        let expected = (lower == "a.b" && (port == 80 || port == 443)) || (lower == "c.b" && port == 9);
        prop_assert_eq!(policy.decide_name(&text, port).is_ok(), expected);
        prop_assert_eq!(judge(&policy, &text, port).is_ok(), expected);
    }

    #[test]
    fn what_passes_is_dialled_as_it_was_checked(text in "[a-zA-Z0-9._-]{0,12}") {
        let policy = policy("*.example");
        let asked = format!("{text}.example");
        if let Ok(name) = policy.decide_name(&asked, 443) {
            prop_assert_eq!(name, asked.to_ascii_lowercase());
        }
    }
}
