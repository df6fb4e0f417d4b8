//! Tests of reading a proxy request and writing it anew.

use proptest::prelude::*;

use super::*;

fn request(line: &str, headers: &[&str]) -> Request {
    let head =
        format!("{line}\r\n{}\r\n", headers.iter().map(|h| format!("{h}\r\n")).collect::<String>());
    Request::parse(head.as_bytes()).unwrap()
}

fn forward(target: &str) -> Result<(String, String), Failure> {
    match request(&format!("GET {target} HTTP/1.1"), &[]).ask()? {
        Ask::Forward { authority, path } => Ok((authority.to_owned(), path)),
        Ask::Tunnel { .. } => panic!("{target} became a tunnel"),
    }
}

#[test]
fn a_target_is_cut_into_authority_and_path() {
    for (target, authority, path) in [
        ("http://a.example/", "a.example", "/"),
        ("http://a.example", "a.example", "/"),
        ("HTTP://a.example:81/x?y=http://b", "a.example:81", "/x?y=http://b"),
        ("http://a.example?x", "a.example", "/?x"),
        ("http://a@b/", "a@b", "/"),
        ("http://a\\b/", "a\\b", "/"),
        ("http:///x", "", "/x"),
    ] {
        assert_eq!(forward(target).unwrap(), (authority.to_owned(), path.to_owned()), "{target}");
    }
    let options = request("OPTIONS http://a.example HTTP/1.1", &[]);
    assert_eq!(options.ask().unwrap(), Ask::Forward { authority: "a.example", path: "*".into() });
    let connect = request("CONNECT a.example:443 HTTP/1.1", &[]);
    assert_eq!(connect.ask().unwrap(), Ask::Tunnel { authority: "a.example:443" });
}

#[test]
fn what_is_no_proxy_request_is_refused_with_advice() {
    for (target, advice) in [
        ("/", "this is a proxy"),
        ("*", "this is a proxy"),
        ("a.example:80", "this is a proxy"),
        ("https://a.example/", "CONNECT"),
        ("ftp://a.example/", "only http://"),
        ("http://a.example/#x", "not a URI"),
    ] {
        let failure = forward(target).unwrap_err();
        assert!(failure.to_string().contains(advice), "{target}: {failure}");
    }
}

#[test]
fn what_is_not_http_is_refused() {
    for text in [
        "\r\n",
        "GET\r\n\r\n",
        "GET http://a/ HTTP/2.0\r\n\r\n",
        "GET http://a/ HTTP/1.1 \r\n\r\n",
        "GET http://a/\t HTTP/1.1\r\n\r\n",
        "GET  http://a/ HTTP/1.1\r\n\r\n",
        "G\0T http://a/ HTTP/1.1\r\n\r\n",
        "GET http://a/\0 HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nA : b\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nA: b\0\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nA\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nA: b\rc\r\n\r\n",
        "CONNECT a.example:443\r\nHost: b HTTP/1.1\r\n\r\n",
    ] {
        assert!(Request::parse(text.as_bytes()).is_err(), "{text:?}");
    }
    let many = format!("GET http://a/ HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
    assert!(matches!(Request::parse(many.as_bytes()), Err(Failure::HeadTooLong)));
}

#[test]
fn a_body_that_could_end_in_two_places_is_refused() {
    let framing = |headers: &[&str]| request("POST http://a/ HTTP/1.1", headers).framing();
    assert_eq!(framing(&[]).unwrap(), Framing::Length(0));
    assert_eq!(framing(&["Content-Length: 5"]).unwrap(), Framing::Length(5));
    assert_eq!(framing(&["Content-Length: 5", "content-length: 5"]).unwrap(), Framing::Length(5));
    assert_eq!(framing(&["Transfer-Encoding: CHUNKED"]).unwrap(), Framing::Chunked);
    for headers in [
        &["Content-Length: 5", "Content-Length: 6"][..],
        &["Content-Length: 5, 5"],
        &["Content-Length: +5"],
        &["Content-Length: 5x"],
        &["Content-Length: "],
        &["Content-Length: 99999999999999999999"],
        &["Content-Length: 5", "Transfer-Encoding: chunked"],
        &["Transfer-Encoding: gzip, chunked"],
        &["Transfer-Encoding: xchunked"],
        &["Transfer-Encoding: identity"],
        &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        &["Transfer-Encoding:\x0bchunked"],
    ] {
        let head = format!(
            "POST http://a/ HTTP/1.1\r\n{}\r\n",
            headers.iter().map(|h| format!("{h}\r\n")).collect::<String>()
        );
        let framing = Request::parse(head.as_bytes()).and_then(|request| request.framing());
        assert!(framing.is_err(), "{headers:?}");
    }
    let old = request("POST http://a/ HTTP/1.0", &["Transfer-Encoding: chunked"]);
    assert!(old.framing().is_err());
}

#[test]
fn what_is_sent_on_is_written_anew() {
    let request = request(
        "POST http://a.example/x HTTP/1.1",
        &[
            "Host: other.example",
            "Accept: */*",
            "Connection: keep-alive, X-Private, Host",
            "X-Private: 1",
            "Keep-Alive: 5",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Proxy-Connection: keep-alive",
            "TE: trailers",
            "Upgrade: h2c",
            "Content-Length: 3",
            "host: third.example",
        ],
    );
    let head = request.origin_head("a.example", "/x", Framing::Length(3));
    assert_eq!(
        String::from_utf8(head).unwrap(),
        "POST /x HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nContent-Length: 3\r\n\
         Connection: close\r\n\r\n"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(request) = Request::parse(&bytes) {
            let _asked = (request.ask().is_ok(), request.framing().is_ok());
        }
    }

    #[test]
    fn no_header_of_the_client_adds_a_line(
        name in "[!-9;-~]{1,8}",
        value in proptest::collection::vec(any::<u8>(), 0..30),
    ) {
        let head = [b"GET http://a/ HTTP/1.1\r\n", name.as_bytes(), b": ", &value, b"\r\n\r\n"].concat();
        if let Ok(request) = Request::parse(&head) {
            let sent = request.origin_head("a", "/", Framing::Length(0));
            let lines = sent.iter().filter(|&&b| b == b'\n').count();
            let returns = sent.iter().filter(|&&b| b == b'\r').count();
            // Request line, Host, perhaps the header(s) given, Connection, the end.
            let given = request.headers.len();
            prop_assert!(lines <= 4 + given && lines == returns);
            prop_assert!(sent.ends_with(b"\r\n\r\n"));
        }
    }
}
