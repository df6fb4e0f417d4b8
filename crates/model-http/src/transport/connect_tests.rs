//! The way through a proxy, with a proxy of a few lines.

use tokio::net::TcpListener;

use super::*;

/// A proxy that takes one connection, answers its first request with these
/// bytes, and gives what it was asked.
async fn proxy(answer: &'static [u8]) -> (String, JoinSet<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer).await.unwrap();
        String::from_utf8(asked).unwrap()
    });
    (address, tasks)
}

fn route(site: &Site, proxy: &str) -> Route {
    let url = format!("http://me:secret@{proxy}");
    Route::to(site, |name| (name == "all_proxy").then(|| url.clone()))
}

#[tokio::test]
async fn a_secure_site_is_reached_by_a_tunnel_and_a_refusal_is_told() {
    let site = Site::parse("https://model.test/v1").unwrap();
    let (address, mut asked) = proxy(b"HTTP/1.1 407 No\r\n\r\n").await;
    let route = route(&site, &address);
    let failure = route.open(&site).await.unwrap_err().to_string();
    assert_eq!(failure, "the proxy 127.0.0.1 answered 407");
    let asked = asked.join_next().await.unwrap().unwrap();
    assert!(asked.starts_with("CONNECT model.test:443 HTTP/1.1\r\nHost: model.test:443\r\n"));
    assert!(asked.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
    // Inside the tunnel nobody but the site reads.
    assert_eq!(route.header(), None);
    assert_eq!(route.target(&site, "/v1/models"), "/v1/models");
}

#[tokio::test]
async fn a_proxy_that_never_ends_its_answer_is_left() {
    let site = Site::parse("https://model.test").unwrap();
    static ENDLESS: [u8; 2 * LONGEST_PROXY_ANSWER] = [b'x'; 2 * LONGEST_PROXY_ANSWER];
    let (address, _asked) = proxy(&ENDLESS).await;
    let failure = route(&site, &address).open(&site).await.unwrap_err().to_string();
    assert_eq!(failure, "the proxy's answer is too long");
}

#[tokio::test]
async fn a_plain_site_is_asked_for_at_the_proxy_itself() {
    let site = Site::parse("http://model.test:8080").unwrap();
    let (address, mut asked) = proxy(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let route = route(&site, &address);
    let mut connection = route.open(&site).await.unwrap();
    let (name, value) = route.header().unwrap();
    let target = route.target(&site, "/v1/models");
    let request = http::Request::get(target).header(name, value).body(Full::default()).unwrap();
    let response = connection.sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let asked = asked.join_next().await.unwrap().unwrap();
    assert!(asked.starts_with("GET http://model.test:8080/v1/models HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
}
