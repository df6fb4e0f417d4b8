//! Which headers pass.

use super::*;

fn own() -> Outside {
    Outside {
        authority: "3000-x.localhost:8000".to_owned(),
        secure: false,
        port: 3000,
        prefix: None,
    }
}

fn main_origin() -> Outside {
    Outside {
        authority: "127.0.0.1:8000".to_owned(),
        secure: true,
        port: 3000,
        prefix: Some("/jobs/x/ports/3000".to_owned()),
    }
}

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in list {
        map.append(*name, value.parse().unwrap());
    }
    map
}

fn told(map: &HeaderMap) -> Vec<String> {
    let mut lines: Vec<String> =
        map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    lines
}

#[test]
fn a_program_sees_a_client_at_localhost() {
    let sent = headers(&[
        ("host", "3000-x.localhost:8000"),
        ("origin", "http://3000-x.localhost:8000"),
        ("referer", "http://3000-x.localhost:8000/page?x"),
        ("accept", "*/*"),
    ]);
    let expected = [
        "accept: */*",
        "host: localhost:3000",
        "origin: http://localhost:3000",
        "referer: http://localhost:3000/page?x",
        "x-forwarded-host: 3000-x.localhost:8000",
        "x-forwarded-proto: http",
    ];
    assert_eq!(told(&request(&sent, &own())), expected);
}

#[test]
fn a_program_is_told_of_the_prefix_on_our_origin() {
    let sent = headers(&[
        ("origin", "https://evil.example"),
        ("referer", "https://127.0.0.1:8000/jobs/x/ports/3000/a"),
        ("x-forwarded-prefix", "/evil"),
        ("forwarded", "for=1"),
    ]);
    let expected = [
        "host: localhost:3000",
        "origin: https://evil.example",
        "referer: http://localhost:3000/a",
        "x-forwarded-host: 127.0.0.1:8000",
        "x-forwarded-prefix: /jobs/x/ports/3000",
        "x-forwarded-proto: https",
    ];
    assert_eq!(told(&request(&sent, &main_origin())), expected);
    // The main page's address is nothing for it.
    let sent = headers(&[("referer", "https://127.0.0.1:8000/jobs/x/ports/30001/a")]);
    assert!(!request(&sent, &main_origin()).contains_key(REFERER));
}

#[test]
fn nothing_that_opens_anything_here_reaches_a_program() {
    let token = "cof_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let sent = headers(&[
        ("authorization", &format!("Bearer {token}")),
        ("x-api-key", token),
        ("cookie", "a=1; cofferdam_view=secret; b=2"),
        ("cookie", "__Host-cofferdam_view=secret"),
        ("sec-websocket-protocol", &format!("chat, bearer.{token}")),
        ("proxy-authorization", "Basic x"),
    ]);
    let got = request(&sent, &own());
    let text = told(&got).join("\n");
    assert!(
        !text.contains("cof_") && !text.contains("secret") && !text.contains("Basic"),
        "{text}"
    );
    assert_eq!(got["cookie"], "a=1; b=2");
    assert_eq!(got["sec-websocket-protocol"], "chat");
    // The program's own stay.
    let sent = headers(&[("authorization", "Basic dTpw"), ("x-api-key", "theirs")]);
    let got = request(&sent, &own());
    assert_eq!(got["authorization"], "Basic dTpw");
    assert_eq!(got["x-api-key"], "theirs");
    let only = headers(&[("cookie", "cofferdam_view=secret")]);
    assert!(!request(&only, &own()).contains_key(COOKIE));
}

#[test]
fn what_concerns_one_connection_does_not_pass() {
    let sent = headers(&[
        ("connection", "keep-alive, X-Secret"),
        ("x-secret", "1"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("content-length", "5"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
        ("expect", "100-continue"),
    ]);
    let mut got = request(&sent, &own());
    for name in ["host", "x-forwarded-host", "x-forwarded-proto"] {
        got.remove(name);
    }
    assert_eq!(told(&got), [""; 0]);
    let mut answer = sent.clone();
    answer_on_own_origin(&mut answer, &own());
    assert!(!answer.contains_key("x-secret") && !answer.contains_key("transfer-encoding"));
}

#[test]
fn on_its_own_origin_a_program_may_do_as_it_likes_but_for_others() {
    let mut answer = headers(&[
        ("set-cookie", "a=1; Domain=localhost; Path=/"),
        ("set-cookie", "b=2; domain=.example.com ;HttpOnly"),
        ("set-cookie", "cofferdam_view=x; Path=/"),
        ("set-cookie", "__Host-cofferdam_view=x"),
        ("strict-transport-security", "max-age=1; includeSubDomains"),
        ("location", "http://localhost:3000/next"),
        ("content-security-policy", "default-src 'self'"),
        ("clear-site-data", "\"*\""),
        ("service-worker-allowed", "/"),
    ]);
    answer_on_own_origin(&mut answer, &own());
    let expected = [
        "content-security-policy: default-src 'self'",
        "cross-origin-resource-policy: same-origin",
        "location: /next",
        "origin-agent-cluster: ?1",
        "referrer-policy: same-origin",
        "service-worker-allowed: /",
        "set-cookie: a=1; Path=/",
        "set-cookie: b=2;HttpOnly",
    ];
    assert_eq!(told(&answer), expected);
}

#[test]
fn on_our_origin_an_answer_is_nobodys_and_changes_nothing() {
    let mut answer = headers(&[
        ("content-type", "text/html"),
        ("content-length", "3"),
        ("etag", "\"x\""),
        ("x-total-count", "7"),
        ("location", "/next"),
        ("set-cookie", "a=1"),
        ("clear-site-data", "\"*\""),
        ("strict-transport-security", "max-age=0"),
        ("service-worker-allowed", "/"),
        ("access-control-allow-origin", "*"),
        ("content-security-policy", "sandbox allow-same-origin allow-scripts"),
        ("content-security-policy-report-only", "default-src 'none'; report-uri /x"),
        ("cache-control", "public, max-age=31536000"),
        ("www-authenticate", "Basic realm=x"),
        ("refresh", "0; url=/"),
        ("link", "</x>; rel=preload"),
        ("alt-svc", "h3=\":443\""),
        ("nel", "{}"),
        ("report-to", "{}"),
        ("reporting-endpoints", "x=\"/\""),
        ("permissions-policy", "camera=*"),
        ("x-frame-options-is-ours", "kept, and set by all"),
        ("x-dns-prefetch-control", "on"),
    ]);
    answer_on_main_origin(&mut answer, &main_origin(), "/a/b");
    let expected = [
        "content-length: 3",
        "content-security-policy: sandbox allow-scripts allow-forms allow-popups allow-modals \
         allow-downloads; frame-ancestors 'none'",
        "content-type: text/html",
        "etag: \"x\"",
        "location: /jobs/x/ports/3000/next",
        "x-frame-options-is-ours: kept, and set by all",
        "x-total-count: 7",
    ];
    assert_eq!(told(&answer), expected);
    for location in ["http://127.0.0.1:8000/api/v1/jobs", "//127.0.0.1:8000/", "javascript:1"] {
        let mut answer = headers(&[("location", location)]);
        answer_on_main_origin(&mut answer, &main_origin(), "/a/b");
        assert!(!answer.contains_key(LOCATION), "{location}");
    }
}

#[test]
fn two_policies_do_not_hide_one_another() {
    let mut answer = headers(&[
        ("content-security-policy", "sandbox allow-same-origin"),
        ("content-security-policy", "default-src *"),
    ]);
    answer_on_main_origin(&mut answer, &main_origin(), "/");
    assert_eq!(answer.get_all(CONTENT_SECURITY_POLICY).iter().count(), 1);
}
