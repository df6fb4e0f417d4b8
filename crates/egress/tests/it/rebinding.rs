//! Names whose DNS leads somewhere it must not.

use std::io::{Read as _, Write as _};
use std::net::IpAddr;

use crate::harness::{Harness, LOOPBACK, Script, Server};

#[test]
fn a_listed_name_that_leads_to_a_private_place_is_refused() {
    for text in [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::1",
        "fe80::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
    ] {
        let private: IpAddr = text.parse().unwrap();
        let public: IpAddr = "93.184.216.34".parse().unwrap();
        for answer in [vec![private], vec![public, private], vec![private, public]] {
            let mut harness =
                Harness::with("web.test", Script::of([answer]), Default::default(), 8);
            let (head, _) = harness.tunnel("web.test:443");
            assert!(head.starts_with("HTTP/1.1 403 "), "{text}: {head}");
            let verdict = harness.verdict();
            let expected = format!("denied: the name leads to {private}, which is ");
            assert!(verdict.starts_with(&expected), "{verdict}");
        }
    }
}

#[test]
fn the_refusal_names_the_address_to_list() {
    let answer = vec![IpAddr::from([10, 1, 2, 3])];
    let harness = Harness::with("web.test", Script::of([answer]), Default::default(), 8);
    let answer = harness.ask("GET http://web.test/ HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with(
        "cofferdam: no connection to web.test:80: the name leads to 10.1.2.3, which is a private \
         address\nhelp: to allow it, start the sandbox with \
         --network allow:web.test,10.1.2.3:80\n"
    ));
}

#[test]
fn the_address_that_was_checked_is_the_one_that_is_dialled() {
    let listed = Server::echo();
    let other = Server::echo();
    let port = listed.port;
    // The second answer would lead to another loopback address, where nothing
    // is listed; only the first may be used, and it is asked for only once.
    let resolver = Script::of([vec![LOOPBACK], vec![IpAddr::from([127, 0, 0, 2])]]);
    let list = format!("web.test:{port},127.0.0.1:{port},web.test:{}", other.port);
    let mut harness = Harness::with(&list, resolver.clone(), Default::default(), 8);

    let (head, mut stream) = harness.tunnel(&format!("web.test:{port}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    drop(stream);
    assert_eq!(resolver.asked(), ["web.test"]);
    assert_eq!(harness.verdict(), "allowed");

    let (head, _) = harness.tunnel(&format!("web.test:{port}"));
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    assert_eq!(resolver.asked(), ["web.test", "web.test"]);
    // Loopback is listed with one port, which does not open the other.
    let (head, _) = harness.tunnel(&format!("web.test:{}", other.port));
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
}

#[test]
fn an_address_that_refuses_is_followed_by_the_next() {
    let server = Server::echo();
    let port = server.port;
    let nobody = IpAddr::from([127, 0, 0, 9]);
    let resolver = Script::of([vec![nobody, LOOPBACK]]);
    let list = format!("web.test:{port},127.0.0.1:{port},127.0.0.9:{port}");
    let harness = Harness::with(&list, resolver, Default::default(), 8);
    let (head, _) = harness.tunnel(&format!("web.test:{port}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}
