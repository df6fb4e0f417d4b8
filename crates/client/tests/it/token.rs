//! Where the token goes, and where it does not.

use cofferdam_client::{Address, Client, ClientError};
use cofferdam_types::Redacted;

use crate::server::{Server, TOKEN, json, typed};

fn token(text: &str) -> Option<Redacted<String>> {
    Some(Redacted::new(text.to_owned()))
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::new(|_, _| vec![json(200, "{}")]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: http://{}/api/v1/me\r\n", other.address);
        let server =
            Server::new(move |_, _| vec![typed(status, "text/plain", &location, "")]).await;
        let error = server.client().me().await.unwrap_err();
        let told = error.to_string();
        assert!(told.contains(&other.address.to_string()), "{told}");
        assert_eq!(server.asked().len(), 1);
        assert_eq!(server.asked()[0].header("authorization"), Some("bearer geheim"));
    }
    assert!(other.asked().is_empty());
}

#[test]
fn a_token_is_not_sent_in_the_open() {
    let open: Address = "http://10.0.0.1:8000".parse().unwrap();
    let refused = Client::new(open.clone(), token(TOKEN)).unwrap_err();
    assert!(matches!(refused, ClientError::Exposed { .. }), "{refused:?}");
    assert!(Client::new(open, None).is_ok());
    for url in ["http://127.0.0.1:8000", "https://build.example.com"] {
        assert!(Client::new(url.parse().unwrap(), token(TOKEN)).is_ok(), "{url}");
    }
}

#[test]
fn a_token_is_never_printed_and_never_breaks_a_header() {
    let address: Address = "http://127.0.0.1:8000".parse().unwrap();
    let client = Client::new(address.clone(), token(TOKEN)).unwrap();
    assert!(!format!("{client:?}").contains(TOKEN));
    let refused = Client::new(address, token("geheim\r\nx: y")).unwrap_err();
    assert!(matches!(refused, ClientError::Token));
    assert!(!format!("{refused} {refused:?}").contains(TOKEN));
}
