//! Which addresses a name may not lead to.
//!
//! Only what is public is left: everything that means "this machine", "this
//! network", "many" or "nobody" is refused, also when it is wrapped in another
//! family's form. A range that is not known to be public is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What makes this address one that a name may not lead to, in words that
/// follow "which is"; nothing if it is a public one.
pub(crate) fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => forbidden_v6(address),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        (0, ..) => Some("unspecified"),
        (127, ..) => Some("a loopback address"),
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => Some("a private address"),
        (100, 64..=127, ..) => Some("an address of a provider's inner network"),
        (169, 254, ..) => Some("a link-local address"),
        // Azure's platform answers here, to any process of the machine.
        (168, 63, 129, 16) => Some("a cloud's metadata service"),
        (192, 0, 0, _) => Some("an address reserved for protocols"),
        (192, 0, 2, _) | (198, 51, 100, _) | (203, 0, 113, _) => {
            Some("an address for documentation")
        }
        (192, 88, 99, _) => Some("a 6to4 relay"),
        (198, 18..=19, ..) => Some("an address for benchmarks"),
        (224..=239, ..) => Some("a multicast address"),
        (255, 255, 255, 255) => Some("the broadcast address"),
        (240..=255, ..) => Some("a reserved address"),
        _ => None,
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // Mapped and NAT64 addresses end at the IPv4 address they carry.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            forbidden_v4(Ipv4Addr::new(a, b, c, d))
        }
        [0, 0, 0, 0, 0, 0, ..] => Some("an IPv4-compatible address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("an address for documentation"),
        [0x2001, 2, 0, ..] => Some("an address for benchmarks"),
        // Teredo, ORCHID and the like.
        [0x2001, 0..=0x1ff, ..] => Some("an address reserved for protocols"),
        [0x2002, ..] => Some("a 6to4 address"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_let_through() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "168.63.129.17",
            "192.0.1.0",
            "198.17.255.255",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(forbidden(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn everything_else_is_named_for_what_it_is() {
        for (text, kind) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.255", "loopback"),
            ("10.0.0.1", "private"),
            ("172.16.0.0", "private"),
            ("172.31.255.255", "private"),
            ("192.168.0.1", "private"),
            ("100.64.0.0", "inner network"),
            ("100.100.100.200", "inner network"),
            ("100.127.255.255", "inner network"),
            ("169.254.169.254", "link-local"),
            ("168.63.129.16", "metadata"),
            ("192.0.0.192", "protocols"),
            ("192.0.2.1", "documentation"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.1", "documentation"),
            ("192.88.99.1", "6to4"),
            ("198.18.0.1", "benchmarks"),
            ("198.19.255.255", "benchmarks"),
            ("224.0.0.251", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:0.0.0.0", "unspecified"),
            ("::127.0.0.1", "IPv4-compatible"),
            ("::8.8.8.8", "IPv4-compatible"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b:1::1", "reserved"),
            ("2002:7f00:1::", "6to4"),
            ("2002:0a00:0001::1", "6to4"),
            ("2001::1", "protocols"),
            ("2001:2::1", "benchmarks"),
            ("2001:20::1", "protocols"),
            ("2001:db8::1", "documentation"),
            ("3fff::1", "documentation"),
            ("5f00::1", "reserved"),
            ("100::1", "reserved"),
            ("fc00::1", "private"),
            ("fd00:ec2::254", "private"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
            ("::ffff:0:7f00:1", "reserved"),
            ("4000::1", "reserved"),
        ] {
            let found = forbidden(text.parse().unwrap());
            assert!(found.is_some_and(|found| found.contains(kind)), "{text}: {found:?}");
        }
    }
}
